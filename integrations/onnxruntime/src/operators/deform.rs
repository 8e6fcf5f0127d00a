//! Deformable convolutions: the sampled elements of each place, multiplied with the filters.

use hipdnn::graph::PointwiseMode::Add;

use super::Cost::Heavy;
use super::matmul::product;
use super::own::one;
use super::{Operator, Window, onnx};
use crate::lowering::{Lowered, Lowering, Reason, View, refuse};
use crate::model::{Element, Node};
use crate::steps::Deformed;

pub const OPERATORS: &[Operator] = &[onnx("DeformConv", (19, 22), Heavy, deformed)];

fn deformed(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, w, offset) = (lowering.input(node, 0)?, lowering.input(node, 1)?, lowering.input(node, 2)?);
    let mask = lowering.optional(node, 4);
    if [&x, &w, &offset].into_iter().chain(&mask).any(|view| view.element != Element::Float) {
        return refuse(format!("elements are {}, expected float", x.element.name()));
    }
    let ([batch, channels, height, width], [filters, of_group, size @ ..]) =
        (x.dims.as_slice(), w.dims.as_slice())
    else {
        return refuse(format!("an image of dims {:?}, filters of {:?}", x.dims, w.dims));
    };
    let (groups, offset_groups) = (node.int("group", 1), node.int("offset_group", 1));
    let is_divided = |all: i64, by: i64| by >= 1 && all % by == 0;
    let fits = size.len() == 2 && is_divided(*channels, groups) && of_group * groups == *channels;
    if !fits || !is_divided(*filters, groups) || !is_divided(*channels, offset_groups) {
        return refuse(format!("{channels} channels in {groups} groups, filters of {:?}", w.dims));
    }
    let window = Window::read(node, &[*height, *width], size, None)?;
    let taps: i64 = size.iter().product();
    let of = |count: i64| -> Vec<i64> { [*batch, count].iter().chain(&window.out).copied().collect() };
    let fits = |view: &View, count: i64| view.dims == of(count) || lowering.guesses && view.rank() == 4;
    if !fits(&offset, offset_groups * taps * 2)
        || mask.as_ref().is_some_and(|of| !fits(of, offset_groups * taps))
    {
        return refuse(format!("offsets of dims {:?}", offset.dims));
    }
    let pair = |list: &[i64]| <[i64; 2]>::try_from(list).map_err(|_| Reason(format!("{list:?}")));
    let count = |of: i64| usize::try_from(of).unwrap_or(0);
    let own = Deformed {
        window: pair(size)?.map(count),
        stride: pair(&window.stride)?,
        before: pair(&window.before)?,
        dilation: pair(&window.dilation)?,
        groups: count(groups),
        offset_groups: count(offset_groups),
    };
    let gone = || Reason("no such axis".to_owned());
    let image = x.permuted(&[0, 2, 3, 1]).ok_or_else(gone)?;
    let places = batch * window.out.iter().product::<i64>();
    let reads: Vec<&View> = [&image, &offset].into_iter().chain(&mask).collect();
    let sampled = one(lowering, own, &reads, (Element::Float, vec![groups, places, taps, *of_group]))?;
    let sampled = lowering.reshape(&sampled, &[groups, places, taps * of_group])?;
    let weights = filters_of(node, lowering, &w, [groups, filters / groups, *of_group, taps])?;
    let mut y = product(lowering, &node.name, &sampled, &weights)?;
    if let Some(bias) = lowering.optional(node, 3) {
        let bias = lowering.reshape(&bias, &[groups, 1, filters / groups])?;
        y = lowering.binary(Add, &y, &bias)?;
    }
    let mut dims = vec![groups, *batch];
    dims.extend(&window.out);
    dims.push(filters / groups);
    let y = lowering.reshape(&y, &dims)?.permuted(&[1, 0, 4, 2, 3]).ok_or_else(gone)?;
    let y = lowering.reshape(&y, &of(*filters))?;
    lowering.set(node, 0, y)
}

/// The filters as matrices `[groups, taps · channels, filters]`; turned once if they are constant.
fn filters_of(
    node: &Node,
    lowering: &mut Lowering<'_>,
    w: &View,
    [groups, filters, channels, taps]: [i64; 4],
) -> Lowered<View> {
    let dims = [groups, taps * channels, filters];
    let Some(bytes) = lowering.bytes(node, 1) else {
        let w = lowering.reshape(w, &[groups, filters, channels, taps])?;
        let turned = w.permuted(&[0, 3, 2, 1]).ok_or_else(|| Reason("no such axis".to_owned()))?;
        let packed = lowering.packed(&turned)?;
        return lowering.reshape(&packed, &dims);
    };
    lowering.folded(node, Element::Float, &dims, || {
        let count = |of: i64| usize::try_from(of).unwrap_or(0);
        let (filters, channels, taps) = (count(filters), count(channels), count(taps));
        let of = |at: usize| {
            let (rest, filter) = (at / filters, at % filters);
            let (rest, channel) = (rest / channels, rest % channels);
            let (group, tap) = (rest / taps, rest % taps);
            let from = (((group * filters + filter) * channels + channel) * taps + tap) * 4;
            bytes.get(from..from + 4).ok_or_else(|| Reason("constant elements are missing".to_owned()))
        };
        let all = (0..bytes.len() / 4).map(of).collect::<Lowered<Vec<&[u8]>>>()?;
        Ok(all.concat())
    })
}
