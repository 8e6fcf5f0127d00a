//! Reductions, and softmax, which is composed of them.

use hipdnn::graph::{PointwiseMode, ReductionMode};

use super::Cost::Light;
use super::own::one;
use super::{Operator, axes, axis, floats, onnx};
use crate::lowering::{Lowered, Lowering, Reason, View, elements, refuse};
use crate::model::{Element, Node};
use crate::steps::Reduce;

pub const OPERATORS: &[Operator] = &[
    onnx("ReduceSum", (1, 13), Light, |node, lowering| plain(node, lowering, ReductionMode::Add)),
    onnx("ReduceMean", (1, 18), Light, |node, lowering| plain(node, lowering, ReductionMode::Avg)),
    onnx("ReduceMax", (1, 20), Light, |node, lowering| plain(node, lowering, ReductionMode::Max)),
    onnx("ReduceMin", (1, 20), Light, |node, lowering| plain(node, lowering, ReductionMode::Min)),
    onnx("ReduceProd", (1, 18), Light, |node, lowering| plain(node, lowering, ReductionMode::Mul)),
    onnx("ReduceL1", (1, 18), Light, |node, lowering| plain(node, lowering, ReductionMode::Norm1)),
    onnx("ReduceL2", (1, 18), Light, |node, lowering| plain(node, lowering, ReductionMode::Norm2)),
    onnx("ReduceSumSquare", (1, 18), Light, sum_square),
    onnx("ReduceLogSum", (1, 28), Light, log_sum),
    onnx("ReduceLogSumExp", (1, 28), Light, log_sum_exp),
    onnx("Softmax", (1, 13), Light, softmax),
    onnx("LogSoftmax", (1, 13), Light, log_softmax),
];

/// The input and the axes to reduce; none if nothing is reduced.
fn operand(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<(View, Option<Vec<usize>>)> {
    let x = lowering.input(node, 0)?;
    if !matches!(x.element, Element::Int32 | Element::Int64) {
        floats(&[&x])?;
    }
    let given = match node.ints("axes") {
        Some(list) => Some(list.to_vec()),
        None => {
            let all = (0..i64::try_from(x.rank()).unwrap_or(0)).collect();
            lowering.parameter(node, 1, "the list of axes", |_| all)?
        }
    };
    let may_be_empty = lowering.guesses && !lowering.guessed.is_empty();
    if may_be_empty && node.int("noop_with_empty_axes", 0) != 0 {
        return refuse("the list of axes may be empty, which would reduce nothing");
    }
    let given = given.filter(|list| !list.is_empty());
    let all = (0..x.rank()).collect();
    let list = match given {
        Some(list) => Some(axes(&list, x.rank())?),
        None if node.int("noop_with_empty_axes", 0) != 0 => None,
        None => Some(all),
    };
    Ok((x, list))
}

/// Sets the result, with or without the reduced dimensions.
fn finish(node: &Node, lowering: &mut Lowering<'_>, y: View, axes: &[usize]) -> Lowered<()> {
    if node.int("keepdims", 1) != 0 {
        return lowering.set(node, 0, y);
    }
    let left = y.dims.iter().enumerate().filter(|(at, _)| !axes.contains(at)).map(|(_, dim)| *dim);
    let left: Vec<i64> = left.collect();
    let y = lowering.reshape(&y, &left)?;
    lowering.set(node, 0, y)
}

fn plain(node: &Node, lowering: &mut Lowering<'_>, mode: ReductionMode) -> Lowered<()> {
    let (x, list) = operand(node, lowering)?;
    let Some(list) = list else { return refuse("nothing is reduced") };
    if !x.element.is_float() {
        let own = match mode {
            ReductionMode::Add => Reduce::Sum,
            ReductionMode::Avg => Reduce::Mean,
            ReductionMode::Max => Reduce::Max,
            ReductionMode::Min => Reduce::Min,
            ReductionMode::Mul => Reduce::Product,
            ReductionMode::Norm1 => Reduce::Norm1,
            ReductionMode::Norm2 => Reduce::Norm2,
            other => return refuse(format!("{} of integers", other.name())),
        };
        return integers(node, lowering, own, &x, &list);
    }
    let y = lowering.reduce(mode, &x, &list)?;
    finish(node, lowering, y, &list)
}

/// Integers are reduced by the provider itself: the reduced axes come last.
fn integers(node: &Node, lowering: &mut Lowering<'_>, own: Reduce, x: &View, list: &[usize]) -> Lowered<()> {
    let kept: Vec<usize> = (0..x.rank()).filter(|at| !list.contains(at)).collect();
    let order: Vec<usize> = kept.iter().chain(list).copied().collect();
    let moved = x.permuted(&order).ok_or_else(|| Reason("no such axis".to_owned()))?;
    let size =
        |axes: &[usize]| elements(&axes.iter().filter_map(|at| x.dims.get(*at).copied()).collect::<Vec<_>>());
    let (rows, width) = (size(&kept), size(list));
    if rows * width == 0 {
        return refuse("a reduction of no elements");
    }
    let moved = lowering.packed(&moved)?;
    let rows_of = lowering.reshape(&moved, &[rows, width])?;
    let y = one(lowering, own, &[&rows_of], (x.element, vec![rows]))?;
    let dims: Vec<i64> =
        x.dims.iter().enumerate().map(|(at, dim)| if list.contains(&at) { 1 } else { *dim }).collect();
    let y = lowering.reshape(&y, &dims)?;
    finish(node, lowering, y, list)
}

fn sum_square(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, list) = operand(node, lowering)?;
    let Some(list) = list else { return refuse("nothing is reduced") };
    if !x.element.is_float() {
        return integers(node, lowering, Reduce::SumOfSquares, &x, &list);
    }
    let squares = lowering.binary(PointwiseMode::Mul, &x, &x)?;
    let y = lowering.reduce(ReductionMode::Add, &squares, &list)?;
    finish(node, lowering, y, &list)
}

fn log_sum(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, list) = operand(node, lowering)?;
    let Some(list) = list else { return refuse("nothing is reduced") };
    if !x.element.is_float() {
        return integers(node, lowering, Reduce::LogSum, &x, &list);
    }
    let sum = lowering.reduce(ReductionMode::Add, &x, &list)?;
    let y = lowering.unary(PointwiseMode::Log, &sum)?;
    finish(node, lowering, y, &list)
}

fn log_sum_exp(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, list) = operand(node, lowering)?;
    let Some(list) = list else { return refuse("nothing is reduced") };
    if !x.element.is_float() {
        return integers(node, lowering, Reduce::LogSumExp, &x, &list);
    }
    // Subtracting the largest first, since a sum of exponentials overflows early.
    let most = lowering.reduce(ReductionMode::Max, &x, &list)?;
    let less = lowering.binary(PointwiseMode::Sub, &x, &most)?;
    let powers = lowering.unary(PointwiseMode::Exp, &less)?;
    let sum = lowering.reduce(ReductionMode::Add, &powers, &list)?;
    let log = lowering.unary(PointwiseMode::Log, &sum)?;
    let y = lowering.binary(PointwiseMode::Add, &log, &most)?;
    finish(node, lowering, y, &list)
}

/// The axes of a softmax: one from version 13 on, before that all from one on.
fn softmax_axes(node: &Node, x: &View) -> Lowered<Vec<usize>> {
    if node.since >= 13 {
        return Ok(vec![axis(node.int("axis", -1), x.rank())?]);
    }
    Ok((axis(node.int("axis", 1), x.rank())?..x.rank()).collect())
}

/// The exponential of the difference from the largest, that difference, and the sum of the exponentials.
fn powers(lowering: &mut Lowering<'_>, x: &View, axes: &[usize]) -> Lowered<(View, View, View)> {
    let most = lowering.reduce(ReductionMode::Max, x, axes)?;
    let less = lowering.binary(PointwiseMode::Sub, x, &most)?;
    let powers = lowering.unary(PointwiseMode::Exp, &less)?;
    let sum = lowering.reduce(ReductionMode::Add, &powers, axes)?;
    Ok((powers, less, sum))
}

/// A softmax along axes.
pub fn softmax_of(lowering: &mut Lowering<'_>, x: &View, axes: &[usize]) -> Lowered<View> {
    let (powers, _, sum) = powers(lowering, x, axes)?;
    lowering.binary(PointwiseMode::Div, &powers, &sum)
}

/// The same, where a row of only -∞ gives zeros.
pub fn guarded_softmax(lowering: &mut Lowering<'_>, x: &View, axis: usize) -> Lowered<View> {
    let most = lowering.reduce(ReductionMode::Max, x, &[axis])?;
    // The least number of the type.
    let least = if x.element == Element::Half { -65504.0 } else { f64::from(f32::MIN) * 0.99 };
    let most = lowering.with_number(PointwiseMode::Max, &most, least)?;
    let less = lowering.binary(PointwiseMode::Sub, x, &most)?;
    let powers = lowering.unary(PointwiseMode::Exp, &less)?;
    let sum = lowering.reduce(ReductionMode::Add, &powers, &[axis])?;
    // In other rows, the largest contributes 1.
    let sum = lowering.with_number(PointwiseMode::Max, &sum, 0.5)?;
    lowering.binary(PointwiseMode::Div, &powers, &sum)
}

fn softmax(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    floats(&[&x])?;
    let axes = softmax_axes(node, &x)?;
    let y = softmax_of(lowering, &x, &axes)?;
    lowering.set(node, 0, y)
}

fn log_softmax(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    floats(&[&x])?;
    let axes = softmax_axes(node, &x)?;
    let (_, less, sum) = powers(lowering, &x, &axes)?;
    let log = lowering.unary(PointwiseMode::Log, &sum)?;
    let y = lowering.binary(PointwiseMode::Sub, &less, &log)?;
    lowering.set(node, 0, y)
}
