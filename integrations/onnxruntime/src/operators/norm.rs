//! Normalizations.

use hipdnn::graph::operation::{BatchnormInferenceVariance, Layernorm, RmsNorm};
use hipdnn::graph::{NormFwdPhase, PointwiseMode, ReductionMode};

use super::Cost::Light;
use super::quantize::constants;
use super::{Operator, axis, by_channel, floats, microsoft, onnx, same_type};
use crate::lowering::{Lowered, Lowering, Reason, View, refuse};
use crate::model::{Element, Node};

pub const OPERATORS: &[Operator] = &[
    onnx("BatchNormalization", (7, 15), Light, batch),
    onnx("LayerNormalization", (17, 17), Light, layer),
    onnx("RMSNormalization", (23, 23), Light, rms),
    onnx("SimplifiedLayerNormalization", (1, 1), Light, rms),
    onnx("GroupNormalization", (18, 21), Light, group),
    onnx("InstanceNormalization", (6, 22), Light, instance),
    microsoft("SkipLayerNormalization", Light, skip_layer),
    microsoft("SkipSimplifiedLayerNormalization", Light, skip_rms),
];

fn is_double(view: &View) -> bool {
    view.element == Element::Double
}

fn batch(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let numbers: Vec<View> = (1..5).map(|at| lowering.input(node, at)).collect::<Lowered<_>>()?;
    let all: Vec<&View> = std::iter::once(&x).chain(&numbers).collect();
    floats(&all)?;
    if node.int("training_mode", 0) != 0 || (1..5).any(|at| Lowering::has_output(node, at)) {
        return refuse("statistics of the batch are wanted");
    }
    if node.int("spatial", 1) != 1 {
        return refuse("statistics are not by channel");
    }
    if !(2..=8).contains(&x.rank()) || numbers.iter().any(|of| Some(&of.elements()) != x.dims.get(1)) {
        return refuse(format!("statistics of an image of dims {:?}", x.dims));
    }
    if let Some(y) = by_constants(node, lowering, &x)? {
        return lowering.set(node, 0, y);
    }
    let mut places = Vec::with_capacity(4);
    for view in &numbers {
        let view = by_channel(lowering, view, x.rank())?;
        places.push(lowering.tensor(&view));
    }
    let [scale, bias, mean, variance] = places.as_slice() else { return refuse("an input is absent") };
    let y = lowering.fresh_like(x.element, &x.dims, &x);
    let epsilon = lowering.number(f64::from(node.float("epsilon", 1e-5)), is_double(&x), x.rank());
    let operation = BatchnormInferenceVariance {
        x: lowering.tensor(&x),
        mean: *mean,
        variance: *variance,
        scale: *scale,
        bias: *bias,
        y: lowering.tensor(&y),
        epsilon,
    };
    lowering.op(&node.name, operation)?;
    lowering.set(node, 0, y)
}

/// Constants by channel.
enum Numbers<'m> {
    /// As stored, in single precision.
    Stored(&'m [u8]),
    /// Computed from others.
    Made(Vec<f64>),
}

impl Numbers<'_> {
    fn list(self) -> Vec<f64> {
        match self {
            Self::Stored(bytes) => {
                bytes.as_chunks().0.iter().map(|of| f64::from(f32::from_ne_bytes(*of))).collect()
            }
            Self::Made(list) => list,
        }
    }
}

/// Batch normalization by constants: a factor and a summand per channel, which engines fuse with their neighbours.
fn by_constants(node: &Node, lowering: &mut Lowering<'_>, x: &View) -> Lowered<Option<View>> {
    if x.element != Element::Float {
        return Ok(None);
    }
    // In single precision as stored, read once for all sizes; or dequantized.
    let is_stored = |at: usize| {
        lowering.optional(node, at).is_some_and(|of| of.element == Element::Float)
            && lowering.bytes(node, at).is_some()
    };
    let all: Option<Vec<Numbers<'_>>> = match (1..5).all(is_stored) {
        true => (1..5).map(|at| lowering.bytes(node, at).map(Numbers::Stored)).collect(),
        false => (1..5).map(|at| constants(node, lowering, at).map(Numbers::Made)).collect(),
    };
    let Some([scale, bias, mean, variance]) = all.and_then(|all| <[Numbers<'_>; 4]>::try_from(all).ok())
    else {
        return Ok(None);
    };
    let epsilon = f64::from(node.float("epsilon", 1e-5));
    let channels = x.dims.get(1).copied().unwrap_or(0);
    let both = lowering.folded(node, x.element, &[2, channels], || {
        let [scale, bias, mean, variance] = [scale, bias, mean, variance].map(Numbers::list);
        let factors: Vec<f64> = scale
            .iter()
            .zip(&variance)
            .map(|(scale, variance)| scale / (variance + epsilon).sqrt())
            .collect();
        let summands =
            factors.iter().zip(bias.iter().zip(&mean)).map(|(factor, (bias, mean))| bias - mean * factor);
        let both = factors.iter().copied().chain(summands);
        Ok(both.flat_map(|number| (number as f32).to_ne_bytes()).collect())
    })?;
    let mut y = x.clone();
    for (at, mode) in [(0, PointwiseMode::Mul), (1, PointwiseMode::Add)] {
        let own = both.sliced(0, at, 1, 1).ok_or_else(|| Reason("parameters have gaps".to_owned()))?;
        let own = by_channel(lowering, &own, x.rank())?;
        y = lowering.binary(mode, &y, &own)?;
    }
    Ok(Some(y))
}

/// Parameters for the last dimensions of x, with leading ones.
fn parameters(x: &View, from: usize, view: &View) -> Lowered<View> {
    let rest = x.dims.get(from..).unwrap_or(&[]);
    let own: Vec<i64> = view.dims.iter().copied().skip_while(|dim| *dim == 1).collect();
    let expected: Vec<i64> = rest.iter().copied().skip_while(|dim| *dim == 1).collect();
    if own != expected {
        return refuse(format!("parameters of dims {:?} beside normalized dims {rest:?}", view.dims));
    }
    let mut dims = vec![1; from];
    dims.extend(rest);
    match view.reshaped(&dims) {
        Some(view) => Ok(view),
        None => refuse("parameters have gaps"),
    }
}

fn layer(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, scale) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    let bias = lowering.optional(node, 2);
    let from = axis(node.int("axis", -1), x.rank())?;
    let wants = Lowering::has_output(node, 1) || Lowering::has_output(node, 2);
    if wants && x.element != Element::Float {
        return refuse("statistics of another type than the input are wanted");
    }
    let statistics = wants.then(|| {
        let mut dims = x.dims.to_vec();
        dims.iter_mut().skip(from).for_each(|dim| *dim = 1);
        [lowering.fresh(x.element, &dims), lowering.fresh(x.element, &dims)]
    });
    let epsilon = f64::from(node.float("epsilon", 1e-5));
    let scaling = Scaling { scale: &scale, bias: bias.as_ref(), epsilon };
    let y = layer_of(lowering, node, &x, from, scaling, statistics.as_ref())?;
    if let Some([mean, inverse]) = statistics {
        lowering.set(node, 1, mean)?;
        lowering.set(node, 2, inverse)?;
    }
    lowering.set(node, 0, y)
}

/// The parameters of a layer normalization.
struct Scaling<'v> {
    scale: &'v View,
    bias: Option<&'v View>,
    epsilon: f64,
}

fn layer_of(
    lowering: &mut Lowering<'_>,
    node: &Node,
    x: &View,
    from: usize,
    Scaling { scale, bias, epsilon }: Scaling<'_>,
    statistics: Option<&[View; 2]>,
) -> Lowered<View> {
    let all: Vec<&View> = [x, scale].into_iter().chain(bias).collect();
    floats(&all)?;
    same_type(&all)?;
    let scale = parameters(x, from, scale)?;
    let bias = match bias {
        Some(bias) => parameters(x, from, bias)?,
        None => {
            let zeros = vec![0; usize::try_from(scale.elements()).unwrap_or(0) * x.element.size()];
            lowering.data(x.element, &scale.dims, &zeros)?
        }
    };
    let y = lowering.fresh(x.element, &x.dims);
    let epsilon = lowering.number(epsilon, is_double(x), x.rank());
    let operation = Layernorm {
        x: lowering.tensor(x),
        scale: lowering.tensor(&scale),
        bias: lowering.tensor(&bias),
        epsilon,
        y: lowering.tensor(&y),
        mean: statistics.map(|[mean, _]| lowering.tensor(mean)),
        inv_variance: statistics.map(|[_, inverse]| lowering.tensor(inverse)),
        forward_phase: NormFwdPhase::Inference,
        normalized_dim_count: i64::try_from(x.rank() - from).unwrap_or(1),
    };
    lowering.op(&node.name, operation)?;
    Ok(y)
}

fn rms(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, scale) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    if Lowering::has_output(node, 1) {
        return refuse("statistics are wanted");
    }
    let from = axis(node.int("axis", -1), x.rank())?;
    let y = rms_of(lowering, node, &x, from, &scale, f64::from(node.float("epsilon", 1e-5)))?;
    lowering.set(node, 0, y)
}

fn rms_of(
    lowering: &mut Lowering<'_>,
    node: &Node,
    x: &View,
    from: usize,
    scale: &View,
    epsilon: f64,
) -> Lowered<View> {
    floats(&[x, scale])?;
    same_type(&[x, scale])?;
    let scale = parameters(x, from, scale)?;
    // hipDNN infers the normalized dimensions from the scale: those that equal x's, never the first. A leading dimension of one element
    // makes room for the first, and sizes of one elsewhere would be ambiguous.
    let is_plain = x.dims.get(from..).is_some_and(|rest| rest.iter().all(|dim| *dim != 1))
        && x.dims.get(..from).is_some_and(|front| front.iter().skip(1).all(|dim| *dim != 1));
    if from == 0 || !is_plain {
        let len = scale.elements();
        let rows = if len == 0 { 0 } else { x.elements() / len };
        let (flat, scale) = (lowering.reshape(x, &[rows, len])?, lowering.reshape(&scale, &[1, len])?);
        let y = rms_of_plain(lowering, node, &flat, &scale, epsilon)?;
        return lowering.reshape(&y, &x.dims);
    }
    rms_of_plain(lowering, node, x, &scale, epsilon)
}

fn rms_of_plain(
    lowering: &mut Lowering<'_>,
    node: &Node,
    x: &View,
    scale: &View,
    epsilon: f64,
) -> Lowered<View> {
    let y = lowering.fresh(x.element, &x.dims);
    let epsilon = lowering.number(epsilon, is_double(x), x.rank());
    let operation = RmsNorm {
        x: lowering.tensor(x),
        scale: lowering.tensor(scale),
        epsilon,
        y: lowering.tensor(&y),
        bias: None,
        inv_rms: None,
        forward_phase: NormFwdPhase::Inference,
    };
    lowering.op(&node.name, operation)?;
    Ok(y)
}

/// 1 / √(x + ε).
fn inverse(lowering: &mut Lowering<'_>, x: &View, epsilon: f64) -> Lowered<View> {
    let sum = lowering.with_number(PointwiseMode::Add, x, epsilon)?;
    lowering.unary(PointwiseMode::Rsqrt, &sum)
}

/// (x - mean) / √(variance + ε) along axes.
fn centered(lowering: &mut Lowering<'_>, x: &View, axes: &[usize], epsilon: f64) -> Lowered<View> {
    // Squares of 16 bits would overflow.
    let wide = match x.element {
        Element::Half | Element::Bfloat16 => lowering.map(PointwiseMode::Identity, &[x], Element::Float)?,
        _ => x.clone(),
    };
    let mean = lowering.reduce(ReductionMode::Avg, &wide, axes)?;
    let less = lowering.binary(PointwiseMode::Sub, &wide, &mean)?;
    let squares = lowering.binary(PointwiseMode::Mul, &less, &less)?;
    let variance = lowering.reduce(ReductionMode::Avg, &squares, axes)?;
    let inverse = inverse(lowering, &variance, epsilon)?;
    lowering.map(PointwiseMode::Mul, &[&less, &inverse], x.element)
}

/// Normalizes the sum of an input, the residual and a bias.
fn skip(node: &Node, lowering: &mut Lowering<'_>, bias: usize) -> Lowered<View> {
    let (x, residual) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    floats(&[&x, &residual])?;
    same_type(&[&x, &residual])?;
    let mut sum = lowering.binary(PointwiseMode::Add, &x, &residual)?;
    if let Some(bias) = lowering.optional(node, bias) {
        same_type(&[&x, &bias])?;
        sum = lowering.binary(PointwiseMode::Add, &sum, &bias)?;
    }
    if sum.dims != x.dims {
        return refuse(format!("a residual of dims {:?} beside {:?}", residual.dims, x.dims));
    }
    if Lowering::has_output(node, 1) || Lowering::has_output(node, 2) {
        return refuse("statistics are wanted");
    }
    lowering.set(node, 3, sum.clone())?;
    Ok(sum)
}

fn skip_layer(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let scale = lowering.input(node, 2)?;
    let shift = lowering.optional(node, 3);
    let sum = skip(node, lowering, 4)?;
    let from = sum.rank().saturating_sub(1);
    let epsilon = f64::from(node.float("epsilon", 1e-12));
    let scaling = Scaling { scale: &scale, bias: shift.as_ref(), epsilon };
    let y = layer_of(lowering, node, &sum, from, scaling, None)?;
    lowering.set(node, 0, y)
}

fn skip_rms(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let scale = lowering.input(node, 2)?;
    let sum = skip(node, lowering, 3)?;
    let from = sum.rank().saturating_sub(1);
    let y = rms_of(lowering, node, &sum, from, &scale, f64::from(node.float("epsilon", 1e-12)))?;
    lowering.set(node, 0, y)
}

fn group(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, scale, bias) = (lowering.input(node, 0)?, lowering.input(node, 1)?, lowering.input(node, 2)?);
    floats(&[&x, &scale, &bias])?;
    same_type(&[&x, &scale, &bias])?;
    let groups = node.int("num_groups", 0);
    let [batch, channels, spatial @ ..] = x.dims.as_slice() else {
        return refuse("an image without channels");
    };
    if groups < 1 || channels % groups != 0 || node.int("stash_type", 1) != 1 {
        return refuse(format!("{channels} channels in {groups} groups"));
    }
    // Version 18 has parameters for each group, version 21 for each channel.
    let by_group = node.since < 21;
    let expected = if by_group { groups } else { *channels };
    if scale.elements() != expected || bias.elements() != expected {
        return refuse(format!("{} parameters, expected {expected}", scale.elements()));
    }
    let mut dims = vec![*batch, groups, channels / groups];
    dims.extend(spatial);
    let mut beside = vec![1; dims.len()];
    for (at, dim) in [(1, groups), (2, if by_group { 1 } else { channels / groups })] {
        if let Some(slot) = beside.get_mut(at) {
            *slot = dim;
        }
    }
    let grouped = lowering.reshape(&x, &dims)?;
    let axes: Vec<usize> = (2..dims.len()).collect();
    let y = centered(lowering, &grouped, &axes, f64::from(node.float("epsilon", 1e-5)))?;
    let (scale, bias) = (lowering.reshape(&scale, &beside)?, lowering.reshape(&bias, &beside)?);
    let y = lowering.binary(PointwiseMode::Mul, &y, &scale)?;
    let y = lowering.binary(PointwiseMode::Add, &y, &bias)?;
    let y = lowering.reshape(&y, &x.dims)?;
    lowering.set(node, 0, y)
}

fn instance(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, scale, bias) = (lowering.input(node, 0)?, lowering.input(node, 1)?, lowering.input(node, 2)?);
    floats(&[&x, &scale, &bias])?;
    same_type(&[&x, &scale, &bias])?;
    if x.rank() < 3 || Some(&scale.elements()) != x.dims.get(1) || Some(&bias.elements()) != x.dims.get(1) {
        return refuse(format!("parameters of dims {:?} beside {:?}", scale.dims, x.dims));
    }
    let axes: Vec<usize> = (2..x.rank()).collect();
    let y = centered(lowering, &x, &axes, f64::from(node.float("epsilon", 1e-5)))?;
    let (scale, bias) = (by_channel(lowering, &scale, x.rank())?, by_channel(lowering, &bias, x.rank())?);
    let y = lowering.binary(PointwiseMode::Mul, &y, &scale)?;
    let y = lowering.binary(PointwiseMode::Add, &y, &bias)?;
    lowering.set(node, 0, y)
}
