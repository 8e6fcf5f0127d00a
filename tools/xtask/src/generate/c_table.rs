//! The operations and their attributes, as macros for the tests in C.

use hipdnn_abi::{
    CEnum, hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type,
    hipdnnBackendDescriptorType_t as Kind, hipdnnOperationType_ext_t as OperationType,
};
use hipdnn_plugin_sdk::graph::Operation;
use hipdnn_plugin_sdk::graph::operation::FieldKind;

use super::{Output, file};
use crate::Failure;
use crate::workspace::Workspace;

const DOC: &[&str] = &[
    "The operations and their attributes.",
    "",
    "OPERATIONS(USE) is USE(name, descriptor type, operation type, attribute of the type computed in) for each of them.",
    "ATTRIBUTES_name are its other attributes but the name, each as what it holds, with what becomes of one that was never",
    "set: finalize fails (REQUIRED), it has no element (OPTIONAL), or it has a default (DEFAULT).",
];

pub fn output(workspace: &Workspace) -> Result<Output, Failure> {
    let mut operations = "#define OPERATIONS(USE)".to_owned();
    let mut attributes = String::new();
    for spec in Operation::SPECS {
        operations.push_str(&format!(
            " \\\n    USE({}, {}, {}, {})",
            spec.name,
            name::<Kind>(spec.descriptor_type)?,
            name::<OperationType>(spec.operation_type)?,
            name::<Name>(spec.compute_attribute)?
        ));
        attributes.push_str(&format!("\n\n#define ATTRIBUTES_{}", spec.name));
        for field in spec.fields {
            let (holds, more) = holds(field.kind)?;
            attributes.push_str(&format!(" \\\n    {holds}({}, {more}),", name::<Name>(field.attribute)?));
        }
    }
    let doc: Vec<String> = DOC.iter().map(|&line| line.to_owned()).collect();
    let text = file(
        "operations.h",
        &doc,
        "plugins/sdk/src/graph/operation",
        "",
        &format!("{operations}{attributes}"),
    );
    Ok(Output { path: workspace.path("c_tests/operations.h"), text })
}

/// The C name of a number.
pub fn name<E: CEnum>(number: i32) -> Result<&'static str, Failure> {
    E::from_raw(number).map(E::name).ok_or_else(|| Failure::new(format!("{number} has no name")))
}

/// What an attribute holds, and whether it may be left out.
fn holds(kind: FieldKind) -> Result<(&'static str, String), Failure> {
    let optional = |required| if required { "REQUIRED" } else { "OPTIONAL" };
    let defaulted = |required| if required { "DEFAULT" } else { "OPTIONAL" };
    let (holds, need) = match kind {
        FieldKind::Input { required } | FieldKind::Output { required } => ("TENSOR", optional(required)),
        FieldKind::Inputs | FieldKind::Outputs => ("TENSORS", "OPTIONAL"),
        FieldKind::Ints => ("INT64S", "REQUIRED"),
        FieldKind::Int32s => ("INT32S", "REQUIRED"),
        FieldKind::Int { required } => ("INT64", optional(required)),
        FieldKind::Int32 { required } => ("INT32", defaulted(required)),
        FieldKind::Float => ("FLOAT", "OPTIONAL"),
        FieldKind::Flag { required } => ("FLAG", defaulted(required)),
        FieldKind::Text => ("STRING", "REQUIRED"),
        FieldKind::Bytes => ("RAW", "OPTIONAL"),
        FieldKind::Enum(kind) => {
            let need = if kind.has_default { "DEFAULT" } else { "REQUIRED" };
            return Ok(("ENUM", format!("{}, {need}", name::<Type>(kind.attribute_type)?)));
        }
    };
    Ok((holds, need.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hipdnn_abi::attribute_name::ATTRIBUTES;

    /// What the header says of an attribute is what operations take: the type, the number of elements, and of a tensor
    /// whether it has to be there. They may ask for less.
    #[test]
    fn operations_take_what_the_header_says() {
        for field in Operation::SPECS.iter().flat_map(|spec| spec.fields) {
            let (holds, more) = holds(field.kind).unwrap();
            let taken = match holds {
                "TENSOR" => "BACKEND_DESCRIPTOR, 1",
                "TENSORS" => "BACKEND_DESCRIPTOR, n",
                "INT64S" => "INT64, n",
                "INT32S" => "INT32, n",
                "INT64" => "INT64, 1",
                "INT32" => "INT32, 1",
                "FLOAT" => "FLOAT, 1",
                "FLAG" => "BOOLEAN, 1",
                "STRING" | "RAW" => "CHAR, n",
                _ => &format!("{}, 1", more.split_once(',').unwrap().0.replace("HIPDNN_TYPE_", "")),
            };
            let (name, said) = ATTRIBUTES.iter().find(|(name, _)| name.raw() == field.attribute).unwrap();
            let says = |need: &str| said.contains(&format!("({taken}{need})"));
            let agrees = match (holds, more.as_str()) {
                ("TENSOR", "REQUIRED") => says(", required"),
                ("TENSOR", _) => said.contains(&format!("({taken}, ")),
                _ => says("") || said.contains(&format!("({taken}, ")),
            };
            assert!(agrees, "{}: {said} Operations take {taken}, {more}.", name.name());
        }
    }
}
