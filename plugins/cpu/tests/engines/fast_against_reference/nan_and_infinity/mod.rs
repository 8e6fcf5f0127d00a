//! NaN and infinities in each operand of every operation: both engines have NaN, infinities and finite values
//! in the same places.

mod problems;
use self::problems::*;
use super::{FAST, FLOATS, REFERENCE};
use crate::engines::common::{Case, Random};
use crate::engines::limits::{Limits, results_of};
use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_cpu_plugin::plan::steps::Plan;
use hipdnn_plugin_sdk::graph::{DataType, PaddingMode, PointwiseMode, ReductionMode, ResampleMode};

/// Every operation that takes floats and accepts NaN and infinity.
fn operations() -> Vec<(String, Build)> {
    let mut all: Vec<(String, Build)> = Vec::new();
    let mut add = |name: &str, build: Build| all.push((name.to_owned(), build));
    let channels: [(i64, [i64; 2]); 4] = [(1, [3, 5]), (1, [9, 2]), (2, [2, 3]), (5, [1, 1])];
    for (direction, name) in ["convolution", "data gradient", "filter gradient"].iter().enumerate() {
        for (groups, c) in channels {
            for step in [1, 2] {
                add(name, Box::new(move |p| convolution(p, direction, groups, c, step)));
            }
        }
    }
    for (groups, c) in channels {
        add(
            "convolution and what follows",
            Box::new(move |p| {
                convolution(p, 0, groups, c, 1);
                ending(p, 1);
            }),
        );
    }
    for sizes in [[1, 19, 12], [9, 18, 11], [5, 1, 21], [3, 40, 2]] {
        add("matmul", Box::new(move |p| matmul(p, sizes)));
        add(
            "matmul and what follows",
            Box::new(move |p| {
                matmul(p, sizes);
                ending(p, 2);
            }),
        );
    }
    for flag in [false, true] {
        add("batchnorm inference", Box::new(move |p| batchnorm_inference(p, flag)));
        add("batchnorm backward", Box::new(move |p| batchnorm_backward(p, flag)));
        add("layernorm backward", Box::new(move |p| layernorm_backward(p, flag)));
        for masked in [false, true] {
            add("attention", Box::new(move |p| attention(p, false, flag, masked)));
            add("gradients of attention", Box::new(move |p| attention(p, true, flag, masked)));
        }
    }
    add("batchnorm training", Box::new(batchnorm_training));
    add("layernorm", Box::new(layernorm));
    add("RMSNorm", Box::new(rms_norm));
    add("RMSNorm backward", Box::new(rms_norm_backward));
    add("softmax", Box::new(softmax));
    add("mixture of experts", Box::new(mixture));
    add("gradient of a mixture of experts", Box::new(mixture_backward));
    add("block scale dequantize", Box::new(dequantize));
    for mode in ReductionMode::ALL.iter().copied().filter(|mode| *mode != ReductionMode::NotSet) {
        add(mode.name(), Box::new(move |p| reduction(p, mode)));
    }
    for mode in
        [ResampleMode::Maxpool, ResampleMode::AvgpoolIncludePadding, ResampleMode::AvgpoolExcludePadding]
    {
        for padding in PaddingMode::ALL.iter().copied() {
            add("pooling", Box::new(move |p| resample(p, mode, padding)));
            add("gradient of pooling", Box::new(move |p| resample_backward(p, mode, padding)));
        }
    }
    for mode in PointwiseMode::every() {
        add(mode.name(), Box::new(move |p| pointwise(p, mode)));
    }
    all
}

/// Runs both engines; returns the first result that differs.
fn difference(
    what: &str,
    case: &Case,
    mixed: bool,
    (plans, limits): (&[Plan; 2], &Limits),
) -> Option<String> {
    let [fast, reference] = [FAST, REFERENCE].map(|engine| {
        let mut case = case.clone();
        case.execute(&plans[engine]);
        case
    });
    let mut expected = results_of(&reference);
    for (uid, values) in expected.iter_mut().filter(|_| mixed) {
        // Where both are NaN or infinite, they need not be the same.
        for (value, fast) in values.iter_mut().zip(fast.values(*uid)) {
            *value = if value.is_finite() || fast.is_finite() { *value } else { fast };
        }
    }
    limits.wrong(&fast, &expected).map(|wrong| format!("{what}: {wrong}\n"))
}

#[test]
fn nan_and_infinity_match_the_reference() {
    const STRANGE: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    // One failure of each operation with each type, so that one cause does not hide another.
    let mut differences = Vec::new();
    for (number, (name, build)) in (40_000_u64..).step_by(100).zip(operations()) {
        for (seed, of) in (number..).zip(FLOATS.into_iter().cycle().take(6)) {
            let mut problem =
                Problem { case: Case::new(), random: Random(seed), of, inverses: vec![], mixed: false };
            problem.case.graph.compute_type = if of == DataType::Double { of } else { DataType::Float };
            build(&mut problem);
            let Problem { case, mut random, inverses, mixed, .. } = problem;
            let plans = [FAST, REFERENCE].map(|engine| planner(engine).plan(&case.graph).unwrap());
            let held_to = (&plans, &Limits::of(&case, FAST, &[]));
            let read: Vec<i64> = case.graph.nodes.iter().flat_map(|node| node.operation.inputs()).collect();
            let inputs: Vec<i64> = case
                .memory
                .iter()
                .map(|memory| &memory.tensor)
                .filter(|tensor| tensor.data_type == of && read.contains(&tensor.uid))
                .map(|tensor| tensor.uid)
                .collect();
            let mut spoil = |case: &mut Case, uid: i64, strange: f64| {
                let mut values = case.values(uid);
                let place = random.int(0, values.len() as i64 - 1) as usize;
                values[place] = strange;
                case.fill(uid, &values);
                place
            };
            let mut found = Vec::new();
            for uid in &inputs {
                for strange in STRANGE.into_iter().filter(|n| n.is_nan() || !inverses.contains(uid)) {
                    let mut case = case.clone();
                    let place = spoil(&mut case, *uid, strange);
                    let what = format!("{name}, seed {seed}, {strange} at {place} of tensor {uid}");
                    found.extend(difference(&what, &case, mixed, held_to));
                }
            }
            // Several at once, which may interact.
            let mut case = case.clone();
            let not_inverses = inputs.iter().filter(|uid| !inverses.contains(uid));
            for (uid, strange) in not_inverses.zip(STRANGE.into_iter().cycle().skip(1)) {
                spoil(&mut case, *uid, strange);
                spoil(&mut case, *uid, -strange);
            }
            found.extend(difference(&format!("{name}, seed {seed}, all tensors"), &case, mixed, held_to));
            differences.extend(found.into_iter().next());
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}
