//! Graphs as JSON, for people to read and other programs to exchange; `docs/json.md` describes the format.
//!
//! Output is on one line with keys in alphabetical order, as hipDNN writes it. Input may omit whatever has a
//! default, and may be of either generation. Malformed text of any kind only yields an error message.

mod nearest;
mod operation;
mod path;
mod reader;
mod scalar;
#[cfg(test)]
mod tests;
mod uuid;
mod value;

use std::cell::RefCell;

use self::path::At;
use crate::graph::{Graph, GraphError, Node, Tensor, TensorValue};
use crate::json_text::{ObjectWriter, float, list, plain, text};

pub use uuid::format as format_id;

/// Reads a graph from JSON. Tensors and nodes without a type get the graph's default.
///
/// # Errors
/// When the text is not JSON or not a graph; the message begins with the path of the error, as in
/// `nodes[2].inputs.x_tensor_uid: is "one", expected an integer`.
pub fn read(text: &str) -> Result<Graph, GraphError> {
    read_with_remarks(text.as_bytes()).map(|(graph, _)| graph)
}

/// Reads a graph from the bytes of a JSON text, which may begin with a byte order mark and end with NULs.
///
/// # Errors
/// Those of [`read`], and when the bytes are not UTF-8.
pub fn read_bytes(bytes: &[u8]) -> Result<Graph, GraphError> {
    read_with_remarks(bytes).map(|(graph, _)| graph)
}

/// The same, with remarks on unknown words, which count as unspecified.
///
/// # Errors
/// Those of [`read_bytes`].
pub fn read_with_remarks(bytes: &[u8]) -> Result<(Graph, Vec<String>), GraphError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| GraphError(format!("the text is not UTF-8 at byte {}", error.valid_up_to())))?;
    let value = value::parse(text.strip_prefix('\u{feff}').unwrap_or(text).trim_end_matches('\0'))?;
    let remarks = RefCell::default();
    let graph = reader::graph(&value, &At::root(&remarks))?;
    Ok((graph, remarks.into_inner()))
}

/// Approximate upper limit of the memory needed to read this many bytes of text.
pub fn memory_for(size: usize) -> usize {
    // Each value takes at least two bytes of text, and lists double as they grow; texts exist twice, and the
    // graph comes on top.
    let values = (size / 2).min(value::MAX_VALUES);
    values.saturating_mul(256).saturating_add(size.saturating_mul(4))
}

/// Writes a graph as JSON. NaN and infinities become null and are not read back.
pub fn write(graph: &Graph) -> String {
    let mut object = ObjectWriter::default();
    object.text("compute_data_type", graph.compute_type.name());
    if let Some(id) = graph.id {
        object.text("id", &uuid::format(id));
    }
    object.text("intermediate_data_type", graph.intermediate_type.name());
    object.text("io_data_type", graph.io_type.name());
    object.plain("is_override_shape_enabled", graph.is_override_shape_enabled);
    if let Some(version) = graph.min_required_engine_api_version {
        let mut parts = ObjectWriter::default();
        parts.plain("major", version.major);
        parts.plain("minor", version.minor);
        parts.plain("patch", version.patch);
        object.put("min_required_engine_api_version", |to| parts.write(to));
    }
    object.text("name", &graph.name);
    object.put("nodes", |to| list(to, &graph.nodes, write_node));
    if let Some(id) = graph.preferred_engine_id {
        object.plain("preferred_engine_id", id);
    }
    object.put("tensors", |to| list(to, &graph.tensors, write_tensor));
    let mut text = String::new();
    object.write(&mut text);
    text
}

fn write_node(to: &mut String, node: &Node) {
    let mut object = ObjectWriter::default();
    object.text("compute_data_type", node.compute_type.name());
    object.text("name", &node.name);
    object.text("type", node.operation.spec().table);
    operation::write(&node.operation, &mut object);
    object.write(to);
}

fn write_tensor(to: &mut String, tensor: &Tensor) {
    let mut object = ObjectWriter::default();
    object.plain("alignment", tensor.alignment);
    object.text("data_type", tensor.data_type.name());
    object.put("dims", |to| list(to, &tensor.dims, plain));
    object.plain("is_runtime_pass_by_value", tensor.is_runtime_pass_by_value);
    object.text("name", &tensor.name);
    if tensor.ragged_offset_multiplier != 1 {
        object.plain("ragged_offset_multiplier", tensor.ragged_offset_multiplier);
    }
    if let Some(uid) = tensor.ragged_offset_uid {
        object.plain("ragged_offset_tensor_uid", uid);
    }
    object.put("strides", |to| list(to, &tensor.strides, plain));
    object.plain("uid", tensor.uid);
    if let Some(value) = tensor.value {
        object.put("value", |to| match value {
            TensorValue::Float32(v) | TensorValue::Float16(v) | TensorValue::BFloat16(v) => {
                float(to, f64::from(v));
            }
            TensorValue::Float64(v) => float(to, v),
            TensorValue::Float8(v) => plain(to, v),
            TensorValue::Int32(v) => plain(to, v),
            TensorValue::Int64(v) => plain(to, v),
            TensorValue::Bool(v) => plain(to, v),
        });
        object.put("value_type", |to| text(to, value_type(&value)));
    }
    object.plain("virtual", tensor.is_virtual);
    object.write(to);
}

fn value_type(value: &TensorValue) -> &'static str {
    match value {
        TensorValue::Float32(_) => "Float32Value",
        TensorValue::Float16(_) => "Float16Value",
        TensorValue::BFloat16(_) => "BFloat16Value",
        TensorValue::Float8(_) => "Float8Value",
        TensorValue::Int32(_) => "Int32Value",
        TensorValue::Float64(_) => "Float64Value",
        TensorValue::Int64(_) => "Int64Value",
        TensorValue::Bool(_) => "BoolValue",
    }
}
