//! Layer normalization, RMS normalization, and their gradients.

use hipdnn_plugin_sdk::graph::operation::{Layernorm, LayernormBackward, RmsNorm, RmsNormBackward};
use hipdnn_plugin_sdk::graph::{DataType, NormFwdPhase, TensorValue};

use super::{both, compare, compute, fill, roundoff, tensor, types};
use crate::engines::common::{Case, Random};

/// A shape whose last dimensions are normalized.
struct Shape {
    dims: Vec<i64>,
    /// How many dimensions are normalized.
    count: usize,
    /// Dims of the parameters and of the statistics.
    places: Vec<i64>,
    rows: Vec<i64>,
}

impl Shape {
    fn random(random: &mut Random) -> Self {
        let rank = random.int(2, 5) as usize;
        let most = [0, 150, 30, 12, 7][rank - 1];
        let dims: Vec<i64> = (0..rank).map(|_| random.int(1, most)).collect();
        let count = random.int(1, rank as i64 - 1) as usize;
        let (mut places, mut rows) = (dims.clone(), dims.clone());
        places[..rank - count].fill(1);
        rows[rank - count..].fill(1);
        // If the last dimension that is not normalized is 1, so is scale's, and RMSNorm would include it.
        Self { dims, count, places, rows }
    }

    /// Elements of a row.
    fn len(&self) -> f64 {
        self.places.iter().product::<i64>() as f64
    }

    fn row_count(&self) -> f64 {
        self.rows.iter().product::<i64>() as f64
    }
}

/// A tensor with one value per row, or per position in a row.
fn given(random: &mut Random, case: &mut Case, of: DataType, dims: &[i64], low: f64, high: f64) -> i64 {
    let uid = tensor(random, case, of, dims);
    fill(random, case, uid, low, high);
    uid
}

fn parameter_type(random: &mut Random, storage: DataType) -> DataType {
    random.one_of(&[DataType::Float, storage])
}

#[test]
fn forward() {
    for seed in 11000..11200 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let [x_type, y_type] = types(random, &mut case);
        let shape = Shape::random(random);
        let offset = random.real(-1.0, 1.0);
        let x = given(random, &mut case, x_type, &shape.dims, offset - 2.0, offset + 2.0);
        let y = tensor(random, &mut case, y_type, &shape.dims);
        let parameter = parameter_type(random, x_type);
        let scale = given(random, &mut case, parameter, &shape.places, -2.0, 2.0);
        let bias = given(random, &mut case, parameter, &shape.places, -1.0, 1.0);
        let epsilon = case.value(DataType::Float, TensorValue::Float32(1e-2));
        let mut results = vec![y];
        let mut kept = |random: &mut Random, case: &mut Case| {
            random.chance(60).then(|| {
                let uid = tensor(random, case, parameter, &shape.rows);
                results.push(uid);
                uid
            })
        };
        let inverse = kept(random, &mut case);
        let forward_phase = NormFwdPhase::Training;
        if random.chance(50) {
            let mean = kept(random, &mut case);
            case.node(Layernorm {
                x,
                scale,
                bias,
                epsilon,
                y,
                mean,
                inv_variance: inverse,
                forward_phase,
                normalized_dim_count: shape.count as i64,
            });
        } else if shape.dims[shape.dims.len() - shape.count - 1] != 1 {
            let bias = random.chance(50).then_some(bias);
            case.node(RmsNorm { x, scale, epsilon, y, bias, inv_rms: inverse, forward_phase });
        } else {
            continue;
        }
        let (fast, reference) = both(&case);
        // Inverses are at most 10, differences at most 4, scales at most 2. Sums of up to `len` terms have an
        // error of `len` roundings of their magnitudes, which mean and inverse inherit.
        let bound = 4.0 * (shape.len() + 16.0) * roundoff(compute(&case)).0 * 100.0;
        for uid in results {
            compare(seed, "normalization", &fast, &reference, uid, |_| bound);
        }
    }
}

#[test]
fn backward() {
    for seed in 12000..12200 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let [dy_type, x_type, dx_type] = types(random, &mut case);
        let shape = Shape::random(random);
        let dy = given(random, &mut case, dy_type, &shape.dims, -2.0, 2.0);
        let x = given(random, &mut case, x_type, &shape.dims, -2.0, 2.0);
        let dx = tensor(random, &mut case, dx_type, &shape.dims);
        let parameter = parameter_type(random, x_type);
        let scale = given(random, &mut case, parameter, &shape.places, -2.0, 2.0);
        let dscale = tensor(random, &mut case, parameter, &shape.places);
        let dbias = tensor(random, &mut case, parameter, &shape.places);
        let inverse = given(random, &mut case, parameter, &shape.rows, 0.5, 2.0);
        let mut results = vec![dx, dscale];
        if random.chance(60) {
            results.push(dbias);
            let saved = random.chance(50);
            let mean = given(random, &mut case, parameter, &shape.rows, -0.5, 0.5);
            let epsilon = case.value(DataType::Float, TensorValue::Float32(0.25));
            case.node(LayernormBackward {
                dy,
                x,
                scale,
                mean: saved.then_some(mean),
                inv_variance: saved.then_some(inverse),
                epsilon: (!saved).then_some(epsilon),
                dx,
                dscale,
                dbias,
                normalized_dim_count: shape.count as i64,
            });
        } else if shape.dims[shape.dims.len() - shape.count - 1] != 1 {
            let dbias = random.chance(50).then_some(dbias);
            results.extend(dbias);
            case.node(RmsNormBackward { dy, x, scale, inv_rms: Some(inverse), dx, dscale, dbias });
        } else {
            continue;
        }
        let (fast, reference) = both(&case);
        // Terms of the sums along a row are at most 2 · 2 · 3, and their factors at most 2³ · 3; terms of the
        // sums over the rows at most 2 · 3 · 2. Computed statistics have the errors of the forward pass.
        let unit = roundoff(compute(&case)).0;
        let along = 4.0 * (shape.len() + 16.0) * unit * 300.0;
        let over = 4.0 * (shape.row_count() + shape.len() + 16.0) * unit * 12.0 * shape.row_count();
        for uid in results {
            let bound = if uid == dx { along } else { over };
            compare(seed, "gradients of a normalization", &fast, &reference, uid, |_| bound);
        }
    }
}
