//! Packs a graph into bytes.

use flatbuffers::{FlatBufferBuilder, Push, TableFinishedWIPOffset, WIPOffset};

use super::{LAST_G1_DATA_TYPE, LAST_G1_OPERATION, LAST_G1_VALUE, Layout, graph_field, tensor_field};
use crate::graph::operation::Value;
use crate::graph::{ApiVersion, Graph, GraphError, Node, Operation, Tensor, TensorValue};

type Result<T> = std::result::Result<T, GraphError>;
type Offset = WIPOffset<TableFinishedWIPOffset>;

/// The slot of the field with this index.
pub(super) fn slot(index: u16) -> u16 {
    4 + 2 * index
}

/// Packs a graph in the given layout.
///
/// # Errors
/// When the graph uses something that the layout of November 2025 cannot express.
pub fn write(graph: &Graph, layout: Layout) -> Result<Vec<u8>> {
    if layout == Layout::G1 {
        check_fits_g1(graph)?;
    }
    let tensors: Vec<&Tensor> = graph.tensors.iter().collect();
    let nodes: Vec<&Node> = graph.nodes.iter().collect();
    Ok(pack(graph, &tensors, &nodes, layout))
}

/// Packs a graph in the layout of 2026 with these tensors and nodes; those in `header` are ignored.
pub fn write_parts(header: &Graph, tensors: &[&Tensor], nodes: &[&Node]) -> Vec<u8> {
    pack(header, tensors, nodes, Layout::G2)
}

/// Typical upper sizes in bytes of a tensor, a node and the rest, so that the buffer seldom grows.
const SIZES: [usize; 3] = [192, 256, 256];

fn pack(graph: &Graph, tensors: &[&Tensor], nodes: &[&Node], layout: Layout) -> Vec<u8> {
    let room = SIZES[0] * tensors.len() + SIZES[1] * nodes.len() + SIZES[2];
    let mut builder = FlatBufferBuilder::with_capacity(room);
    let b = &mut builder;
    let tensors: Vec<_> = tensors.iter().map(|tensor| write_tensor(b, tensor)).collect();
    let nodes: Vec<_> = nodes.iter().map(|node| write_node(b, node, layout)).collect();
    let tensors = b.create_vector(&tensors);
    let nodes = b.create_vector(&nodes);
    let name = b.create_string(&graph.name);
    let table = b.start_table();
    b.push_slot_always(slot(graph_field::NAME), name);
    b.push_slot(slot(graph_field::COMPUTE_TYPE), graph.compute_type.wire(), 0);
    b.push_slot(slot(graph_field::INTERMEDIATE_TYPE), graph.intermediate_type.wire(), 0);
    b.push_slot(slot(graph_field::IO_TYPE), graph.io_type.wire(), 0);
    b.push_slot_always(slot(graph_field::TENSORS), tensors);
    b.push_slot_always(slot(graph_field::NODES), nodes);
    if layout == Layout::G2 {
        if let Some(id) = graph.preferred_engine_id {
            b.push_slot_always(slot(graph_field::PREFERRED_ENGINE_ID), id);
        }
        b.push_slot(slot(graph_field::IS_OVERRIDE_SHAPE_ENABLED), graph.is_override_shape_enabled, false);
        if let Some(version) = graph.min_required_engine_api_version {
            b.push_slot_always(slot(graph_field::MIN_API_VERSION), VersionStruct(version));
        }
        if let Some(id) = graph.id {
            b.push_slot_always(slot(graph_field::ID), UuidStruct(id));
        }
    }
    let root = b.end_table(table);
    b.finish_minimal(root);
    builder.finished_data().to_vec()
}

fn check_fits_g1(graph: &Graph) -> Result<()> {
    let refuse = |what: String| {
        Err(GraphError(format!("{what}, which the graph layout of November 2025 cannot express")))
    };
    if graph.is_override_shape_enabled {
        return refuse("the graph allows override shapes".into());
    }
    for tensor in &graph.tensors {
        let value = tensor.value.map_or(0, |value| value_number(&value));
        if tensor.data_type.wire() > LAST_G1_DATA_TYPE || value > LAST_G1_VALUE {
            return refuse(format!("tensor {} has type {}", tensor.uid, tensor.data_type.name()));
        }
        if tensor.ragged_offset_uid.is_some()
            || tensor.is_runtime_pass_by_value
            || tensor.alignment != Tensor::DEFAULT_ALIGNMENT
        {
            return refuse(format!(
                "tensor {} is ragged, passed by value or of special alignment",
                tensor.uid
            ));
        }
    }
    match graph.nodes.iter().find(|node| node.operation.spec().wire > LAST_G1_OPERATION) {
        Some(node) => refuse(format!("the graph has a {}", node.operation.spec().name)),
        None => Ok(()),
    }
}

fn value_number(value: &TensorValue) -> u8 {
    match value {
        TensorValue::Float32(_) => 1,
        TensorValue::Float16(_) => 2,
        TensorValue::BFloat16(_) => 3,
        TensorValue::Float8(_) => 4,
        TensorValue::Int32(_) => 5,
        TensorValue::Float64(_) => 6,
        TensorValue::Int64(_) => 7,
        TensorValue::Bool(_) => 8,
    }
}

fn write_tensor(b: &mut FlatBufferBuilder<'_>, tensor: &Tensor) -> Offset {
    use tensor_field as field;
    let name = b.create_string(&tensor.name);
    let strides = b.create_vector(&tensor.strides);
    let dims = b.create_vector(&tensor.dims);
    // A struct in a union is pushed separately and referenced, like a table.
    let value = tensor.value.map(|value| {
        let at = match value {
            TensorValue::Float32(v) | TensorValue::Float16(v) | TensorValue::BFloat16(v) => b.push(v).value(),
            TensorValue::Float8(v) => b.push(v).value(),
            TensorValue::Int32(v) => b.push(v).value(),
            TensorValue::Float64(v) => b.push(v).value(),
            TensorValue::Int64(v) => b.push(v).value(),
            TensorValue::Bool(v) => b.push(v).value(),
        };
        (value_number(&value), WIPOffset::<TableFinishedWIPOffset>::new(at))
    });
    let table = b.start_table();
    b.push_slot(slot(field::UID), tensor.uid, 0);
    b.push_slot_always(slot(field::NAME), name);
    b.push_slot(slot(field::DATA_TYPE), tensor.data_type.wire(), 0);
    b.push_slot_always(slot(field::STRIDES), strides);
    b.push_slot_always(slot(field::DIMS), dims);
    b.push_slot(slot(field::VIRTUAL), tensor.is_virtual, false);
    if let Some((number, at)) = value {
        b.push_slot_always(slot(field::VALUE_TYPE), number);
        b.push_slot_always(slot(field::VALUE), at);
    }
    b.push_slot(slot(field::IS_RUNTIME_PASS_BY_VALUE), tensor.is_runtime_pass_by_value, false);
    if let Some(uid) = tensor.ragged_offset_uid {
        b.push_slot_always(slot(field::RAGGED_OFFSET_UID), uid);
    }
    b.push_slot(slot(field::ALIGNMENT), tensor.alignment, Tensor::DEFAULT_ALIGNMENT);
    b.push_slot(slot(field::RAGGED_OFFSET_MULTIPLIER), tensor.ragged_offset_multiplier, 1);
    b.end_table(table)
}

fn write_node(b: &mut FlatBufferBuilder<'_>, node: &Node, layout: Layout) -> Offset {
    let fields = layout.node_fields();
    let attributes = write_operation(b, &node.operation);
    let name = b.create_string(&node.name);
    let table = b.start_table();
    b.push_slot_always(slot(fields.name), name);
    if let Some(index) = fields.compute_type {
        b.push_slot(slot(index), node.compute_type.wire(), 0);
    }
    b.push_slot_always(slot(fields.operation_type), node.operation.spec().wire);
    b.push_slot_always(slot(fields.operation), attributes);
    b.end_table(table)
}

fn write_operation(b: &mut FlatBufferBuilder<'_>, operation: &Operation) -> Offset {
    let values = operation.values();
    let fields = operation.spec().fields;
    // Vectors and texts precede the table that refers to them.
    let pointed: Vec<Option<WIPOffset<TableFinishedWIPOffset>>> = values
        .iter()
        .map(|value| {
            let at = match value {
                Value::Uids(many) | Value::Ints(many) => b.create_vector(many).value(),
                Value::Int32s(many) => b.create_vector(many).value(),
                Value::Bytes(bytes) => b.create_vector(bytes).value(),
                Value::Text(text) => b.create_string(text).value(),
                _ => return None,
            };
            Some(WIPOffset::new(at))
        })
        .collect();
    let table = b.start_table();
    for ((field, value), pointed) in fields.iter().zip(&values).zip(pointed) {
        let slot = slot(field.index);
        match *value {
            Value::Uid(Some(x)) | Value::Int(Some(x)) => b.push_slot_always(slot, x),
            Value::Int32(Some(x)) => b.push_slot_always(slot, x),
            Value::Float(Some(x)) => b.push_slot_always(slot, x),
            Value::Flag(Some(x)) => b.push_slot_always(slot, x),
            Value::Enum(x) => b.push_slot_always(slot, x),
            _ => {
                if let Some(at) = pointed {
                    b.push_slot_always(slot, at);
                }
            }
        }
    }
    b.end_table(table)
}

/// `EngineApiVersion` on the wire: three 32-bit numbers.
struct VersionStruct(ApiVersion);

impl Push for VersionStruct {
    type Output = Self;

    unsafe fn push(&self, destination: &mut [u8], _written: usize) {
        let ApiVersion { major, minor, patch } = self.0;
        for (to, part) in destination.chunks_exact_mut(4).zip([major, minor, patch]) {
            to.copy_from_slice(&part.to_le_bytes());
        }
    }

    fn size() -> usize {
        12
    }

    fn alignment() -> flatbuffers::PushAlignment {
        flatbuffers::PushAlignment::new(4)
    }
}

/// `Uuid` on the wire: sixteen bytes.
struct UuidStruct([u8; 16]);

impl Push for UuidStruct {
    type Output = Self;

    unsafe fn push(&self, destination: &mut [u8], _written: usize) {
        destination.copy_from_slice(&self.0);
    }

    fn size() -> usize {
        16
    }

    fn alignment() -> flatbuffers::PushAlignment {
        flatbuffers::PushAlignment::new(1)
    }
}
