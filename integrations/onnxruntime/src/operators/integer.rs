//! Products and convolutions of quantized tensors.

use hipdnn::graph::PointwiseMode as Mode;

use super::Cost::Heavy;
use super::conv::conv_of;
use super::matmul::{matmul_of, product};
use super::quantize::{dynamically, operand, result};
use super::{Operator, by_channel, microsoft, onnx};
use crate::lowering::{Lowered, Lowering, Reason, View, refuse};
use crate::model::{Element, Node};

pub const OPERATORS: &[Operator] = &[
    onnx("QLinearConv", (10, 10), Heavy, qlinear_conv),
    onnx("QLinearMatMul", (10, 21), Heavy, qlinear_matmul),
    onnx("MatMulInteger", (10, 10), Heavy, matmul_integer),
    onnx("ConvInteger", (10, 10), Heavy, conv_integer),
    microsoft("QGemm", Heavy, qgemm),
    microsoft("MatMulIntegerToFloat", Heavy, matmul_to_float),
    microsoft("DynamicQuantizeMatMul", Heavy, dynamic_matmul),
];

/// An integer bias, in units of the product of two scales.
fn bias(
    node: &Node,
    lowering: &mut Lowering<'_>,
    at: usize,
    scales: [usize; 2],
    factor: f64,
) -> Lowered<View> {
    let bias = lowering.input(node, at)?;
    let numbers = |lowering: &Lowering<'_>, at| lowering.numbers(node, at);
    if let (Some(of), Some(a), Some(b)) =
        (numbers(lowering, at), numbers(lowering, scales[0]), numbers(lowering, scales[1]))
        && a.len() == 1
    {
        let a = a.first().copied().unwrap_or(1.0);
        let scale = |at: usize| b.get(if b.len() == 1 { 0 } else { at }).copied().unwrap_or(1.0);
        let bytes: Vec<u8> = of
            .iter()
            .enumerate()
            .flat_map(|(at, of)| ((of * a * scale(at) * factor) as f32).to_ne_bytes())
            .collect();
        return lowering.data(Element::Float, &bias.dims, &bytes);
    }
    let (a, b) = (lowering.input(node, scales[0])?, lowering.input(node, scales[1])?);
    let scale = lowering.binary(Mode::Mul, &a, &b)?;
    let scale = lowering.with_number(Mode::Mul, &scale, factor)?;
    lowering.map(Mode::Mul, &[&bias, &scale], Element::Float)
}

fn qlinear_conv(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering, [0, 1, 2], -1)?;
    let w = operand(node, lowering, [3, 4, 5], 0)?;
    let mut y = conv_of(node, lowering, [&x, &w], Element::Float, true)?;
    if Lowering::has_input(node, 8) {
        let bias = bias(node, lowering, 8, [1, 4], 1.0)?;
        let bias = by_channel(lowering, &bias, y.rank())?;
        y = lowering.binary(Mode::Add, &y, &bias)?;
    }
    result(node, lowering, 6, &y)
}

fn qlinear_matmul(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let a = operand(node, lowering, [0, 1, 2], -2)?;
    let b = operand(node, lowering, [3, 4, 5], -1)?;
    let y = matmul_of(lowering, &node.name, &a, &b, Element::Float)?;
    result(node, lowering, 6, &y)
}

fn matrix(view: View, is_transposed: bool) -> Lowered<View> {
    let view = if is_transposed { view.transposed() } else { Some(view) };
    view.filter(|view| view.rank() == 2).ok_or_else(|| Reason("an operand is not a matrix".to_owned()))
}

fn qgemm(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let a = matrix(operand(node, lowering, [0, 1, 2], -1)?, node.int("transA", 0) != 0)?;
    let is_transposed = node.int("transB", 0) != 0;
    let b = operand(node, lowering, [3, 4, 5], if is_transposed { 0 } else { 1 })?;
    let mut y = product(lowering, &node.name, &a, &matrix(b, is_transposed)?)?;
    let alpha = f64::from(node.float("alpha", 1.0));
    if alpha != 1.0 {
        y = lowering.with_number(Mode::Mul, &y, alpha)?;
    }
    if Lowering::has_input(node, 6) {
        let bias = bias(node, lowering, 6, [1, 4], alpha)?;
        y = lowering.binary(Mode::Add, &y, &bias)?;
    }
    if Lowering::has_input(node, 7) { result(node, lowering, 7, &y) } else { lowering.set(node, 0, y) }
}

fn matmul_to_float(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let a = operand(node, lowering, [0, 2, 4], -2)?;
    let b = operand(node, lowering, [1, 3, 5], -1)?;
    with_bias(node, lowering, &a, &b, 6)
}

fn dynamic_matmul(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let a = lowering.input(node, 0)?;
    let (bytes, [scale, zero]) = dynamically(lowering, &a)?;
    let a = lowering.map(Mode::Sub, &[&bytes, &zero], Element::Float)?;
    let a = lowering.binary(Mode::Mul, &a, &scale)?;
    let b = operand(node, lowering, [1, 2, 3], -1)?;
    with_bias(node, lowering, &a, &b, 4)
}

fn with_bias(node: &Node, lowering: &mut Lowering<'_>, a: &View, b: &View, at: usize) -> Lowered<()> {
    let mut y = matmul_of(lowering, &node.name, a, b, Element::Float)?;
    if let Some(bias) = lowering.optional(node, at) {
        y = lowering.binary(Mode::Add, &y, &bias)?;
    }
    lowering.set(node, 0, y)
}

/// A byte operand minus its zero point, which is one number, or one per element along an axis.
fn less_zero(node: &Node, lowering: &mut Lowering<'_>, [at, zero]: [usize; 2], axis: usize) -> Lowered<View> {
    let view = lowering.input(node, at)?;
    if !matches!(view.element, Element::Int8 | Element::Uint8) {
        return refuse(format!("elements are {}, expected int8 or uint8", view.element.name()));
    }
    let Some(of) = lowering.optional(node, zero) else { return Ok(view) };
    if lowering.numbers(node, zero).is_some_and(|of| of.iter().all(|number| *number == 0.0)) {
        return Ok(view);
    }
    let mut dims = vec![1; view.rank()];
    if of.elements() != 1 {
        dims.iter_mut().skip(axis).take(1).for_each(|dim| *dim = of.elements());
    }
    let spread = if of.rank() == view.rank() { Some(of.clone()) } else { of.reshaped(&dims) };
    let spread = spread.ok_or_else(|| Reason(format!("a zero has dims {:?}", of.dims)))?;
    lowering.map(Mode::Sub, &[&view, &spread], Element::Int32)
}

fn matmul_integer(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let rank = |lowering: &Lowering<'_>, at| lowering.input(node, at).map(|view| view.rank());
    let (of_a, of_b) = (rank(lowering, 0)?, rank(lowering, 1)?);
    if of_a < 2 || of_b < 2 {
        return refuse("a product of vectors");
    }
    let a = less_zero(node, lowering, [0, 2], of_a - 2)?;
    let b = less_zero(node, lowering, [1, 3], of_b - 1)?;
    let y = matmul_of(lowering, &node.name, &a, &b, Element::Int32)?;
    lowering.set(node, 0, y)
}

fn conv_integer(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, w) = (less_zero(node, lowering, [0, 2], 1)?, less_zero(node, lowering, [1, 3], 0)?);
    let y = conv_of(node, lowering, [&x, &w], Element::Int32, true)?;
    lowering.set(node, 0, y)
}
