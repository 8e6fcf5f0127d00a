//! The reference layer and RMS normalization against hand-computed results.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{Layernorm, LayernormBackward, RmsNorm, RmsNormBackward};
use hipdnn_plugin_sdk::graph::{DataType, NormFwdPhase, TensorValue};

use super::common::Case;
use super::limits::assert_near;

const DOUBLE: DataType = DataType::Double;

/// A normalization of one kind in double precision.
#[derive(Clone, Debug)]
struct Norm {
    /// The number of dimensions of a layer normalization; `None` for RMS normalization.
    layer: Option<i64>,
    x: Vec<i64>,
    scale: Vec<i64>,
    rows: Vec<i64>,
    epsilon: f64,
    phase: NormFwdPhase,
}

fn layer(x: &[i64], count: i64, scale: &[i64], rows: &[i64]) -> Norm {
    let [x, scale, rows] = [x, scale, rows].map(<[i64]>::to_vec);
    Norm { layer: Some(count), x, scale, rows, epsilon: 1e-3, phase: NormFwdPhase::Training }
}

fn rms(x: &[i64], scale: &[i64], rows: &[i64]) -> Norm {
    Norm { layer: None, ..layer(x, 0, scale, rows) }
}

/// What a forward pass wrote.
struct Written {
    case: Case,
    y: Vec<f64>,
    mean: Vec<f64>,
    inverse: Vec<f64>,
}

/// The uids of results of a forward pass.
const Y: i64 = 4;
const INVERSE: i64 = 6;

impl Norm {
    fn case(&self) -> Case {
        let mut case = Case::new();
        case.graph.compute_type = DOUBLE;
        case
    }

    /// Tensors 1 to 4 are x, scale, bias and y, then come mean and inverse.
    fn forward_case(&self, keep: bool) -> Case {
        let mut case = self.case();
        let x = case.tensor(DOUBLE, &self.x);
        let [scale, bias] = [0; 2].map(|_| case.tensor(DOUBLE, &self.scale));
        let y = case.tensor(DOUBLE, &self.x);
        let [mean, inverse] = [0; 2].map(|_| case.tensor(DOUBLE, &self.rows));
        let epsilon = case.value(DOUBLE, TensorValue::Float64(self.epsilon));
        let forward_phase = self.phase;
        let kept = |uid: i64| keep.then_some(uid);
        match self.layer {
            Some(normalized_dim_count) => case.node(Layernorm {
                x,
                scale,
                bias,
                epsilon,
                y,
                mean: kept(mean),
                inv_variance: kept(inverse),
                forward_phase,
                normalized_dim_count,
            }),
            None => case.node(RmsNorm {
                x,
                scale,
                epsilon,
                y,
                bias: Some(bias),
                inv_rms: kept(inverse),
                forward_phase,
            }),
        }
        case
    }

    fn forward(&self, x: &[f64], scale: &[f64], bias: &[f64], keep: bool) -> Written {
        let mut case = self.forward_case(keep);
        for (uid, values) in [(1, x), (2, scale), (3, bias)] {
            case.fill(uid, values);
        }
        case.run(planner(1));
        Written { y: case.values(Y), mean: case.values(5), inverse: case.values(INVERSE), case }
    }

    /// Tensors 1 to 6 are dy, x, scale, dx, dscale and dbias, then come mean and inverse.
    fn backward_case(&self, saved: bool, with_epsilon: bool) -> Case {
        let mut case = self.case();
        let [dy, x] = [0; 2].map(|_| case.tensor(DOUBLE, &self.x));
        let scale = case.tensor(DOUBLE, &self.scale);
        let dx = case.tensor(DOUBLE, &self.x);
        let [dscale, dbias] = [0; 2].map(|_| case.tensor(DOUBLE, &self.scale));
        let [mean, inverse] = [0; 2].map(|_| case.tensor(DOUBLE, &self.rows));
        let epsilon = with_epsilon.then(|| case.value(DOUBLE, TensorValue::Float64(self.epsilon)));
        let kept = |uid: i64| saved.then_some(uid);
        match self.layer {
            Some(normalized_dim_count) => case.node(LayernormBackward {
                dy,
                x,
                scale,
                mean: kept(mean),
                inv_variance: kept(inverse),
                epsilon,
                dx,
                dscale,
                dbias,
                normalized_dim_count,
            }),
            None => {
                case.node(RmsNormBackward {
                    dy,
                    x,
                    scale,
                    inv_rms: kept(inverse),
                    dx,
                    dscale,
                    dbias: Some(dbias),
                });
            }
        }
        case
    }

    fn backward(&self, dy: &[f64], x: &[f64], scale: &[f64], saved: Option<&Written>) -> [Vec<f64>; 3] {
        let mut case = self.backward_case(saved.is_some(), saved.is_none());
        for (uid, values) in [(1, dy), (2, x), (3, scale)] {
            case.fill(uid, values);
        }
        if let Some(saved) = saved {
            case.fill(7, &saved.mean);
            case.fill(8, &saved.inverse);
        }
        case.run(planner(1));
        [4, 5, 6].map(|uid| case.values(uid))
    }
}

#[test]
fn layernorm_subtracts_the_mean() {
    // Row 0 has mean 2 and variance 1, row 1 mean 0 and variance 9; ε makes them 4 and 12.
    let norm = Norm { epsilon: 3.0, ..layer(&[2, 2], 1, &[2], &[2, 1]) };
    let w = norm.forward(&[1.0, 3.0, -3.0, 3.0], &[1.0, 2.0], &[0.0, 10.0], true);
    let r = 1.0 / 12_f64.sqrt();
    assert_eq!(w.mean, [2.0, 0.0]);
    assert_near(&w.case, 1, &[(INVERSE, &[0.5, r]), (Y, &[-0.5, 11.0, -3.0 * r, 6.0 * r + 10.0])]);
}

#[test]
fn rms_norm_keeps_the_mean() {
    // Means of squares 12.5 and 4.
    let norm = Norm { epsilon: 0.0, ..rms(&[2, 2], &[1, 2], &[2, 1]) };
    let w = norm.forward(&[3.0, 4.0, -2.0, 2.0], &[1.0, 2.0], &[0.0, 1.0], true);
    let r = 1.0 / 12.5_f64.sqrt();
    assert_near(&w.case, 1, &[(INVERSE, &[r, 0.5]), (Y, &[3.0 * r, 8.0 * r + 1.0, -1.0, 3.0])]);
}

#[test]
fn statistics_are_written_if_they_are_outputs() {
    for phase in NormFwdPhase::ALL {
        for norm in [layer(&[2, 3], 1, &[1, 3], &[2]), rms(&[2, 3], &[1, 3], &[2, 1])] {
            let norm = Norm { phase: *phase, ..norm };
            let (x, scale) = ([1.0, 2.0, 4.0, -3.0, 0.5, 0.0], [1.0, -1.0, 2.0]);
            let kept = norm.forward(&x, &scale, &[0.0; 3], true);
            let none = norm.forward(&x, &scale, &[0.0; 3], false);
            assert_eq!(kept.y, none.y);
            assert!(kept.inverse.iter().all(|r| r.is_finite()) && none.inverse.iter().all(|r| r.is_nan()));
        }
    }
}

#[test]
fn a_large_mean_does_not_cancel_the_variance() {
    let mut case = Case::new();
    let float = DataType::Float;
    let [x, y] = [0; 2].map(|_| case.tensor(float, &[1, 2]));
    let [scale, bias] = [0; 2].map(|_| case.tensor(float, &[2]));
    let inverse = case.tensor(float, &[1]);
    case.fill(x, &[1_048_576.0, 1_048_576.25]);
    case.fill(scale, &[1.0; 2]);
    case.fill(bias, &[0.0; 2]);
    let epsilon = case.value(float, TensorValue::Float32(0.0));
    case.node(Layernorm {
        x,
        scale,
        bias,
        epsilon,
        y,
        mean: None,
        inv_variance: Some(inverse),
        forward_phase: NormFwdPhase::Training,
        normalized_dim_count: 1,
    });
    case.run(planner(0));
    assert_near(&case, 0, &[(inverse, &[8.0])]);
}

#[test]
fn saved_statistics_are_used() {
    let norm = layer(&[1, 2], 1, &[2], &[1]);
    let kept = Written { case: Case::new(), y: vec![], mean: vec![1.0], inverse: vec![0.5] };
    let [dx, dscale, dbias] = norm.backward(&[1.0, -3.0], &[1.0, 3.0], &[2.0, 2.0], Some(&kept));
    // x̂ = 0 and 1; g = 2 and -6 with mean -2, of g · x̂ -3.
    assert_eq!((dscale, dbias), (vec![0.0, -3.0], vec![1.0, -3.0]));
    assert_eq!(dx, [0.5 * (2.0 + 2.0), 0.5 * (-6.0 + 2.0 + 3.0)]);
}

#[test]
fn mismatched_arguments_are_refused() {
    let good = layer(&[2, 3, 4], 2, &[3, 4], &[2]);
    let changed = |change: fn(&mut Norm)| {
        let mut norm = good.clone();
        change(&mut norm);
        norm
    };
    let root = rms(&[2, 3, 4], &[1, 1, 4], &[2, 3, 1]);
    for (norm, parts) in [
        (changed(|n| n.layer = Some(0)), ["normalized_dim_count: is 0", "1 to 3"]),
        (changed(|n| n.layer = Some(4)), ["normalized_dim_count: is 4", "1 to 3"]),
        (changed(|n| n.layer = Some(i64::MIN)), ["normalized_dim_count", "1 to 3"]),
        (changed(|n| n.scale = vec![4]), ["scale: dims are [4]", "expected [3, 4]"]),
        (changed(|n| n.scale = vec![2, 3, 4]), ["scale: dims are [2, 3, 4]", "expected [3, 4]"]),
        (changed(|n| n.scale = vec![1, 1, 3, 4]), ["scale: dims are [1, 1, 3, 4]", "expected [3, 4]"]),
        (changed(|n| n.rows = vec![2, 3]), ["mean: dims are [2, 3]", "expected [2]"]),
        (changed(|n| n.rows = vec![1, 2]), ["mean: dims are [1, 2]", "expected [2]"]),
        (Norm { scale: vec![4], ..root.clone() }, ["scale: dims [4] has 1 entries", "expected 3"]),
        (Norm { scale: vec![1, 1, 3], ..root.clone() }, ["scale: dims are [1, 1, 3]", "[2, 3, 4]"]),
        (Norm { scale: vec![2, 3, 4], ..root.clone() }, ["scale: dims are [2, 3, 4]", "expected [3, 4]"]),
        (Norm { scale: vec![2, 1, 4], ..root.clone() }, ["scale: dims are [2, 1, 4]", "expected [4]"]),
        (Norm { rows: vec![2, 1, 1], ..root.clone() }, ["inv_rms: dims are [2, 1, 1]", "expected [2, 3]"]),
    ] {
        for case in [norm.forward_case(true), norm.backward_case(true, false)] {
            let refusal = planner(0).plan(&case.graph).err().unwrap();
            assert!(parts.iter().all(|part| refusal.contains(part)), "{refusal}");
        }
    }
    let refusal = |case: &Case| planner(0).plan(&case.graph).err().unwrap();
    assert!(refusal(&good.backward_case(false, false)).contains("epsilon: absent"));
    assert!(refusal(&root.backward_case(false, true)).contains("inv_rms: absent"));
    for (place, name) in [(0, "x: data type is int32"), (3, "y: dims are [2, 3, 5], expected [2, 3, 4]")] {
        let mut case = good.forward_case(true);
        if place == 0 {
            case.graph.tensors[0].data_type = DataType::Int32;
        } else {
            case.graph.tensors[3] = hipdnn_plugin_sdk::graph::Tensor::new(4, DOUBLE, &[2, 3, 5], &[15, 5, 1]);
        }
        assert!(refusal(&case).contains(name));
    }
    let mut case = good.backward_case(true, true);
    let operation = &mut case.graph.nodes[0].operation;
    let hipdnn_plugin_sdk::graph::Operation::LayernormBackward(node) = operation else { unreachable!() };
    node.mean = None;
    assert!(refusal(&case).contains("mean: absent"));
}
