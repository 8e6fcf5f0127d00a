//! The reference pointwise modes at infinities, NaN and other special values. `oracle.rs` tests every mode at ordinary ones.

use hipdnn_cpu_plugin::plan::planner::Planner;
use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode as Mode};

use super::common::Case;
use super::limits::Limits;

/// Everything but the mode and the operands.
fn plain(operation: Mode) -> Pointwise {
    Pointwise::new(operation, 0, None, 0)
}

/// A node over operands of one dimension with its result, all in double precision.
fn run(node: &Pointwise, operands: &[&[f64]]) -> (Case, i64) {
    let mut case = Case::new();
    case.graph.compute_type = DataType::Double;
    let dims = [operands.iter().map(|values| values.len()).max().unwrap() as i64];
    let uids: Vec<i64> = operands
        .iter()
        .map(|values| {
            let uid = case.tensor(DataType::Double, &[values.len() as i64]);
            case.fill(uid, values);
            uid
        })
        .collect();
    let out_0 = case.tensor(DataType::Double, &dims);
    case.node(Pointwise {
        in_0: uids[0],
        out_0,
        in_1: uids.get(1).copied(),
        in_2: uids.get(2).copied(),
        ..node.clone()
    });
    case.run(Planner::Reference);
    (case, out_0)
}

/// Compares results, each with its own magnitude.
#[track_caller]
fn assert_values(node: &Pointwise, operands: &[&[f64]], expected: &[f64]) {
    let (case, out_0) = run(node, operands);
    let limits = Limits::of(&case, 1, &[]);
    let got = case.values(out_0);
    for (at, value) in expected.iter().enumerate() {
        let mut all = got.clone();
        all[at] = *value;
        limits.hold(&format!("{:?}[{at}]", node.operation), &case, &[(out_0, all)]);
    }
}

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

#[test]
fn modes_of_one_operand() {
    let table: &[(Mode, &[(f64, f64)])] = &[
        (Mode::Abs, &[(-2.5, 2.5), (3.0, 3.0), (-INF, INF), (NAN, NAN)]),
        (Mode::Neg, &[(-2.5, 2.5), (3.0, -3.0), (INF, -INF)]),
        (Mode::Identity, &[(-2.5, -2.5), (INF, INF), (NAN, NAN)]),
        (Mode::Ceil, &[(-2.5, -2.0), (2.25, 3.0), (4.0, 4.0)]),
        (Mode::Floor, &[(-2.5, -3.0), (2.75, 2.0), (4.0, 4.0)]),
        (Mode::Erf, &[(0.0, 0.0), (0.5, 0.520_499_877_813_046_5), (-INF, -1.0)]),
        (Mode::Exp, &[(0.0, 1.0), (1.0, std::f64::consts::E), (-INF, 0.0), (INF, INF)]),
        (Mode::Log, &[(1.0, 0.0), (std::f64::consts::E, 1.0), (0.0, -INF), (-1.0, NAN)]),
        (Mode::Sin, &[(0.0, 0.0), (1.0, 0.841_470_984_807_896_5), (INF, NAN)]),
        (Mode::Tan, &[(0.0, 0.0), (1.0, 1.557_407_724_654_902_3)]),
        (Mode::Sqrt, &[(9.0, 3.0), (-1.0, NAN), (INF, INF)]),
        (Mode::Rsqrt, &[(16.0, 0.25), (0.0, INF), (INF, 0.0)]),
        (Mode::Reciprocal, &[(4.0, 0.25), (-0.0, -INF)]),
        (Mode::LogicalNot, &[(0.0, 1.0), (-0.0, 1.0), (0.5, 0.0), (NAN, 0.0)]),
        (Mode::ReluFwd, &[(-1.0, 0.0), (0.0, 0.0), (2.0, 2.0), (INF, INF), (-INF, 0.0), (NAN, NAN)]),
        (Mode::SigmoidFwd, &[(0.0, 0.5), (1.0, 0.731_058_578_630_004_9), (-INF, 0.0), (INF, 1.0)]),
        (Mode::TanhFwd, &[(0.0, 0.0), (1.0, 0.761_594_155_955_764_9), (-INF, -1.0)]),
        (Mode::GeluFwd, &[(0.0, 0.0), (1.0, 0.841_344_746_068_542_9), (-1.0, -0.158_655_253_931_457_05)]),
        (Mode::GeluFwd, &[(INF, INF), (-INF, 0.0), (NAN, NAN)]),
        (Mode::GeluApproxTanhFwd, &[(0.0, 0.0), (1.0, 0.841_191_990_608_276_3)]),
        (Mode::GeluApproxTanhFwd, &[(INF, INF), (-INF, 0.0), (NAN, NAN)]),
        (Mode::SwishFwd, &[(0.0, 0.0), (1.0, 0.731_058_578_630_004_9)]),
        (Mode::EluFwd, &[(2.0, 2.0), (0.0, 0.0), (-1.0, -0.632_120_558_828_557_7), (-INF, -1.0)]),
        (Mode::SoftplusFwd, &[(0.0, std::f64::consts::LN_2), (1000.0, 1000.0), (-INF, 0.0), (INF, INF)]),
    ];
    for (mode, pairs) in table {
        let (x, expected): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        assert_values(&plain(*mode), &[&x], &expected);
    }
}

#[test]
fn modes_of_two_operands() {
    let x = [1.0, 2.0, 3.0, 0.0, -INF, NAN, 1.0];
    let y = [2.0, 2.0, -4.0, 5.0, 1.0, 1.0, NAN];
    let table: &[(Mode, [f64; 7])] = &[
        (Mode::Add, [3.0, 4.0, -1.0, 5.0, -INF, NAN, NAN]),
        (Mode::Sub, [-1.0, 0.0, 7.0, -5.0, -INF, NAN, NAN]),
        (Mode::Mul, [2.0, 4.0, -12.0, 0.0, -INF, NAN, NAN]),
        (Mode::Div, [0.5, 1.0, -0.75, 0.0, -INF, NAN, NAN]),
        (Mode::AddSquare, [5.0, 6.0, 19.0, 25.0, -INF, NAN, NAN]),
        (Mode::Max, [2.0, 2.0, 3.0, 5.0, 1.0, NAN, NAN]),
        (Mode::Min, [1.0, 2.0, -4.0, 0.0, -INF, NAN, NAN]),
        (Mode::CmpEq, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        (Mode::CmpNeq, [1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        (Mode::CmpGe, [0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        (Mode::CmpGt, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        (Mode::CmpLe, [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0]),
        (Mode::CmpLt, [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]),
        (Mode::LogicalAnd, [1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]),
        (Mode::LogicalOr, [1.0; 7]),
    ];
    for (mode, expected) in table {
        assert_values(&plain(*mode), &[&x, &y], expected);
    }
    assert_values(&plain(Mode::LogicalOr), &[&[0.0], &[-0.0]], &[0.0]);
}

#[test]
fn select_takes_the_first_where_the_third_is_true() {
    let operands: [&[f64]; 3] = [&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], &[1.0, 0.0, NAN]];
    assert_values(&plain(Mode::BinarySelect), &operands, &[1.0, 5.0, 3.0]);
}

#[test]
fn relu_clips_and_slopes() {
    let node = Pointwise {
        relu_lower_clip: Some(-1.0),
        relu_upper_clip: Some(2.0),
        relu_lower_clip_slope: Some(0.5),
        ..plain(Mode::ReluFwd)
    };
    let x = [-3.0, -1.0, 0.5, 2.0, 7.0, NAN];
    assert_values(&node, &[&x], &[-2.0, -1.0, 0.5, 2.0, 2.0, NAN]);
    let backward = Pointwise { operation: Mode::ReluBwd, ..node };
    assert_values(&backward, &[&[8.0], &x], &[4.0, 4.0, 8.0, 8.0, 0.0, 8.0]);
    // RELU without an upper clip keeps infinity.
    let leaky = Pointwise { relu_lower_clip_slope: Some(0.5), ..plain(Mode::ReluFwd) };
    assert_values(&leaky, &[&[INF, -INF, f64::MAX]], &[INF, -INF, f64::MAX]);
    assert_values(&plain(Mode::ReluBwd), &[&[8.0, INF, INF], &[-1.0, 0.0, 3.0]], &[0.0, 0.0, INF]);
}

#[test]
fn the_slope_of_gelu_is_1_or_0_far_away() {
    for mode in [Mode::GeluBwd, Mode::GeluApproxTanhBwd] {
        let operands: [&[f64]; 2] = [&[3.0], &[INF, 1e200, 50.0, -50.0, -1e200, -INF, NAN]];
        assert_values(&plain(mode), &operands, &[3.0, 3.0, 3.0, 0.0, 0.0, 0.0, NAN]);
    }
}

#[test]
fn the_numbers_of_activations_count() {
    let swish = Pointwise { swish_beta: Some(2.0), ..plain(Mode::SwishFwd) };
    assert_values(&swish, &[&[1.0]], &[0.880_797_077_977_882_3]);
    let elu = Pointwise { elu_alpha: Some(2.0), ..plain(Mode::EluFwd) };
    assert_values(&elu, &[&[-1.0]], &[-1.264_241_117_657_115_4]);
    let softplus = Pointwise { softplus_beta: Some(2.0), ..plain(Mode::SoftplusFwd) };
    assert_values(&softplus, &[&[1.0]], &[1.063_464_005_521_486_3]);
}

#[test]
fn operands_spread_over_the_result() {
    let mut case = Case::new();
    let a = case.tensor(DataType::Float, &[2, 1, 3]);
    let b = case.tensor(DataType::Half, &[4, 1]);
    // The result lies in another order than the operands.
    let out_0 = case.tensor_with(DataType::Double, &[2, 4, 3], &[1, 2, 8]);
    case.fill(a, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    case.fill(b, &[10.0, 20.0, 30.0, 40.0]);
    case.node(Pointwise { in_0: a, in_1: Some(b), out_0, ..plain(Mode::Add) });
    case.run(Planner::Reference);
    let mut expected = Vec::new();
    for i in 0..2 {
        for j in 0..4 {
            for k in 0..3 {
                expected.push(f64::from(3 * i + k + 10 * (j + 1)));
            }
        }
    }
    assert_eq!(case.values(out_0), expected);
}

#[test]
fn index_along_an_axis() {
    for (axis, expected) in [(0, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), (1, [0.0, 1.0, 2.0, 0.0, 1.0, 2.0])] {
        for data_type in [DataType::Int32, DataType::Int64, DataType::Float, DataType::Half] {
            let mut case = Case::new();
            let x = case.tensor(DataType::Float, &[2, 3]);
            let out_0 = case.tensor(data_type, &[2, 3]);
            case.node(Pointwise { in_0: x, out_0, axis: Some(axis), ..plain(Mode::GenIndex) });
            case.run(Planner::Reference);
            assert_eq!(case.values(out_0), expected);
        }
    }
}

#[test]
fn a_long_index_is_exact() {
    let mut case = Case::new();
    let n = (1 << 24) + 4;
    let x = case.tensor_with(DataType::Int8, &[1, 1], &[1, 1]);
    let out_0 = case.tensor(DataType::Int32, &[1, n]);
    case.node(Pointwise { in_0: x, out_0, axis: Some(1), ..plain(Mode::GenIndex) });
    case.run(Planner::Reference);
    assert_eq!(case.values(out_0).pop(), Some((n - 1) as f64));
}

#[test]
fn comparisons_write_any_type() {
    for data_type in [DataType::Boolean, DataType::Int8, DataType::Uint8, DataType::Int32, DataType::Bfloat16]
    {
        let mut case = Case::new();
        let x = case.tensor(DataType::Int32, &[3]);
        let y = case.tensor(DataType::Float, &[1]);
        let out_0 = case.tensor(data_type, &[3]);
        case.fill(x, &[-1.0, 2.0, 3.0]);
        case.fill(y, &[2.0]);
        case.node(Pointwise { in_0: x, in_1: Some(y), out_0, ..plain(Mode::CmpGe) });
        case.run(Planner::Reference);
        assert_eq!(case.values(out_0), [0.0, 1.0, 1.0]);
    }
}

#[test]
fn half_types_compute_in_single_precision() {
    for compute in [DataType::Half, DataType::Bfloat16, DataType::Float] {
        let mut case = Case::new();
        case.graph.compute_type = compute;
        let [x, y, out_0] = [0; 3].map(|_| case.tensor(DataType::Float, &[1]));
        case.fill(x, &[1.0]);
        case.fill(y, &[2.0_f64.powi(-20)]);
        case.node(Pointwise { in_0: x, in_1: Some(y), out_0, ..plain(Mode::Add) });
        case.run(Planner::Reference);
        assert_eq!(case.values(out_0), [1.0 + 2.0_f64.powi(-20)]);
    }
}
