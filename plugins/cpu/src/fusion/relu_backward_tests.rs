//! Graphs with a RELU's gradient before that of a batch normalization.

use hipdnn_plugin_sdk::graph::operation::{BatchnormBackward, Pointwise as PointwiseOperation};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode, Tensor};

use crate::fusion::graph::parts_at;
use crate::prepare::prepare;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::simd::vector::has_special_cases;
use crate::testing::packed;

const DY: i64 = 1;
const INPUT: i64 = 2;
const BETWEEN: i64 = 3;
const X: i64 = 4;
const DX: i64 = 5;
const PARAMETERS: std::ops::Range<i64> = 6..9;
const OTHER: i64 = 9;

/// A RELU's gradient, and that of the batch normalization before it.
fn graph() -> Graph {
    let tensor = |uid: i64, dims: &[i64]| packed(uid, DataType::Float, dims);
    let image = |uid: i64| tensor(uid, &[2, 3, 4, 4]);
    let mut tensors = vec![image(DY), image(INPUT), image(X), image(DX), image(OTHER)];
    tensors.push(Tensor { is_virtual: true, ..image(BETWEEN) });
    tensors.extend(PARAMETERS.map(|uid| tensor(uid, &[1, 3, 1, 1])));
    let [scale, dscale, dbias] = [0, 1, 2].map(|i| PARAMETERS.start + i);
    let node = |operation| Node { name: String::new(), compute_type: DataType::Float, operation };
    let gradients = BatchnormBackward {
        dy: BETWEEN,
        x: X,
        scale,
        dx: DX,
        dscale,
        dbias,
        mean: None,
        inv_variance: None,
        peer_stats: vec![],
    };
    let relu = PointwiseOperation::new(PointwiseMode::ReluBwd, DY, Some(INPUT), BETWEEN);
    Graph { tensors, nodes: vec![node(relu.into()), node(gradients.into())], ..Graph::default() }
}

fn parts_of(graph: &Graph) -> usize {
    parts_at(&prepare(graph).unwrap(), Isa::detect(), Settings::default()).unwrap().len()
}

fn relu(graph: &mut Graph) -> &mut PointwiseOperation {
    match &mut graph.nodes[0].operation {
        Operation::Pointwise(relu) => relu,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_are_one_part() {
    let together = if has_special_cases::<f32>(Isa::detect()) { 1 } else { 2 };
    assert_eq!(parts_of(&graph()), together);
}

#[test]
fn results_that_others_read_are_not_fused() {
    let mut stored = graph();
    stored.tensors.iter_mut().for_each(|tensor| tensor.is_virtual = false);
    assert_eq!(parts_of(&stored), 2);
    let mut read = graph();
    let another = PointwiseOperation::new(PointwiseMode::Neg, BETWEEN, None, OTHER);
    read.nodes.push(Node { operation: another.into(), ..read.nodes[0].clone() });
    assert_eq!(parts_of(&read), 3);
}

#[test]
fn other_functions_are_not_fused() {
    let mut function = graph();
    relu(&mut function).operation = PointwiseMode::TanhBwd;
    assert_eq!(parts_of(&function), 2);
    let mut clipped = graph();
    relu(&mut clipped).relu_upper_clip = Some(6.0);
    assert_eq!(parts_of(&clipped), 2);
    let mut sloped = graph();
    relu(&mut sloped).relu_lower_clip_slope = Some(0.1);
    assert_eq!(parts_of(&sloped), 2);
}
