//! The spectra of a signal's frames, as a convolution with the cosines and sines of the discrete Fourier transform.

use std::f64::consts::TAU;

use hipdnn::graph::ConvMode;
use hipdnn::graph::operation::ConvolutionForward;

use super::Cost::Heavy;
use super::{Operator, onnx};
use crate::lowering::{Lowered, Lowering, Reason, refuse};
use crate::model::{Element, Node};

pub const OPERATORS: &[Operator] = &[onnx("STFT", (17, 17), Heavy, spectra)];

/// The longest frame. The matrix grows with its square: 4 MB at 1024, 67 MB at 4096.
const LONGEST: usize = 1024;

/// The waves of a frame, `[2, bins, length]`: cosines, then sines turned backwards, each times the window.
fn waves(length: usize, bins: usize, window: Option<&[f64]>) -> Vec<f32> {
    let wave = |is_sine: bool, bin: usize| {
        (0..length).map(move |at| {
            // Whole turns are left out before the product is rounded.
            let turns = ((bin * at) % length) as f64 / length as f64;
            let of = if is_sine { -(TAU * turns).sin() } else { (TAU * turns).cos() };
            let factor = window.map_or(1.0, |window| window.get(at).copied().unwrap_or(0.0));
            (of * factor) as f32
        })
    };
    [false, true].into_iter().flat_map(|is_sine| (0..bins).flat_map(move |bin| wave(is_sine, bin))).collect()
}

fn spectra(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    if x.element != Element::Float {
        return refuse(format!("elements are {}, expected float", x.element.name()));
    }
    let ([batch, samples] | [batch, samples, 1]) = *x.dims.as_slice() else {
        return refuse(format!("a signal of dims {:?}, expected a real one", x.dims));
    };
    let constant = |lowering: &Lowering<'_>, at: usize, what: &str| -> Lowered<Option<i64>> {
        Ok(lowering.scalar(node, at, what)?.map(|number| number as i64))
    };
    let Some(step) = constant(lowering, 1, "the step")?.filter(|step| *step > 0) else {
        return refuse("frames without a step");
    };
    let window = if Lowering::has_input(node, 2) {
        let window = lowering.numbers(node, 2);
        Some(window.ok_or_else(|| Reason("the window is not constant".to_owned()))?)
    } else {
        None
    };
    let length = match constant(lowering, 3, "the length")? {
        Some(length) => usize::try_from(length).unwrap_or(0),
        None => window.as_ref().map_or(0, Vec::len),
    };
    if !(1..=LONGEST).contains(&length) || window.as_ref().is_some_and(|window| window.len() != length) {
        return refuse(format!("frames of {length} samples"));
    }
    let bins = if node.int("onesided", 1) != 0 { length / 2 + 1 } else { length };
    let signed = |of: usize| i64::try_from(of).unwrap_or(i64::MAX);
    let frames = (samples - signed(length)).div_euclid(step) + 1;
    if frames < 1 {
        return refuse(format!("frames of {length} samples of {samples}"));
    }
    let dims = [signed(2 * bins), 1, 1, signed(length)];
    let w = lowering.folded(node, Element::Float, &dims, || {
        Ok(waves(length, bins, window.as_deref()).into_iter().flat_map(f32::to_ne_bytes).collect())
    })?;
    let x = lowering.reshape(&x, &[batch, 1, 1, samples])?;
    let y = lowering.fresh(Element::Float, &[batch, signed(2 * bins), 1, frames]);
    let operation = ConvolutionForward {
        x: lowering.tensor(&x),
        w: lowering.tensor(&w),
        y: lowering.tensor(&y),
        pre_padding: vec![0, 0],
        post_padding: vec![0, 0],
        stride: vec![1, step],
        dilation: vec![1, 1],
        conv_mode: ConvMode::CrossCorrelation,
    };
    lowering.op(&node.name, operation)?;
    let y = lowering.reshape(&y, &[batch, 2, signed(bins), frames])?;
    let y = y.permuted(&[0, 3, 2, 1]).ok_or_else(|| Reason("no such axis".to_owned()))?;
    lowering.set(node, 0, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_are_those_of_the_transform() {
        let of = waves(4, 3, None);
        let expected = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, -1.0, 0.0];
        assert!(of.iter().zip(expected).all(|(have, want)| (have - want).abs() <= f32::EPSILON), "{of:?}");
        let of = waves(8, 5, Some(&[2.0; 8]));
        assert_eq!(of.len(), 2 * 5 * 8);
        let sine = of[(5 + 1) * 8 + 2];
        assert!((sine + 2.0).abs() <= f32::EPSILON, "{sine}");
    }
}
