//! A benchmark case: our graph, and the same computation for each peer.

use serde_json::{Value, json};

use crate::graph::{Graph, Uid};

/// The amount of work of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Floating-point operations, compared with the processor's peak.
    Operations(f64),
    /// Bytes that must be read or written at least once, compared with copying.
    Bytes(f64),
}

/// An input array, filled with random numbers.
pub struct Input {
    /// The tensor of our graph.
    pub uid: Uid,
    /// Its name at the peers.
    pub name: &'static str,
    /// Its shape.
    pub dims: Vec<i64>,
    /// The least and the largest number.
    pub range: (f32, f32),
    /// Whether the peer knows the values in advance and may prepack them.
    pub is_weight: bool,
    /// The stored type, if it is not single precision.
    pub stored: Option<Stored>,
}

/// Integers in the words of an array.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Their type: `int8`, `uint8` or `int32`.
    pub data_type: &'static str,
    /// Their shape.
    pub dims: Vec<i64>,
}

impl Stored {
    /// The words that hold them.
    pub fn words(&self) -> i64 {
        let bytes = if self.data_type == "int32" { 4 } else { 1 };
        (self.dims.iter().product::<i64>() * bytes + 3) / 4
    }
}

/// An output array.
pub struct Output {
    /// The tensor of our graph.
    pub uid: Uid,
    /// Its name at the peers; none if peers have nothing to compare.
    pub name: Option<&'static str>,
    /// Its shape.
    pub dims: Vec<i64>,
    /// The stored type, if it is not single precision. Bytes may differ by one step.
    pub stored: Option<Stored>,
}

/// A case to measure.
pub struct Case {
    /// Its suite.
    pub suite: &'static str,
    /// Its own name.
    pub name: String,
    /// Our graph.
    pub graph: Graph,
    /// The inputs.
    pub inputs: Vec<Input>,
    /// The outputs.
    pub outputs: Vec<Output>,
    /// The amount of work.
    pub work: Work,
    /// ONNX models that compute the same; the fastest counts.
    pub onnx: Vec<Model>,
    /// The arguments of oneDNN's program.
    pub onednn: Option<String>,
}

/// An ONNX model.
#[derive(Default)]
pub struct Model {
    nodes: Vec<Value>,
    numbers: Vec<Value>,
    integers: Vec<Value>,
    /// Transpositions of arrays from our layout to the model's: name, permutation, resulting shape.
    layouts: Vec<Value>,
}

impl Model {
    /// Adds a node; `attributes` is a JSON object.
    pub fn node(mut self, kind: &str, inputs: &[&str], outputs: &[&str], attributes: Value) -> Self {
        self.nodes.push(json!({"op": kind, "in": inputs, "out": outputs, "attributes": attributes}));
        self
    }

    /// Adds a scalar constant.
    pub fn number(mut self, name: &str, value: f32) -> Self {
        self.numbers.push(json!({"name": name, "value": value}));
        self
    }

    /// Adds a constant of one byte.
    pub fn byte(mut self, name: &str, data_type: &str, value: i32) -> Self {
        self.numbers.push(json!({"name": name, "value": value, "type": data_type}));
        self
    }

    /// Adds a constant row of integers.
    pub fn integers(mut self, name: &str, values: &[i64]) -> Self {
        self.integers.push(json!({"name": name, "values": values}));
        self
    }

    /// Adds an array whose layout differs from ours.
    pub fn layout(mut self, name: &str, permutation: &[usize], shape: &[i64]) -> Self {
        self.layouts.push(json!({"name": name, "permutation": permutation, "shape": shape}));
        self
    }

    /// The request to the peer.
    pub fn json(&self) -> Value {
        json!({"nodes": self.nodes, "numbers": self.numbers, "integers": self.integers, "layouts": self.layouts})
    }
}

impl Case {
    /// An empty case.
    pub fn new(suite: &'static str, name: impl Into<String>, work: Work) -> Self {
        Self {
            suite,
            name: name.into(),
            graph: Graph::default(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            work,
            onnx: Vec::new(),
            onednn: None,
        }
    }

    /// Adds an array that changes from run to run.
    pub fn input(&mut self, name: &'static str, dims: &[i64]) -> Uid {
        self.ranged(name, dims, (-1.0, 1.0), false)
    }

    /// Adds an array that stays constant.
    pub fn weight(&mut self, name: &'static str, dims: &[i64]) -> Uid {
        self.ranged(name, dims, (-1.0, 1.0), true)
    }

    /// Adds an array of numbers of a range.
    pub fn ranged(&mut self, name: &'static str, dims: &[i64], range: (f32, f32), is_weight: bool) -> Uid {
        let uid = self.graph.bound(dims);
        self.inputs.push(Input { uid, name, dims: dims.to_vec(), range, is_weight, stored: None });
        uid
    }

    /// Adds an array of random integers.
    pub fn integers(
        &mut self,
        name: &'static str,
        data_type: &'static str,
        dims: &[i64],
        is_weight: bool,
    ) -> Uid {
        let uid = self.graph.typed(data_type, dims, false);
        let stored = Stored { data_type, dims: dims.to_vec() };
        let dims = vec![stored.words()];
        self.inputs.push(Input { uid, name, dims, range: (0.0, 1.0), is_weight, stored: Some(stored) });
        uid
    }

    /// Adds an array of bytes that is compared with the peer's.
    pub fn bytes_output(&mut self, name: &'static str, data_type: &'static str, dims: &[i64]) -> Uid {
        let uid = self.graph.typed(data_type, dims, false);
        let stored = Stored { data_type, dims: dims.to_vec() };
        let dims = vec![stored.words()];
        self.outputs.push(Output { uid, name: Some(name), dims, stored: Some(stored) });
        uid
    }

    /// Adds an array of another type with random bytes.
    pub fn typed(&mut self, name: &'static str, (data_type, bits): (&str, i64), dims: &[i64]) -> Uid {
        let uid = self.graph.typed(data_type, dims, false);
        let words = (dims.iter().product::<i64>() * bits + 31) / 32;
        let (dims, range) = (vec![words], (0.5, 1.5));
        self.inputs.push(Input { uid, name, dims, range, is_weight: false, stored: None });
        uid
    }

    /// Adds an array that is compared with the peer's.
    pub fn output(&mut self, name: &'static str, dims: &[i64]) -> Uid {
        let uid = self.graph.bound(dims);
        self.outputs.push(Output { uid, name: Some(name), dims: dims.to_vec(), stored: None });
        uid
    }

    /// Adds an array of another type of 32 bits that no peer writes in the same form.
    pub fn own_typed_output(&mut self, data_type: &str, dims: &[i64]) -> Uid {
        let uid = self.graph.typed(data_type, dims, false);
        self.outputs.push(Output { uid, name: None, dims: dims.to_vec(), stored: None });
        uid
    }

    /// Adds an array that no peer writes in the same form.
    pub fn own_output(&mut self, dims: &[i64]) -> Uid {
        let uid = self.graph.bound(dims);
        self.outputs.push(Output { uid, name: None, dims: dims.to_vec(), stored: None });
        uid
    }
}
