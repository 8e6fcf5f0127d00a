//! Nodes of a graph: an operation, the tensors it reads and writes, its parameters.
//!
//! The JSON form stores tensors under keys that end in `_tensor_uid`: usually inside `inputs` and `outputs`, for a few operations
//! beside the node's other keys. Every other key is a parameter, so new operations need no changes here.

use hipdnn::graph::Operation;
use hipdnn::graph::operation::{Field, JsonField};
use serde_json::{Map, Value};

use super::{data_type, object, text_of};
use crate::data_type::DataType;
use crate::failure::Result;

/// A tensor in its role in an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The role: `x`, `w`, `scale`.
    pub role: String,
    /// The tensor.
    pub uid: i64,
}

/// An operation of a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name, often empty.
    pub name: String,
    /// The operation, without the common suffix: `ConvolutionFwd`.
    pub operation: String,
    /// The compute type.
    pub compute_type: DataType,
    /// The tensors it reads.
    pub inputs: Vec<Port>,
    /// The tensors it writes.
    pub outputs: Vec<Port>,
    /// All its other keys.
    pub parameters: Map<String, Value>,
}

/// Where the tensors of a JSON object belong to.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Inputs,
    Outputs,
    Beside,
}

impl Node {
    pub(super) fn read(value: &Value) -> Result<Self> {
        let object = object(value, "a node")?;
        let operation = text_of(object, "type");
        let operation = operation.strip_suffix("Attributes").unwrap_or(&operation).to_owned();
        let operation = operation.replace("AttributesVarianceExt", "Variance");
        let mut node = Self {
            name: text_of(object, "name"),
            operation,
            compute_type: data_type(object, "compute_data_type")?,
            inputs: Vec::new(),
            outputs: Vec::new(),
            parameters: Map::new(),
        };
        for (key, value) in object {
            match (key.as_str(), value) {
                ("name" | "type" | "compute_data_type", _) => {}
                ("inputs", Value::Object(inner)) => node.take_all(inner, Place::Inputs),
                ("outputs", Value::Object(inner)) => node.take_all(inner, Place::Outputs),
                ("parameters" | "attributes", Value::Object(inner)) => node.take_all(inner, Place::Beside),
                (key, value) => node.take(key, value, Place::Beside),
            }
        }
        node.sort_ports(&text_of(object, "type"));
        Ok(node)
    }

    /// Sorts tensors in the operation's own order; JSON has its keys in alphabetical order.
    fn sort_ports(&mut self, table: &str) {
        let Some(spec) = Operation::SPECS.iter().find(|spec| spec.table == table) else { return };
        let is_of = |field: &Field, port: &Port| match field.json {
            JsonField::Key(key) => role(key) == Some(&port.role),
            _ => field.name == port.role,
        };
        let place = |port: &Port| spec.fields.iter().position(|field| is_of(field, port));
        for ports in [&mut self.inputs, &mut self.outputs] {
            ports.sort_by_key(|port| place(port).unwrap_or(usize::MAX));
        }
    }

    /// A parameter.
    pub fn parameter(&self, key: &str) -> Option<&Value> {
        self.parameters.get(key).filter(|value| !value.is_null())
    }

    /// The tensor in a role, if there is one.
    pub fn input(&self, role: &str) -> Option<i64> {
        self.inputs.iter().find(|port| port.role == role).map(|port| port.uid)
    }

    /// The tensor written in a role, if there is one.
    pub fn output(&self, role: &str) -> Option<i64> {
        self.outputs.iter().find(|port| port.role == role).map(|port| port.uid)
    }

    fn take_all(&mut self, object: &Map<String, Value>, place: Place) {
        for (key, value) in object {
            self.take(key, value, place);
        }
    }

    fn take(&mut self, key: &str, value: &Value, place: Place) {
        let (role, uids) = match (role(key), value) {
            // An index despite its name.
            (Some("axis"), _) => return self.keep("axis", value),
            (Some(role), Value::Number(_) | Value::Array(_)) => (role, uids(value)),
            (Some(_), Value::Null) => return,
            _ => return self.keep(key, value),
        };
        let output = match place {
            Place::Inputs => false,
            Place::Outputs => true,
            Place::Beside => self.writes(role),
        };
        let ports = if output { &mut self.outputs } else { &mut self.inputs };
        ports.extend(uids.into_iter().map(|uid| Port { role: role.to_owned(), uid }));
    }

    fn keep(&mut self, key: &str, value: &Value) {
        if !value.is_null() {
            self.parameters.insert(key.to_owned(), value.clone());
        }
    }

    /// Whether a role is an output, for operations without `inputs` and `outputs`.
    fn writes(&self, role: &str) -> bool {
        match role {
            "index" => self.operation == "ResampleFwd",
            role => matches!(role, "y" | "out" | "dx" | "output"),
        }
    }
}

/// The role in a key that names tensors.
fn role(key: &str) -> Option<&str> {
    match key {
        "peer_stats" => Some(key),
        // One operation of one generation uses this key.
        "epsilon_uid" => Some("epsilon"),
        key => key.strip_suffix("_tensor_uid").or_else(|| key.strip_suffix("_tensor_uids")),
    }
}

fn uids(value: &Value) -> Vec<i64> {
    match value {
        Value::Array(values) => values.iter().filter_map(Value::as_i64).collect(),
        value => value.as_i64().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ports(ports: &[Port]) -> Vec<(&str, i64)> {
        ports.iter().map(|port| (port.role.as_str(), port.uid)).collect()
    }

    #[test]
    fn tensors_and_parameters_are_told_apart() {
        let node = Node::read(&json!({
            "compute_data_type": "float", "name": "act", "type": "PointwiseAttributes",
            "inputs": {"axis_tensor_uid": 2, "in_0_tensor_uid": 14, "in_1_tensor_uid": null, "operation": "relu_fwd"},
            "outputs": {"out_0_tensor_uid": 15}
        }))
        .unwrap();
        assert_eq!(node.operation, "Pointwise");
        assert_eq!((ports(&node.inputs), ports(&node.outputs)), (vec![("in_0", 14)], vec![("out_0", 15)]));
        assert_eq!(node.parameters.keys().collect::<Vec<_>>(), ["axis", "operation"]);
    }

    #[test]
    fn tensors_beside_the_other_keys_are_found() {
        let flat = |operation: &str| {
            Node::read(&json!({
                "compute_data_type": "float", "name": "", "type": operation, "x_tensor_uid": 1, "y_tensor_uid": 2,
                "dy_tensor_uid": 4, "dx_tensor_uid": 5, "index_tensor_uid": 3, "window": [2, 2]
            }))
            .unwrap()
        };
        assert_eq!(ports(&flat("ResampleFwdAttributes").outputs), [("y", 2), ("index", 3), ("dx", 5)]);
        assert_eq!(ports(&flat("ResampleBwdAttributes").inputs), [("dy", 4), ("index", 3), ("x", 1)]);
    }

    #[test]
    fn tensors_come_in_the_order_of_the_operation() {
        let node =
            |text| ports(&Node::read(&text).unwrap().inputs).iter().map(|port| port.1).collect::<Vec<_>>();
        let convolution = json!({
            "compute_data_type": "float", "name": "", "type": "ConvolutionFwdAttributes",
            "inputs": {"w_tensor_uid": 2, "x_tensor_uid": 1}, "outputs": {"y_tensor_uid": 3}
        });
        let batchnorm = json!({
            "compute_data_type": "float", "name": "", "type": "BatchnormInferenceAttributes",
            "inputs": {"bias_tensor_uid": 5, "inv_variance_tensor_uid": 3, "mean_tensor_uid": 2, "scale_tensor_uid": 4, "x_tensor_uid": 1},
            "outputs": {"y_tensor_uid": 6}
        });
        assert_eq!(node(convolution), [1, 2]);
        assert_eq!(node(batchnorm), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn lists_of_tensors_are_found() {
        let node = Node::read(&json!({
            "compute_data_type": "unset", "name": "", "type": "CustomOpAttributes", "custom_op_id": "mine",
            "input_tensor_uids": [1, 2], "output_tensor_uids": [3], "data": []
        }))
        .unwrap();
        assert_eq!(ports(&node.inputs), [("input", 1), ("input", 2)]);
        assert_eq!(ports(&node.outputs), [("output", 3)]);
    }
}
