//! CPU_ENGINE against CPU_REFERENCE_ENGINE on random problems.
//!
//! Every run computes the same problems. A failure prints its problem's seed; `Random(seed)` reproduces it.
//!
//! # Tolerances
//! Both engines round each product and sum to the compute type, in different orders, and the result once to
//! the storage type. In any order, a sum of k terms t has an error of at most k · eps · Σ|t|, with eps the
//! unit roundoff of the compute type (2⁻²⁴ or 2⁻⁵³). So two engines differ by at most 2 · k · eps · Σ|t|; the
//! reference computes Σ|t| from the operands' magnitudes. Rounding to storage then moves each by half a unit
//! in the last place, together 2 · u · |result| with u = 2⁻²⁴ for float, 2⁻⁵³ for double, 2⁻¹¹ for half, 2⁻⁸
//! for bfloat16, and by the smallest subnormal if the result is that small. Winograd may compute 3 × 3
//! windows, with the bound in docs/numerics.md.

mod attention;
mod batchnorm;
mod block_scale;
mod convolution;
mod fused;
mod matmul;
mod nan_and_infinity;
mod normalization;
mod pointwise;
mod reduction;
mod resample;
mod small_types;

use hipdnn_cpu_plugin::fusion::graph::parts_at;
use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_cpu_plugin::plan::steps::Plan;
use hipdnn_cpu_plugin::settings::Settings;
use hipdnn_cpu_plugin::simd::isa::Isa;
use hipdnn_plugin_planner::prepare::prepare;
use hipdnn_plugin_sdk::graph::DataType;

use super::common::{Case, EIGHT_BITS, Random, fill, tensor};

/// The indices of the engines in the plugin.
const FAST: usize = 0;
const REFERENCE: usize = 1;

const FLOATS: [DataType; 4] = [DataType::Float, DataType::Half, DataType::Bfloat16, DataType::Double];

/// Unit roundoff of a storage or compute type, and its smallest subnormal.
fn roundoff(data_type: DataType) -> (f64, f64) {
    match data_type {
        DataType::Double => (2.0_f64.powi(-53), f64::MIN_POSITIVE),
        DataType::Half => (2.0_f64.powi(-11), 2.0_f64.powi(-24)),
        DataType::Bfloat16 => (2.0_f64.powi(-8), 2.0_f64.powi(-133)),
        DataType::Fp8E4m3 => (2.0_f64.powi(-4), 2.0_f64.powi(-9)),
        DataType::Fp8E4m3Fnuz => (2.0_f64.powi(-4), 2.0_f64.powi(-10)),
        DataType::Fp8E5m2 => (2.0_f64.powi(-3), 2.0_f64.powi(-16)),
        DataType::Fp8E5m2Fnuz => (2.0_f64.powi(-3), 2.0_f64.powi(-17)),
        _ => (2.0_f64.powi(-24), 2.0_f64.powi(-149)),
    }
}

/// Compares one element; `bound` is the largest difference of the engines before rounding to `storage`.
fn close(fast: f64, reference: f64, storage: DataType, bound: f64) -> bool {
    if fast.is_nan() || reference.is_nan() {
        return fast.is_nan() && reference.is_nan();
    }
    if fast == reference {
        return true;
    }
    let (unit, smallest) = roundoff(storage);
    (fast - reference).abs() <= bound + 2.0 * unit * reference.abs().max(fast.abs()) + smallest
}

fn compare(seed: u64, what: &str, fast: &Case, reference: &Case, uid: i64, bound: impl Fn(usize) -> f64) {
    let tensor = fast.graph.tensor(uid).unwrap();
    let (got, expected) = (fast.values(uid), reference.values(uid));
    for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
        assert!(
            close(*got, *expected, tensor.data_type, bound(at)),
            "seed {seed}: {what}: tensor {uid} element {at} is {got}, expected {expected} ± {}\n{:#?}",
            bound(at),
            fast.graph
        );
    }
}

/// Runs the same problem on both engines.
fn both(case: &Case) -> (Case, Case) {
    let (mut fast, mut reference) = (case.clone(), case.clone());
    fast.run(planner(FAST));
    reference.run(planner(REFERENCE));
    (fast, reference)
}

/// Whether the fast kernels of every instruction set give the reference's results.
fn equals_reference(case: &Case, results: &[i64], what: &str) {
    let mut reference = case.clone();
    reference.run(planner(REFERENCE));
    for isa in Isa::available() {
        let mut fast = case.clone();
        let plan = Plan::in_parts(&prepare(&case.graph).unwrap(), |prepared| {
            parts_at(prepared, *isa, Settings::default())
        });
        let plan = plan.unwrap();
        let choices = plan.choices();
        assert!(choices.iter().all(|(_, choice)| choice.name != "reference"), "{what}: {choices:?}");
        fast.execute(&plan);
        for uid in results {
            let (got, expected) = (fast.values(*uid), reference.values(*uid));
            let differs = got.iter().zip(&expected).position(|(a, b)| a != b && !(a.is_nan() && b.is_nan()));
            if let Some(at) = differs {
                panic!(
                    "{what} at {isa:?}: tensor {uid} element {at} is {}, expected {}\n{:#?}",
                    got[at], expected[at], case.graph
                );
            }
        }
    }
}

/// The dtypes of a problem: usually one storage type, sometimes a mixture.
fn types<const N: usize>(random: &mut Random, case: &mut Case) -> [DataType; N] {
    let floats = if random.chance(15) { &EIGHT_BITS } else { &FLOATS };
    let one = random.one_of(floats);
    let is_compute_type = FLOATS.contains(&one);
    case.graph.compute_type = if one == DataType::Double || random.chance(10) {
        DataType::Double
    } else {
        random.one_of(&[DataType::Float, if is_compute_type { one } else { DataType::Float }])
    };
    let mixed = random.chance(15);
    std::array::from_fn(|_| {
        let others = if random.chance(50) { floats } else { &FLOATS };
        if mixed { random.one_of(others) } else { one }
    })
}

/// The type of the graph's compute type.
fn compute(case: &Case) -> DataType {
    if case.graph.compute_type == DataType::Double { DataType::Double } else { DataType::Float }
}
