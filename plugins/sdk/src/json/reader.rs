//! Reads a graph from JSON, of either generation.

use super::nearest::suggestion;
use super::path::At;
use super::scalar::{flag, int, ints, list, object, optional, required, text};
use super::value::{Json, Object};
use super::{operation, scalar, uuid};
use crate::graph::{ApiVersion, DataType, Graph, GraphError, Node, Tensor, TensorValue};

type Result<T> = std::result::Result<T, GraphError>;

/// Builds a graph from a JSON value and fills in the types that are missing.
pub fn graph(value: &Json, at: &At<'_>) -> Result<Graph> {
    let members = object(value, at)?;
    let mut graph = Graph {
        name: name(members, at)?,
        compute_type: data_type(members, &["compute_data_type", "compute_type"], at),
        intermediate_type: data_type(members, &["intermediate_data_type", "intermediate_type"], at),
        io_type: data_type(members, &["io_data_type", "io_type"], at),
        tensors: required(members, "tensors", at, |value, at| all(value, at, tensor))?,
        nodes: required(members, "nodes", at, |value, at| all(value, at, node))?,
        preferred_engine_id: optional(members, "preferred_engine_id", at, int)?,
        is_override_shape_enabled: optional(members, "is_override_shape_enabled", at, flag)?.unwrap_or(false),
        min_required_engine_api_version: optional(
            members,
            "min_required_engine_api_version",
            at,
            api_version,
        )?,
        id: optional(members, "id", at, id)?,
    };
    fill_types(&mut graph);
    Ok(graph)
}

/// Gives tensors and nodes without a type the graph's default.
fn fill_types(graph: &mut Graph) {
    for tensor in graph.tensors.iter_mut().filter(|tensor| tensor.data_type == DataType::Unset) {
        tensor.data_type = if tensor.is_virtual { graph.intermediate_type } else { graph.io_type };
    }
    for node in graph.nodes.iter_mut().filter(|node| node.compute_type == DataType::Unset) {
        node.compute_type = graph.compute_type;
    }
}

fn all<T>(value: &Json, at: &At<'_>, read: fn(&Object, &At<'_>) -> Result<T>) -> Result<Vec<T>> {
    let elements = list(value, at, "a list of objects")?.iter().enumerate();
    elements
        .map(|(index, element)| {
            let at = at.index(index);
            read(object(element, &at)?, &at)
        })
        .collect()
}

fn name(object: &Object, at: &At<'_>) -> Result<String> {
    let name = optional(object, "name", at, |value, at| text(value, at).map(str::to_owned))?;
    Ok(name.unwrap_or_default())
}

/// The type under the first key that is present. Unknown type names (ignoring case) count as unset, with a
/// remark.
fn data_type(object: &Object, keys: &[&str], at: &At<'_>) -> DataType {
    let found = keys.iter().find_map(|key| Some((key, object.get(key)?)));
    let Some((key, value)) = found.filter(|(_, value)| **value != Json::Null) else { return DataType::Unset };
    let names = || DataType::ALL.iter().map(|data_type| data_type.name());
    if let Json::Text(text) = value
        && let Some(known) = DataType::ALL.iter().find(|known| known.name().eq_ignore_ascii_case(text))
    {
        return *known;
    }
    let suggestion = if let Json::Text(text) = value { suggestion(text, names()) } else { String::new() };
    let got = value.describe();
    at.key(key).remark(&format!("is {got}, which is no data type and counts as \"unset\"{suggestion}"));
    DataType::Unset
}

fn node(members: &Object, at: &At<'_>) -> Result<Node> {
    Ok(Node {
        name: name(members, at)?,
        compute_type: data_type(members, &["compute_data_type", "compute_type"], at),
        operation: operation::read(members, at)?,
    })
}

fn tensor(members: &Object, at: &At<'_>) -> Result<Tensor> {
    Ok(Tensor {
        uid: required(members, "uid", at, int)?,
        name: name(members, at)?,
        data_type: data_type(members, &["data_type"], at),
        dims: required(members, "dims", at, ints)?,
        strides: required(members, "strides", at, ints)?,
        is_virtual: optional(members, "virtual", at, flag)?.unwrap_or(false),
        value: tensor_value(members, at)?,
        is_runtime_pass_by_value: optional(members, "is_runtime_pass_by_value", at, flag)?.unwrap_or(false),
        ragged_offset_uid: optional(members, "ragged_offset_tensor_uid", at, int)?,
        alignment: optional(members, "alignment", at, int)?.unwrap_or(Tensor::DEFAULT_ALIGNMENT),
        ragged_offset_multiplier: optional(members, "ragged_offset_multiplier", at, int)?.unwrap_or(1),
    })
}

fn tensor_value(members: &Object, at: &At<'_>) -> Result<Option<TensorValue>> {
    let kind = optional(members, "value_type", at, |value, at| text(value, at).map(str::to_owned))?;
    let place = at.key("value");
    let value = members.get("value").unwrap_or(&Json::Null);
    Ok(Some(match kind.as_deref() {
        None | Some("NONE") if *value == Json::Null => return Ok(None),
        Some("Float32Value") => TensorValue::Float32(scalar::float(value, &place)?),
        Some("Float16Value") => TensorValue::Float16(scalar::float(value, &place)?),
        Some("BFloat16Value") => TensorValue::BFloat16(scalar::float(value, &place)?),
        Some("Float8Value") => TensorValue::Float8(int(value, &place)?),
        Some("Int32Value") => TensorValue::Int32(int(value, &place)?),
        Some("Float64Value") => TensorValue::Float64(scalar::double(value, &place)?),
        Some("Int64Value") => TensorValue::Int64(int(value, &place)?),
        Some("BoolValue") => TensorValue::Bool(flag(value, &place)?),
        None => return Err(place.error("has no value_type beside it, as \"Float32Value\"")),
        Some(kind) => {
            let kind = Json::Text(kind.to_owned());
            return Err(at.key("value_type").error(&format!(
                "is {}, expected Float32Value, Float16Value, BFloat16Value, Float8Value, Int32Value, Float64Value, \
                 Int64Value or BoolValue",
                kind.describe()
            )));
        }
    }))
}

fn api_version(value: &Json, at: &At<'_>) -> Result<ApiVersion> {
    let members = object(value, at)?;
    Ok(ApiVersion {
        major: required(members, "major", at, int)?,
        minor: required(members, "minor", at, int)?,
        patch: required(members, "patch", at, int)?,
    })
}

fn id(value: &Json, at: &At<'_>) -> Result<[u8; 16]> {
    let expected = "a UUID, 8-4-4-4-12 hexadecimal digits";
    let text = match value {
        Json::Text(text) => uuid::parse(text),
        _ => None,
    };
    text.ok_or_else(|| at.error(&format!("is {}, expected {expected}", value.describe())))
}
