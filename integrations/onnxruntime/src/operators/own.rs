//! Operators that the provider computes itself, beside hipDNN's graphs in the same subgraph.

use hipdnn::graph::PointwiseMode;

use super::Cost::{Layout, Light};
use super::{Operator, axis, floats, onnx};
use crate::lowering::{Integer, Lowered, Lowering, OnHost, Reason, View, broadcast_dims, elements, refuse};
use crate::model::{Attribute, Constant, Element, Node};
use crate::steps::{Extreme, Function, Pairwise, Running, Scatter, Top, Trilu, Update};

pub const OPERATORS: &[Operator] = &[
    onnx("ConstantOfShape", (9, 25), Layout, constant_of_shape),
    onnx("Range", (11, 27), Layout, range),
    onnx("ArgMax", (1, 13), Light, |n, l| extreme(n, l, true)),
    onnx("ArgMin", (1, 13), Light, |n, l| extreme(n, l, false)),
    onnx("TopK", (10, 24), Light, top),
    onnx("CumSum", (11, 14), Light, running),
    onnx("Trilu", (14, 14), Layout, trilu),
    onnx("ScatterElements", (11, 18), Layout, scatter_elements),
    onnx("ScatterND", (11, 18), Layout, scatter_parts),
    onnx("GatherElements", (11, 13), Layout, gather_elements),
    onnx("GatherND", (11, 13), Layout, gather_parts),
    onnx("Cos", (7, 22), Light, |n, l| function(n, l, Function::Cos)),
    onnx("Acos", (7, 22), Light, |n, l| function(n, l, Function::Acos)),
    onnx("Asin", (7, 22), Light, |n, l| function(n, l, Function::Asin)),
    onnx("Atan", (7, 22), Light, |n, l| function(n, l, Function::Atan)),
    onnx("Sinh", (9, 22), Light, |n, l| function(n, l, Function::Sinh)),
    onnx("Cosh", (9, 22), Light, |n, l| function(n, l, Function::Cosh)),
    onnx("Asinh", (9, 22), Light, |n, l| function(n, l, Function::Asinh)),
    onnx("Acosh", (9, 22), Light, |n, l| function(n, l, Function::Acosh)),
    onnx("Atanh", (9, 22), Light, |n, l| function(n, l, Function::Atanh)),
    onnx("Round", (11, 22), Light, |n, l| function(n, l, Function::Round)),
];

/// The result of an operation with one.
pub fn one(
    lowering: &mut Lowering<'_>,
    own: impl OnHost + 'static,
    reads: &[&View],
    (element, dims): (Element, Vec<i64>),
) -> Lowered<View> {
    let packed = reads.iter().map(|view| lowering.packed(view)).collect::<Lowered<Vec<_>>>()?;
    let made = lowering.on_host(own, &packed.iter().collect::<Vec<_>>(), &[(element, dims)]);
    made.into_iter().next().ok_or_else(|| Reason("an operation without a result".to_owned()))
}

fn constant_of_shape(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let guess = |count: i64| vec![1; usize::try_from(count).unwrap_or(0)];
    let Some(dims) = lowering.parameter(node, 0, "the shape", guess)? else { return refuse("no shape") };
    if dims.iter().any(|dim| *dim < 0) {
        return refuse(format!("shape {dims:?}"));
    }
    let zero = Constant { element: Element::Float, dims: vec![1], bytes: vec![0; 4] };
    let value = match node.attributes.get("value") {
        Some(Attribute::Tensor(value)) => value,
        None => &zero,
        Some(_) => return refuse("the value is of an unknown type"),
    };
    let one = lowering.data(value.element, &vec![1; dims.len()], &value.bytes)?;
    let y = one.expanded(&dims).ok_or_else(|| Reason(format!("shape {dims:?}")))?;
    lowering.set(node, 0, y)
}

fn range(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let element =
        node.inputs.first().copied().flatten().and_then(|id| lowering.model.values.get(id)?.element);
    let Some(element @ (Element::Int64 | Element::Int32)) = element else {
        return numbers(node, lowering);
    };
    let mut of = |at: usize, guess: i64| -> Lowered<i64> {
        let given = lowering.parameter(node, at, "the range", |_| vec![guess])?;
        match given.as_deref() {
            Some([number]) => Ok(*number),
            _ => refuse("a range without limits"),
        }
    };
    let (start, limit, delta) = (of(0, 0)?, of(1, 64)?, of(2, 1)?);
    if delta == 0 {
        return refuse("a range with steps of 0");
    }
    let whole = i128::from(limit) - i128::from(start);
    let count = (whole + i128::from(delta - delta.signum())) / i128::from(delta);
    let Some(count) = i64::try_from(count.max(0)).ok().filter(|count| *count < 1 << 28) else {
        return refuse(format!("a range of {count} elements"));
    };
    let all = (0..count).map(|at| start + at * delta);
    let bytes: Vec<u8> = match element {
        Element::Int32 => all.flat_map(|number| (number as i32).to_ne_bytes()).collect(),
        _ => all.flat_map(i64::to_ne_bytes).collect(),
    };
    let y = lowering.data(element, &[count], &bytes)?;
    lowering.set(node, 0, y)
}

/// A range of numbers that are constant, or follow from shapes.
fn numbers(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let element = lowering.input(node, 0)?.element;
    let of = |at: usize| -> Lowered<f64> {
        let folded = node.inputs.get(at).copied().flatten().and_then(|id| lowering.folded_integers.get(&id));
        match folded.map(Vec::as_slice) {
            Some([bits]) if element == Element::Double => Ok(f64::from_bits(bits.cast_unsigned())),
            Some([bits]) => Ok(f64::from(f32::from_bits(*bits as u32))),
            _ => lowering.scalar(node, at, "the range")?.ok_or_else(|| Reason("no range".to_owned())),
        }
    };
    let (start, limit, delta) = (of(0)?, of(1)?, of(2)?);
    if !matches!(element, Element::Float | Element::Double) || delta == 0.0 {
        return refuse("a range of another type");
    }
    let count = ((limit - start) / delta).ceil().clamp(0.0, 1e8) as i64;
    let bytes: Vec<u8> = match element {
        Element::Double => (0..count).flat_map(|at| (start + at as f64 * delta).to_ne_bytes()).collect(),
        _ => (0..count).flat_map(|at| (start as f32 + at as f32 * delta as f32).to_ne_bytes()).collect(),
    };
    let y = lowering.data(element, &[count], &bytes)?;
    lowering.set(node, 0, y)
}

/// A view with an axis moved to the end, and the order that moves it back.
fn to_the_end(x: &View, at: usize) -> Lowered<(View, Vec<usize>)> {
    let rank = x.rank();
    let order: Vec<usize> = (0..rank).filter(|axis| *axis != at).chain([at]).collect();
    let back = (0..rank).map(|axis| order.iter().position(|of| *of == axis).unwrap_or(axis)).collect();
    let moved = x.permuted(&order).ok_or_else(|| Reason("no such axis".to_owned()))?;
    Ok((moved, back))
}

/// The numbers in a type that the provider compares and sums: 16-bit floats in single precision, small integers as larger ones.
fn wide(lowering: &mut Lowering<'_>, x: &View) -> Lowered<View> {
    match x.element {
        Element::Float | Element::Double | Element::Int32 | Element::Int64 => Ok(x.clone()),
        Element::Half | Element::Bfloat16 => lowering.map(PointwiseMode::Identity, &[x], Element::Float),
        Element::Int8 | Element::Uint8 | Element::Int16 | Element::Uint16 => {
            lowering.on_integers(Integer::Cast, &[x], Element::Int32)
        }
        Element::Uint32 => lowering.on_integers(Integer::Cast, &[x], Element::Int64),
        other => refuse(format!("elements are {}", other.name())),
    }
}

/// Results of [`wide`] numbers in their type before.
fn narrow(lowering: &mut Lowering<'_>, y: View, element: Element) -> Lowered<View> {
    match element {
        of if of == y.element => Ok(y),
        Element::Half | Element::Bfloat16 => lowering.map(PointwiseMode::Identity, &[&y], element),
        _ => lowering.on_integers(Integer::Cast, &[&y], element),
    }
}

/// The places of the largest elements along an axis, which becomes 1.
pub fn largest(lowering: &mut Lowering<'_>, x: &View, at: usize) -> Lowered<View> {
    places(lowering, x, Extreme { axis: at, largest: true, last: false })
}

fn places(lowering: &mut Lowering<'_>, x: &View, own: Extreme) -> Lowered<View> {
    let x = wide(lowering, x)?;
    if x.dims.get(own.axis) == Some(&0) {
        return refuse("an extreme of no elements");
    }
    let mut dims = x.dims.to_vec();
    dims.iter_mut().skip(own.axis).take(1).for_each(|dim| *dim = 1);
    one(lowering, own, &[&x], (Element::Int64, dims))
}

fn extreme(node: &Node, lowering: &mut Lowering<'_>, largest: bool) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let at = axis(node.int("axis", 0), x.rank())?;
    let own = Extreme { axis: at, largest, last: node.int("select_last_index", 0) != 0 };
    let mut y = places(lowering, &x, own)?;
    if node.int("keepdims", 1) == 0 {
        let mut dims = y.dims.to_vec();
        dims.remove(at);
        y = lowering.reshape(&y, &dims)?;
    }
    lowering.set(node, 0, y)
}

fn top(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let of = lowering.input(node, 0)?;
    let x = wide(lowering, &of)?;
    let at = axis(node.int("axis", -1), x.rank())?;
    let Some(count) = lowering.parameter(node, 1, "the number of elements", |_| vec![1])? else {
        return refuse("no number of elements");
    };
    let ([count], size) = (count.as_slice(), x.dims.get(at).copied().unwrap_or(0)) else {
        return refuse("several numbers of elements");
    };
    // With sizes that are not known, fewer may be there than wanted.
    let count = if lowering.guesses { (*count).min(size) } else { *count };
    if count < 0 || count > size {
        return refuse(format!("the first {count} of {size} elements"));
    }
    let (moved, back) = to_the_end(&x, at)?;
    let packed = lowering.packed(&moved)?;
    let mut dims = moved.dims.to_vec();
    dims.iter_mut().skip(x.rank() - 1).for_each(|dim| *dim = count);
    let own = Top { count: usize::try_from(count).unwrap_or(0), largest: node.int("largest", 1) != 0 };
    let results = [(x.element, dims.clone()), (Element::Int64, dims)];
    for ((at, view), element) in
        lowering.on_host(own, &[&packed], &results).into_iter().enumerate().zip([of.element, Element::Int64])
    {
        if Lowering::has_output(node, at) {
            let view = narrow(lowering, view, element)?;
            let view = view.permuted(&back).ok_or_else(|| Reason("no such axis".to_owned()))?;
            lowering.set(node, at, view)?;
        }
    }
    Ok(())
}

fn running(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let of = lowering.input(node, 0)?;
    let x = wide(lowering, &of)?;
    let Some([at]) = lowering
        .parameter(node, 1, "the axis", |_| vec![0])?
        .as_deref()
        .map(<[i64]>::to_vec)
        .and_then(|list| <[i64; 1]>::try_from(list).ok())
    else {
        return refuse("no axis");
    };
    let at = axis(at, x.rank())?;
    let own = Running { exclusive: node.int("exclusive", 0) != 0, reverse: node.int("reverse", 0) != 0 };
    let (moved, back) = to_the_end(&x, at)?;
    let y = one(lowering, own, &[&moved], (x.element, moved.dims.to_vec()))?;
    let y = narrow(lowering, y, of.element)?;
    let y = y.permuted(&back).ok_or_else(|| Reason("no such axis".to_owned()))?;
    lowering.set(node, 0, y)
}

fn trilu(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    if x.rank() < 2 {
        return refuse(format!("a triangle of dims {:?}", x.dims));
    }
    let diagonal = lowering.parameter(node, 1, "the diagonal", |_| vec![0])?;
    let diagonal = diagonal.and_then(|list| list.first().copied()).unwrap_or(0);
    let own = Trilu { upper: node.int("upper", 1) != 0, diagonal };
    let y = one(lowering, own, &[&x], (x.element, x.dims.to_vec()))?;
    lowering.set(node, 0, y)
}

fn function(node: &Node, lowering: &mut Lowering<'_>, own: Function) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    floats(&[&x])?;
    let wide = wide(lowering, &x)?;
    let y = one(lowering, own, &[&wide], (wide.element, x.dims.to_vec()))?;
    let y = narrow(lowering, y, x.element)?;
    lowering.set(node, 0, y)
}

/// The indices of a node.
fn indices(node: &Node, lowering: &Lowering<'_>) -> Lowered<View> {
    let indices = lowering.input(node, 1)?;
    match indices.element {
        Element::Int32 | Element::Int64 => Ok(indices),
        other => refuse(format!("indices are {}", other.name())),
    }
}

/// Data, indices and updates, and what these do.
fn scattered(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<([View; 3], Update)> {
    let own = match node.text("reduction", "none") {
        "none" => Update::Replace,
        "add" => Update::Add,
        "mul" => Update::Mul,
        "max" => Update::Max,
        "min" => Update::Min,
        other => return refuse(format!("reduction is {other:?}")),
    };
    let (x, of, updates) = (lowering.input(node, 0)?, indices(node, lowering)?, lowering.input(node, 2)?);
    if updates.element != x.element {
        return refuse(format!("{} is updated by {}", x.element.name(), updates.element.name()));
    }
    if own == Update::Replace {
        return Ok(([x, of, updates], own));
    }
    Ok(([wide(lowering, &x)?, of, wide(lowering, &updates)?], own))
}

/// The result of a scattering, in the type of the node's data.
fn set_scattered(node: &Node, lowering: &mut Lowering<'_>, y: View) -> Lowered<()> {
    let element = lowering.input(node, 0)?.element;
    let y = narrow(lowering, y, element)?;
    lowering.set(node, 0, y)
}

fn scatter_elements(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let ([x, of, updates], own) = scattered(node, lowering)?;
    let at = axis(node.int("axis", 0), x.rank())?;
    let fits = of.rank() == x.rank()
        && of.dims == updates.dims
        && of.dims.iter().zip(&x.dims).enumerate().all(|(axis, (own, all))| axis == at || own <= all);
    let mut dims = x.dims.to_vec();
    if !fits && lowering.guesses && of.rank() == x.rank() {
        // Sizes that are not known suit those of the updates.
        dims.iter_mut().zip(&of.dims).for_each(|(all, own)| *all = (*all).max(*own));
    } else if !fits {
        return refuse(format!("indices {:?} and updates {:?} of {:?}", of.dims, updates.dims, x.dims));
    }
    let y = one(lowering, Scatter::Elements(at, own), &[&x, &of, &updates], (x.element, dims))?;
    set_scattered(node, lowering, y)
}

/// The dimensions of the indices without the last one, and the width of a row.
fn rows(of: &View, most: usize) -> Lowered<(&[i64], usize)> {
    let Some((width, outer)) = of.dims.split_last() else { return refuse("indices without rows") };
    match usize::try_from(*width) {
        Ok(width) if (1..=most).contains(&width) => Ok((outer, width)),
        _ => refuse(format!("rows of {width} indices, expected 1 to {most}")),
    }
}

fn scatter_parts(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let ([x, of, updates], own) = scattered(node, lowering)?;
    let (outer, width) = rows(&of, x.rank())?;
    let wanted: Vec<i64> = outer.iter().chain(x.dims.iter().skip(width)).copied().collect();
    if updates.dims != wanted {
        return refuse(format!("updates {:?}, expected {wanted:?}", updates.dims));
    }
    let y = one(lowering, Scatter::Parts(own), &[&x, &of, &updates], (x.element, x.dims.to_vec()))?;
    set_scattered(node, lowering, y)
}

fn gather_elements(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, of) = (lowering.input(node, 0)?, indices(node, lowering)?);
    let at = axis(node.int("axis", 0), x.rank())?;
    let fits = of.rank() == x.rank()
        && of.dims.iter().zip(&x.dims).enumerate().all(|(axis, (own, all))| axis == at || own <= all);
    if !fits {
        return refuse(format!("indices {:?} of {:?}", of.dims, x.dims));
    }
    let y = one(lowering, Scatter::GatherElements(at), &[&x, &of], (x.element, of.dims.to_vec()))?;
    lowering.set(node, 0, y)
}

fn gather_parts(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, of) = (lowering.input(node, 0)?, indices(node, lowering)?);
    let leading = usize::try_from(node.int("batch_dims", 0)).unwrap_or(0);
    let Some(inner) = x.rank().checked_sub(leading).filter(|inner| *inner > 0) else {
        return refuse(format!("{leading} leading axes of {:?}", x.dims));
    };
    let (outer, width) = rows(&of, inner)?;
    if outer.get(..leading) != x.dims.get(..leading) || elements(&x.dims) == 0 {
        return refuse(format!("indices {:?} of {:?}", of.dims, x.dims));
    }
    let dims: Vec<i64> = outer.iter().chain(x.dims.iter().skip(leading + width)).copied().collect();
    let y = one(lowering, Scatter::GatherParts(leading), &[&x, &of], (x.element, dims))?;
    lowering.set(node, 0, y)
}

/// A function of two numbers of one floating-point type, by the provider.
pub fn pairwise(lowering: &mut Lowering<'_>, own: Pairwise, x: &View, by: &View) -> Lowered<View> {
    let dims = broadcast_dims(&[&x.dims, &by.dims])?;
    let (first, second) = (wide(lowering, x)?, wide(lowering, by)?);
    let spread =
        |view: &View| view.expanded(&dims).ok_or_else(|| Reason("operands do not broadcast".to_owned()));
    let second = if second.elements() == 1 { second } else { spread(&second)? };
    let y = one(lowering, own, &[&spread(&first)?, &second], (first.element, dims.clone()))?;
    narrow(lowering, y, x.element)
}
