//! Layout changes: views of the same elements, and copies for concatenation.

use super::Cost::Layout;
use super::{Operator, axes, axis, onnx, same_type};
use crate::lowering::{Host, Lowered, Lowering, Reason, View, broadcast_dims, elements, refuse};
use crate::model::Node;

pub const OPERATORS: &[Operator] = &[
    onnx("Identity", (1, 25), Layout, identity),
    onnx("Dropout", (7, 22), Layout, dropout),
    onnx("Shape", (1, 25), Layout, |_, _| refuse("the shape is not known")),
    onnx("Size", (1, 25), Layout, |_, _| refuse("the shape is not known")),
    onnx("Reshape", (5, 25), Layout, reshape),
    onnx("Flatten", (1, 25), Layout, flatten),
    onnx("Squeeze", (1, 25), Layout, squeeze),
    onnx("Unsqueeze", (1, 25), Layout, unsqueeze),
    onnx("Transpose", (1, 25), Layout, transpose),
    onnx("Expand", (8, 13), Layout, expand),
    onnx("Tile", (6, 13), Layout, tile),
    onnx("Slice", (1, 13), Layout, slice),
    onnx("Split", (2, 18), Layout, split),
    onnx("Concat", (4, 13), Layout, concat),
    onnx("DepthToSpace", (1, 28), Layout, depth_to_space),
    onnx("SpaceToDepth", (1, 28), Layout, space_to_depth),
];

fn impossible(what: &str) -> Reason {
    Reason(format!("{what} of another number of dimensions"))
}

fn identity(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    lowering.set(node, 0, x)
}

fn dropout(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let trains = Lowering::has_input(node, 2)
        && lowering.constant(node, 2).and_then(|of| of.integers()).is_none_or(|of| of != [0]);
    if trains || Lowering::has_output(node, 1) {
        return refuse("the mask is wanted, or training");
    }
    identity(node, lowering)
}

fn reshape(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let guess = x.elements();
    let Some(wanted) = lowering.parameter(node, 1, "the shape", |_| vec![guess])? else {
        return refuse("no shape");
    };
    let zero_is_zero = node.int("allowzero", 0) != 0;
    let mut dims = Vec::with_capacity(wanted.len());
    for (at, dim) in wanted.iter().enumerate() {
        dims.push(match dim {
            0 if !zero_is_zero => match x.dims.get(at) {
                Some(dim) => *dim,
                None => return refuse(format!("shape {wanted:?} for dims {:?}", x.dims)),
            },
            dim if *dim >= -1 => *dim,
            _ => return refuse(format!("shape {wanted:?}")),
        });
    }
    if let Some(open) = dims.iter().position(|dim| *dim == -1) {
        let others: Vec<i64> =
            dims.iter().enumerate().filter(|(at, _)| *at != open).map(|(_, dim)| *dim).collect();
        let known = elements(&others);
        if known < 1 || x.elements() % known != 0 {
            return refuse(format!("shape {wanted:?} for dims {:?}", x.dims));
        }
        if let Some(slot) = dims.get_mut(open) {
            *slot = x.elements() / known;
        }
    }
    let y = lowering.reshape(&x, &dims)?;
    lowering.set(node, 0, y)
}

fn flatten(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let at = node.int("axis", 1);
    let rank = i64::try_from(x.rank()).unwrap_or(0);
    let at = if at < 0 { at + rank } else { at };
    let Some(at) = usize::try_from(at).ok().filter(|at| *at <= x.rank()) else {
        return refuse(format!("axis {at} of {rank} dimensions"));
    };
    let (front, back) = x.dims.split_at(at);
    let dims = [elements(front), elements(back)];
    let y = lowering.reshape(&x, &dims)?;
    lowering.set(node, 0, y)
}

/// The axes from an attribute or the second input.
fn given_axes(
    node: &Node,
    lowering: &mut Lowering<'_>,
    guess: impl FnOnce(i64) -> Vec<i64>,
) -> Lowered<Option<Vec<i64>>> {
    match node.ints("axes") {
        Some(list) => Ok(Some(list.to_vec())),
        None => lowering.parameter(node, 1, "the list of axes", guess),
    }
}

fn squeeze(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let ones: Vec<i64> = (0..).zip(&x.dims).filter(|(_, dim)| **dim == 1).map(|(at, _)| at).collect();
    let all = ones.clone();
    let list = given_axes(node, lowering, |_| ones)?.unwrap_or(all);
    let list = axes(&list, x.rank())?;
    if list.iter().any(|at| x.dims.get(*at) != Some(&1)) {
        return refuse(format!("dims {:?} are squeezed at {list:?}", x.dims));
    }
    let dims: Vec<i64> =
        x.dims.iter().enumerate().filter(|(at, _)| !list.contains(at)).map(|(_, dim)| *dim).collect();
    let y = lowering.reshape(&x, &dims)?;
    lowering.set(node, 0, y)
}

fn unsqueeze(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let Some(list) = given_axes(node, lowering, |count| (0..count).collect())? else {
        return refuse("no axes");
    };
    let list = axes(&list, x.rank() + list.len())?;
    let mut dims = x.dims.to_vec();
    for at in list {
        if at > dims.len() {
            return refuse("axes that are named twice");
        }
        dims.insert(at, 1);
    }
    let y = lowering.reshape(&x, &dims)?;
    lowering.set(node, 0, y)
}

fn transpose(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let order = match node.ints("perm") {
        Some(list) => list.iter().map(|at| axis(*at, x.rank())).collect::<Lowered<Vec<_>>>()?,
        None => (0..x.rank()).rev().collect(),
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted != (0..x.rank()).collect::<Vec<_>>() {
        return refuse(format!("perm is {order:?} of {} dimensions", x.rank()));
    }
    let y = x.permuted(&order).ok_or_else(|| impossible("an order"))?;
    lowering.set(node, 0, y)
}

fn expand(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let guess = x.dims.to_vec();
    let Some(shape) = lowering.parameter(node, 1, "the shape", |_| guess)? else { return refuse("no shape") };
    let dims = broadcast_dims(&[&x.dims, &shape])?;
    let y = x.expanded(&dims).ok_or_else(|| impossible("a shape"))?;
    lowering.set(node, 0, y)
}

/// Repetitions along each axis.
fn tile(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let ones = vec![1; x.rank()];
    let Some(counts) = lowering.parameter(node, 1, "the list of repetitions", |_| ones)? else {
        return refuse("no repetitions");
    };
    if counts.len() != x.rank() || counts.iter().any(|count| *count < 0) {
        return refuse(format!("repetitions {counts:?} of dims {:?}", x.dims));
    }
    // A repeated axis of several elements is split in two: the repetitions, and the elements.
    let (mut single, mut wide) = (Vec::new(), Vec::new());
    for (dim, count) in x.dims.iter().zip(&counts) {
        if *dim != 1 && *count != 1 {
            single.push(1);
            wide.push(*count);
        }
        single.push(*dim);
        wide.push(if *dim == 1 { *count } else { *dim });
    }
    let dims: Vec<i64> = x.dims.iter().zip(&counts).map(|(dim, count)| dim * count).collect();
    let repeated = lowering.reshape(&x, &single)?.expanded(&wide).ok_or_else(|| impossible("repetitions"))?;
    let y = lowering.reshape(&repeated, &dims)?;
    lowering.set(node, 0, y)
}

fn slice(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let mut x = lowering.input(node, 0)?;
    let by_attributes = node.since < 10;
    let mut list = |name: &str, at: usize, guess: fn(i64) -> Vec<i64>| -> Lowered<Option<Vec<i64>>> {
        if by_attributes {
            Ok(node.ints(name).map(<[i64]>::to_vec))
        } else {
            lowering.parameter(node, at, name, guess)
        }
    };
    let starts = list("starts", 1, |count| (0..count).map(|_| 0).collect())?;
    let ends = list("ends", 2, |count| (0..count).map(|_| i64::MAX).collect())?;
    let list_of_axes = list("axes", 3, |count| (0..count).collect())?;
    let (Some(starts), Some(ends)) = (starts, ends) else { return refuse("no range") };
    let count = i64::try_from(starts.len()).unwrap_or(0);
    let list_of_axes = list_of_axes.unwrap_or_else(|| (0..count).collect());
    let steps = list("steps", 4, |count| (0..count).map(|_| 1).collect())?;
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len() || list_of_axes.len() != starts.len() || steps.len() != starts.len() {
        return refuse("ranges of different lengths");
    }
    for (((start, end), at), step) in starts.iter().zip(&ends).zip(&list_of_axes).zip(&steps) {
        let at = axis(*at, x.rank())?;
        let size = x.dims.get(at).copied().unwrap_or(0);
        if *step < 1 {
            x = backwards(lowering, &x, at, [*start, *end, *step])?;
            continue;
        }
        let place = |of: i64| if of < 0 { of.saturating_add(size) } else { of }.clamp(0, size);
        let (from, to) = (place(*start), place(*end));
        let count = if to > from { (to - from - 1) / step + 1 } else { 0 };
        x = x.sliced(at, from, *step, count).ok_or_else(|| impossible("a range"))?;
    }
    lowering.set(node, 0, x)
}

/// Elements from the last one to the first one along an axis: strides cannot be negative, so they are copied.
fn backwards(
    lowering: &mut Lowering<'_>,
    x: &View,
    at: usize,
    [start, end, step]: [i64; 3],
) -> Lowered<View> {
    let size = x.dims.get(at).copied().unwrap_or(0);
    if step == 0 {
        return refuse("a step of 0");
    }
    let place = |of: i64| if of < 0 { of.saturating_add(size) } else { of };
    let (from, to) = (place(start).clamp(-1, size - 1), place(end).clamp(-1, size - 1));
    let places = (to + 1..=from).rev().step_by(usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX));
    let places: Vec<i32> = places.filter_map(|place| i32::try_from(place).ok()).collect();
    let mut dims = x.dims.to_vec();
    let count = i64::try_from(places.len()).unwrap_or(0);
    dims.iter_mut().skip(at).take(1).for_each(|dim| *dim = count);
    let places = lowering.int32s(&[count], places)?;
    Ok(lowering.host(Host::Gather(at), &[x, &places], x.element, &dims))
}

fn split(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let at = axis(node.int("axis", 0), x.rank())?;
    let size = x.dims.get(at).copied().unwrap_or(0);
    let parts = i64::try_from(node.outputs.len()).unwrap_or(1).max(1);
    // Equal parts; from version 18 on the last one may be smaller.
    let each = (size + parts - 1) / parts;
    let equal: Vec<i64> = (0..parts).map(|part| each.min(size - part * each).max(0)).collect();
    let given = match node.ints("split") {
        Some(list) => Some(list.to_vec()),
        None => lowering.parameter(node, 1, "the list of sizes", |_| equal.clone())?,
    };
    let sizes = given.unwrap_or(equal);
    if sizes.len() != node.outputs.len()
        || sizes.iter().sum::<i64>() != size
        || sizes.iter().any(|of| *of < 0)
    {
        return refuse(format!("{size} elements in parts of {sizes:?}"));
    }
    let mut from = 0;
    for (part, count) in sizes.iter().enumerate() {
        let view = x.sliced(at, from, 1, *count).ok_or_else(|| impossible("a part"))?;
        lowering.set(node, part, view)?;
        from += count;
    }
    Ok(())
}

/// The part of x selected by indices that are one number or a range, known before execution.
pub fn range(node: &Node, lowering: &Lowering<'_>, x: &View, at: usize) -> Lowered<View> {
    let Some(constant) = lowering.constant(node, 1) else { return refuse("the indices are not constant") };
    let Some(indices) = constant.integers() else { return refuse("the indices are not integers") };
    let size = x.dims.get(at).copied().unwrap_or(0);
    let place = |of: &i64| if *of < 0 { of + size } else { *of };
    let places: Vec<i64> = indices.iter().map(place).collect();
    let Some(first) = places.first().copied() else { return refuse("no index") };
    let step = places.get(1).map_or(1, |second| second - first);
    let regular = places.iter().zip(0..).all(|(of, count)| *of == first + step * count);
    if !regular || step < 1 || places.iter().any(|of| !(0..size).contains(of)) {
        return refuse(format!("indices {indices:?} of {size} elements are not a range"));
    }
    let count = i64::try_from(places.len()).unwrap_or(1);
    let part = x.sliced(at, first, step, count).ok_or_else(|| impossible("a range"))?;
    let mut dims = part.dims.to_vec();
    dims.splice(at..=at, constant.dims.iter().copied());
    part.reshaped(&dims).ok_or_else(|| impossible("indices"))
}

fn concat(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let parts = (0..node.inputs.len()).map(|at| lowering.input(node, at)).collect::<Lowered<Vec<_>>>()?;
    let whole = joined(lowering, &parts, node.int("axis", 0))?;
    lowering.set(node, 0, whole)
}

/// Concatenates parts along an axis.
pub fn joined(lowering: &mut Lowering<'_>, parts: &[View], along: i64) -> Lowered<View> {
    same_type(&parts.iter().collect::<Vec<_>>())?;
    let Some(first) = parts.first() else { return refuse("no input") };
    let at = axis(along, first.rank())?;
    let mut dims = first.dims.to_vec();
    let mut total = 0;
    for part in parts {
        let same = part.rank() == dims.len()
            && part.dims.iter().zip(&dims).enumerate().all(|(axis, (have, want))| axis == at || have == want);
        if !same {
            return refuse(format!("{:?} beside {dims:?}", part.dims));
        }
        total += part.dims.get(at).copied().unwrap_or(0);
    }
    if let Some(slot) = dims.get_mut(at) {
        *slot = total;
    }
    let enlarged = lowering.program.enlarged(first, at, &dims);
    let in_place = usize::from(enlarged.is_some());
    let whole = enlarged.unwrap_or_else(|| lowering.fresh_like(first.element, &dims, first));
    let mut from = 0;
    for (number, part) in parts.iter().enumerate() {
        let count = part.dims.get(at).copied().unwrap_or(0);
        let place = whole.sliced(at, from, 1, count).ok_or_else(|| impossible("a part"))?;
        if number >= in_place {
            lowering.copy(part, &place)?;
        }
        from += count;
    }
    Ok(whole)
}

fn blocks(node: &Node, x: &View) -> Lowered<([i64; 4], i64)> {
    let size = node.int("blocksize", 0);
    match x.dims.as_slice() {
        [n, c, h, w] if size > 0 => Ok(([*n, *c, *h, *w], size)),
        dims => refuse(format!("blocks of {size} in dims {dims:?}")),
    }
}

fn depth_to_space(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let ([n, c, h, w], size) = blocks(node, &x)?;
    if c % (size * size) != 0 {
        return refuse(format!("{c} channels in blocks of {size}"));
    }
    let depth = c / (size * size);
    let (dims, order) = match node.text("mode", "DCR") {
        "DCR" => ([n, size, size, depth, h, w], [0, 3, 4, 1, 5, 2]),
        "CRD" => ([n, depth, size, size, h, w], [0, 1, 4, 2, 5, 3]),
        other => return refuse(format!("mode is {other:?}")),
    };
    moved(node, lowering, &x, &dims, &order, &[n, depth, h * size, w * size])
}

fn space_to_depth(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let ([n, c, h, w], size) = blocks(node, &x)?;
    if h % size != 0 || w % size != 0 {
        return refuse(format!("{h} × {w} in blocks of {size}"));
    }
    let dims = [n, c, h / size, size, w / size, size];
    let order = match node.text("mode", "DCR") {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        other => return refuse(format!("mode is {other:?}")),
    };
    moved(node, lowering, &x, &dims, &order, &[n, c * size * size, h / size, w / size])
}

fn moved(
    node: &Node,
    lowering: &mut Lowering<'_>,
    x: &View,
    dims: &[i64],
    order: &[usize],
    result: &[i64],
) -> Lowered<()> {
    let divided = lowering.reshape(x, dims)?;
    let ordered = divided.permuted(order).ok_or_else(|| impossible("an order"))?;
    let y = lowering.reshape(&ordered, result)?;
    lowering.set(node, 0, y)
}
