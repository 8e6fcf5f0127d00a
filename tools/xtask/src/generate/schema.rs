//! What the SDK declares of the FlatBuffers schema: the enumerations, and the operations with their union.

use hipdnn_plugin_sdk::graph::operation::{EnumKind, Field, FieldKind, JsonField, OperationSpec};
use hipdnn_plugin_sdk::graph::{ENUMERATIONS, Operation};

use super::Output;
use crate::Failure;
use crate::workspace::Workspace;

const BEGIN: &str = "// What follows is generated from ../src/graph by `cargo xtask generate`.\n";
const END: &str = "// What was generated ends here.\n";

pub fn output(workspace: &Workspace) -> Result<Output, Failure> {
    let path = workspace.path("plugins/sdk/schema/hipdnn.fbs");
    let committed = std::fs::read_to_string(&path)?;
    let (head, rest) = committed.split_once(BEGIN).ok_or_else(|| lost(BEGIN))?;
    let (_, tail) = rest.split_once(END).ok_or_else(|| lost(END))?;
    let mut blocks: Vec<String> = ENUMERATIONS.iter().map(enumeration).collect();
    for spec in Operation::SPECS {
        blocks.push(table(spec)?);
    }
    let operations = Operation::SPECS.iter().map(|spec| format!("  {},\n", spec.table));
    blocks.push(format!("union NodeAttributes {{\n{}}}\n", operations.collect::<String>()));
    Ok(Output { path, text: format!("{head}{BEGIN}\n{}\n{END}{tail}", blocks.join("\n")) })
}

fn lost(line: &str) -> Failure {
    Failure::new(format!("the schema lost its line {line:?}"))
}

fn enumeration(kind: &EnumKind) -> String {
    let names = (0..).map_while(|number| (kind.spelling)(number)).map(|name| match name {
        // The compiler adds values of these names to every enumeration.
        "min" | "max" => format!("  {}_OP,\n", name.to_uppercase()),
        name => format!("  {},\n", name.to_uppercase()),
    });
    format!("enum {} : byte {{\n{}}}\n", kind.name, names.collect::<String>())
}

fn table(spec: &OperationSpec) -> Result<String, Failure> {
    let mut text = format!("table {} {{\n", spec.table);
    for index in 0..spec.fields.len() {
        let field = spec.fields.iter().find(|field| usize::from(field.index) == index);
        let field = field.ok_or_else(|| Failure::new(format!("no field of {} is @ {index}", spec.name)))?;
        text.push_str(&format!("  {}: {};\n", name(field), kind(field)));
    }
    Ok(text + "}\n")
}

fn name(field: &Field) -> String {
    match (field.kind, field.json) {
        (FieldKind::Input { .. } | FieldKind::Output { .. }, _) => format!("{}_tensor_uid", field.name),
        (FieldKind::Int { .. }, JsonField::Key(key)) => key.to_owned(),
        _ => field.name.to_owned(),
    }
}

fn kind(field: &Field) -> &'static str {
    match field.kind {
        FieldKind::Input { required: true }
        | FieldKind::Output { required: true }
        | FieldKind::Int { required: true } => "long",
        FieldKind::Input { .. } | FieldKind::Output { .. } | FieldKind::Int { .. } => "long = null",
        FieldKind::Inputs | FieldKind::Outputs | FieldKind::Ints => "[long]",
        FieldKind::Int32s => "[int]",
        FieldKind::Int32 { required: true } => "int",
        FieldKind::Int32 { required: false } => "int = null",
        FieldKind::Float => "float = null",
        FieldKind::Flag { required: true } => "bool",
        FieldKind::Flag { required: false } => "bool = null",
        FieldKind::Enum(kind) => kind.name,
        FieldKind::Text => "string",
        FieldKind::Bytes => "[ubyte]",
    }
}
