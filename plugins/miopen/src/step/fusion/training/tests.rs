use hipdnn_plugin_planner::prepare::prepare;
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInference, Pointwise as PointwiseNode,
};
use hipdnn_plugin_sdk::graph::{DataType, Node, PointwiseMode, Tensor, TensorValue};

use super::*;
use crate::step::fusion::chains;

const IMAGE: [i64; 4] = [2, 6, 5, 7];

fn tensor(uid: i64, dims: &[i64]) -> Tensor {
    Tensor::packed(uid, DataType::Float, dims)
}

fn image(uid: i64, is_virtual: bool) -> Tensor {
    Tensor { is_virtual, ..tensor(uid, &IMAGE) }
}

fn parameter(uid: i64) -> Tensor {
    tensor(uid, &[1, 6, 1, 1])
}

fn number(uid: i64, value: f32) -> Tensor {
    Tensor { value: Some(TensorValue::Float32(value)), ..tensor(uid, &[1]) }
}

fn graph(tensors: Vec<Tensor>, operations: Vec<Operation>) -> Graph {
    Graph { tensors, nodes: operations.into_iter().map(Node::single).collect(), ..Graph::default() }
}

/// relu(batchnorm(1, 2, 3)): 5 is normalized, 6 the result.
fn training(change: impl FnOnce(&mut Batchnorm)) -> Graph {
    let mut batchnorm = Batchnorm::new(1, 2, 3, 4, 5);
    change(&mut batchnorm);
    let tensors = vec![
        image(1, false),
        parameter(2),
        parameter(3),
        number(4, 0.25),
        image(5, true),
        image(6, false),
        parameter(7),
        parameter(8),
        parameter(9),
        parameter(10),
        number(11, 0.5),
    ];
    let relu = PointwiseNode::new(PointwiseMode::ReluFwd, 5, None, 6);
    graph(tensors, vec![batchnorm.into(), relu.into()])
}

/// The gradient through relu(batchnorm(1)): 6 is normalized again, 7 is the gradient of the result, 8 that of
/// the normalized tensor; 9, 10 and 11 are the results.
fn gradient() -> Graph {
    let tensors = vec![
        image(1, false),
        parameter(2),
        parameter(3),
        parameter(4),
        parameter(5),
        image(6, true),
        image(7, false),
        image(8, true),
        image(9, false),
        parameter(10),
        parameter(11),
    ];
    let forward = BatchnormInference { x: 1, mean: 2, inv_variance: 3, scale: 4, bias: 5, y: 6 };
    let through = PointwiseNode::new(PointwiseMode::ReluBwd, 7, Some(6), 8);
    let backward = BatchnormBackward {
        dy: 8,
        x: 1,
        scale: 4,
        dx: 9,
        dscale: 10,
        dbias: 11,
        mean: Some(2),
        inv_variance: Some(3),
        peer_stats: Vec::new(),
    };
    graph(tensors, vec![forward.into(), through.into(), backward.into()])
}

/// The only chain that begins with the first node, if there is one.
fn only(graph: &Graph) -> Option<Fusion> {
    let prepared = prepare(graph).unwrap();
    let mut chains = chains(&prepared, 0, &prepared.readers());
    assert!(chains.len() < 2);
    chains.pop()
}

/// The tensors passed to MIOpen, and those that exist only inside the step.
fn arguments(graph: &Graph, fusion: &Fusion) -> (Vec<(c_uint, i64)>, Vec<i64>) {
    let (all, between) = fusion.tensors(graph);
    (fusion.arguments.iter().map(|(id, slot)| (*id, all[*slot])).collect(), between)
}

/// Checks that a change to the graph makes the chain disappear.
fn apart(mut graph: Graph, change: impl FnOnce(&mut Graph)) {
    assert!(only(&graph).is_some_and(|fusion| fusion.nodes.len() == graph.nodes.len()));
    change(&mut graph);
    assert!(only(&graph).is_none());
}

fn channels_last(graph: &mut Graph) {
    for tensor in graph.tensors.iter_mut().filter(|tensor| tensor.dims == IMAGE) {
        tensor.strides = vec![210, 1, 42, 6];
    }
}

#[test]
fn an_activation_joins_the_training_before_it() {
    let graph = training(|_| {});
    let fusion = only(&graph).unwrap();
    assert_eq!(fusion.nodes, [0, 1]);
    let expected = [(BATCHNORM_X, 1), (BATCHNORM_SCALE, 2), (BATCHNORM_BIAS, 3), (ACTIVATION_Y, 6)];
    assert_eq!(arguments(&graph, &fusion), (expected.to_vec(), vec![5]));
    assert!(matches!(fusion.chain.links.as_slice(), [Link::Training(false), Link::Activation(..)]));
    // MIOpen writes all four statistics, which the graph does not have.
    let statistics = fusion.statistics.unwrap();
    assert_eq!(statistics.workspace_size(), 4 * ALIGNMENT);
    let at = |offset: usize| std::ptr::without_provenance_mut::<c_void>(0x1000 + offset);
    let given = statistics.arguments(&Tensors(&[]), at(0)).map(|argument| (argument.id, argument.buffer));
    let expected = [
        (BATCHNORM_SAVED_MEAN, at(0)),
        (BATCHNORM_SAVED_INVERSE, at(ALIGNMENT)),
        (BATCHNORM_RUNNING_MEAN, at(2 * ALIGNMENT)),
        (BATCHNORM_RUNNING_VARIANCE, at(3 * ALIGNMENT)),
    ];
    assert_eq!(given, expected);
}

#[test]
fn requested_statistics_go_to_their_tensors() {
    let uids = |graph: &Graph| {
        let fusion = only(graph).unwrap();
        let (all, between) = fusion.tensors(graph);
        assert_eq!(between, [5]);
        let statistics = fusion.statistics.unwrap();
        (statistics.kept().map(|(_, slot)| slot.map(|slot| all[slot])), statistics.workspace_size())
    };
    let kept = training(|node| (node.mean, node.inv_variance) = (Some(7), Some(8)));
    assert_eq!(uids(&kept), ([Some(7), Some(8), None, None], 2 * ALIGNMENT));
    let running = training(|node| {
        (node.prev_running_mean, node.prev_running_variance) = (Some(7), Some(8));
        (node.next_running_mean, node.next_running_variance) = (Some(9), Some(10));
        node.momentum = Some(11);
    });
    assert_eq!(uids(&running), ([None, None, Some(9), Some(10)], 2 * ALIGNMENT));
    let links = only(&running).unwrap().chain.links;
    assert!(matches!(links.as_slice(), [Link::Training(true), Link::Activation(..)]));
}

#[test]
fn training_is_not_fused_without_a_kernel() {
    apart(training(|_| {}), channels_last);
    apart(training(|_| {}), |graph| graph.tensors[4].is_virtual = false);
    apart(training(|_| {}), |graph| {
        graph.tensors.push(image(12, false));
        let again = PointwiseNode::new(PointwiseMode::ReluFwd, 5, None, 12).into();
        graph.nodes.push(Node { operation: again, ..graph.nodes[1].clone() });
    });
    // The normalized tensor is read by a gradient, or by a function that MIOpen lacks.
    for mode in [PointwiseMode::ReluBwd, PointwiseMode::GeluFwd] {
        apart(training(|_| {}), |graph| {
            let in_1 = (mode == PointwiseMode::ReluBwd).then_some(1);
            graph.nodes[1].operation = PointwiseNode::new(mode, 5, in_1, 6).into();
        });
    }
    apart(training(|_| {}), |graph| {
        for uid in [1, 5, 6] {
            graph.tensors[uid - 1].dims.push(1);
            graph.tensors[uid - 1].strides.push(1);
        }
        for uid in [2, 3] {
            graph.tensors[uid - 1] = tensor(uid as i64, &[1, 6, 1, 1, 1]);
        }
    });
}

#[test]
fn a_gradient_through_an_activation_is_one_chain() {
    let graph = gradient();
    let fusion = only(&graph).unwrap();
    assert_eq!(fusion.nodes, [0, 1, 2]);
    let expected = [
        (BATCHNORM_X, 1),
        (BATCHNORM_SCALE, 4),
        (BATCHNORM_BIAS, 5),
        (BATCHNORM_SAVED_MEAN, 2),
        (BATCHNORM_SAVED_INVERSE, 3),
        (BATCHNORM_DSCALE, 10),
        (BATCHNORM_DBIAS, 11),
        (BATCHNORM_DY, 7),
        (BATCHNORM_DX, 9),
        (ACTIVATION_X, 1),
        (ACTIVATION_Y, 1),
        (ACTIVATION_DY, 7),
        (ACTIVATION_DX, 9),
    ];
    assert_eq!(arguments(&graph, &fusion), (expected.to_vec(), vec![6, 8]));
    assert!(matches!(fusion.chain.links.as_slice(), [Link::BatchnormGradient, Link::ActivationGradient(..)]));
    assert!(fusion.statistics.is_none());
}

#[test]
fn gradients_are_not_fused_if_the_kernel_would_compute_something_else() {
    // Computed from the activation's output, which is not available.
    apart(gradient(), |graph| {
        graph.nodes[1].operation = PointwiseNode::new(PointwiseMode::SigmoidBwd, 7, Some(6), 8).into();
    });
    // The normalized tensor in the place of the gradient.
    apart(gradient(), |graph| {
        graph.nodes[1].operation = PointwiseNode::new(PointwiseMode::ReluBwd, 6, Some(7), 8).into();
    });
    let backward = |change: fn(&mut BatchnormBackward)| {
        apart(gradient(), |graph| {
            let Operation::BatchnormBackward(node) = &mut graph.nodes[2].operation else { return };
            change(node);
        });
    };
    backward(|node| node.scale = 5);
    backward(|node| node.mean = Some(5));
    backward(|node| (node.mean, node.inv_variance) = (None, None));
    backward(|node| node.x = 7);
    apart(gradient(), |graph| graph.tensors[7].is_virtual = false);
    apart(gradient(), channels_last);
}
