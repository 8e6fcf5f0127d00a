//! Normalizations of huge and tiny values: with ε = 0, scaling x by a power of two leaves y unchanged, and
//! scales statistics and gradients by powers of two.

use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, Layernorm, LayernormBackward, Pointwise, Reduction, RmsNorm,
    RmsNormBackward,
};
use hipdnn_plugin_sdk::graph::{DataType, NormFwdPhase, PointwiseMode, ReductionMode, TensorValue};

use super::common::{Case, Random, Strides, channels_last, packed};
use super::limits::{Limits, Values};
use hipdnn_cpu_plugin::plan::planner::planner;

/// Squares and sums of values of this size overflow single precision; those of the last ones underflow.
const POWERS: [i32; 6] = [60, 62, 100, 120, -70, -90];

/// A graph, its results, and the power of the scale with which each of them grows.
struct Norm {
    case: Case,
    x: i64,
    /// Statistics that are read, with the power of the scale with which they grow.
    saved: Vec<(i64, i32)>,
    results: Vec<(i64, i32)>,
}

impl Norm {
    /// Runs it with x and saved statistics times 2 to a power, and returns the results divided by theirs.
    fn run(&self, engine: usize, power: i32) -> Values {
        let mut case = self.case.clone();
        for (uid, grows) in std::iter::once((self.x, 1)).chain(self.saved.iter().copied()) {
            let values: Vec<f64> =
                case.values(uid).iter().map(|value| value * 2.0_f64.powi(power * grows)).collect();
            case.fill(uid, &values);
        }
        case.run(planner(engine));
        let of = |(uid, grows): &(i64, i32)| {
            let values = case.values(*uid);
            (*uid, values.iter().map(|value| value * 2.0_f64.powi(-power * grows)).collect())
        };
        self.results.iter().map(of).collect()
    }

    fn check(&self, what: &str) {
        let expected = self.run(1, 0);
        for engine in 0..2 {
            let limits = Limits::of(&self.case, engine, &[]);
            for power in POWERS {
                let mut scaled = self.case.clone();
                self.run(engine, power).iter().for_each(|(uid, values)| scaled.fill(*uid, values));
                limits.hold(&format!("{what}, engine {engine}, 2^{power}"), &scaled, &expected);
            }
        }
    }
}

fn filled(case: &mut Case, random: &mut Random, dims: &[i64], layout: Strides) -> i64 {
    let uid = case.tensor_with(DataType::Float, dims, &layout(dims));
    case.memory(uid).fill(|| random.real(-2.0, 2.0) + 0.5);
    uid
}

/// Shapes with short runs, long runs, and few elements.
const SHAPES: [[i64; 4]; 3] = [[4, 5, 6, 7], [2, 3, 40, 41], [9, 20, 1, 1]];

#[test]
fn batchnorm_training() {
    let random = &mut Random(31);
    for dims in SHAPES {
        for (name, layout) in [("channels first", packed as Strides), ("channels last", channels_last)] {
            let mut case = Case::new();
            let x = filled(&mut case, random, &dims, layout);
            let y = case.tensor_with(DataType::Float, &dims, &layout(&dims));
            let channels = [1, dims[1], 1, 1];
            let [scale, bias] = [0; 2].map(|_| filled(&mut case, random, &channels, packed));
            let [mean, inverse] = [0; 2].map(|_| case.tensor(DataType::Float, &channels));
            let epsilon = case.value(DataType::Float, TensorValue::Float32(0.0));
            case.node(Batchnorm {
                mean: Some(mean),
                inv_variance: Some(inverse),
                ..Batchnorm::new(x, scale, bias, epsilon, y)
            });
            let results = vec![(y, 0), (mean, 1), (inverse, -1)];
            Norm { case, x, saved: Vec::new(), results }.check(&format!("training, {name}, {dims:?}"));
        }
    }
}

#[test]
fn batchnorm_gradients() {
    let random = &mut Random(32);
    for dims in SHAPES {
        for (name, layout) in [("channels first", packed as Strides), ("channels last", channels_last)] {
            for gated in [false, true] {
                let mut case = Case::new();
                let x = filled(&mut case, random, &dims, layout);
                let dy = filled(&mut case, random, &dims, layout);
                let channels = [1, dims[1], 1, 1];
                let scale = filled(&mut case, random, &channels, packed);
                let mean = filled(&mut case, random, &channels, packed);
                let inverse = filled(&mut case, random, &channels, packed);
                case.memory(inverse).fill(|| 0.875);
                let dx = case.tensor_with(DataType::Float, &dims, &layout(&dims));
                let [dscale, dbias] = [0; 2].map(|_| case.tensor(DataType::Float, &channels));
                let mut passed = dy;
                if gated {
                    let gate = filled(&mut case, random, &dims, layout);
                    passed = case.virtual_tensor(DataType::Float, &dims, &layout(&dims));
                    case.node(Pointwise::new(PointwiseMode::ReluBwd, dy, Some(gate), passed));
                }
                case.node(BatchnormBackward {
                    dy: passed,
                    x,
                    scale,
                    dx,
                    dscale,
                    dbias,
                    mean: Some(mean),
                    inv_variance: Some(inverse),
                    peer_stats: Vec::new(),
                });
                let results = vec![(dx, -1), (dscale, 0), (dbias, 0)];
                let what = format!("gradients, {name}, {dims:?}, gated {gated}");
                Norm { case, x, saved: vec![(mean, 1), (inverse, -1)], results }.check(&what);
            }
        }
    }
}

#[test]
fn rows() {
    let random = &mut Random(33);
    for len in [7, 130, 5000] {
        for centered in [true, false] {
            let (dims, of_row, of_element) = ([3, len], [3, 1], [1, len]);
            let mut case = Case::new();
            let x = filled(&mut case, random, &dims, packed);
            let dy = filled(&mut case, random, &dims, packed);
            let [scale, bias] = [0; 2].map(|_| filled(&mut case, random, &of_element, packed));
            let [y, dx] = [0; 2].map(|_| case.tensor(DataType::Float, &dims));
            let [dscale, dbias] = [0; 2].map(|_| case.tensor(DataType::Float, &of_element));
            let [mean, inverse] = [0; 2].map(|_| case.tensor(DataType::Float, &of_row));
            let epsilon = case.value(DataType::Float, TensorValue::Float32(0.0));
            let forward_phase = NormFwdPhase::Training;
            let mut results = vec![(y, 0), (inverse, -1), (dx, -1), (dscale, 0), (dbias, 0)];
            if centered {
                case.node(Layernorm {
                    x,
                    scale,
                    bias,
                    epsilon,
                    y,
                    mean: Some(mean),
                    inv_variance: Some(inverse),
                    forward_phase,
                    normalized_dim_count: 1,
                });
                case.node(LayernormBackward {
                    dy,
                    x,
                    scale,
                    mean: None,
                    inv_variance: None,
                    epsilon: Some(epsilon),
                    dx,
                    dscale,
                    dbias,
                    normalized_dim_count: 1,
                });
                results.push((mean, 1));
            } else {
                case.node(RmsNorm {
                    x,
                    scale,
                    epsilon,
                    y,
                    bias: Some(bias),
                    inv_rms: Some(inverse),
                    forward_phase,
                });
                case.node(RmsNormBackward {
                    dy,
                    x,
                    scale,
                    inv_rms: Some(inverse),
                    dx,
                    dscale,
                    dbias: Some(dbias),
                });
            }
            Norm { case, x, saved: Vec::new(), results }
                .check(&format!("rows of {len}, centered {centered}"));
        }
    }
}

#[test]
fn euclidean_norms() {
    let random = &mut Random(34);
    for fused in [false, true] {
        for dims in [[3, 500], [2, 5000]] {
            let mut case = Case::new();
            let x = filled(&mut case, random, &dims, packed);
            let of_row = [dims[0], 1];
            let mut results = Vec::new();
            let norm = match fused {
                true => case.virtual_tensor(DataType::Float, &of_row, &packed(&of_row)),
                false => case.tensor(DataType::Float, &of_row),
            };
            case.node(Reduction { in_: x, out: norm, mode: ReductionMode::Norm2, is_deterministic: false });
            if fused {
                let y = case.tensor(DataType::Float, &dims);
                case.node(Pointwise::new(PointwiseMode::Div, x, Some(norm), y));
                results.push((y, 0));
            } else {
                results.push((norm, 1));
            }
            Norm { case, x, saved: Vec::new(), results }.check(&format!("norm of {dims:?}, fused {fused}"));
        }
    }
}
