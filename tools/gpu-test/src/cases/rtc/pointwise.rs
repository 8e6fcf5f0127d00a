use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode, ReductionMode};

use crate::case::{Case, Order};
use crate::cases::{ORDERS, TYPES};

const FIRST: Order = Order::ChannelsFirst;
const DIMS: [i64; 4] = [2, 3, 5, 8];

/// The range of the most relevant inputs of a mode.
fn range(mode: PointwiseMode, data_type: DataType) -> [f32; 2] {
    use PointwiseMode as M;
    match mode {
        // Avoid 0, which has no logarithm and no inverse.
        M::Log | M::Rsqrt | M::Reciprocal | M::Div if data_type == DataType::Int32 => [1.0, 5.0],
        M::Log | M::Sqrt | M::Rsqrt | M::Reciprocal | M::Div => [0.25, 4.0],
        M::Tan => [-1.2, 1.2],
        _ => [-3.0, 3.0],
    }
}

/// Every mode with inputs of one type, many in one graph, to compile few kernels.
fn every_mode(data_type: DataType) -> Vec<Case> {
    let modes: Vec<PointwiseMode> = PointwiseMode::every().collect();
    modes.chunks(16).map(|modes| modes_of(modes, data_type)).collect()
}

fn modes_of(modes: &[PointwiseMode], data_type: DataType) -> Case {
    let names = [modes.first(), modes.last()].map(|mode| mode.map_or("", |mode| mode.name()));
    let mut case = Case::new(format!("pointwise modes {} to {} {}", names[0], names[1], data_type.name()));
    // Rows of an odd length are taken one by one. In vectors of integers the compiler compares two with one literal of 64
    // bits, which softhip extends by its sign where the processor does not.
    let dims = if data_type == DataType::Int32 { [5, 7] } else { [4, 10] };
    for mode in modes.iter().copied() {
        let range = range(mode, data_type);
        let inputs: Vec<i64> =
            (0..mode.operands()).map(|_| case.input(data_type, &dims, FIRST, range)).collect();
        let out = case.output(DataType::Float, &dims, FIRST);
        let mut node =
            Pointwise::new(mode, inputs.first().copied().unwrap_or(0), inputs.get(1).copied(), out);
        node.in_2 = inputs.get(2).copied();
        node.axis = (mode == PointwiseMode::GenIndex).then_some(1);
        numbers(&mut node);
        case.node(node);
    }
    case
}

/// Sets non-default parameters of activations.
fn numbers(node: &mut Pointwise) {
    node.relu_lower_clip = Some(-1.0);
    node.relu_upper_clip = Some(2.0);
    node.relu_lower_clip_slope = Some(0.1);
    node.swish_beta = Some(0.7);
    node.elu_alpha = Some(0.3);
    node.softplus_beta = Some(1.7);
}

/// relu((x * scale + bias) + residual), with scale and bias per channel
fn chain(data_type: DataType, order: Order, dims: [i64; 4]) -> Case {
    let mut case = Case::new(format!("scale, bias, residual, relu {dims:?} {} {order:?}", data_type.name()));
    let channels = [1, dims[1], 1, 1];
    let x = case.input(data_type, &dims, order, [-2.0, 2.0]);
    let scale = case.input(DataType::Float, &channels, order, [0.5, 1.5]);
    let bias = case.input(DataType::Float, &channels, order, [-1.0, 1.0]);
    let residual = case.input(data_type, &dims, order, [-2.0, 2.0]);
    let scaled = case.between(DataType::Float, &dims, order);
    let biased = case.between(DataType::Float, &dims, order);
    let sum = case.between(data_type, &dims, order);
    let y = case.output(data_type, &dims, order);
    case.node(Pointwise::new(PointwiseMode::Mul, x, Some(scale), scaled));
    case.node(Pointwise::new(PointwiseMode::Add, scaled, Some(bias), biased));
    case.node(Pointwise::new(PointwiseMode::Add, biased, Some(residual), sum));
    case.node(Pointwise::new(PointwiseMode::ReluFwd, sum, None, y));
    case
}

/// A sum of channels first and channels last into a third layout.
fn mixed_orders() -> Case {
    let mut case = Case::new("channels first + channels last, the result with rows inside");
    let a = case.input(DataType::Float, &DIMS, FIRST, [-1.0, 1.0]);
    let b = case.input(DataType::Half, &DIMS, Order::ChannelsLast, [-1.0, 1.0]);
    let y = case.output(DataType::Float, &DIMS, FIRST);
    if let Some(tensor) = case.graph.tensors.last_mut() {
        tensor.strides = vec![120, 40, 1, 5];
    }
    case.node(Pointwise::new(PointwiseMode::Add, a, Some(b), y));
    case
}

/// The same in tiles.
fn tiles(data_type: DataType) -> Case {
    let mut case = Case::new(format!("{} by rows into rows, columns and columns in turn", data_type.name()));
    let dims = [2, 64, 128];
    let x = case.input(data_type, &dims, FIRST, [-1.0, 1.0]);
    for strides in [[8192, 128, 1], [8192, 1, 64], [64, 1, 128]] {
        let y = case.output_with_strides(data_type, &dims, &strides);
        case.node(Pointwise::new(PointwiseMode::Neg, x, None, y));
    }
    case
}

/// Tensors of a lower rank, constants in the graph, and a virtual tensor that is broadcast and so needs the workspace.
fn broadcasts() -> Case {
    let mut case = Case::new("a vector, a number and a virtual tensor spread over the rest");
    let row = case.input(DataType::Float, &[8], FIRST, [-1.0, 1.0]);
    let doubled = case.between(DataType::Half, &[8], FIRST);
    let two = case.value(2.0);
    case.node(Pointwise::new(PointwiseMode::Mul, row, Some(two), doubled));
    let x = case.input(DataType::Bfloat16, &DIMS, FIRST, [-1.0, 1.0]);
    let sum = case.between(DataType::Float, &DIMS, FIRST);
    case.node(Pointwise::new(PointwiseMode::Add, x, Some(doubled), sum));
    let y = case.output(DataType::Float, &DIMS, FIRST);
    let half = case.value(0.5);
    case.node(Pointwise::new(PointwiseMode::Mul, sum, Some(half), y));
    case
}

/// A mask by index: x where the column is not above the row, else a constant.
fn causal_mask() -> Case {
    let mut case = Case::new("a causal mask by indices");
    let dims = [2, 6, 8];
    let x = case.input(DataType::Half, &dims, FIRST, [-1.0, 1.0]);
    let index = |case: &mut Case, axis| {
        let out = case.between(DataType::Int32, &dims, FIRST);
        let mut node = Pointwise::new(PointwiseMode::GenIndex, x, None, out);
        node.axis = Some(axis);
        case.node(node);
        out
    };
    let (row, column) = (index(&mut case, 1), index(&mut case, 2));
    let mask = case.output(DataType::Boolean, &dims, FIRST);
    case.node(Pointwise::new(PointwiseMode::CmpGe, row, Some(column), mask));
    let low = case.value(-5.0);
    let y = case.output(DataType::Half, &dims, FIRST);
    let mut node = Pointwise::new(PointwiseMode::BinarySelect, x, Some(low), y);
    node.in_2 = Some(mask);
    case.node(node);
    case
}

/// A product with inputs and outputs of every type, beyond the range of the small integers.
fn conversions(data_type: DataType) -> Case {
    let mut case = Case::new(format!("{} into every type", data_type.name()));
    let x = case.input(data_type, &[3, 16], FIRST, [-300.0, 300.0]);
    let factor = case.value(0.75);
    for to in [
        DataType::Float,
        DataType::Double,
        DataType::Half,
        DataType::Bfloat16,
        DataType::Int64,
        DataType::Int32,
        DataType::Int8,
        DataType::Uint8,
        DataType::Boolean,
        DataType::Fp8E4m3,
        DataType::Fp8E5m2,
    ] {
        let y = case.output(to, &[3, 16], FIRST);
        case.node(Pointwise::new(PointwiseMode::Mul, x, Some(factor), y));
    }
    // The product is rounded once, and conversions are defined.
    case.is_defined = true;
    case
}

/// The outputs of delayed scaling: 8-bit floats, row-major and column-major, and the largest magnitude.
fn delayed_scaling(data_type: DataType) -> Case {
    let mut case =
        Case::new(format!("bfloat16 scaled to {} in both orders, with its largest", data_type.name()));
    let dims = [12, 40];
    let x = case.input(DataType::Bfloat16, &dims, FIRST, [-3.0, 3.0]);
    let scale = case.input(DataType::Float, &[1, 1], FIRST, [90.0, 100.0]);
    let (scaled, size) =
        (case.between(DataType::Float, &dims, FIRST), case.between(DataType::Float, &dims, FIRST));
    case.node(Pointwise::new(PointwiseMode::Mul, x, Some(scale), scaled));
    for strides in [[40, 1], [1, 12]] {
        let small = case.output_with_strides(data_type, &dims, &strides);
        case.node(Pointwise::new(PointwiseMode::Identity, scaled, None, small));
    }
    case.node(Pointwise::new(PointwiseMode::Abs, x, None, size));
    let largest = case.output(DataType::Float, &[1, 1], FIRST);
    case.node(Reduction { in_: size, out: largest, mode: ReductionMode::Max, is_deterministic: false });
    // The product is rounded once, and conversions are defined.
    case.is_defined = true;
    case
}

/// Functions in double precision.
fn double() -> Case {
    let mut case = Case::new("sigmoid, erf and gelu in double");
    let x = case.input(DataType::Double, &[4, 6], FIRST, [-3.0, 3.0]);
    for mode in [PointwiseMode::SigmoidFwd, PointwiseMode::Erf, PointwiseMode::GeluApproxTanhFwd] {
        let y = case.output(DataType::Double, &[4, 6], FIRST);
        case.node(Pointwise::new(mode, x, None, y));
    }
    for node in &mut case.graph.nodes {
        node.compute_type = DataType::Double;
    }
    case
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for data_type in TYPES {
        cases.extend(every_mode(data_type));
        for order in ORDERS {
            cases.push(chain(data_type, order, DIMS));
            // Not vectorizable.
            cases.push(chain(data_type, order, [3, 5, 3, 3]));
        }
    }
    cases.extend(every_mode(DataType::Int32));
    use DataType::{Bfloat16, Boolean, Double, Float, Fp8E4m3, Fp8E5m2, Int8, Int64};
    cases.extend([Float, Double, Int64, Int8, Boolean, Fp8E4m3, Fp8E5m2].map(conversions));
    cases.extend([Fp8E4m3, Fp8E5m2].map(delayed_scaling));
    cases.extend([Float, Bfloat16, Fp8E4m3].map(tiles));
    cases.extend([mixed_orders(), broadcasts(), causal_mask(), double()]);
    // More than one workgroup, one of them partial.
    cases.push(chain(DataType::Float, FIRST, [2, 3, 20, 36]));
    cases
}
