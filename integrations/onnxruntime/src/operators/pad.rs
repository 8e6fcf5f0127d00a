//! Padding.

use super::Cost::Layout;
use super::{Operator, axis, onnx};
use crate::lowering::{Lowered, Lowering, Reason, View, refuse};
use crate::model::{Element, Node};
use crate::steps::{Mode, Pad};

pub const OPERATORS: &[Operator] = &[onnx("Pad", (2, 25), Layout, pad)];

/// The padding before and after each dimension, which may be negative.
fn amounts(node: &Node, lowering: &mut Lowering<'_>, rank: usize) -> Lowered<Vec<[i64; 2]>> {
    let given = match node.ints("pads") {
        Some(list) => Some(list.to_vec()),
        None => lowering.parameter(node, 1, "the padding", |count| vec![0; count.unsigned_abs() as usize])?,
    };
    let Some(given) = given else { return refuse("no padding") };
    let all = (0..i64::try_from(rank).unwrap_or(0)).collect();
    let list = lowering.parameter(node, 3, "the list of axes", |count| (0..count).collect())?.unwrap_or(all);
    let (before, after) = given.split_at(given.len() / 2);
    if before.len() != list.len() || after.len() != list.len() {
        return refuse(format!("padding {given:?} of axes {list:?}"));
    }
    let mut amounts = vec![[0, 0]; rank];
    for ((at, before), after) in list.iter().zip(before).zip(after) {
        let at = axis(*at, rank)?;
        amounts.iter_mut().skip(at).take(1).for_each(|of| *of = [*before, *after]);
    }
    Ok(amounts)
}

/// The constant around a tensor: none for zeros.
fn constant(node: &Node, lowering: &mut Lowering<'_>, x: &View) -> Lowered<Option<View>> {
    if node.since < 11 {
        let value = node.float("value", 0.0);
        if value == 0.0 {
            return Ok(None);
        }
        let bytes = match x.element {
            Element::Float => value.to_ne_bytes().to_vec(),
            Element::Double => f64::from(value).to_ne_bytes().to_vec(),
            other => return refuse(format!("{} with the constant {value}", other.name())),
        };
        return lowering.data(x.element, &[1], &bytes).map(Some);
    }
    let Some(value) = lowering.optional(node, 2) else { return Ok(None) };
    if value.elements() != 1 || value.element != x.element {
        return refuse(format!("the constant has dims {:?} of {}", value.dims, value.element.name()));
    }
    Ok(Some(value))
}

fn pad(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let mut x = lowering.input(node, 0)?;
    let mode = match node.text("mode", "constant") {
        "constant" => Mode::Constant,
        "reflect" => Mode::Reflect,
        "edge" => Mode::Edge,
        "wrap" => Mode::Wrap,
        other => return refuse(format!("mode is {other:?}")),
    };
    let mut amounts = amounts(node, lowering, x.rank())?;
    for (at, [before, after]) in amounts.iter_mut().enumerate() {
        // Negative padding removes elements.
        let (less, more) = ((-*before).max(0), (-*after).max(0));
        let left = x.dims.get(at).copied().unwrap_or(0) - less - more;
        if left < 0 {
            return refuse(format!("padding {before} and {after} of dims {:?}", x.dims));
        }
        x = x.sliced(at, less, 1, left).ok_or_else(|| Reason("no such axis".to_owned()))?;
        (*before, *after) = ((*before).max(0), (*after).max(0));
    }
    let dims: Vec<i64> = x.dims.iter().zip(&amounts).map(|(dim, of)| dim + of[0] + of[1]).collect();
    if x.dims == dims {
        return lowering.set(node, 0, x);
    }
    if mode != Mode::Constant && x.dims.contains(&0) {
        return refuse("a tensor without elements");
    }
    let value = if mode == Mode::Constant { constant(node, lowering, &x)? } else { None };
    let before = amounts.iter().map(|of| of[0]).collect();
    let reads: Vec<&View> = std::iter::once(&x).chain(&value).collect();
    let element = x.element;
    let y = lowering.on_host(Pad { mode, before }, &reads, &[(element, dims)]);
    let [y] = <[View; 1]>::try_from(y).map_err(|_| Reason("no result".to_owned()))?;
    lowering.set(node, 0, y)
}
