//! Operators whose results depend on the places of elements along an axis.

use hipdnn::graph::{PointwiseMode as Mode, ReductionMode};

use super::Cost::{Layout, Light};
use super::own::{largest, one};
use super::{Operator, axis, floats, onnx, whole};
use crate::lowering::{Lowered, Lowering, Reason, View, elements, refuse};
use crate::model::{Constant, Element, Node};
use crate::steps::{OneHot, Reverse};

pub const OPERATORS: &[Operator] = &[
    onnx("OneHot", (9, 28), Layout, one_hot),
    onnx("EyeLike", (9, 22), Layout, eye),
    onnx("Hardmax", (1, 13), Light, hardmax),
    onnx("ReverseSequence", (10, 28), Layout, reverse),
    onnx("LpNormalization", (1, 22), Light, by_norm),
    onnx("MeanVarianceNormalization", (9, 13), Light, standardized),
];

/// A result with a value at the places that indices name along an axis, and another elsewhere.
fn marked(
    lowering: &mut Lowering<'_>,
    indices: &View,
    (at, depth): (usize, i64),
    values: &View,
) -> Lowered<View> {
    let (outer, inner) = indices.dims.split_at(at);
    let dims: Vec<i64> = outer.iter().chain([&depth]).chain(inner).copied().collect();
    let count = |of: i64| usize::try_from(of).unwrap_or(0);
    let own = OneHot { outer: count(elements(outer)), depth: count(depth) };
    one(lowering, own, &[indices, values], (values.element, dims))
}

fn one_hot(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (indices, values) = (lowering.input(node, 0)?, lowering.input(node, 2)?);
    let depth = match lowering.constant(node, 1).and_then(Constant::scalar) {
        Some(depth) => depth as i64,
        None => match lowering.parameter(node, 1, "the depth", |_| vec![16])?.as_deref() {
            Some([depth]) => *depth,
            _ => return refuse("no depth"),
        },
    };
    if values.dims != [2] || depth < 1 {
        return refuse(format!("depth {depth} and values of dims {:?}", values.dims));
    }
    let at = axis(node.int("axis", -1), indices.rank() + 1)?;
    let indices = match indices.element {
        Element::Int32 | Element::Int64 => indices,
        _ => whole::cast(lowering, &indices, Element::Int64)?,
    };
    let y = marked(lowering, &indices, (at, depth), &values)?;
    lowering.set(node, 0, y)
}

fn eye(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let [height, width] = *x.dims.as_slice() else {
        return refuse(format!("dims {:?}, expected two", x.dims));
    };
    let given = i32::try_from(node.int("dtype", i64::from(x.element.onnx()))).ok();
    let Some(element) = given.and_then(Element::from_onnx) else { return refuse("dtype is not known here") };
    let diagonal = node.int("k", 0);
    let is_on = |at: i64| u8::from(at % width == at / width + diagonal);
    let bytes: Vec<u8> = (0..height * width).map(is_on).collect();
    let ones = lowering.data(Element::Uint8, &x.dims, &bytes)?;
    let y = if element.is_float() {
        lowering.map(Mode::Identity, &[&ones], element)?
    } else {
        whole::cast(lowering, &ones, element)?
    };
    lowering.set(node, 0, y)
}

/// The first of the largest elements, along one axis from version 13 on, before that along all from one on.
fn hardmax(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    floats(&[&x])?;
    let is_flat = node.since < 13;
    let at = axis(node.int("axis", if is_flat { 1 } else { -1 }), x.rank())?;
    let (outer, inner) = x.dims.split_at(at);
    let (rows, at) = match is_flat {
        true => (lowering.reshape(&x, &[elements(outer), elements(inner)])?, 1),
        false => (x.clone(), at),
    };
    let depth = rows.dims.get(at).copied().unwrap_or(0);
    let places = largest(lowering, &rows, at)?;
    let left: Vec<i64> =
        rows.dims.iter().enumerate().filter(|(axis, _)| *axis != at).map(|(_, dim)| *dim).collect();
    let places = lowering.reshape(&places, &left)?;
    let values = lowering.data(Element::Float, &[2], &[0.0_f32, 1.0].map(f32::to_ne_bytes).concat())?;
    let values = lowering.map(Mode::Identity, &[&values], x.element)?;
    let y = marked(lowering, &places, (at, depth), &values)?;
    let y = lowering.reshape(&y, &x.dims)?;
    lowering.set(node, 0, y)
}

fn reverse(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, lengths) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    let (time, batch) = (node.int("time_axis", 0), node.int("batch_axis", 1));
    let is_time_first = match (time, batch) {
        (0, 1) => true,
        (1, 0) => false,
        other => return refuse(format!("time and batch are the axes {other:?}")),
    };
    let sequences = x.dims.get(usize::from(is_time_first)).copied();
    if x.rank() < 2
        || lengths.element != Element::Int64
        || lengths.rank() != 1
        || Some(lengths.elements()) != sequences
    {
        return refuse(format!("lengths of dims {:?} for {:?}", lengths.dims, x.dims));
    }
    let y = one(lowering, Reverse { is_time_first }, &[&x, &lengths], (x.element, x.dims.to_vec()))?;
    lowering.set(node, 0, y)
}

/// Divided by the norm along an axis; what is zero stays zero.
fn by_norm(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    floats(&[&x])?;
    let mode = match node.int("p", 2) {
        1 => ReductionMode::Norm1,
        2 => ReductionMode::Norm2,
        other => return refuse(format!("p is {other}")),
    };
    let at = axis(node.int("axis", -1), x.rank())?;
    let norm = lowering.reduce(mode, &x, &[at])?;
    let is_zero = lowering.with_number(Mode::CmpEq, &norm, 0.0)?;
    let norm = lowering.binary(Mode::Add, &norm, &is_zero)?;
    let y = lowering.binary(Mode::Div, &x, &norm)?;
    lowering.set(node, 0, y)
}

/// (x - mean) / √variance along axes.
fn standardized(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    floats(&[&x])?;
    let list = node.ints("axes").map_or_else(|| vec![0, 2, 3], <[i64]>::to_vec);
    let list = super::axes(&list, x.rank())?;
    if list.is_empty() {
        return Err(Reason("no axes".to_owned()));
    }
    let mean = lowering.reduce(ReductionMode::Avg, &x, &list)?;
    let less = lowering.binary(Mode::Sub, &x, &mean)?;
    let square = lowering.binary(Mode::Mul, &less, &less)?;
    let variance = lowering.reduce(ReductionMode::Avg, &square, &list)?;
    let root = lowering.unary(Mode::Sqrt, &variance)?;
    let root = lowering.with_number(Mode::Add, &root, 1e-9)?;
    let y = lowering.binary(Mode::Div, &less, &root)?;
    lowering.set(node, 0, y)
}
