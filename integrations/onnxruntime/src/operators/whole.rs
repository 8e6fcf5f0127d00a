//! Pointwise integer operations. hipDNN saturates integers where ONNX Runtime wraps, so the provider computes them itself.

use hipdnn::graph::PointwiseMode as Mode;

use super::Cost::Light;
use super::{Operator, axis, onnx, own, same_type};
use crate::lowering::{Host, Integer, Lowered, Lowering, View, refuse};
use crate::model::{Element, Node};
use crate::steps::{Pack, Pairwise, Unpack};

pub const OPERATORS: &[Operator] = &[
    onnx("Mod", (10, 28), Light, modulo),
    onnx("BitwiseAnd", (18, 18), Light, |n, l| bitwise(n, l, Integer::And)),
    onnx("BitwiseOr", (18, 18), Light, |n, l| bitwise(n, l, Integer::Or)),
    onnx("BitwiseXor", (18, 18), Light, |n, l| bitwise(n, l, Integer::Xor)),
    onnx("BitwiseNot", (18, 18), Light, bitwise_not),
    onnx("BitShift", (11, 28), Light, shift),
    onnx("Gather", (1, 13), super::Cost::Layout, gather),
];

/// The integer operation for a mode; and whether to swap its operands.
fn of(mode: Mode) -> Option<(Integer, bool)> {
    Some(match mode {
        Mode::Abs => (Integer::Abs, false),
        Mode::Neg => (Integer::Neg, false),
        Mode::Add => (Integer::Add, false),
        Mode::Sub => (Integer::Sub, false),
        Mode::Mul => (Integer::Mul, false),
        Mode::Div => (Integer::Div, false),
        Mode::Max => (Integer::Max, false),
        Mode::Min => (Integer::Min, false),
        Mode::CmpEq => (Integer::Equal, false),
        Mode::CmpLt => (Integer::Less, false),
        Mode::CmpLe => (Integer::LessOrEqual, false),
        Mode::CmpGt => (Integer::Less, true),
        Mode::CmpGe => (Integer::LessOrEqual, true),
        _ => return None,
    })
}

/// An integer operation with broadcast operands of one type.
pub fn compute(
    lowering: &mut Lowering<'_>,
    integer: Integer,
    operands: &[&View],
    element: Element,
) -> Lowered<View> {
    if let Some(float) = operands.iter().find(|view| view.element.is_float()) {
        return refuse(format!("elements are {}, expected integers", float.element.name()));
    }
    if let Some(small) = operands.iter().find(|view| view.element.is_small()) {
        return refuse(format!("elements are {}, expected integers of whole bytes", small.element.name()));
    }
    lowering.on_integers(integer, operands, element)
}

/// Numbers of 4 bits as bytes, and floats of 8 bits in single precision; others as they are.
pub fn unpacked(lowering: &mut Lowering<'_>, x: &View) -> Lowered<View> {
    let to = match x.element {
        Element::Uint4 => Element::Uint8,
        Element::Int4 => Element::Int8,
        of if of.is_float_of_8_bits() => Element::Float,
        _ => return Ok(x.clone()),
    };
    if x.element.is_of_4_bits() && !(x.is_packed() && x.offset == 0) {
        return refuse("a part of numbers of 4 bits");
    }
    own::one(lowering, Unpack, &[x], (to, x.dims.to_vec()))
}

/// Numbers as floats of 8 bits. `cuts` makes the largest one of larger numbers.
pub fn as_float_of_8_bits(lowering: &mut Lowering<'_>, x: &View, to: Element, cuts: bool) -> Lowered<View> {
    let wide = match x.element {
        Element::Float => x.clone(),
        of if of.is_float() => lowering.map(Mode::Identity, &[x], Element::Float)?,
        _ => cast(lowering, x, Element::Float)?,
    };
    own::one(lowering, Pack { to, cuts }, &[&wide], (to, x.dims.to_vec()))
}

/// The same, by hipDNN's mode.
pub fn map(lowering: &mut Lowering<'_>, mode: Mode, operands: &[&View], element: Element) -> Lowered<View> {
    same_type(operands)?;
    match (of(mode), operands) {
        (Some((integer, true)), [x, y]) => compute(lowering, integer, &[y, x], element),
        (Some((integer, _)), _) => compute(lowering, integer, operands, element),
        _ => refuse(format!("{} of integers", mode.name())),
    }
}

/// A cast to another type: numbers are truncated, integers lose their upper bits.
pub fn cast(lowering: &mut Lowering<'_>, x: &View, to: Element) -> Lowered<View> {
    if matches!(to, Element::Half | Element::Bfloat16) {
        let number = lowering.on_integers(Integer::Cast, &[x], Element::Float)?;
        return lowering.map(Mode::Identity, &[&number], to);
    }
    lowering.on_integers(Integer::Cast, &[x], to)
}

fn modulo(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, y) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    same_type(&[&x, &y])?;
    let z = match (x.element.is_float(), node.int("fmod", 0) != 0) {
        (true, true) => own::pairwise(lowering, Pairwise::Remainder, &x, &y)?,
        (true, false) => return refuse("fmod is 0 for floats, expected 1"),
        (false, true) => compute(lowering, Integer::Rem, &[&x, &y], x.element)?,
        (false, false) => compute(lowering, Integer::Mod, &[&x, &y], x.element)?,
    };
    lowering.set(node, 0, z)
}

fn bitwise(node: &Node, lowering: &mut Lowering<'_>, integer: Integer) -> Lowered<()> {
    let (x, y) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    same_type(&[&x, &y])?;
    let z = compute(lowering, integer, &[&x, &y], x.element)?;
    lowering.set(node, 0, z)
}

fn bitwise_not(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let y = compute(lowering, Integer::Not, &[&x], x.element)?;
    lowering.set(node, 0, y)
}

fn shift(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    match node.text("direction", "") {
        "LEFT" => bitwise(node, lowering, Integer::ShiftLeft),
        "RIGHT" => bitwise(node, lowering, Integer::ShiftRight),
        other => refuse(format!("direction is {other:?}")),
    }
}

/// A gather: a view if the indices are a known range, else a copy.
fn gather(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let at = axis(node.int("axis", 0), x.rank())?;
    let range = super::layout::range(node, lowering, &x, at);
    let y = match range {
        Ok(view) => view,
        Err(_) => {
            let indices = lowering.input(node, 1)?;
            if !matches!(indices.element, Element::Int32 | Element::Int64) {
                return refuse(format!("indices are {}", indices.element.name()));
            }
            let mut dims = x.dims.to_vec();
            dims.splice(at..=at, indices.dims.iter().copied());
            if x.elements() == 0 && dims.iter().all(|dim| *dim > 0) {
                return refuse("parts of a tensor without elements");
            }
            lowering.host(Host::Gather(at), &[&x, &indices], x.element, &dims)
        }
    };
    lowering.set(node, 0, y)
}
