//! Images sampled at given places, and boxes in images.

use super::Cost::Light;
use super::own::one;
use super::{Operator, onnx};
use crate::lowering::{Lowered, Lowering, Reason, refuse};
use crate::model::{Constant, Element, Node};
use crate::steps::{Beyond, Grid, Interpolation, Regions, Suppression};

pub const OPERATORS: &[Operator] = &[
    onnx("GridSample", (16, 22), Light, grid_sample),
    onnx("RoiAlign", (10, 22), Light, regions),
    onnx("NonMaxSuppression", (10, 11), Light, suppression),
];

/// The most samples along an axis of all bins of a region, and the most elements of its result.
const MOST_SAMPLES: i64 = 1 << 20;
const MOST_ELEMENTS: i64 = 1 << 31;

/// A result with room for all boxes that may be chosen.
fn suppression(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (boxes, scores) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    if boxes.element != Element::Float || scores.element != Element::Float {
        return refuse(format!("elements are {}, expected float", boxes.element.name()));
    }
    let ([images, size, 4], [batch, classes, count]) = (boxes.dims.as_slice(), scores.dims.as_slice()) else {
        return refuse(format!("boxes of dims {:?} and scores of {:?}", boxes.dims, scores.dims));
    };
    if !lowering.guesses && (images != batch || size != count) {
        return refuse(format!("boxes of dims {:?} and scores of {:?}", boxes.dims, scores.dims));
    }
    let mut reads = vec![boxes.clone(), scores.clone()];
    let mut given = [false; 3];
    for (at, (is_given, element)) in
        given.iter_mut().zip([Element::Int64, Element::Float, Element::Float]).enumerate()
    {
        if !Lowering::has_input(node, at + 2) {
            continue;
        }
        let limit = lowering.input(node, at + 2)?;
        if limit.elements() != 1 || limit.element != element {
            return refuse(format!("input {} is {} of dims {:?}", at + 2, limit.element.name(), limit.dims));
        }
        *is_given = true;
        reads.push(limit);
    }
    let most = lowering.constant(node, 2).and_then(Constant::integers);
    let most = most.and_then(|most| most.first().copied()).unwrap_or(*count).clamp(1, (*count).max(1));
    let Some(rows) = batch.checked_mul(*classes).and_then(|of| of.checked_mul(most)) else {
        return refuse("more boxes than can be counted");
    };
    let own = Suppression { is_centered: node.int("center_point_box", 0) != 0, given };
    lowering.set_late(node, own, &reads.iter().collect::<Vec<_>>(), (Element::Int64, vec![rows, 3], 0))
}

fn grid_sample(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, grid) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    if x.element != Element::Float || grid.element != Element::Float {
        return refuse(format!(
            "elements are {} and {}, expected float",
            x.element.name(),
            grid.element.name()
        ));
    }
    let interpolation = match node.text("mode", "linear") {
        "nearest" => Interpolation::Nearest,
        "linear" | "bilinear" => Interpolation::Linear,
        "cubic" | "bicubic" => Interpolation::Cubic,
        other => return refuse(format!("mode is {other:?}")),
    };
    let beyond = match node.text("padding_mode", "zeros") {
        "zeros" => Beyond::Zeros,
        "border" => Beyond::Border,
        "reflection" => Beyond::Reflection,
        other => return refuse(format!("padding_mode is {other:?}")),
    };
    let ([batch, channels, spatial @ ..], [of, outer @ .., axes]) = (x.dims.as_slice(), grid.dims.as_slice())
    else {
        return refuse(format!("an image of dims {:?} and a grid of {:?}", x.dims, grid.dims));
    };
    let count = i64::try_from(spatial.len()).unwrap_or(0);
    let fits = batch == of && *axes == count && outer.len() == spatial.len() && (2..=3).contains(&count);
    if !fits || spatial.contains(&0) || (count == 3 && interpolation == Interpolation::Cubic) {
        return refuse(format!("an image of dims {:?} and a grid of {:?}", x.dims, grid.dims));
    }
    let dims = [*batch, *channels].into_iter().chain(outer.iter().copied()).collect();
    let own = Grid { interpolation, beyond, is_aligned: node.int("align_corners", 0) != 0 };
    let y = one(lowering, own, &[&x, &grid], (Element::Float, dims))?;
    lowering.set(node, 0, y)
}

fn regions(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, regions, images) = (lowering.input(node, 0)?, lowering.input(node, 1)?, lowering.input(node, 2)?);
    if x.element != Element::Float || regions.element != Element::Float || images.element != Element::Int64 {
        return refuse(format!("elements are {}, expected float", x.element.name()));
    }
    let ([_, channels, height, width], [count, 4], [of]) =
        (x.dims.as_slice(), regions.dims.as_slice(), images.dims.as_slice())
    else {
        return refuse(format!("images of dims {:?} and regions of {:?}", x.dims, regions.dims));
    };
    if (!lowering.guesses && count != of) || (x.elements() == 0 && *count > 0) {
        return refuse(format!("images of dims {:?}, {count} regions and the images of {of}", x.dims));
    }
    let is_maximum = match node.text("mode", "avg") {
        "avg" => false,
        "max" => true,
        other => return refuse(format!("mode is {other:?}")),
    };
    let is_half_pixel = match node.text("coordinate_transformation_mode", "half_pixel") {
        // The first definition has no such attribute.
        "half_pixel" => node.since >= 16,
        "output_half_pixel" => false,
        other => return refuse(format!("coordinate_transformation_mode is {other:?}")),
    };
    let bins = ["output_height", "output_width"].map(|name| node.int(name, 1));
    let samples = node.int("sampling_ratio", 0);
    let [of_rows, of_columns] = bins;
    let is_bounded =
        |of: &i64| *of >= 0 && of.checked_mul(samples.max(1)).is_some_and(|all| all <= MOST_SAMPLES);
    let of_region = of_rows.checked_mul(of_columns).and_then(|of| of.checked_mul(*channels));
    let is_bounded = bins.iter().all(is_bounded)
        && of_region.is_some_and(|of| of <= MOST_ELEMENTS && of.checked_mul(*count).is_some());
    let ([Ok(tall), Ok(wide)], Ok(of_bin), true) =
        (bins.map(usize::try_from), usize::try_from(samples), is_bounded)
    else {
        return refuse(format!("{bins:?} bins of {samples} samples along each axis"));
    };
    // Vectors of channels are worth a copy that is smaller than what is read.
    let read = count.saturating_mul(of_rows * of_columns).saturating_mul(4);
    let is_channels_last = x.is_channels_last() || read > *height * *width;
    let order: &[usize] = if is_channels_last { &[0, 2, 3, 1] } else { &[0, 1, 2, 3] };
    let image = x.permuted(order).ok_or_else(|| Reason("no such axis".to_owned()))?;
    let own = Regions {
        bins: [tall, wide],
        samples: of_bin,
        scale: node.float("spatial_scale", 1.0),
        is_half_pixel,
        is_channels_last,
        is_maximum,
    };
    let dims = vec![*count, *channels, of_rows, of_columns];
    let y = one(lowering, own, &[&image, &regions, &images], (Element::Float, dims))?;
    lowering.set(node, 0, y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Attribute, Model, Value};

    /// The dimensions of a result of regions, with attributes.
    fn dims(image: [i64; 4], count: i64, attributes: &[(&str, i64)]) -> Lowered<Vec<i64>> {
        let value = || Value { element: Some(Element::Float), ..Value::default() };
        let model = Model { values: (0..4).map(|_| value()).collect(), ..Model::default() };
        let mut lowering = Lowering::whole(&model);
        lowering.bind_input(0, Element::Float, &image, false);
        lowering.bind_input(1, Element::Float, &[count, 4], false);
        lowering.bind_input(2, Element::Int64, &[count], false);
        let attributes = attributes.iter().map(|(name, of)| ((*name).to_owned(), Attribute::Int(*of)));
        let (inputs, outputs) = ((0..3).map(Some).collect(), vec![Some(3)]);
        let node = Node { inputs, outputs, attributes: attributes.collect(), ..Node::default() };
        regions(&node, &mut lowering)?;
        Ok(lowering.of(3).unwrap().dims.to_vec())
    }

    #[test]
    fn no_region_needs_no_image() {
        let bins = [("output_height", 2), ("output_width", 3)];
        assert_eq!(dims([0, 5, 8, 8], 0, &bins), Ok(vec![0, 5, 2, 3]));
        assert!(dims([0, 5, 8, 8], 1, &bins).is_err());
    }

    #[test]
    fn regions_of_too_many_samples_are_refused() {
        for (name, most) in [("sampling_ratio", 1 << 20), ("output_height", 1 << 20)] {
            assert!(dims([1, 5, 8, 8], 4, &[(name, most)]).is_ok(), "{name}");
            for more in [most + 1, 1 << 40, i64::MAX, -1] {
                assert!(dims([1, 5, 8, 8], 4, &[(name, more)]).is_err(), "{name} {more}");
            }
        }
        assert!(dims([1, 4096, 8, 8], 4, &[("output_height", 1 << 20), ("output_width", 1 << 20)]).is_err());
    }
}
