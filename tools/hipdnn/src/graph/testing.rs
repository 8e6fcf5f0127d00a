//! Small graphs for tests.

use serde_json::{Value, json};

use super::Graph;

/// A packed tensor.
pub fn tensor(uid: i64, name: &str, dims: &[i64], is_virtual: bool) -> Value {
    let mut strides = vec![1; dims.len()];
    for at in (1..dims.len()).rev() {
        strides[at - 1] = strides[at] * dims[at];
    }
    json!({"uid": uid, "name": name, "data_type": "float", "dims": dims, "strides": strides, "virtual": is_virtual,
           "alignment": 16, "is_runtime_pass_by_value": false})
}

/// A pointwise operation.
pub fn pointwise(name: &str, mode: &str, in_0: i64, in_1: Option<i64>, out: i64) -> Value {
    json!({"type": "PointwiseAttributes", "name": name, "compute_data_type": "float",
           "inputs": {"operation": mode, "in_0_tensor_uid": in_0, "in_1_tensor_uid": in_1},
           "outputs": {"out_0_tensor_uid": out}})
}

/// A convolution.
pub fn convolution(name: &str, x: i64, w: i64, y: i64) -> Value {
    json!({"type": "ConvolutionFwdAttributes", "name": name, "compute_data_type": "float",
           "inputs": {"x_tensor_uid": x, "w_tensor_uid": w}, "outputs": {"y_tensor_uid": y},
           "parameters": {"pre_padding": [1, 1], "post_padding": [1, 1], "stride": [1, 1], "dilation": [1, 1],
                          "conv_mode": "CROSS_CORRELATION"}})
}

/// A graph of these.
pub fn graph(name: &str, tensors: Vec<Value>, nodes: Vec<Value>) -> Graph {
    let text = json!({"name": name, "compute_data_type": "float", "intermediate_data_type": "float",
                      "io_data_type": "float", "tensors": tensors, "nodes": nodes});
    Graph::from_json(&text.to_string()).unwrap()
}
