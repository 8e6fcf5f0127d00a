//! Graphs, read from the library's JSON form.

mod node;
mod tensor;
#[cfg(test)]
pub mod testing;

use std::collections::HashMap;

pub use node::{Node, Port};
use serde_json::{Map, Value};
pub use tensor::{Tensor, shape};

use crate::data_type::DataType;
use crate::failure::{Failure, Result};

/// A graph of operations.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Its name, often empty.
    pub name: String,
    /// The compute type of nodes.
    pub compute_type: DataType,
    /// The type of virtual tensors.
    pub intermediate_type: DataType,
    /// The type of all others.
    pub io_type: DataType,
    /// The preferred engine.
    pub preferred_engine: Option<i64>,
    /// Its tensors.
    pub tensors: Vec<Tensor>,
    /// Its nodes.
    pub nodes: Vec<Node>,
    places: HashMap<i64, usize>,
}

impl Graph {
    /// Reads the library's JSON form.
    pub fn from_json(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).map_err(|error| {
            Failure::work(format!("the library's JSON of the graph cannot be read: {error}"))
        })?;
        let object = object(&value, "the graph")?;
        let read_all = |key: &str| -> Result<&[Value]> {
            match object.get(key) {
                Some(Value::Array(values)) => Ok(values),
                _ => Err(lacks("the graph", key, "an array")),
            }
        };
        let tensors = read_all("tensors")?.iter().map(Tensor::read).collect::<Result<Vec<_>>>()?;
        let nodes = read_all("nodes")?.iter().map(Node::read).collect::<Result<Vec<_>>>()?;
        let places = tensors.iter().enumerate().map(|(place, tensor)| (tensor.uid, place)).collect();
        Ok(Self {
            name: text_of(object, "name"),
            compute_type: data_type(object, "compute_data_type")?,
            intermediate_type: data_type(object, "intermediate_data_type")?,
            io_type: data_type(object, "io_data_type")?,
            preferred_engine: object.get("preferred_engine_id").and_then(Value::as_i64),
            tensors,
            nodes,
            places,
        })
    }

    /// The graph without the tensors that `is_left_out` names.
    pub fn without_tensors(mut self, is_left_out: impl Fn(i64) -> bool) -> Self {
        self.tensors.retain(|tensor| !is_left_out(tensor.uid));
        let places = self.tensors.iter().enumerate().map(|(place, tensor)| (tensor.uid, place));
        self.places = places.collect();
        self
    }

    /// The tensor with a uid.
    pub fn tensor(&self, uid: i64) -> Option<&Tensor> {
        self.place(uid).and_then(|place| self.tensors.get(place))
    }

    /// The index of a tensor in `tensors`.
    pub fn place(&self, uid: i64) -> Option<usize> {
        self.places.get(&uid).copied()
    }

    /// The node that writes a tensor.
    pub fn producer(&self, uid: i64) -> Option<&Node> {
        self.nodes.iter().find(|node| node.outputs.iter().any(|port| port.uid == uid))
    }

    /// The tensors that need memory: neither virtual nor with a value.
    pub fn bound(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter().filter(|tensor| !tensor.is_virtual && tensor.value.is_none())
    }
}

/// Converts a value to an object.
fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>> {
    value
        .as_object()
        .ok_or_else(|| Failure::work(format!("the library's JSON of the graph: {what} is not an object")))
}

fn lacks(what: &str, key: &str, expected: &str) -> Failure {
    Failure::work(format!("the library's JSON of the graph: {what} has no \"{key}\", expected {expected}"))
}

fn text_of(object: &Map<String, Value>, key: &str) -> String {
    object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn data_type(object: &Map<String, Value>, key: &str) -> Result<DataType> {
    let name = object.get(key).and_then(Value::as_str).unwrap_or("unset");
    DataType::named(name).ok_or_else(|| {
        Failure::work(format!("the library's JSON of the graph: \"{key}\" is the unknown data type {name:?}"))
    })
}
