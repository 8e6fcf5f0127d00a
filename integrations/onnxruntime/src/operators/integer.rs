//! Products and convolutions of quantized tensors.

use hipdnn::graph::operation::Reduction;
use hipdnn::graph::{PointwiseMode as Mode, ReductionMode};

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

/// The second operand with its scale and zero; one that is constant is computed once.
fn weights(
    node: &Node,
    lowering: &mut Lowering<'_>,
    [at, scale, zero]: [usize; 3],
    along: i64,
) -> Lowered<View> {
    super::quantize::constant_operand(node, lowering, [at, scale, zero], along)
}

/// A bias of integers, which count in the product of two scales.
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
    let w = weights(node, lowering, [3, 4, 5], 0)?;
    let mut y = conv_of(node, lowering, &x, &w, Element::Float, None)?;
    if Lowering::has_input(node, 8) {
        let bias = bias(node, lowering, 8, [1, 4], 1.0)?;
        let bias = by_channel(lowering, &bias, y.rank())?;
        y = lowering.binary(Mode::Add, &y, &bias)?;
    }
    result(node, lowering, 6, &y)
}

fn qlinear_matmul(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let a = operand(node, lowering, [0, 1, 2], -2)?;
    let b = weights(node, lowering, [3, 4, 5], -1)?;
    let y = matmul_of(lowering, &node.name, &a, &b, Element::Float)?;
    result(node, lowering, 6, &y)
}

fn matrix(view: View, is_transposed: bool) -> Lowered<View> {
    let view = if is_transposed { view.transposed() } else { Some(view) };
    view.filter(|view| view.rank() == 2).ok_or_else(|| Reason("an operand is no matrix".to_owned()))
}

fn qgemm(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let a = matrix(operand(node, lowering, [0, 1, 2], -1)?, node.int("transA", 0) != 0)?;
    let is_transposed = node.int("transB", 0) != 0;
    let b = weights(node, lowering, [3, 4, 5], if is_transposed { 0 } else { 1 })?;
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
    let b = weights(node, lowering, [1, 3, 5], -1)?;
    with_bias(node, lowering, &a, &b, 6)
}

fn dynamic_matmul(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let a = lowering.input(node, 0)?;
    let (bytes, [scale, zero]) = dynamically(lowering, &a)?;
    let a = lowering.map(Mode::Sub, &[&bytes, &zero], Element::Float)?;
    let a = lowering.binary(Mode::Mul, &a, &scale)?;
    let b = weights(node, lowering, [1, 2, 3], -1)?;
    with_bias(node, lowering, &a, &b, 4)
}

fn with_bias(node: &Node, lowering: &mut Lowering<'_>, a: &View, b: &View, at: usize) -> Lowered<()> {
    let mut y = matmul_of(lowering, &node.name, a, b, Element::Float)?;
    if let Some(bias) = lowering.optional(node, at) {
        y = lowering.binary(Mode::Add, &y, &bias)?;
    }
    lowering.set(node, 0, y)
}

/// The zero of an operand of integers, if it is not 0: one number, or one for each element along an axis.
fn zero(node: &Node, lowering: &Lowering<'_>, at: usize, rank: usize, axis: usize) -> Lowered<Option<View>> {
    let Some(view) = lowering.optional(node, at) else { return Ok(None) };
    if lowering.numbers(node, at).is_some_and(|of| of.iter().all(|number| *number == 0.0)) {
        return Ok(None);
    }
    let mut dims = vec![1; rank];
    if view.elements() != 1 {
        dims.iter_mut().skip(axis).take(1).for_each(|dim| *dim = view.elements());
    }
    let spread = if view.rank() == rank { Some(view.clone()) } else { view.reshaped(&dims) };
    spread.map(Some).ok_or_else(|| Reason(format!("a zero has dims {:?}", view.dims)))
}

/// The sums of integers along axes, exact.
fn sums(lowering: &mut Lowering<'_>, x: &View, axes: &[usize]) -> Lowered<View> {
    let mut dims = x.dims.clone();
    for axis in axes {
        dims.iter_mut().skip(*axis).take(1).for_each(|dim| *dim = 1);
    }
    if dims == x.dims {
        return Ok(x.clone());
    }
    let to = lowering.fresh(Element::Int32, &dims);
    let (in_, out) = (lowering.tensor(x), lowering.tensor(&to));
    lowering.op("sums", Reduction { in_, out, mode: ReductionMode::Add, is_deterministic: false })?;
    Ok(to)
}

/// y less a product of a zero and sums.
fn less(lowering: &mut Lowering<'_>, y: &View, zero: &View, sums: &View) -> Lowered<View> {
    let part = lowering.map(Mode::Mul, &[zero, sums], Element::Int32)?;
    lowering.binary(Mode::Sub, y, &part)
}

fn bytes(view: &View) -> Lowered<()> {
    match view.element {
        Element::Int8 | Element::Uint8 => Ok(()),
        other => refuse(format!("elements are {}, expected int8 or uint8", other.name())),
    }
}

/// Σ (a - za)(b - zb) = Σ ab - za Σ b - zb Σ (a - za), sums that integers hold.
fn matmul_integer(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (a, b) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    bytes(&a)?;
    bytes(&b)?;
    if a.rank() < 2 || b.rank() < 2 {
        return refuse(format!("a product of {:?} and {:?}", a.dims, b.dims));
    }
    let row = a.rank() - 2;
    let of_a = zero(node, lowering, 2, a.rank(), row)?;
    let of_b = zero(node, lowering, 3, b.rank(), b.rank() - 1)?;
    let mut y = matmul_of(lowering, &node.name, &a, &b, Element::Int32)?;
    if let Some(zero) = &of_a {
        let sums = sums(lowering, &b, &[b.rank() - 2])?;
        y = less(lowering, &y, zero, &sums)?;
    }
    if let Some(zero) = &of_b {
        let mut sums = sums(lowering, &a, &[row + 1])?;
        if let Some(of_a) = &of_a {
            let count = a.dims.last().copied().unwrap_or(0) as f64;
            let whole = lowering.map(Mode::Identity, &[of_a], Element::Int32)?;
            let whole = lowering.with_number(Mode::Mul, &whole, count)?;
            sums = lowering.map(Mode::Sub, &[&sums, &whole], Element::Int32)?;
        }
        y = less(lowering, &y, zero, &sums)?;
    }
    lowering.set(node, 0, y)
}

fn conv_integer(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, w) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    bytes(&x)?;
    bytes(&w)?;
    let of_x = zero(node, lowering, 2, x.rank(), 1)?;
    let of_w = zero(node, lowering, 3, w.rank(), 0)?;
    if let Some(of_w) = of_w {
        lowering.slow = Some("weights with a zero are computed as integers of 32 bits".to_owned());
        let w = lowering.map(Mode::Sub, &[&w, &of_w], Element::Int32)?;
        let x = match of_x {
            Some(of_x) => lowering.map(Mode::Sub, &[&x, &of_x], Element::Int32)?,
            None => lowering.map(Mode::Identity, &[&x], Element::Int32)?,
        };
        let y = conv_of(node, lowering, &x, &w, Element::Int32, None)?;
        return lowering.set(node, 0, y);
    }
    let mut y = conv_of(node, lowering, &x, &w, Element::Int32, of_x.as_ref())?;
    if let Some(of_x) = of_x {
        let sums = sums(lowering, &w, &(1..w.rank()).collect::<Vec<_>>())?;
        let sums = by_channel(lowering, &sums, y.rank())?;
        y = less(lowering, &y, &of_x, &sums)?;
    }
    lowering.set(node, 0, y)
}
