//! Clip.
//!
//! A limit that is NaN has no effect, one that is not given is the largest finite number, and of limits in the wrong order the upper
//! one wins, as CPUExecutionProvider computes it.

use hipdnn::graph::PointwiseMode as Mode;
use hipdnn::graph::operation::Pointwise;

use super::Cost::Light;
use super::pointwise::together_of;
use super::{Operator, onnx, same_type};
use crate::lowering::{Lowered, Lowering, View, refuse};
use crate::model::{Attribute, Element, Node};

pub const OPERATORS: &[Operator] = &[onnx("Clip", (6, 13), Light, clip)];

fn clip(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    if !x.element.is_float() {
        return clip_by_tensors(node, lowering, x);
    }
    let is_open = |at: usize| Lowering::has_input(node, at) && lowering.constant(node, at).is_none();
    if is_open(1) || is_open(2) {
        return clip_by_tensors(node, lowering, x);
    }
    let limit = |at: usize, name: &str| match node.attributes.get(name) {
        Some(Attribute::Float(value)) => Ok(Some(f64::from(*value))),
        _ => lowering.scalar(node, at, name),
    };
    let range = finite(x.element);
    let least = Some(limit(1, "min")?.unwrap_or(-range));
    let most = Some(limit(2, "max")?.unwrap_or(range));
    // Comparisons with NaN are false: such a limit has no effect.
    let least = least.filter(|of| *of > f64::NEG_INFINITY);
    let most = most.filter(|of| *of < f64::INFINITY);
    // RELU's limits are in single precision, in order and finite.
    let is_relu = x.element != Element::Double
        && least.is_some_and(|least| least.is_finite() && most.is_none_or(|most| least <= most));
    let y = match (least, most) {
        (None, None) => lowering.reshape(&x, &x.dims)?,
        (Some(least), most) if is_relu => lowering.map_with(Mode::ReluFwd, &[&x], x.element, |of| {
            of.relu_lower_clip = Some(least as f32);
            of.relu_upper_clip = most.map(|most| most as f32);
        })?,
        (least, most) => {
            let mut y = x;
            if let Some(least) = least {
                y = lowering.with_number(Mode::Max, &y, least)?;
            }
            if let Some(most) = most {
                y = lowering.with_number(Mode::Min, &y, most)?;
            }
            y
        }
    };
    lowering.set(node, 0, y)
}

/// The largest finite number of a type, which is the limit where none is given.
fn finite(element: Element) -> f64 {
    match element {
        Element::Half => 65_504.0,
        Element::Bfloat16 => f64::from(f32::from_bits(0x7f7f_0000)),
        Element::Double => f64::MAX,
        _ => f64::from(f32::MAX),
    }
}

/// Limits known only at execution.
fn clip_by_tensors(node: &Node, lowering: &mut Lowering<'_>, x: View) -> Lowered<()> {
    let mut y = x;
    for (at, mode, open) in [(1, Mode::Max, f64::NEG_INFINITY), (2, Mode::Min, f64::INFINITY)] {
        let Some(mut limit) = lowering.optional(node, at) else {
            if y.element.is_float() {
                y = lowering.with_number(mode, &y, finite(y.element).copysign(open))?;
            }
            continue;
        };
        same_type(&[&y, &limit])?;
        if limit.elements() != 1 || limit.rank() > y.rank() {
            return refuse(format!("a limit has dims {:?}", limit.dims));
        }
        if limit.element.is_float() {
            limit = unless_nan(lowering, &limit, open)?;
        }
        y = together_of(lowering, mode, &y, &limit)?;
    }
    lowering.set(node, 0, y)
}

/// A tensor with a number instead of NaN.
fn unless_nan(lowering: &mut Lowering<'_>, x: &View, number: f64) -> Lowered<View> {
    let is_number = lowering.map(Mode::CmpEq, &[x, x], Element::Bool)?;
    let y = lowering.fresh(x.element, &x.dims);
    let other = lowering.number(number, x.element == Element::Double, x.rank());
    let (from, condition, out) = (lowering.tensor(x), lowering.tensor(&is_number), lowering.tensor(&y));
    let mut select = Pointwise::new(Mode::BinarySelect, from, Some(other), out);
    select.in_2 = Some(condition);
    lowering.op("select", select)?;
    Ok(y)
}
