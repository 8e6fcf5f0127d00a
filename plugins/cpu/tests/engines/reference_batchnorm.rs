//! The reference batch normalization against hand-computed results.

use hipdnn_cpu_plugin::plan::planner::Planner;
use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInference, BatchnormInferenceVariance,
};
use hipdnn_plugin_sdk::graph::{DataType, Operation, TensorValue};

use super::common::Case;
use super::limits::assert_near;

#[test]
fn inference_takes_the_inverse_as_it_is() {
    let mut case = Case::new();
    let x = case.tensor(DataType::Float, &[1, 2, 2]);
    let [mean, inv_variance, scale, bias] = [0; 4].map(|_| case.tensor(DataType::Float, &[1, 2, 1]));
    let y = case.tensor(DataType::Float, &[1, 2, 2]);
    case.fill(x, &[1.0, 3.0, -1.0, 5.0]);
    case.fill(mean, &[2.0, 1.0]);
    case.fill(inv_variance, &[4.0, 0.5]);
    case.fill(scale, &[1.0, 3.0]);
    case.fill(bias, &[0.0, 10.0]);
    case.node(BatchnormInference { x, mean, inv_variance, scale, bias, y });
    case.run(Planner::Reference);
    assert_eq!(case.values(y), [-4.0, 4.0, 7.0, 16.0]);
}

#[test]
fn inference_makes_the_inverse_from_variance_and_epsilon() {
    let mut case = Case::new();
    let x = case.tensor_with(DataType::Half, &[2, 2, 1], &[2, 1, 2]);
    // One value per channel, in a one-dimensional tensor.
    let [mean, variance, scale, bias] = [0; 4].map(|_| case.tensor(DataType::Float, &[2]));
    let epsilon = case.value(DataType::Float, TensorValue::Float32(0.25));
    let y = case.tensor(DataType::Half, &[2, 2, 1]);
    case.fill(x, &[1.0, 3.0, -1.0, 5.0]);
    case.fill(mean, &[0.0, 1.0]);
    case.fill(variance, &[0.75, 3.75]);
    case.fill(scale, &[1.0, 2.0]);
    case.fill(bias, &[0.5, -1.0]);
    case.node(BatchnormInferenceVariance { x, mean, variance, scale, bias, y, epsilon });
    case.run(Planner::Reference);
    assert_eq!(case.values(y), [1.5, 1.0, -0.5, 3.0]);
}

/// A training over `x` with one channel and all statistics as outputs.
struct Training {
    case: Case,
    y: i64,
    mean: i64,
    inv_variance: i64,
    next_mean: i64,
    next_variance: i64,
}

fn training(x: &[f64], epsilon: f64, momentum: Option<f64>, prev: [f64; 2]) -> Training {
    let mut case = Case::new();
    case.graph.compute_type = DataType::Double;
    let dims = [x.len() as i64, 1];
    let xt = case.tensor(DataType::Double, &dims);
    case.fill(xt, x);
    let y = case.tensor(DataType::Double, &dims);
    let [scale, bias, prev_mean, prev_variance, mean, inv_variance, next_mean, next_variance] =
        [0; 8].map(|_| case.tensor(DataType::Double, &[1, 1]));
    for (uid, value) in [(scale, 2.0), (bias, 1.0), (prev_mean, prev[0]), (prev_variance, prev[1])] {
        case.fill(uid, &[value]);
    }
    let epsilon = case.value(DataType::Double, TensorValue::Float64(epsilon));
    let momentum = momentum.map(|m| case.value(DataType::Double, TensorValue::Float64(m)));
    case.node(Batchnorm {
        prev_running_mean: Some(prev_mean),
        prev_running_variance: Some(prev_variance),
        momentum,
        mean: Some(mean),
        inv_variance: Some(inv_variance),
        next_running_mean: Some(next_mean),
        next_running_variance: Some(next_variance),
        ..Batchnorm::new(xt, scale, bias, epsilon, y)
    });
    case.run(Planner::Reference);
    Training { case, y, mean, inv_variance, next_mean, next_variance }
}

#[test]
fn training_keeps_its_statistics() {
    // Mean 2.5, biased variance 1.25, unbiased 5/3.
    let t = training(&[1.0, 2.0, 3.0, 4.0], 1.0, Some(0.25), [10.0, 20.0]);
    let inv = 1.0 / 2.25_f64.sqrt();
    assert_near(&t.case, 1, &[(t.mean, &[2.5])]);
    assert_near(&t.case, 1, &[(t.inv_variance, &[inv])]);
    let y: Vec<f64> = [-1.5, -0.5, 0.5, 1.5].iter().map(|d| 2.0 * d * inv + 1.0).collect();
    assert_near(&t.case, 1, &[(t.y, &y)]);
    assert_near(&t.case, 1, &[(t.next_mean, &[0.75 * 10.0 + 0.25 * 2.5])]);
    assert_near(&t.case, 1, &[(t.next_variance, &[0.75 * 20.0 + 0.25 * 5.0 / 3.0])]);
}

#[test]
fn momentum_defaults_to_a_tenth() {
    let t = training(&[1.0, 2.0, 3.0, 4.0], 1.0, None, [10.0, 20.0]);
    assert_near(&t.case, 1, &[(t.next_mean, &[9.0 + 0.25])]);
    assert_near(&t.case, 1, &[(t.next_variance, &[18.0 + 0.5 / 3.0])]);
}

#[test]
fn a_single_element_keeps_its_variance() {
    let t = training(&[3.0], 0.25, Some(0.5), [1.0, 8.0]);
    assert_eq!(t.case.values(t.y), [1.0]);
    assert_eq!(t.case.values(t.inv_variance), [2.0]);
    assert_eq!(t.case.values(t.next_mean), [2.0]);
    assert_eq!(t.case.values(t.next_variance), [4.0]);
}

#[test]
fn a_large_mean_does_not_cancel_the_variance() {
    // A sum of squares would lose the variance in single precision, and nearly in double precision.
    let mut case = Case::new();
    let (x, y) = (case.tensor(DataType::Float, &[2, 1]), case.tensor(DataType::Float, &[2, 1]));
    let [scale, bias, inv_variance] = [0; 3].map(|_| case.tensor(DataType::Float, &[1, 1]));
    case.fill(x, &[1_048_576.0, 1_048_576.25]);
    case.fill(scale, &[1.0]);
    case.fill(bias, &[0.0]);
    let epsilon = case.value(DataType::Float, TensorValue::Float32(0.0));
    case.node(Batchnorm { inv_variance: Some(inv_variance), ..Batchnorm::new(x, scale, bias, epsilon, y) });
    case.run(Planner::Reference);
    assert_near(&case, 1, &[(inv_variance, &[8.0])]);
}

#[test]
fn running_statistics_may_be_updated_in_place() {
    let t = training(&[1.0, 2.0, 3.0, 4.0], 1.0, Some(0.25), [10.0, 20.0]);
    let expected = [t.case.values(t.next_mean), t.case.values(t.next_variance)];
    let Operation::Batchnorm(node) = &t.case.graph.nodes[0].operation else { unreachable!() };
    let (prev_mean, prev_variance) = (node.prev_running_mean.unwrap(), node.prev_running_variance.unwrap());
    for engine in 0..2 {
        let mut case = t.case.clone();
        let plan = planner(engine).plan(&case.graph).unwrap();
        let mut buffers = case.buffers();
        for (new, old) in [(t.next_mean, prev_mean), (t.next_variance, prev_variance)] {
            let old = buffers.iter().find(|buffer| buffer.uid == old).unwrap().ptr;
            buffers.iter_mut().find(|buffer| buffer.uid == new).unwrap().ptr = old;
        }
        let mut workspace = vec![0_u8; plan.workspace_size()];
        // SAFETY: every tensor has memory for its extent, and running statistics may share theirs.
        unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap();
        let mut apart = t.case.clone();
        apart.fill(t.next_mean, &case.values(prev_mean));
        apart.fill(t.next_variance, &case.values(prev_variance));
        assert_near(&apart, engine, &[(t.next_mean, &expected[0]), (t.next_variance, &expected[1])]);
    }
}

#[test]
fn saved_statistics_are_used() {
    let mut case = Case::new();
    case.graph.compute_type = DataType::Double;
    let [dy, x, dx] = [0; 3].map(|_| case.tensor(DataType::Double, &[2, 1]));
    let [scale, mean, inv_variance, dscale, dbias] = [0; 5].map(|_| case.tensor(DataType::Double, &[1, 1]));
    let filled: [(i64, &[f64]); 5] =
        [(x, &[1.0, 3.0]), (dy, &[1.0, -3.0]), (scale, &[2.0]), (mean, &[1.0]), (inv_variance, &[0.5])];
    for (uid, values) in filled {
        case.fill(uid, values);
    }
    let (mean, inv_variance) = (Some(mean), Some(inv_variance));
    case.node(BatchnormBackward { dy, x, scale, dx, dscale, dbias, mean, inv_variance, peer_stats: vec![] });
    case.run(Planner::Reference);
    // xhat = 0 and 1; mean of dy is -1, of dy · xhat -1.5.
    assert_eq!(case.values(dscale), [-3.0]);
    assert_eq!(case.values(dbias), [-2.0]);
    assert_eq!(case.values(dx), [1.0 + 1.0, -3.0 + 1.0 + 1.5]);
}
