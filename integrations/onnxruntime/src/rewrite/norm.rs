//! Layer and RMS normalization of the last dimension, written as means, squares and a square root.

use std::collections::BTreeMap;

use super::find::{Finder, Found};
use crate::model::{Attribute, Node, ValueId};

/// (x - mean) / √(variance + ε) · scale + shift, or x / √(mean of squares + ε) · scale, by its square root.
pub(super) fn of_sqrt(of: &Finder<'_>, at: usize) -> Option<Found> {
    let sum = of.writer_for((*of.node(at, "Sqrt")?.inputs.first()?)?, at)?;
    let (mean_of_squares, epsilon) = of.beside_number(of.node(sum, "Add")?, false)?;
    let mean = of.writer_for(mean_of_squares, sum)?;
    let squares = mean_of_last(of, mean)?;
    let square = of.writer_for(squares, mean)?;
    let x = squared(of, square)?;
    let mut without = vec![square, mean, sum, at];
    let normalized = divided(of, x, at, &mut without)?;
    let (scaled, scale) = with_row(of, normalized, "Mul", x)?;
    without.push(normalized);
    let attributes = BTreeMap::from([
        ("axis".to_owned(), Attribute::Int(-1)),
        ("epsilon".to_owned(), Attribute::Float(epsilon as f32)),
    ]);
    let node = |operator, since, inputs, last, attributes| {
        Some(Node { attributes, ..of.made(operator, "", since, inputs, last)? })
    };
    if let Some((before, removed)) = centered(of, x, &[square, normalized]) {
        let (last, shift) = with_row(of, scaled, "Add", x)?;
        without.extend(removed);
        without.push(scaled);
        let inputs = vec![Some(before), Some(scale), Some(shift)];
        return Some(Found {
            node: node("LayerNormalization", 17, inputs, last, attributes)?,
            at: last,
            without,
        });
    }
    let inputs = vec![Some(x), Some(scale)];
    Some(Found {
        node: node("SimplifiedLayerNormalization", 1, inputs, scaled, attributes)?,
        at: scaled,
        without,
    })
}

/// What a node takes the mean of along the last dimension, which stays as 1.
fn mean_of_last(of: &Finder<'_>, at: usize) -> Option<ValueId> {
    let node = of.node(at, "ReduceMean")?;
    let x = (*node.inputs.first()?)?;
    let rank = of.model.values.get(x)?.dims.as_ref()?.len();
    let given = match node.inputs.get(1) {
        Some(Some(axes)) => of.model.values.get(*axes)?.constant.as_ref()?.integers()?,
        _ => node.ints("axes")?.to_vec(),
    };
    let is_last = |axis: i64| axis == -1 || usize::try_from(axis).is_ok_and(|axis| axis + 1 == rank);
    (node.int("keepdims", 1) != 0 && given.len() == 1 && given.iter().all(|axis| is_last(*axis))).then_some(x)
}

/// What a node squares.
fn squared(of: &Finder<'_>, at: usize) -> Option<ValueId> {
    if let Some(node) = of.node(at, "Pow") {
        let (x, power) = of.beside_number(node, true)?;
        return (power == 2.0).then_some(x);
    }
    let [a, b] = Finder::operands(of.node(at, "Mul")?)?;
    (a == b).then_some(a)
}

/// The node that divides x by the result of `root`, directly or by a product with its reciprocal.
fn divided(of: &Finder<'_>, x: ValueId, root: usize, without: &mut Vec<usize>) -> Option<usize> {
    let next = of.only_reader(root)?;
    let is_division = |at: usize| {
        let [a, b] = Finder::operands(of.node(at, "Div")?)?;
        Some((a, b == of.output(root)?))
    };
    match is_division(next) {
        Some((a, true)) if a == x => return Some(next),
        Some((one, true)) => (of.constant(one)? == 1.0).then_some(())?,
        Some((_, false)) => return None,
        None => of.node(next, "Reciprocal").map(|_| ())?,
    }
    without.push(next);
    let last = of.only_reader(next)?;
    (Finder::beside(of.node(last, "Mul")?, of.output(next)?)? == x).then_some(last)
}

/// The only reader of a result, which combines it with a row of x's last size; and the row.
fn with_row(of: &Finder<'_>, at: usize, operator: &str, x: ValueId) -> Option<(usize, ValueId)> {
    let reader = of.only_reader(at)?;
    let row = Finder::beside(of.node(reader, operator)?, of.output(at)?)?;
    let dims = |value: ValueId| of.model.values.get(value)?.dims.as_deref();
    let size = dims(x)?.last()?;
    matches!(dims(row)?, [length] if length == size).then_some((reader, row))
}

/// What x is centered from if it is a difference to its own mean that only these nodes read; and the nodes of that.
fn centered(of: &Finder<'_>, x: ValueId, readers: &[usize; 2]) -> Option<(ValueId, [usize; 2])> {
    let at = *of.writer.get(&x)?;
    let [before, mean] = Finder::operands(of.node(at, "Sub")?)?;
    let by = of.writer_for(mean, at)?;
    let is_own = mean_of_last(of, by)? == before;
    let all = of.readers.get(&x)?;
    let is_only = all.iter().all(|reader| readers.contains(reader)) && !of.model.outputs.contains(&x);
    (is_own && is_only).then_some((before, [by, at]))
}
