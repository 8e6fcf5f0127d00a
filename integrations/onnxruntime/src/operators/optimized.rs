//! What ONNX Runtime's optimizations make of several nodes: models are also saved after them.

use hipdnn::graph::PointwiseMode as Mode;

use super::Cost::Heavy;
use super::conv::biased;
use super::matmul::{gemm_of, matmul_of};
use super::pointwise::ramp;
use super::{Operator, floats, microsoft, same_type};
use crate::lowering::{Lowered, Lowering, Reason, View, refuse};
use crate::model::{Attribute, Node};

pub const OPERATORS: &[Operator] = &[
    microsoft("FusedMatMul", Heavy, matmul),
    microsoft("FusedGemm", Heavy, gemm),
    microsoft("FusedConv", Heavy, conv),
];

/// An operand of a product: the first axis behind the other leading ones, then the last two exchanged, each if the node says so.
fn operand(node: &Node, x: View, [batch, rows]: [&str; 2]) -> Lowered<View> {
    let rank = x.rank();
    if rank < 2 {
        return Ok(x);
    }
    let mut order: Vec<usize> = (0..rank).collect();
    if node.int(batch, 0) != 0 {
        order = (1..rank - 1).chain([0, rank - 1]).collect();
    }
    if node.int(rows, 0) != 0 {
        order.swap(rank - 2, rank - 1);
    }
    x.permuted(&order).ok_or_else(|| Reason("no such axis".to_owned()))
}

fn matmul(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (a, b) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    floats(&[&a, &b])?;
    same_type(&[&a, &b])?;
    let element = a.element;
    let (a, b) = (operand(node, a, ["transBatchA", "transA"])?, operand(node, b, ["transBatchB", "transB"])?);
    let mut y = matmul_of(lowering, &node.name, &a, &b, element)?;
    let alpha = f64::from(node.float("alpha", 1.0));
    if alpha != 1.0 {
        y = lowering.with_number(Mode::Mul, &y, alpha)?;
    }
    lowering.set(node, 0, y)
}

/// The activation that a node names, with its numbers.
fn activated(node: &Node, lowering: &mut Lowering<'_>, y: &View, numbers: &[f32]) -> Lowered<View> {
    let relu = |lowering: &mut Lowering<'_>, slope: Option<f32>, limits: Option<(f32, f32)>| {
        lowering.map_with(Mode::ReluFwd, &[y], y.element, |of| {
            of.relu_lower_clip_slope = slope;
            of.relu_lower_clip = limits.map(|(least, _)| least);
            of.relu_upper_clip = limits.map(|(_, most)| most);
        })
    };
    match (node.text("activation", ""), numbers) {
        ("", _) => Ok(y.clone()),
        ("Relu", _) => lowering.unary(Mode::ReluFwd, y),
        ("Tanh", _) => lowering.unary(Mode::TanhFwd, y),
        ("Sigmoid", _) => lowering.unary(Mode::SigmoidFwd, y),
        ("LeakyRelu", [slope, ..]) => relu(lowering, Some(*slope), None),
        ("HardSigmoid", [alpha, beta, ..]) => ramp(lowering, y, f64::from(*alpha), f64::from(*beta)),
        ("Clip", [least, most, ..]) if least.is_finite() && most.is_finite() && least <= most => {
            relu(lowering, None, Some((*least, *most)))
        }
        (other, _) => refuse(format!("activation is {other:?} of {numbers:?}")),
    }
}

fn gemm(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let y = gemm_of(node, lowering)?;
    // As ONNX Runtime's, activations with numbers have no defaults for them.
    let given = ["activation_alpha", "activation_beta"]
        .into_iter()
        .map_while(|name| node.attributes.contains_key(name).then(|| node.float(name, 0.0)));
    let numbers: Vec<f32> = given.collect();
    let y = activated(node, lowering, &y, &numbers)?;
    lowering.set(node, 0, y)
}

fn conv(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let mut y = biased(node, lowering)?;
    if Lowering::has_input(node, 3) {
        let added = lowering.input(node, 3)?;
        same_type(&[&y, &added])?;
        if added.dims != y.dims {
            return refuse(format!("{:?} is added to {:?}", added.dims, y.dims));
        }
        y = lowering.binary(Mode::Add, &y, &added)?;
    }
    let numbers = match node.attributes.get("activation_params") {
        Some(Attribute::Floats(list)) => list.as_slice(),
        _ => &[],
    };
    let y = activated(node, lowering, &y, numbers)?;
    lowering.set(node, 0, y)
}
