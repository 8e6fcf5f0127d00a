//! Images made larger: each element repeated a whole number of times.

use super::Cost::Layout;
use super::{Operator, onnx};
use crate::lowering::{Lowered, Lowering, View, refuse};
use crate::model::{Constant, Node};

pub const OPERATORS: &[Operator] =
    &[onnx("Resize", (11, 19), Layout, resize), onnx("Upsample", (9, 9), Layout, upsample)];

fn upsample(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    if node.text("mode", "nearest") != "nearest" {
        return refuse("the elements are not repeated");
    }
    let factors = factors(lowering.constant(node, 1), x.rank())?;
    repeat(node, lowering, &x, &factors)
}

fn resize(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let transformation = node.text("coordinate_transformation_mode", "half_pixel");
    let nearest = node.text("nearest_mode", "round_prefer_floor");
    // With these two, output i is input ⌊i / factor⌋ for whole factors: centres of pixels are rounded to the pixel that they lie in.
    let repeats = match transformation {
        "asymmetric" => nearest == "floor",
        "half_pixel" | "half_pixel_symmetric" => {
            matches!(nearest, "round_prefer_floor" | "round_prefer_ceil")
        }
        _ => false,
    };
    if node.text("mode", "nearest") != "nearest" || !repeats || node.ints("axes").is_some() {
        return refuse("the elements are not just repeated");
    }
    let factors = if Lowering::has_input(node, 3) {
        let sizes = lowering.integers(node, 3, "the list of sizes")?.unwrap_or_default();
        if sizes.len() != x.rank() || node.text("keep_aspect_ratio_policy", "stretch") != "stretch" {
            return refuse(format!("sizes {sizes:?} for dims {:?}", x.dims));
        }
        let whole = |(size, dim): (&i64, &i64)| (*dim > 0 && size % dim == 0).then(|| size / dim);
        let Some(factors) = sizes.iter().zip(&x.dims).map(whole).collect::<Option<Vec<_>>>() else {
            return refuse(format!("sizes {sizes:?} for dims {:?}", x.dims));
        };
        factors
    } else {
        factors(lowering.constant(node, 2), x.rank())?
    };
    repeat(node, lowering, &x, &factors)
}

fn factors(scales: Option<&Constant>, rank: usize) -> Lowered<Vec<i64>> {
    let Some(scales) = scales.and_then(Constant::numbers) else {
        return refuse("the scales are not constant");
    };
    let whole =
        |scale: &f64| (*scale >= 1.0 && *scale <= 64.0 && scale.fract() == 0.0).then_some(*scale as i64);
    match scales.iter().map(whole).collect::<Option<Vec<_>>>() {
        Some(factors) if factors.len() == rank => Ok(factors),
        _ => refuse(format!("scales {scales:?} of {rank} dimensions")),
    }
}

/// Writes each element `factor` times along each dimension.
fn repeat(node: &Node, lowering: &mut Lowering<'_>, x: &View, factors: &[i64]) -> Lowered<()> {
    if factors.iter().any(|factor| *factor < 1) {
        return refuse(format!("factors {factors:?}"));
    }
    let dims: Vec<i64> = x.dims.iter().zip(factors).map(|(dim, factor)| dim * factor).collect();
    // Dimensions with a factor are two: the element, and how often.
    let (mut single, mut wide) = (Vec::new(), Vec::new());
    for (dim, factor) in x.dims.iter().zip(factors) {
        single.push(*dim);
        wide.push(*dim);
        if *factor > 1 {
            single.push(1);
            wide.push(*factor);
        }
    }
    let to = lowering.fresh(x.element, &dims);
    let from = lowering.reshape(x, &single)?.expanded(&wide);
    let (Some(from), Some(place)) = (from, to.reshaped(&wide)) else { return refuse("too many dimensions") };
    lowering.copy(&from, &place)?;
    lowering.set(node, 0, to)
}
