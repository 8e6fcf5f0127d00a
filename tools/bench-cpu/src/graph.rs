//! Builds graphs as JSON, in single precision and packed.
#![expect(clippy::indexing_slicing, reason = "JSON objects that are made here, to which keys are added")]

use hipdnn::graph::packed_strides as packed;
use serde_json::{Value, json};

/// A tensor of a graph, by its uid.
pub type Uid = i64;

/// A graph being built.
#[derive(Default)]
pub struct Graph {
    tensors: Vec<Value>,
    nodes: Vec<Value>,
}

impl Graph {
    fn add(&mut self, mut tensor: Value, dims: &[i64]) -> Uid {
        let uid = self.tensors.len() as Uid + 1;
        tensor["uid"] = json!(uid);
        tensor["name"] = json!(format!("t{uid}"));
        tensor["dims"] = json!(dims);
        tensor["strides"] = json!(packed(dims));
        self.tensors.push(tensor);
        uid
    }

    /// Gives a tensor the strides of another order in memory: `axes` has for each dimension its position in memory.
    pub fn permuted(&mut self, uid: Uid, dims: &[i64], in_memory: &[i64], axes: &[usize]) {
        let strides = packed(in_memory);
        let own: Vec<i64> = axes.iter().filter_map(|axis| strides.get(*axis).copied()).collect();
        debug_assert_eq!(own.len(), dims.len());
        for tensor in self.tensors.iter_mut().filter(|tensor| tensor["uid"] == json!(uid)) {
            tensor["strides"] = json!(own);
        }
    }

    /// A tensor that memory is bound to.
    pub fn bound(&mut self, dims: &[i64]) -> Uid {
        self.add(json!({}), dims)
    }

    /// A tensor between two nodes.
    pub fn between(&mut self, dims: &[i64]) -> Uid {
        self.add(json!({"virtual": true}), dims)
    }

    /// A tensor of another type than the graph's.
    pub fn typed(&mut self, data_type: &str, dims: &[i64], is_virtual: bool) -> Uid {
        self.add(json!({"data_type": data_type, "virtual": is_virtual}), dims)
    }

    /// A scalar constant.
    pub fn number(&mut self, value: f32, rank: usize) -> Uid {
        self.add(json!({"value_type": "Float32Value", "value": value}), &vec![1; rank])
    }

    /// A node with its tensors beside its parameters.
    pub fn node_of(&mut self, kind: &str, rest: Value) {
        self.node(kind, &[], &[], rest);
    }

    /// A node with its tensors under `inputs` and `outputs`.
    pub fn node(&mut self, kind: &str, inputs: &[(&str, Uid)], outputs: &[(&str, Uid)], rest: Value) {
        let tensors = |of: &[(&str, Uid)]| {
            let keys = of.iter().map(|(name, uid)| (format!("{name}_tensor_uid"), json!(uid)));
            Value::Object(keys.collect())
        };
        let mut node = rest;
        node["type"] = json!(kind);
        node["name"] = json!(format!("n{}", self.nodes.len()));
        node["inputs"] = tensors(inputs);
        node["outputs"] = tensors(outputs);
        self.nodes.push(node);
    }

    /// A pointwise node. `rest` has its parameters, such as a clip.
    pub fn pointwise(&mut self, operation: &str, operands: &[Uid], to: Uid, rest: &[(&str, f32)]) {
        let names = ["in_0", "in_1", "in_2"];
        let inputs: Vec<(&str, Uid)> = names.into_iter().zip(operands.iter().copied()).collect();
        self.node("PointwiseAttributes", &inputs, &[("out_0", to)], json!({}));
        if let Some(node) = self.nodes.last_mut() {
            node["inputs"]["operation"] = json!(operation);
            for (name, value) in rest {
                node["inputs"][*name] = json!(value);
            }
        }
    }

    /// The index of each element along a dimension.
    pub fn index(&mut self, like: Uid, axis: i64, to: Uid) {
        self.pointwise("gen_index", &[like], to, &[]);
        if let Some(node) = self.nodes.last_mut() {
            node["inputs"]["axis_tensor_uid"] = json!(axis);
        }
    }

    /// A reduction to a tensor with dimensions of 1.
    pub fn reduction(&mut self, mode: &str, from: Uid, to: Uid) {
        let rest = json!({"mode": mode, "in_tensor_uid": from, "out_tensor_uid": to});
        self.node("ReductionAttributes", &[], &[], rest);
    }

    /// The graph as JSON.
    pub fn json(&self) -> String {
        json!({
            "name": "bench",
            "io_data_type": "float", "intermediate_data_type": "float", "compute_data_type": "float",
            "tensors": self.tensors, "nodes": self.nodes,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_names_its_tensors() {
        let mut graph = Graph::default();
        let (x, y) = (graph.bound(&[2, 3]), graph.bound(&[2, 3]));
        graph.pointwise("relu_fwd", &[x], y, &[("relu_upper_clip", 6.0)]);
        let json: Value = serde_json::from_str(&graph.json()).unwrap();
        assert_eq!(json["nodes"][0]["inputs"]["in_0_tensor_uid"], 1);
        assert_eq!(json["nodes"][0]["inputs"]["relu_upper_clip"], 6.0);
        assert_eq!(json["nodes"][0]["outputs"]["out_0_tensor_uid"], 2);
        assert_eq!(json["tensors"][1]["strides"], json!([3, 1]));
    }
}
