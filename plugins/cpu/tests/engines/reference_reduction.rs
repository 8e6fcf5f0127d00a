//! The reference reductions against hand-computed results and sums over plain arrays, and their refusals.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode, ReductionMode};

use super::common::{Case, Random, packed, strides};

fn reduction(mode: ReductionMode, x: &[i64], y: &[i64]) -> Case {
    let mut case = Case::new();
    let [in_, out] = [x, y].map(|dims| case.tensor(DataType::Float, dims));
    case.node(Reduction { in_, out, mode, is_deterministic: true });
    case
}

fn reduced(mode: ReductionMode, values: &[f64]) -> f64 {
    let mut case = reduction(mode, &[values.len() as i64], &[1]);
    case.fill(1, values);
    case.run(planner(1));
    case.values(2)[0]
}

#[test]
fn each_mode_does_what_it_says() {
    use ReductionMode as Mode;
    let values = [3.0, -4.0, 0.0, 2.0, -1.5];
    for (mode, expected) in [
        (Mode::Add, -0.5),
        (Mode::Mul, 0.0),
        (Mode::Min, -4.0),
        (Mode::Max, 3.0),
        (Mode::Amax, 4.0),
        (Mode::Avg, f64::from(-0.1_f32)),
        (Mode::Norm1, 10.5),
        (Mode::Norm2, f64::from(31.25_f32.sqrt())),
        (Mode::MulNoZeros, 36.0),
    ] {
        assert_eq!(reduced(mode, &values), expected, "{}", mode.name());
        assert!(reduced(mode, &[1.0, f64::NAN, 2.0]).is_nan(), "{}", mode.name());
    }
    assert_eq!(Mode::ALL.len(), 10, "nine modes and none");
    assert_eq!(reduced(Mode::MulNoZeros, &[0.0, -0.0]), 1.0);
    assert_eq!(reduced(Mode::Max, &[f64::NEG_INFINITY, f64::NEG_INFINITY]), f64::NEG_INFINITY);
    assert_eq!(reduced(Mode::Amax, &[-2.0, 1.0]), 2.0);
    // A sum in single precision would lose the ones.
    assert_eq!(reduced(Mode::Add, &[16_777_216.0, 1.0, 1.0, -16_777_216.0]), 2.0);
}

#[test]
fn integers_stay_integers() {
    let mut case = Case::new();
    let in_ = case.tensor(DataType::Int8, &[2, 3]);
    let out = case.tensor(DataType::Int32, &[2, 1]);
    case.fill(in_, &[100.0, 100.0, 100.0, -128.0, -128.0, 1.0]);
    case.node(Reduction { in_, out, mode: ReductionMode::Add, is_deterministic: false });
    case.run(planner(0));
    assert_eq!(case.values(out), [300.0, -255.0]);
}

/// Along dimensions of 1, every mode gives the element or its magnitude, without a square that overflows.
#[test]
fn a_dimension_of_1_is_copied() {
    use ReductionMode as Mode;
    let values = [3.0, -4.0, 0.0, 1e200, -1e-200, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for mode in Mode::ALL.iter().copied().filter(|mode| *mode != Mode::NotSet) {
        let expected = values.map(|value: f64| match mode {
            Mode::Amax | Mode::Norm1 | Mode::Norm2 => value.abs(),
            Mode::MulNoZeros if value == 0.0 => 1.0,
            _ => value,
        });
        for engine in [0, 1] {
            let mut case = Case::new();
            case.graph.compute_type = DataType::Double;
            let in_ = case.tensor(DataType::Double, &[2, 4, 1]);
            let out = case.tensor_with(DataType::Double, &[2, 4, 1], &[1, 2, 1]);
            case.node(Reduction { in_, out, mode, is_deterministic: false });
            case.fill(in_, &values);
            case.run(planner(engine));
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&case.values(out)), bits(&expected), "{} on engine {engine}", mode.name());
        }
    }
    for (of, value) in [(DataType::Int32, 16_777_217.0), (DataType::Int64, 9_007_199_254_740_991.0)] {
        for engine in [0, 1] {
            let mut case = Case::new();
            let [in_, out] = [(); 2].map(|()| case.tensor(of, &[1, 2]));
            case.node(Reduction { in_, out, mode: Mode::Avg, is_deterministic: false });
            case.fill(in_, &[value, -value]);
            case.run(planner(engine));
            assert_eq!(case.values(out), [value, -value], "{} on engine {engine}", of.name());
        }
    }
}

/// A softmax along a dimension of 1, whose nodes have one shape.
#[test]
fn a_softmax_along_a_dimension_of_1_is_1() {
    for engine in [0, 1] {
        let mut case = Case::new();
        let dims = [2, 3, 1];
        let x = case.tensor(DataType::Float, &dims);
        let [most, below, powers, sum] =
            [(); 4].map(|()| case.virtual_tensor(DataType::Float, &dims, &packed(&dims)));
        let y = case.tensor(DataType::Float, &dims);
        let reduction = |mode, in_, out| Reduction { in_, out, mode, is_deterministic: false };
        case.node(reduction(ReductionMode::Max, x, most));
        case.node(Pointwise::new(PointwiseMode::Sub, x, Some(most), below));
        case.node(Pointwise::new(PointwiseMode::Exp, below, None, powers));
        case.node(reduction(ReductionMode::Add, powers, sum));
        case.node(Pointwise::new(PointwiseMode::Div, powers, Some(sum), y));
        case.fill(x, &[1.0, -2.0, 100.0, 0.0, 3.0, -50.0]);
        case.run(planner(engine));
        assert_eq!(case.values(y), [1.0; 6], "engine {engine}");
    }
}

#[test]
fn any_dimensions_in_any_layout() {
    let mut random = Random(3);
    for _ in 0..300 {
        let rank = random.int(1, 5) as usize;
        let x: Vec<i64> = (0..rank).map(|_| random.int(2, 4)).collect();
        let mut y: Vec<i64> = x.iter().map(|dim| if random.chance(50) { 1 } else { *dim }).collect();
        y[random.int(0, rank as i64 - 1) as usize] = 1;
        let mut order: Vec<usize> = (0..rank).collect();
        order.reverse();
        let mut case = Case::new();
        let in_ = case.tensor_with(DataType::Double, &x, &strides(&x, &order));
        let out = case.tensor_with(DataType::Float, &y, &packed(&y));
        let mode = random.one_of(&[ReductionMode::Add, ReductionMode::Max, ReductionMode::Norm1]);
        let values: Vec<f64> = (0..x.iter().product()).map(|_| random.int(-50, 50) as f64).collect();
        case.fill(in_, &values);
        case.node(Reduction { in_, out, mode, is_deterministic: false });
        case.run(planner(1));
        let steps = packed(&y);
        let mut groups: Vec<Vec<f64>> = vec![vec![]; y.iter().product::<i64>() as usize];
        for (place, value) in values.iter().enumerate() {
            let (mut rest, mut to) = (place as i64, 0);
            for axis in (0..rank).rev() {
                to += if y[axis] == 1 { 0 } else { rest % x[axis] * steps[axis] };
                rest /= x[axis];
            }
            groups[to as usize].push(*value);
        }
        let expected: Vec<f64> = groups
            .iter()
            .map(|group| match mode {
                ReductionMode::Add => group.iter().sum(),
                ReductionMode::Max => group.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                _ => group.iter().map(|value| value.abs()).sum(),
            })
            .collect();
        assert_eq!(case.values(out), expected, "{x:?} to {y:?} by {}", mode.name());
    }
}

#[test]
fn invalid_reductions_are_refused() {
    for (mode, x, y, parts) in [
        (ReductionMode::NotSet, vec![2], vec![1], ["mode:", "not_set"]),
        (ReductionMode::Add, vec![2, 3], vec![1], ["out:", "has 1 entries, expected 2"]),
        (ReductionMode::Add, vec![2, 3], vec![1, 2], ["out: dims[1] is 2", "expected 3"]),
        (ReductionMode::Add, vec![2, 3], vec![2, 3], ["out: dims are [2, 3]", "expected 1"]),
        (ReductionMode::Add, vec![1, 3], vec![2, 1], ["out: dims[0] is 2", "expected 1"]),
    ] {
        let refusal = planner(0).plan(&reduction(mode, &x, &y).graph).err().unwrap();
        assert!(parts.iter().all(|part| refusal.contains(part)), "{refusal}");
    }
}
