//! Deformable convolutions: the sampled elements of each place, multiplied with the filters.

use hipdnn::graph::PointwiseMode::Add;

use super::Cost::Heavy;
use super::matmul::product;
use super::own::one;
use super::{Operator, Window, onnx};
use crate::lowering::{Lowered, Lowering, Reason, View, refuse};
use crate::model::{Element, Node};
use crate::steps::Deformed;

/// The bytes of sampled elements above which images are computed one after the other, in the same memory.
const MOST_SAMPLED: i64 = 256 << 20;

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
        is_masked: mask.is_some(),
    };
    let gone = || Reason("no such axis".to_owned());
    let image = x.permuted(&[0, 2, 3, 1]).ok_or_else(gone)?;
    let weights = filters_of(node, lowering, &w, [groups, filters / groups, *of_group, taps])?;
    let bias = lowering.optional(node, 3);
    let bias = bias.map(|bias| lowering.reshape(&bias, &[groups, 1, filters / groups])).transpose()?;
    let of_image = window.out.iter().product::<i64>();
    // The result `[images, groups, filters, rows, columns]` of some images, computed after another one.
    let some = |lowering: &mut Lowering<'_>, reads: &[View], after: Option<&View>| {
        let images = reads.first().and_then(|image| image.dims.first()).copied().unwrap_or(0);
        let places = images * of_image;
        let reads: Vec<&View> = reads.iter().chain(after).collect();
        let sampled = one(lowering, own, &reads, (Element::Float, vec![groups, places, taps, *of_group]))?;
        let sampled = lowering.reshape(&sampled, &[groups, places, taps * of_group])?;
        let product = product(lowering, &node.name, &sampled, &weights)?;
        let y = match &bias {
            Some(bias) => lowering.binary(Add, &product, bias)?,
            None => product,
        };
        let mut dims = vec![groups, images];
        dims.extend(&window.out);
        dims.push(filters / groups);
        let turned = lowering.reshape(&y, &dims)?.permuted(&[1, 0, 4, 2, 3]).ok_or_else(gone)?;
        Ok((y, turned))
    };
    let reads: Vec<View> = [image, offset].into_iter().chain(mask).collect();
    let bytes = [of_image, taps, *channels].iter().fold(4, |all: i64, size| all.saturating_mul(*size));
    let at_once = (MOST_SAMPLED / bytes.max(1)).max(1);
    if at_once >= *batch {
        let (_, y) = some(lowering, &reads, None)?;
        let y = lowering.reshape(&y, &of(*filters))?;
        return lowering.set(node, 0, y);
    }
    let whole = lowering.fresh(Element::Float, &of(*filters));
    let (mut first, mut last) = (0, None);
    while first < *batch {
        let images = at_once.min(batch - first);
        let part = |view: &View| view.sliced(0, first, 1, images).ok_or_else(gone);
        let own = reads.iter().map(part).collect::<Lowered<Vec<View>>>()?;
        let (y, turned) = some(lowering, &own, last.as_ref())?;
        let to = part(&whole)?;
        let turned = lowering.reshape(&turned, &to.dims)?;
        lowering.copy(&turned, &to)?;
        last = Some(y);
        first += images;
    }
    lowering.set(node, 0, whole)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Attribute, Model, Value};

    #[test]
    fn large_images_share_memory() {
        let value = || Value { element: Some(Element::Float), ..Value::default() };
        let model = Model { values: (0..4).map(|_| value()).collect(), ..Model::default() };
        let scratch = |batch: i64| {
            let mut lowering = Lowering::whole(&model);
            let pads = ("pads".to_owned(), Attribute::Ints(vec![1; 4]));
            for (id, dims) in
                [[batch, 256, 200, 304], [256, 256, 3, 3], [batch, 18, 200, 304]].iter().enumerate()
            {
                lowering.bind_input(id, Element::Float, dims, false);
            }
            let inputs = (0..3).map(Some).collect();
            let node = Node { inputs, outputs: vec![Some(3)], attributes: [pads].into(), ..Node::default() };
            deformed(&node, &mut lowering).unwrap();
            let y = lowering.of(3).unwrap().clone();
            assert_eq!(y.dims, [batch, 256, 200, 304]);
            lowering.program.finish(&[y]).unwrap();
            lowering.program.divide("n").unwrap().scratch as i64
        };
        // The samples of an image take 560 MB, and copies of it and its result 62 MB each.
        let of_image = 200 * 304 * 256 * 4;
        assert!(scratch(8) < scratch(1) + 3 * 8 * of_image, "{} {}", scratch(8), scratch(1));
    }
}
