//! Shape computations at planning: the integers with which exporters reshape by unknown dimensions, and floats between them.

mod arithmetic;

use crate::lowering::{Lowered, Lowering, View, broadcast_dims, elements};
use crate::model::{Attribute, Element, Node, ValueId};

/// The most integers: more are not a shape.
const MOST: usize = 256;

/// Integers with their dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integers {
    /// Their dimensions.
    pub dims: Vec<i64>,
    /// The integers.
    pub list: Vec<i64>,
}

/// The integers of an input, or the bits of its floats, if they are known.
fn list(node: &Node, lowering: &Lowering<'_>, at: usize) -> Option<Integers> {
    let id: ValueId = (*node.inputs.get(at)?)?;
    if lowering.model.values.get(id)?.element != Some(Element::Float) {
        return input(node, lowering, at);
    }
    let dims = lowering.of(id)?.dims.to_vec();
    let list = match lowering.folded_integers.get(&id) {
        Some(list) => list.clone(),
        None => {
            let constant = lowering.constant(node, at)?;
            constant.numbers()?.into_iter().map(|of| i64::from((of as f32).to_bits())).collect()
        }
    };
    (usize::try_from(elements(&dims)) == Ok(list.len())).then_some(Integers { dims, list })
}

/// The integers of an input, if they are known.
fn input(node: &Node, lowering: &Lowering<'_>, at: usize) -> Option<Integers> {
    let id: ValueId = (*node.inputs.get(at)?)?;
    let element = lowering.model.values.get(id).and_then(|value| value.element);
    // Numbers of another type are computed otherwise.
    element.is_none_or(is_whole).then_some(())?;
    let dims = lowering.of(id)?.dims.to_vec();
    let list = match lowering.folded_integers.get(&id) {
        Some(list) => list.clone(),
        None => {
            let constant = lowering.constant(node, at)?;
            matches!(constant.element, Element::Int64 | Element::Int32 | Element::Bool).then_some(())?;
            constant.integers()?
        }
    };
    (usize::try_from(elements(&dims)) == Ok(list.len())).then_some(Integers { dims, list })
}

fn is_whole(element: Element) -> bool {
    matches!(element, Element::Int64 | Element::Int32 | Element::Bool)
}

fn flat(list: Vec<i64>) -> Integers {
    Integers { dims: vec![i64::try_from(list.len()).unwrap_or(0)], list }
}

fn shape(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    let dims = lowering.of((*node.inputs.first()?)?)?.dims.to_vec();
    let rank = i64::try_from(dims.len()).ok()?;
    let place = |of: i64| usize::try_from(if of < 0 { of + rank } else { of }.clamp(0, rank)).ok();
    let (from, to) = (place(node.int("start", 0))?, place(node.int("end", rank))?);
    Some(flat(dims.get(from..to.max(from))?.to_vec()))
}

/// The integers at the places of a view of them.
fn seen(x: &Integers, view: Option<View>) -> Option<Integers> {
    let View { offset, dims, strides, .. } = view?;
    let count = usize::try_from(elements(&dims)).ok().filter(|count| *count <= MOST)?;
    let at = |mut left: i64| {
        let mut place = offset;
        for (dim, stride) in dims.iter().zip(&strides).rev() {
            place += left % dim * stride;
            left /= dim;
        }
        x.list.get(usize::try_from(place).ok()?).copied()
    };
    let list = (0..).take(count).map(at).collect::<Option<_>>()?;
    Some(Integers { list, dims: dims.to_vec() })
}

fn whole(x: &Integers) -> View {
    View::packed(0, Element::Int64, &x.dims)
}

fn slice(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    let x = list(node, lowering, 0)?;
    (node.since >= 10).then_some(())?;
    let integers = |at: usize| input(node, lowering, at).map(|of| of.list);
    let (starts, ends) = (integers(1)?, integers(2)?);
    let given = |at: usize| node.inputs.get(at).copied().flatten().is_some();
    let axes = if given(3) { integers(3)? } else { (0..).take(starts.len()).collect() };
    let steps = if given(4) { integers(4)? } else { vec![1; starts.len()] };
    let rank = i64::try_from(x.dims.len()).ok()?;
    let mut view = whole(&x);
    for (((start, end), axis), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
        let axis = usize::try_from(if *axis < 0 { axis + rank } else { *axis }).ok()?;
        let size = *view.dims.get(axis)?;
        let place = |of: i64| if of < 0 { of.saturating_add(size) } else { of };
        let (from, count) = if *step > 0 {
            let (from, to) = (place(*start).clamp(0, size), place(*end).clamp(0, size));
            (from, (to - from + step - 1).max(0) / step)
        } else {
            let (from, to) = (place(*start).clamp(-1, size - 1), place(*end).clamp(-1, size - 1));
            (from, (from - to).max(0).checked_add(step.checked_neg()? - 1)? / step.checked_neg()?)
        };
        view = view.sliced(axis, from, *step, count)?;
    }
    seen(&x, Some(view))
}

fn transpose(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    let x = list(node, lowering, 0)?;
    let order = match node.ints("perm") {
        Some(list) => list.iter().map(|at| usize::try_from(*at).ok()).collect::<Option<Vec<_>>>()?,
        None => (0..x.dims.len()).rev().collect(),
    };
    (order.len() == x.dims.len()).then_some(())?;
    seen(&x, whole(&x).permuted(&order))
}

fn reshape(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    let (x, to) = (list(node, lowering, 0)?, input(node, lowering, 1)?);
    let keeps = node.int("allowzero", 0) == 0;
    let size = |(at, dim): (usize, &i64)| match dim {
        0 if keeps => x.dims.get(at).copied(),
        dim => Some(*dim),
    };
    let mut dims = to.list.iter().enumerate().map(size).collect::<Option<Vec<_>>>()?;
    if let Some(at) = dims.iter().position(|dim| *dim == -1) {
        let others =
            dims.iter().filter(|dim| **dim != -1).try_fold(1_i64, |all, dim| all.checked_mul(*dim))?;
        *dims.get_mut(at)? = i64::try_from(x.list.len()).ok()?.checked_div(others)?;
    }
    (dims.iter().all(|dim| *dim >= 0) && usize::try_from(elements(&dims)) == Ok(x.list.len()))
        .then_some(())?;
    Some(Integers { dims, ..x })
}

/// The dimensions with or without those of one element at the given axes.
fn axes_of(node: &Node, lowering: &Lowering<'_>) -> Option<Option<Vec<i64>>> {
    match node.ints("axes") {
        Some(list) => Some(Some(list.to_vec())),
        None if node.inputs.get(1).copied().flatten().is_some() => Some(Some(input(node, lowering, 1)?.list)),
        None => Some(None),
    }
}

fn squeeze(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    let x = list(node, lowering, 0)?;
    let rank = i64::try_from(x.dims.len()).ok()?;
    let axes = axes_of(node, lowering)?;
    let is_gone = |at: i64, dim: i64| match &axes {
        Some(list) => list.iter().any(|of| *of == at || of + rank == at),
        None => dim == 1,
    };
    let dims: Vec<i64> =
        (0..).zip(&x.dims).filter(|(at, dim)| !is_gone(*at, **dim)).map(|(_, dim)| *dim).collect();
    (usize::try_from(elements(&dims)) == Ok(x.list.len())).then_some(Integers { dims, list: x.list })
}

fn unsqueeze(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    let x = list(node, lowering, 0)?;
    let axes = axes_of(node, lowering)??;
    let rank = i64::try_from(x.dims.len() + axes.len()).ok()?;
    let is_new = |at: i64| axes.iter().any(|of| *of == at || of + rank == at);
    let mut own = x.dims.iter().copied();
    let dims =
        (0..rank).map(|at| if is_new(at) { Some(1) } else { own.next() }).collect::<Option<Vec<_>>>()?;
    (usize::try_from(elements(&dims)) == Ok(x.list.len())).then_some(Integers { dims, list: x.list })
}

fn gather(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    let (x, indices) = (list(node, lowering, 0)?, input(node, lowering, 1)?);
    (x.dims.len() == 1 && matches!(node.int("axis", 0), 0 | -1)).then_some(())?;
    let size = i64::try_from(x.list.len()).ok()?;
    let pick = |of: &i64| x.list.get(usize::try_from(if *of < 0 { of + size } else { *of }).ok()?).copied();
    Some(Integers { list: indices.list.iter().map(pick).collect::<Option<_>>()?, dims: indices.dims })
}

fn concat(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    let parts = (0..node.inputs.len()).map(|at| list(node, lowering, at)).collect::<Option<Vec<_>>>()?;
    parts.iter().all(|part| part.dims.len() == 1).then_some(())?;
    Some(flat(parts.into_iter().flat_map(|part| part.list).collect()))
}

/// The parts of a list: ONNX Runtime makes one node of those that read a shape's elements.
fn split(node: &Node, lowering: &Lowering<'_>) -> Option<Vec<Integers>> {
    let first = (*node.inputs.first()?)?;
    let is_list = node.operator == "Split" && node.domain.is_empty() && node.since >= 2;
    (is_list && lowering.folded_integers.contains_key(&first)).then_some(())?;
    let x = input(node, lowering, 0)?;
    (x.dims.len() == 1 && matches!(node.int("axis", 0), 0 | -1)).then_some(())?;
    let count = node.outputs.len();
    (count > 0).then_some(())?;
    let is_equal = node.ints("split").is_none() && node.inputs.get(1).copied().flatten().is_none();
    let sizes = match (node.ints("split"), node.inputs.get(1).copied().flatten()) {
        (Some(sizes), _) => sizes.to_vec(),
        (None, Some(_)) => input(node, lowering, 1)?.list,
        (None, None) => vec![i64::try_from(x.list.len().div_ceil(count)).ok()?; count],
    };
    let mut rest = x.list.as_slice();
    let mut part = |size: &i64| {
        // Of parts of equal size the last one may be smaller.
        let size = usize::try_from(*size).ok()?;
        let (part, others) = rest.split_at_checked(if is_equal { size.min(rest.len()) } else { size })?;
        rest = others;
        Some(flat(part.to_vec()))
    };
    let parts = sizes.iter().map(&mut part).collect::<Option<Vec<_>>>()?;
    (parts.len() == count && rest.is_empty()).then_some(parts)
}

/// Equal integers, as many as a shape has.
fn constant(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    let dims = input(node, lowering, 0)?.list;
    let count = dims.iter().try_fold(1_i64, |all, dim| all.checked_mul(*dim))?;
    let Some(Attribute::Tensor(value)) = node.attributes.get("value") else { return None };
    let [value] = *value.integers()?.as_slice() else { return None };
    let count = usize::try_from(count).ok().filter(|count| *count <= MOST)?;
    Some(Integers { dims, list: vec![value; count] })
}

/// Builds a node: as a shape computation if possible, else by its operator. Returns whether it was one.
pub fn build(
    node: &Node,
    lowering: &mut Lowering<'_>,
    operator: impl FnOnce(&Node, &mut Lowering<'_>) -> Lowered<()>,
) -> Lowered<bool> {
    if let Some(parts) = split(node, lowering) {
        for (id, part) in node.outputs.iter().zip(parts) {
            if let Some(id) = id {
                lowering.keep_integers(*id, &part.dims, &part.list)?;
            }
        }
        return Ok(true);
    }
    let output = node.outputs.first().copied().flatten();
    match (fold(node, lowering), output) {
        (Some(made), Some(id)) => lowering.keep_integers(id, &made.dims, &made.list).map(|()| true),
        _ => operator(node, lowering).map(|()| false),
    }
}

/// A node's integers, if computed from shapes and constants.
pub fn fold(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    if !node.domain.is_empty() || node.outputs.len() != 1 {
        return None;
    }
    let made = match node.operator.as_str() {
        "Shape" => shape(node, lowering)?,
        "Size" => {
            let dims = &lowering.of((*node.inputs.first()?)?)?.dims;
            Integers { dims: vec![], list: vec![elements(dims)] }
        }
        "Slice" => slice(node, lowering)?,
        "Gather" => gather(node, lowering)?,
        "Concat" => concat(node, lowering)?,
        "Where" => {
            let (condition, x, y) =
                (input(node, lowering, 0)?, list(node, lowering, 1)?, list(node, lowering, 2)?);
            let dims = broadcast_dims(&[&condition.dims, &x.dims, &y.dims]).ok()?;
            let count = usize::try_from(elements(&dims)).ok()?;
            let fits = |of: &Integers| of.list.len() == count || of.list.len() == 1;
            (fits(&condition) && fits(&x) && fits(&y)).then_some(())?;
            let get =
                |of: &Integers, at: usize| of.list.get(if of.list.len() == 1 { 0 } else { at }).copied();
            let pick = |at: usize| get(if get(&condition, at)? != 0 { &x } else { &y }, at);
            Integers { list: (0..count).map(pick).collect::<Option<_>>()?, dims }
        }
        "ConstantOfShape" => constant(node, lowering)?,
        "Squeeze" => squeeze(node, lowering)?,
        "Unsqueeze" => unsqueeze(node, lowering)?,
        "Reshape" => reshape(node, lowering)?,
        "Transpose" => transpose(node, lowering)?,
        "Identity" => list(node, lowering, 0)?,
        _ => arithmetic::fold(node, lowering)?,
    };
    let declared = node.outputs.first().copied().flatten().and_then(|id| lowering.model.values.get(id));
    let is_shape = match declared.and_then(|value| value.element) {
        // What is computed of constants alone stays a tensor: plans pack weights once.
        Some(Element::Float) => {
            let is_folded = |id: &ValueId| lowering.folded_integers.contains_key(id);
            node.operator == "Cast" || node.inputs.iter().flatten().any(is_folded)
        }
        Some(Element::Double) => node.operator == "Cast",
        element => element.is_some_and(is_whole),
    };
    (is_shape && made.list.len() <= MOST).then_some(made)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{Constant, Dim, Model, Value};

    #[test]
    fn shapes_are_computed_when_a_plan_is_made() {
        let integers = |list: &[i64]| Constant {
            element: Element::Int64,
            dims: vec![list.len() as i64],
            bytes: list.iter().flat_map(|of| of.to_ne_bytes()).collect(),
        };
        let value = |constant: Option<Constant>| Value {
            element: Some(Element::Int64),
            constant,
            ..Value::default()
        };
        let x = Value {
            element: Some(Element::Float),
            dims: Some(vec![Dim::Open(0), Dim::Open(1), Dim::Open(2)]),
            ..Value::default()
        };
        let values = vec![
            x,
            value(None),
            value(Some(integers(&[1]))),
            value(Some(integers(&[-1]))),
            value(None),
            value(None),
        ];
        let model = Model { values, ..Model::default() };
        let node = |operator: &str, inputs: &[usize], output: usize| Node {
            operator: operator.to_owned(),
            since: 13,
            inputs: inputs.iter().map(|id| Some(*id)).collect(),
            outputs: vec![Some(output)],
            attributes: BTreeMap::from([("axis".to_owned(), Attribute::Int(0))]),
            ..Node::default()
        };
        let mut lowering = Lowering::new(&model);
        lowering.bind_input(0, Element::Float, &[2, 7, 5], false);
        lowering.bind_input(2, Element::Int64, &[1], true);
        lowering.bind_input(3, Element::Int64, &[1], true);
        let shape = fold(&node("Shape", &[0], 1), &lowering).unwrap();
        assert_eq!(shape, flat(vec![2, 7, 5]));
        lowering.keep_integers(1, &shape.dims, &shape.list).unwrap();
        let second = fold(&node("Gather", &[1, 2], 4), &lowering).unwrap();
        assert_eq!(second, flat(vec![7]));
        lowering.keep_integers(4, &second.dims, &second.list).unwrap();
        assert_eq!(fold(&node("Concat", &[4, 3], 5), &lowering).unwrap(), flat(vec![7, -1]));
        assert_eq!(fold(&node("Mul", &[1, 4], 5), &lowering).unwrap(), flat(vec![14, 49, 35]));
        // Unknown values.
        assert_eq!(fold(&node("Concat", &[4, 5], 5), &lowering), None);
        assert_eq!(fold(&node("Exp", &[4], 5), &lowering), None);
    }
}
