//! Unpacks the bytes of a graph.

use super::reader::Table;
use super::verify::{api_version, flag, verify};
use super::{Layout, graph_field, tensor_field};
use crate::graph::operation::{Field, FieldKind, OperationSpec, Value};
use crate::graph::{DataType, Graph, GraphError, Node, Operation, Tensor, TensorValue};

type Result<T> = std::result::Result<T, GraphError>;

/// Verifies and unpacks a graph of either layout. In one of November 2025, channel outputs of batch normalizations
/// get the types that they were written with.
///
/// # Errors
/// When the bytes are not well formed, or contain an unknown operation, type or mode.
pub fn read(bytes: &[u8]) -> Result<Graph> {
    let layout = verify(bytes)?.layout;
    let graph = Table::root(bytes)?;
    let tensors = graph.tables(graph_field::TENSORS)?.map(|table| tensor(&table?)).collect::<Result<_>>()?;
    let nodes =
        graph.tables(graph_field::NODES)?.map(|table| node(&table?, layout)).collect::<Result<_>>()?;
    let graph = Graph {
        name: text(graph.text(graph_field::NAME)?),
        compute_type: data_type(&graph, graph_field::COMPUTE_TYPE)?,
        intermediate_type: data_type(&graph, graph_field::INTERMEDIATE_TYPE)?,
        io_type: data_type(&graph, graph_field::IO_TYPE)?,
        tensors,
        nodes,
        preferred_engine_id: graph.scalar(graph_field::PREFERRED_ENGINE_ID)?,
        is_override_shape_enabled: flag(&graph, graph_field::IS_OVERRIDE_SHAPE_ENABLED)?,
        min_required_engine_api_version: graph
            .inline::<12, 4>(graph_field::MIN_API_VERSION)?
            .map(api_version),
        id: graph.inline::<16, 1>(graph_field::ID)?,
    };
    Ok(match layout {
        Layout::G1 => with_types_of_scale(graph),
        Layout::G2 => graph,
    })
}

/// Gives channel outputs of a batch normalization the type of scale: frontends of November 2025 fill in the type of
/// images, but AMD's plugin of that time, which passes MIOpen one descriptor for all of them, writes the type of scale.
fn with_types_of_scale(mut graph: Graph) -> Graph {
    let narrow = [DataType::Half, DataType::Bfloat16];
    let mut changed = Vec::new();
    for node in &graph.nodes {
        let (scale, written) = match &node.operation {
            Operation::Batchnorm(b) => {
                (b.scale, [b.mean, b.inv_variance, b.next_running_mean, b.next_running_variance])
            }
            Operation::BatchnormBackward(b) => (b.scale, [Some(b.dscale), Some(b.dbias), None, None]),
            _ => continue,
        };
        if graph.tensor(scale).is_some_and(|tensor| tensor.data_type == DataType::Float) {
            changed.extend(written.into_iter().flatten());
        }
    }
    let io_type = graph.io_type;
    for tensor in &mut graph.tensors {
        if changed.contains(&tensor.uid) && narrow.contains(&tensor.data_type) && tensor.data_type == io_type
        {
            tensor.data_type = DataType::Float;
        }
    }
    graph
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn data_type(table: &Table<'_>, index: u16) -> Result<DataType> {
    let number = table.scalar::<u8>(index)?.unwrap_or(0);
    DataType::from_wire(number).ok_or_else(|| GraphError(format!("data type {number} is not known")))
}

fn tensor(table: &Table<'_>) -> Result<Tensor> {
    use tensor_field as field;
    Ok(Tensor {
        uid: table.scalar(field::UID)?.unwrap_or(0),
        name: text(table.text(field::NAME)?),
        data_type: data_type(table, field::DATA_TYPE)?,
        dims: table.scalars(field::DIMS)?.collect(),
        strides: table.scalars(field::STRIDES)?.collect(),
        is_virtual: flag(table, field::VIRTUAL)?,
        value: tensor_value(table)?,
        is_runtime_pass_by_value: flag(table, field::IS_RUNTIME_PASS_BY_VALUE)?,
        ragged_offset_uid: table.scalar(field::RAGGED_OFFSET_UID)?,
        alignment: table.scalar(field::ALIGNMENT)?.unwrap_or(Tensor::DEFAULT_ALIGNMENT),
        ragged_offset_multiplier: table.scalar(field::RAGGED_OFFSET_MULTIPLIER)?.unwrap_or(1),
    })
}

fn tensor_value(table: &Table<'_>) -> Result<Option<TensorValue>> {
    let number = table.scalar::<u8>(tensor_field::VALUE_TYPE)?.unwrap_or(0);
    let four = || table.pointed::<4>(tensor_field::VALUE);
    let eight = || table.pointed::<8>(tensor_field::VALUE);
    let byte = || Ok::<_, GraphError>(table.pointed::<1>(tensor_field::VALUE)?.map(|[byte]| byte));
    Ok(match number {
        0 => None,
        1 => four()?.map(f32::from_le_bytes).map(TensorValue::Float32),
        2 => four()?.map(f32::from_le_bytes).map(TensorValue::Float16),
        3 => four()?.map(f32::from_le_bytes).map(TensorValue::BFloat16),
        4 => byte()?.map(TensorValue::Float8),
        5 => four()?.map(i32::from_le_bytes).map(TensorValue::Int32),
        6 => eight()?.map(f64::from_le_bytes).map(TensorValue::Float64),
        7 => eight()?.map(i64::from_le_bytes).map(TensorValue::Int64),
        8 => byte()?.map(|byte| TensorValue::Bool(byte != 0)),
        _ => return Err(GraphError(format!("kind {number} of stored value is not known"))),
    })
}

fn node(table: &Table<'_>, layout: Layout) -> Result<Node> {
    let fields = layout.node_fields();
    let number = table.scalar::<u8>(fields.operation_type)?.unwrap_or(0);
    let spec = OperationSpec::from_wire(number)
        .ok_or_else(|| GraphError(format!("operation number {number} is not known")))?;
    let attributes = table
        .table(fields.operation)?
        .ok_or_else(|| GraphError(format!("a {} has no attributes", spec.table)))?;
    Ok(Node {
        name: text(table.text(fields.name)?),
        compute_type: fields.compute_type.map_or(Ok(DataType::Unset), |index| data_type(table, index))?,
        operation: operation(&attributes, spec)?,
    })
}

fn operation(table: &Table<'_>, spec: &OperationSpec) -> Result<Operation> {
    let values = spec.fields.iter().map(|field| value(table, field)).collect::<Result<_>>()?;
    (spec.from_values)(values)
}

/// An absent field has the format's default: none for optional fields, else zero.
fn value(table: &Table<'_>, field: &Field) -> Result<Value> {
    let index = field.index;
    Ok(match field.kind {
        FieldKind::Input { required } | FieldKind::Output { required } => {
            Value::Uid(table.scalar(index)?.or(required.then_some(0)))
        }
        FieldKind::Int { required } => Value::Int(table.scalar(index)?.or(required.then_some(0))),
        FieldKind::Int32 { required } => Value::Int32(table.scalar(index)?.or(required.then_some(0))),
        FieldKind::Flag { required } => {
            Value::Flag(table.scalar::<u8>(index)?.map(|byte| byte != 0).or(required.then_some(false)))
        }
        FieldKind::Float => Value::Float(table.scalar(index)?),
        FieldKind::Enum(kind) => {
            let number = table.scalar::<u8>(index)?.unwrap_or(0);
            if (kind.spelling)(number).is_none() {
                return Err(GraphError(format!(
                    "{} {number} of field {} is not known",
                    kind.name, field.name
                )));
            }
            Value::Enum(number)
        }
        FieldKind::Inputs | FieldKind::Outputs => Value::Uids(table.scalars(index)?.collect()),
        FieldKind::Ints => Value::Ints(table.scalars(index)?.collect()),
        FieldKind::Int32s => Value::Int32s(table.scalars(index)?.collect()),
        FieldKind::Text => Value::Text(text(table.text(index)?)),
        FieldKind::Bytes => Value::Bytes(table.raw(index)?.to_vec()),
    })
}
