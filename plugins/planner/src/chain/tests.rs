use crate::prepare::prepare;
use hipdnn_plugin_sdk::graph::{Graph, Tensor, TensorValue};

use super::*;

/// A graph that grows from a half-precision matmul of 2 × 3 and 3 × 4: tensors 1, 2 and 3, which is virtual.
struct Growing {
    graph: Graph,
    result: i64,
}

impl Growing {
    fn new(data_type: DataType) -> Self {
        let mut growing =
            Self { graph: Graph { compute_type: DataType::Float, ..Graph::default() }, result: 0 };
        let (a, b) = (growing.tensor(data_type, &[2, 3]), growing.tensor(data_type, &[3, 4]));
        let c = growing.between(data_type);
        growing.node(operation::Matmul { a, b, c });
        growing.result = c;
        growing
    }

    fn tensor(&mut self, data_type: DataType, dims: &[i64]) -> i64 {
        let uid = self.graph.tensors.len() as i64 + 1;
        self.graph.tensors.push(Tensor::packed(uid, data_type, dims));
        uid
    }

    fn between(&mut self, data_type: DataType) -> i64 {
        let uid = self.tensor(data_type, &[2, 4]);
        self.graph.tensors.last_mut().unwrap().is_virtual = true;
        uid
    }

    fn value(&mut self, value: f32) -> i64 {
        let uid = self.tensor(DataType::Float, &[1]);
        self.graph.tensors.last_mut().unwrap().value = Some(TensorValue::Float32(value));
        uid
    }

    fn node(&mut self, operation: impl Into<Operation>) {
        let compute_type = if self.graph.tensors[0].data_type == DataType::Double {
            DataType::Double
        } else {
            DataType::Float
        };
        self.graph.nodes.push(Node { name: "n".to_owned(), compute_type, operation: operation.into() });
    }

    fn pointwise(mut self, operation: PointwiseMode, in_1: Option<i64>) -> Self {
        let data_type = self.graph.tensors[2].data_type;
        let out_0 = self.between(data_type);
        let node = operation::Pointwise::new(operation, self.result, in_1, out_0);
        self.node(node);
        self.result = out_0;
        self
    }

    fn with(mut self, mode: PointwiseMode, data_type: DataType, dims: &[i64]) -> Self {
        let other = self.tensor(data_type, dims);
        self.pointwise(mode, Some(other))
    }

    fn prepared(&self) -> Prepared {
        prepare(&self.graph).unwrap()
    }

    fn longest(&mut self) -> Result<Part, Refusal> {
        let result = self.result;
        self.graph.tensors.iter_mut().for_each(|tensor| tensor.is_virtual &= tensor.uid != result);
        let prepared = self.prepared();
        longest(&prepared, 0, &prepared.readers(), &[])
    }

    /// Why the last node cannot join the chain before it.
    fn refusal(mut self) -> Refusal {
        match self.longest() {
            Err(refusal) => refusal,
            Ok(part) => {
                assert_eq!(part.nodes.len() + 1, self.graph.nodes.len());
                let prepared = self.prepared();
                explain(&prepared, &prepared.readers(), &part, part.nodes.len()).unwrap_err()
            }
        }
    }
}

#[test]
fn a_chain_takes_a_factor_a_summand_a_bias_and_an_activation() {
    use PointwiseMode::{Add, GeluApproxTanhFwd, Mul};
    let mut growing = Growing::new(DataType::Half);
    let half = growing.value(0.5);
    let mut growing = growing
        .pointwise(Mul, Some(half))
        .with(Add, DataType::Half, &[2, 4])
        .with(Add, DataType::Float, &[1, 4])
        .pointwise(GeluApproxTanhFwd, None);
    let Part { nodes, chain, tensors, .. } = growing.longest().unwrap();
    assert_eq!(nodes, [0, 1, 2, 3, 4]);
    assert_eq!(f64::from_bits(chain.alpha), 0.5);
    assert_eq!((chain.bias, chain.activation), (Some(DataType::Float), Some(Activation::Gelu)));
    // Row-major, so the library's a is b.
    assert_eq!((tensors.a, tensors.b, tensors.c), (2, 1, growing.result));
    assert_eq!((tensors.summand, tensors.bias), (Some(6), Some(8)));
    assert!(chain.product.swapped && chain.product.summand.is_some());
    // A per-row bias needs the matmul unswapped, which these strides do not allow.
    let refusal = Growing::new(DataType::Half).with(Add, DataType::Half, &[2, 1]).refusal();
    assert!(refusal.starts_with("c: strides"), "{refusal}");
}

#[test]
fn intermediates_may_have_any_floating_point_type() {
    use PointwiseMode::{Add, ReluFwd};
    for between in [DataType::Float, DataType::Double, DataType::Bfloat16] {
        let mut growing =
            Growing::new(DataType::Half).with(Add, DataType::Half, &[1, 4]).pointwise(ReluFwd, None);
        let result = growing.result;
        for tensor in growing.graph.tensors.iter_mut().filter(|tensor| tensor.is_virtual) {
            tensor.data_type = if tensor.uid == result { DataType::Half } else { between };
        }
        assert_eq!(growing.longest().unwrap().nodes, [0, 1, 2], "{}", between.name());
    }
    // An intermediate rounded to integers must not be skipped.
    let mut whole = Growing::new(DataType::Half).pointwise(ReluFwd, None);
    whole.graph.tensors[2].data_type = DataType::Int32;
    assert!(whole.refusal().starts_with("c: data type is int32"));
    // Reports a bias that cannot be added only because the result is wider.
    let mut wide = Growing::new(DataType::Half).with(Add, DataType::Half, &[1, 4]);
    let result = wide.result;
    for tensor in wide.graph.tensors.iter_mut().filter(|tensor| tensor.is_virtual) {
        tensor.data_type = DataType::Float;
    }
    assert_eq!(wide.result, result);
    assert!(wide.refusal().starts_with("the bias: data type is half, expected float"));
}

#[test]
fn a_result_with_two_readers_ends_a_chain() {
    use PointwiseMode::{Add, ReluFwd};
    let mut growing = Growing::new(DataType::Float).pointwise(ReluFwd, None);
    let product = growing.graph.nodes[0].operation.outputs()[0];
    growing.result = product;
    let mut growing = growing.with(Add, DataType::Float, &[1, 4]);
    assert_eq!(growing.longest().unwrap().nodes, [0]);
    let part = growing.longest().unwrap();
    let prepared = growing.prepared();
    let refusal = explain(&prepared, &prepared.readers(), &part, 1).unwrap_err();
    assert!(refusal.starts_with("reads tensor 3, which others read"), "{refusal}");
    // x + x is not a bias.
    let twice = Growing::new(DataType::Float);
    let result = twice.result;
    assert_eq!(twice.pointwise(Add, Some(result)).longest().unwrap().nodes, [0]);
}

#[test]
fn refusals_name_the_first_unsupported_feature() {
    use PointwiseMode::{Add, Div, GeluFwd, Mul, ReluFwd};
    let half = || Growing::new(DataType::Half);
    for (refusal, expected) in [
        (Growing::new(DataType::Int8).refusal(), "a: data type is int8"),
        (half().pointwise(GeluFwd, None).refusal(), "operation: is gelu_fwd"),
        (half().with(Div, DataType::Half, &[1, 4]).refusal(), "operation: is div"),
        (half().with(Mul, DataType::Half, &[1, 4]).refusal(), "in_1: is in memory"),
        (half().with(Add, DataType::Half, &[1, 1]).refusal(), "in_1: dims [1, 1]"),
        (half().with(Add, DataType::Float, &[2, 4]).refusal(), "the summand: data type is float"),
        (half().with(Add, DataType::Bfloat16, &[1, 4]).refusal(), "the bias: data type is bfloat16"),
        (half().pointwise(ReluFwd, None).pointwise(ReluFwd, None).refusal(), "follows an activation"),
    ] {
        assert!(refusal.starts_with(expected), "{refusal}");
    }
    let mut mixed = half();
    mixed.graph.tensors[1].data_type = DataType::Bfloat16;
    assert!(mixed.refusal().starts_with("b: data type is bfloat16, expected half"));
    let mut wide = Growing::new(DataType::Double);
    wide.graph.nodes[0].compute_type = DataType::Float;
    assert!(wide.refusal().starts_with("compute type is float, expected double"));
    let mut by_value = half();
    by_value.graph.tensors[0].is_runtime_pass_by_value = true;
    assert!(by_value.refusal().starts_with("a: is passed by value"));
    let mut clipped = half().pointwise(ReluFwd, None);
    let Operation::Pointwise(node) = &mut clipped.graph.nodes[1].operation else { unreachable!() };
    node.relu_upper_clip = Some(6.0);
    assert!(clipped.refusal().starts_with("relu_upper_clip: is 6"));
}

#[test]
fn tensors_are_filled_in_the_order_of_all() {
    let of = Tensors { a: 5, b: 6, c: 7, bias: Some(8), scales: [None, Some(9)], ..Tensors::default() };
    assert_eq!(of.all().collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    let filled = of.filled(&[50, 60, 70, 80, 90]);
    let expected =
        Tensors { a: 50, b: 60, c: 70, bias: Some(80), scales: [None, Some(90)], ..Tensors::default() };
    assert_eq!(filled, expected);
    let expected = Tensors { a: 50, bias: Some(0), scales: [None, Some(0)], ..Tensors::default() };
    assert_eq!(of.filled::<i64>(&[50]), expected);
}

/// A matmul of 8-bit floats with a single-precision result.
fn small(a: DataType, b: DataType) -> Growing {
    let mut growing = Growing::new(DataType::Float);
    growing.graph.tensors[0].data_type = a;
    growing.graph.tensors[1].data_type = b;
    growing
}

#[test]
fn matmuls_of_8_bit_floats_use_scales_in_memory() {
    use PointwiseMode::{Add, Mul, ReluFwd};
    let (first, second) = (DataType::Fp8E4m3, DataType::Fp8E5m2);
    let mut chain = small(first, second);
    let half = chain.value(0.5);
    let mut chain = chain
        .with(Mul, DataType::Float, &[1, 1])
        .pointwise(Mul, Some(half))
        .with(Mul, DataType::Float, &[1])
        .with(Add, DataType::Bfloat16, &[1, 4])
        .pointwise(ReluFwd, None);
    let Part { nodes, chain, tensors, .. } = chain.longest().unwrap();
    assert_eq!(nodes, [0, 1, 2, 3, 4, 5]);
    assert_eq!((chain.scales, f64::from_bits(chain.alpha)), (2, 0.5));
    assert_eq!((tensors.scales, tensors.bias), ([Some(5), Some(8)], Some(10)));
    for result in [DataType::Half, DataType::Bfloat16] {
        let mut narrow = small(first, first);
        narrow.graph.tensors[2].data_type = result;
        assert!(narrow.longest().is_ok(), "{}", result.name());
    }
}

#[test]
fn scales_of_8_bit_floats_are_scalars_and_at_most_two() {
    use PointwiseMode::{Add, Mul};
    let small = || small(DataType::Fp8E4m3, DataType::Fp8E4m3);
    let scaled = || small().with(Mul, DataType::Float, &[1]).with(Mul, DataType::Float, &[1]);
    let mut narrow = small();
    narrow.graph.tensors[2].data_type = DataType::Fp8E4m3;
    for (refusal, expected) in [
        (
            small().with(Mul, DataType::Float, &[1, 4]).refusal(),
            "in_1: is float of dims [1, 4], expected one float",
        ),
        (small().with(Mul, DataType::Half, &[1]).refusal(), "in_1: is half of dims [1], expected one float"),
        (scaled().with(Mul, DataType::Float, &[1]).refusal(), "in_1: is a third scale"),
        (
            small().with(Add, DataType::Bfloat16, &[1, 4]).with(Mul, DataType::Float, &[1]).refusal(),
            "operation: is mul after another operation",
        ),
        (
            small().with(Add, DataType::Float, &[1, 4]).refusal(),
            "the bias: data type is float, expected bfloat16 for these factors",
        ),
        (narrow.refusal(), "c: data type is fp8_e4m3, expected float, half or bfloat16"),
        (Growing::new(DataType::Float).with(Mul, DataType::Float, &[1]).refusal(), "in_1: is in memory"),
    ] {
        assert!(refusal.starts_with(expected), "{refusal}");
    }
    let mut mixed = small();
    mixed.graph.tensors[1].data_type = DataType::Half;
    assert!(mixed.refusal().starts_with("b: data type is half, expected fp8_e4m3 as in a"));
}

impl Growing {
    /// Appends a node that sums a tensor to these dims.
    fn sum(&mut self, in_: i64, data_type: DataType, dims: &[i64]) -> i64 {
        let out = self.tensor(data_type, dims);
        let mode = hipdnn_plugin_sdk::graph::ReductionMode::Add;
        self.node(operation::Reduction { in_, out, mode, is_deterministic: true });
        out
    }

    /// The chains of the graph, whose last tensors are not virtual.
    fn parts(&self) -> Result<Vec<Part>, PluginError> {
        partition(&self.prepared(), Ok)
    }
}

#[test]
fn the_input_of_gelu_is_written_if_others_read_it() {
    use PointwiseMode::{Add, GeluApproxTanhFwd, ReluFwd};
    let grown = |mode| {
        let mut growing =
            Growing::new(DataType::Half).with(Add, DataType::Half, &[1, 4]).pointwise(mode, None);
        let seen = growing.graph.nodes[1].operation.outputs()[0];
        growing.graph.tensors[seen as usize - 1].is_virtual = false;
        (growing.longest().unwrap(), seen)
    };
    let (Part { nodes, chain, tensors, .. }, seen) = grown(GeluApproxTanhFwd);
    assert_eq!((nodes, chain.activation), (vec![0, 1, 2], Some(Activation::Gelu)));
    assert_eq!(
        (tensors.auxiliary, chain.product.auxiliary.map(|matrix| matrix.leading)),
        (Some(seen), Some(4))
    );
    // RELU saves a bit mask, which cannot be a tensor.
    let (Part { nodes, tensors, .. }, _) = grown(ReluFwd);
    assert_eq!((nodes, tensors.auxiliary), (vec![0, 1], None));
}

#[test]
fn a_gradient_of_gelu_follows_the_product_and_its_columns_are_summed() {
    use PointwiseMode::{Add, GeluApproxTanhBwd, Mul, ReluBwd};
    let gradient = |mode| Growing::new(DataType::Half).with(mode, DataType::Half, &[2, 4]);
    let mut growing = gradient(GeluApproxTanhBwd);
    let (of, result) = (4, growing.result);
    let sums = growing.sum(result, DataType::Half, &[1, 4]);
    growing.longest().unwrap();
    let [Part { nodes, links, chain, tensors }] = growing.parts().unwrap().try_into().unwrap();
    assert_eq!((nodes, links), (vec![0, 1, 2], vec![0, 1]));
    assert_eq!(chain.activation, Some(Activation::GeluBackward));
    assert_eq!(chain.sums, Some(Sums { of: Summed::Result, data_type: DataType::Half }));
    assert_eq!((tensors.auxiliary, tensors.c, tensors.sums), (Some(of), result, Some(sums)));
    // Sums of another type, along strided rows, and sums that another node reads.
    for (data_type, dims) in [(DataType::Float, [1, 4]), (DataType::Half, [2, 1])] {
        let mut growing = gradient(GeluApproxTanhBwd);
        let result = growing.result;
        growing.sum(result, data_type, &dims);
        assert_eq!(growing.longest().unwrap().nodes, [0, 1]);
        assert!(growing.parts().is_err());
    }
    assert!(gradient(ReluBwd).refusal().starts_with("operation: is relu_bwd"));
    let behind = gradient(Add).with(GeluApproxTanhBwd, DataType::Half, &[2, 4]).refusal();
    assert!(behind.starts_with("operation: is a gradient after a sum"), "{behind}");
    let after = gradient(GeluApproxTanhBwd).with(Mul, DataType::Half, &[2, 4]).refusal();
    assert!(after.starts_with("follows an activation"), "{after}");
}

#[test]
fn operand_sums_are_computed_with_the_matmul() {
    // Row-major, so the library's a is b.
    for (factor, dims, of) in [(1, [2, 1], Summed::B), (2, [1, 4], Summed::A)] {
        let mut growing = Growing::new(DataType::Half);
        let sums = growing.sum(factor, DataType::Half, &dims);
        // Also if the sum comes first.
        growing.graph.nodes.swap(0, 1);
        growing.graph.tensors[2].is_virtual = false;
        let [part] = growing.parts().unwrap().try_into().unwrap();
        assert_eq!((part.nodes, part.links, part.tensors.sums), (vec![0, 1], vec![1], Some(sums)));
        assert_eq!(part.chain.sums.map(|sums| sums.of), Some(of));
    }
    // The other axis, and sums that a node waits for.
    let mut growing = Growing::new(DataType::Half);
    growing.sum(1, DataType::Half, &[1, 3]);
    growing.graph.tensors[2].is_virtual = false;
    let refusal = growing.parts().unwrap_err();
    assert!(refusal.message().contains("operation cannot begin a chain"), "{refusal}");
}
