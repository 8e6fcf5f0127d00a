//! A hash of a graph's computation, the key of rankings.
//!
//! It is the FNV-1a hash of the graph's content in this order: the nodes in the graph's order, each as its number on the wire,
//! its compute type and every field in declaration order; then the tensors. Tensors are numbered by first use, so neither uids
//! nor the order of the list of tensors matter, and unused tensors do not count. Names, the graph's id and the preferred engine
//! are omitted. Numbers are little-endian; a list begins with its length, and an optional value with a byte that tells whether
//! it is present.

use hipdnn_plugin_sdk::graph::operation::Value;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Tensor, TensorValue};
use hipdnn_plugin_sdk::hash::Fnv1a;

/// The content hash of a graph.
pub fn content_hash(graph: &Graph) -> u64 {
    let mut content = Content { bytes: Vec::with_capacity(512), uids: Vec::new() };
    for data_type in [graph.compute_type, graph.intermediate_type, graph.io_type] {
        content.byte(data_type.wire());
    }
    content.byte(u8::from(graph.is_override_shape_enabled));
    content.number(graph.nodes.len() as i64);
    for node in &graph.nodes {
        content.byte(node.operation.spec().wire);
        let own = Some(node.compute_type).filter(|own| *own != DataType::Unset);
        content.byte(own.unwrap_or(graph.compute_type).wire());
        for value in node.operation.values() {
            content.value(&value);
        }
    }
    // Grows during the walk: a ragged tensor adds the tensor with its offsets.
    let mut next = 0;
    while let Some(uid) = content.uids.get(next).copied() {
        content.tensor(graph.tensor(uid));
        next += 1;
    }
    Fnv1a::new().add(&content.bytes).number()
}

struct Content {
    bytes: Vec<u8>,
    /// The tensors in the order of first use.
    uids: Vec<i64>,
}

impl Content {
    fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    fn number(&mut self, number: i64) {
        self.bytes.extend(number.to_le_bytes());
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as i64);
        self.bytes.extend(bytes);
    }

    fn list(&mut self, numbers: &[i64]) {
        self.number(numbers.len() as i64);
        numbers.iter().for_each(|number| self.number(*number));
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn uid(&mut self, uid: i64) {
        let place = self.uids.iter().position(|known| *known == uid).unwrap_or_else(|| {
            self.uids.push(uid);
            self.uids.len() - 1
        });
        self.number(place as i64);
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Uid(uid) => self.optional(*uid, Self::uid),
            Value::Uids(uids) => {
                self.number(uids.len() as i64);
                uids.iter().for_each(|uid| self.uid(*uid));
            }
            Value::Ints(numbers) => self.list(numbers),
            Value::Int32s(numbers) => {
                self.number(numbers.len() as i64);
                numbers.iter().for_each(|number| self.number(i64::from(*number)));
            }
            Value::Int(number) => self.optional(*number, Self::number),
            Value::Int32(number) => self.optional(number.map(i64::from), Self::number),
            Value::Float(number) => {
                self.optional(*number, |content, number| content.number(i64::from(number.to_bits())));
            }
            Value::Flag(flag) => self.optional(*flag, |content, flag| content.byte(u8::from(flag))),
            Value::Enum(number) => self.byte(*number),
            Value::Text(text) => self.raw(text.as_bytes()),
            Value::Bytes(bytes) => self.raw(bytes),
        }
    }

    fn tensor(&mut self, tensor: Option<&Tensor>) {
        self.optional(tensor, |content, tensor| {
            content.byte(tensor.data_type.wire());
            content.list(&tensor.dims);
            content.list(&tensor.strides);
            content.byte(u8::from(tensor.is_virtual));
            content.byte(u8::from(tensor.is_runtime_pass_by_value));
            content.number(tensor.alignment);
            content.number(tensor.ragged_offset_multiplier);
            content.optional(tensor.ragged_offset_uid, Self::uid);
            content.optional(tensor.value, Self::constant);
        });
    }

    fn constant(&mut self, value: TensorValue) {
        let (kind, bits) = match value {
            TensorValue::Float32(v) => (0, i64::from(v.to_bits())),
            TensorValue::Float16(v) => (1, i64::from(v.to_bits())),
            TensorValue::BFloat16(v) => (2, i64::from(v.to_bits())),
            TensorValue::Float8(v) => (3, i64::from(v)),
            TensorValue::Int32(v) => (4, i64::from(v)),
            TensorValue::Float64(v) => (5, v.to_bits().cast_signed()),
            TensorValue::Int64(v) => (6, v),
            TensorValue::Bool(v) => (7, i64::from(v)),
        };
        self.byte(kind);
        self.number(bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hipdnn_plugin_sdk::graph::operation::Pointwise;
    use hipdnn_plugin_sdk::graph::{Node, PointwiseMode};

    fn graph(uids: [i64; 3]) -> Graph {
        let [x, y, z] = uids;
        let tensor = |uid| Tensor::new(uid, DataType::Float, &[2, 3], &[3, 1]);
        let operation = Pointwise::new(PointwiseMode::Add, x, Some(y), z);
        let node = Node::single(operation);
        Graph { tensors: [x, y, z].map(tensor).to_vec(), nodes: vec![node], ..Graph::default() }
    }

    #[test]
    fn neither_uids_names_ids_nor_the_order_of_tensors_count() {
        let one = content_hash(&graph([1, 2, 3]));
        let mut other = graph([70, -5, 0]);
        assert_eq!(content_hash(&other), one);
        other.tensors.reverse();
        other.name = "a name".into();
        other.id = Some([7; 16]);
        other.preferred_engine_id = Some(3);
        other.nodes[0].name = "another".into();
        other.tensors[0].name = "a third".into();
        other.tensors.push(Tensor::new(99, DataType::Half, &[1], &[1]));
        assert_eq!(content_hash(&other), one);
        // The hash must not change: it is the key of stored rankings.
        assert_eq!(one, 4_065_198_756_390_120_199);
    }

    #[test]
    fn the_computation_counts() {
        let one = content_hash(&graph([1, 2, 3]));
        let changes: [fn(&mut Graph); 10] = [
            |g| g.tensors[0].dims[0] = 4,
            |g| g.tensors[1].strides[0] = 4,
            |g| g.tensors[2].data_type = DataType::Half,
            |g| g.tensors[2].is_virtual = true,
            |g| g.tensors[0].alignment = 32,
            |g| g.tensors[1].value = Some(TensorValue::Int32(1)),
            |g| g.tensors[1].ragged_offset_uid = Some(1),
            |g| g.nodes[0].compute_type = DataType::Double,
            |g| g.is_override_shape_enabled = true,
            |g| g.nodes.push(g.nodes[0].clone()),
        ];
        for (i, change) in changes.iter().enumerate() {
            let mut changed = graph([1, 2, 3]);
            change(&mut changed);
            assert_ne!(content_hash(&changed), one, "{i}");
        }
        // x + x is not x + y.
        assert_ne!(content_hash(&graph([1, 1, 3])), one);
    }

    #[test]
    fn a_node_without_a_type_computes_in_the_graphs() {
        let mut stated = graph([1, 2, 3]);
        stated.compute_type = DataType::Float;
        let mut silent = stated.clone();
        silent.nodes[0].compute_type = DataType::Unset;
        assert_eq!(content_hash(&stated), content_hash(&silent));
    }

    #[test]
    fn a_graph_with_missing_tensors_or_circles_has_a_number() {
        let mut broken = graph([1, 2, 3]);
        broken.tensors.remove(0);
        broken.tensors[0].ragged_offset_uid = Some(2);
        assert_ne!(content_hash(&broken), content_hash(&graph([1, 2, 3])));
    }
}
