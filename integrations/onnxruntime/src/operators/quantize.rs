//! Quantized tensors: quantization, dequantization, and operators on bytes.
//!
//! x = (q - zero) · scale. Operators on quantized tensors compute with these numbers, and round the result once, to the nearest byte with
//! ties to even.

use hipdnn::graph::{PointwiseMode as Mode, ReductionMode};

use super::Cost::Light;
use super::layout::joined;
use super::reduce::softmax_of;
use super::whole::{as_float_of_8_bits, cast, unpacked};
use super::{Operator, axis, floats, microsoft, onnx};
use crate::lowering::{Lowered, Lowering, Reason, View, refuse};
use crate::model::{Constant, Element, Node};

pub const OPERATORS: &[Operator] = &[
    onnx("QuantizeLinear", (10, 25), Light, quantize_linear),
    onnx("DequantizeLinear", (10, 25), Light, dequantize_linear),
    onnx("DynamicQuantizeLinear", (11, 11), Light, dynamic),
    microsoft("QuantizeLinear", Light, quantize_linear),
    microsoft("DequantizeLinear", Light, dequantize_linear),
    microsoft("QLinearAdd", Light, |n, l| binary(n, l, Mode::Add)),
    microsoft("QLinearMul", Light, |n, l| binary(n, l, Mode::Mul)),
    microsoft("QLinearSigmoid", Light, |n, l| unary(n, l, Mode::SigmoidFwd)),
    microsoft("QLinearSoftmax", Light, softmax),
    microsoft("QLinearLeakyRelu", Light, |n, l| unary(n, l, Mode::ReluFwd)),
    microsoft("QLinearConcat", Light, concat),
    microsoft("QLinearGlobalAveragePool", Light, global_average_pool),
];

/// Sums with this number have no fractional bits: adding it rounds to the nearest integer with ties to even. Larger numbers
/// are beyond every type.
const ROUNDER: f64 = 12_582_912.0;

/// A scale or a zero.
#[derive(Clone, Debug)]
pub enum Parameter {
    /// The same for all elements, known before execution.
    Number(f64),
    /// Broadcast over the elements.
    Tensor(View),
}

/// The quantization of a tensor.
#[derive(Clone, Debug)]
pub struct Quantization {
    scale: Parameter,
    zero: Parameter,
}

impl Parameter {
    /// Input `at`, broadcast over a tensor; 0 if absent.
    fn read(
        node: &Node,
        lowering: &mut Lowering<'_>,
        at: usize,
        beside: &dyn Fn(&View) -> Lowered<View>,
    ) -> Lowered<Self> {
        if !Lowering::has_input(node, at) {
            return Ok(Self::Number(0.0));
        }
        if let Some(number) = lowering.constant(node, at).and_then(Constant::scalar) {
            return Ok(Self::Number(number));
        }
        // Quantizers write a zero point for each channel, also where all are 0; engines skip a 0 that they know.
        if let Some([first, rest @ ..]) = lowering.numbers(node, at).as_deref()
            && rest.iter().all(|number| number == first)
        {
            return Ok(Self::Number(*first));
        }
        let view = lowering.input(node, at)?;
        let mut view = unpacked(lowering, &view)?;
        if is_of_16_bits(view.element) {
            view = cast(lowering, &view, Element::Float)?;
        }
        beside(&view).map(Self::Tensor)
    }

    fn apply(&self, lowering: &mut Lowering<'_>, mode: Mode, x: &View, element: Element) -> Lowered<View> {
        match self {
            Self::Number(number) => lowering.with_number_to(mode, x, *number, element),
            Self::Tensor(view) => lowering.map(mode, &[x, view], element),
        }
    }
}

impl Quantization {
    /// Scale and zero point, two inputs of a node, broadcast over a tensor along an axis.
    pub fn read(
        node: &Node,
        lowering: &mut Lowering<'_>,
        [scale, zero]: [usize; 2],
        rank: usize,
        along: i64,
    ) -> Lowered<Self> {
        let beside = |view: &View| spread(view, rank, along);
        let scale = Parameter::read(node, lowering, scale, &beside)?;
        Ok(Self { scale, zero: Parameter::read(node, lowering, zero, &beside)? })
    }

    /// Dequantizes bytes.
    pub fn dequantize(&self, lowering: &mut Lowering<'_>, x: &View, element: Element) -> Lowered<View> {
        let x = match self.zero {
            Parameter::Number(0.0) => x.clone(),
            _ => self.zero.apply(lowering, Mode::Sub, x, Element::Float)?,
        };
        self.scale.apply(lowering, Mode::Mul, &x, element)
    }

    /// Quantizes numbers.
    pub fn quantize(&self, lowering: &mut Lowering<'_>, x: &View, element: Element) -> Lowered<View> {
        let y = self.scale.apply(lowering, Mode::Div, x, Element::Float)?;
        let y = lowering.with_number(Mode::Add, &y, ROUNDER)?;
        match self.zero {
            Parameter::Number(0.0) => lowering.with_number_to(Mode::Sub, &y, ROUNDER, element),
            _ => {
                let y = lowering.with_number(Mode::Sub, &y, ROUNDER)?;
                self.zero.apply(lowering, Mode::Add, &y, element)
            }
        }
    }
}

/// A scale or zero point of one number, or one per element along an axis.
fn spread(view: &View, rank: usize, along: i64) -> Lowered<View> {
    let mut dims = vec![1; rank];
    if view.elements() != 1 {
        if view.rank() != 1 {
            return refuse(format!("a scale or zero has dims {:?}", view.dims));
        }
        let at = axis(along, rank)?;
        dims.iter_mut().skip(at).take(1).for_each(|dim| *dim = view.elements());
    }
    view.reshaped(&dims).ok_or_else(|| Reason(format!("a scale or zero has dims {:?}", view.dims)))
}

/// Whether it is a type that hipDNN's graphs lack.
fn is_of_16_bits(element: Element) -> bool {
    matches!(element, Element::Int16 | Element::Uint16)
}

/// The supported element types.
fn bytes(element: Element) -> Lowered<()> {
    match element {
        Element::Int8 | Element::Uint8 | Element::Int32 | Element::Int16 | Element::Uint16 => Ok(()),
        _ => refuse(format!("quantized elements are {}", element.name())),
    }
}

/// The shapes of block quantization: the dimensions with the blocked axis split in two, and the matching ones of scales.
fn blocks(node: &Node, x: &View, scale: &View) -> Lowered<Option<[Vec<i64>; 2]>> {
    let size = node.int("block_size", 0);
    if size == 0 {
        return Ok(None);
    }
    let at = axis(node.int("axis", 1), x.rank())?;
    let (mut wide, mut beside) = (x.dims.to_vec(), scale.dims.to_vec());
    let (length, count) = (x.dims.get(at).copied().unwrap_or(0), scale.dims.get(at).copied().unwrap_or(0));
    if size < 1 || count.checked_mul(size) != Some(length) || scale.rank() != x.rank() {
        return refuse(format!("blocks of {size} in {:?}, scales {:?}", x.dims, scale.dims));
    }
    wide.splice(at..=at, [count, size]);
    beside.insert(at + 1, 1);
    Ok(Some([wide, beside]))
}

/// The quantization of input 0 by inputs 1 and 2, with input 0 reshaped to match.
fn own(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<(View, Quantization)> {
    let (x, scale) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    let x = unpacked(lowering, &x)?;
    floats(&[&scale])?;
    let Some([wide, beside]) = blocks(node, &x, &scale)? else {
        let quantization = Quantization::read(node, lowering, [1, 2], x.rank(), node.int("axis", 1))?;
        return Ok((x, quantization));
    };
    let x = lowering.reshape(&x, &wide)?;
    let at = |view: &View| {
        view.reshaped(&beside).ok_or_else(|| Reason(format!("a scale or zero has dims {:?}", view.dims)))
    };
    let scale = Parameter::read(node, lowering, 1, &at)?;
    Ok((x, Quantization { scale, zero: Parameter::read(node, lowering, 2, &at)? }))
}

fn declared(node: &Node, lowering: &Lowering<'_>) -> Lowered<Element> {
    let value = node.outputs.first().copied().flatten().and_then(|id| lowering.model.values.get(id));
    value.and_then(|value| value.element).ok_or_else(|| Reason("the result has an unknown type".to_owned()))
}

fn quantize_linear(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let dims = lowering.input(node, 0)?.dims;
    let (x, quantization) = own(node, lowering)?;
    let element = declared(node, lowering)?;
    if element.is_float_of_8_bits() && x.element.is_float() {
        let y = quantization.scale.apply(lowering, Mode::Div, &x, Element::Float)?;
        let y = as_float_of_8_bits(lowering, &y, element, node.int("saturate", 1) != 0)?;
        let y = lowering.reshape(&y, &dims)?;
        return lowering.set(node, 0, y);
    }
    let (least, most) = match element {
        Element::Int16 => (f64::from(i16::MIN), f64::from(i16::MAX)),
        Element::Uint16 => (0.0, f64::from(u16::MAX)),
        _ => (0.0, 0.0),
    };
    let is_wide = is_of_16_bits(element);
    if !x.element.is_float() || !(is_wide || matches!(element, Element::Int8 | Element::Uint8)) {
        return refuse(format!("{} is quantized to {}", x.element.name(), element.name()));
    }
    let y = if is_wide {
        // hipDNN lacks these types: numbers in their range, and a cast.
        let y = quantization.quantize(lowering, &x, Element::Float)?;
        let y = lowering.with_number(Mode::Max, &y, least)?;
        let y = lowering.with_number(Mode::Min, &y, most)?;
        cast(lowering, &y, element)?
    } else {
        quantization.quantize(lowering, &x, element)?
    };
    let y = lowering.reshape(&y, &dims)?;
    lowering.set(node, 0, y)
}

fn dequantize_linear(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let View { element: packed, dims, .. } = lowering.input(node, 0)?;
    let element = declared(node, lowering)?;
    if packed.is_of_4_bits()
        && element == Element::Float
        && let Some(blocks) = Blocks::read(node, lowering)
    {
        let y = lowering.folded(node, element, &dims, || blocks.fold())?;
        return lowering.set(node, 0, y);
    }
    let (x, quantization) = own(node, lowering)?;
    if !packed.is_float_of_8_bits() {
        bytes(x.element)?;
    }
    if element == Element::Float
        && (x.element == Element::Int32 || x.rank() < 2)
        && !packed.is_float_of_8_bits()
        && let Some(constant) = weights(node, lowering, [0, 1, 2])
        && node.int("block_size", 0) == 0
    {
        // Biases and other parameters. Engines that multiply bytes need to recognize weights.
        let along = node.int("axis", 1);
        let y = lowering.folded(node, element, &dims, || fold(along, &dims, &constant))?;
        return lowering.set(node, 0, y);
    }
    let x = if is_of_16_bits(x.element) { cast(lowering, &x, Element::Float)? } else { x };
    let y = quantization.dequantize(lowering, &x, element)?;
    let y = lowering.reshape(&y, &dims)?;
    lowering.set(node, 0, y)
}

/// Constant integers of 4 bits with scales and zero points: of all, along an axis, or of blocks.
struct Blocks {
    numbers: Constant,
    scales: Vec<f64>,
    zeros: Vec<f64>,
    /// The elements before the quantized axis, along it, and behind it.
    sizes: [usize; 3],
    /// How many elements along the axis have a scale.
    block: usize,
}

impl Blocks {
    fn read(node: &Node, lowering: &Lowering<'_>) -> Option<Self> {
        let View { element, dims, .. } = lowering.optional(node, 0)?;
        let scale = lowering.optional(node, 1)?;
        let scales = lowering.numbers(node, 1)?;
        let zeros = if Lowering::has_input(node, 2) { lowering.numbers(node, 2)? } else { Vec::new() };
        let size = |of: &[i64]| usize::try_from(of.iter().product::<i64>()).ok();
        let (at, block) = match (scales.len(), node.int("block_size", 0)) {
            (1, 0) => (0, usize::MAX),
            (_, block) => (axis(node.int("axis", 1), dims.len()).ok()?, usize::try_from(block.max(1)).ok()?),
        };
        let sizes = if block == usize::MAX {
            [1, size(&dims)?, 1]
        } else {
            [size(dims.get(..at)?)?, size(dims.get(at..=at)?)?, size(dims.get(at + 1..)?)?]
        };
        let is_blocked = node.int("block_size", 0) > 0;
        let outer = if is_blocked { sizes[0] * sizes[2] } else { 1 };
        let wanted = if block == usize::MAX { 1 } else { outer * sizes[1].div_ceil(block) };
        let fits = scales.len() == wanted && (zeros.is_empty() || zeros.len() == wanted);
        (fits && (is_blocked || scale.rank() < 2)).then_some(())?;
        let numbers = Constant { element, dims: dims.to_vec(), bytes: lowering.bytes(node, 0)?.to_vec() };
        Some(Self { numbers, scales, zeros, sizes, block })
    }

    fn fold(self) -> Lowered<Vec<u8>> {
        let Some(numbers) = self.numbers.integers() else { return refuse("constant elements are missing") };
        let [_, along, inner] = self.sizes;
        let count = if self.block == usize::MAX { 1 } else { along.div_ceil(self.block) };
        let is_by_element = self.scales.len() > count;
        let number = |(at, number): (usize, &i64)| {
            let (outer, place, beside) = (at / inner / along.max(1), at / inner % along.max(1), at % inner);
            let part = if count == 1 && self.block == usize::MAX { 0 } else { place / self.block };
            let of = if is_by_element { (outer * count + part) * inner + beside } else { part };
            let get = |of: &[f64], at: usize, absent: f64| of.get(at).copied().unwrap_or(absent);
            ((*number as f64 - get(&self.zeros, of, 0.0)) as f32 * get(&self.scales, of, 1.0) as f32)
                .to_ne_bytes()
        };
        Ok(numbers.iter().enumerate().flat_map(number).collect())
    }
}

/// Constant bytes, with scales and zero points.
struct Weights<'m> {
    element: Element,
    bytes: &'m [u8],
    scales: Vec<f64>,
    zeros: Vec<f64>,
}

/// A node's inputs, if all are constant and scales are along one axis.
fn weights<'m>(node: &Node, lowering: &Lowering<'m>, [at, scale, zero]: [usize; 3]) -> Option<Weights<'m>> {
    let element = lowering.optional(node, at)?.element;
    let scales = lowering.numbers(node, scale)?;
    let zeros = if Lowering::has_input(node, zero) { lowering.numbers(node, zero)? } else { Vec::new() };
    let is_plain = lowering.optional(node, scale)?.rank() <= 1;
    is_plain.then_some(Weights { element, bytes: lowering.bytes(node, at)?, scales, zeros })
}

/// Dequantizes constant bytes.
fn fold(along: i64, dims: &[i64], weights: &Weights<'_>) -> Lowered<Vec<u8>> {
    let numbers = |at: usize, scale: f64, zero: f64| -> Option<[u8; 4]> {
        let number = match weights.element {
            Element::Uint8 => f64::from(*weights.bytes.get(at)?),
            Element::Int8 => f64::from(weights.bytes.get(at)?.cast_signed()),
            Element::Int16 => f64::from(i16::from_ne_bytes(*weights.bytes.as_chunks::<2>().0.get(at)?)),
            Element::Uint16 => f64::from(u16::from_ne_bytes(*weights.bytes.as_chunks::<2>().0.get(at)?)),
            _ => f64::from(i32::from_ne_bytes(*weights.bytes.as_chunks::<4>().0.get(at)?)),
        };
        Some((((number - zero) as f32) * scale as f32).to_ne_bytes())
    };
    let inner = if weights.scales.len() > 1 {
        let at = axis(along, dims.len())?;
        dims.iter().skip(at + 1).product::<i64>()
    } else {
        1
    };
    let (inner, count) = (usize::try_from(inner).unwrap_or(1).max(1), weights.scales.len().max(1));
    let total = usize::try_from(dims.iter().product::<i64>()).unwrap_or(0);
    let mut out = Vec::with_capacity(4 * total);
    for at in 0..total {
        let place = (at / inner) % count;
        let scale = weights.scales.get(place).copied().unwrap_or(1.0);
        let zero =
            weights.zeros.get(place.min(weights.zeros.len().saturating_sub(1))).copied().unwrap_or(0.0);
        let Some(number) = numbers(at, scale, zero) else { return refuse("constant elements are missing") };
        out.extend_from_slice(&number);
    }
    Ok(out)
}

/// The numbers of an input that is constant, or dequantized from constants.
pub fn constants(node: &Node, lowering: &Lowering<'_>, at: usize) -> Option<Vec<f64>> {
    if let Some(numbers) = lowering.numbers(node, at) {
        return Some(numbers);
    }
    let value = node.inputs.get(at).copied()?;
    let by = lowering.model.nodes.iter().find(|by| by.outputs.contains(&value))?;
    let weights = weights(by, lowering, [0, 1, 2]).filter(|_| by.operator == "DequantizeLinear")?;
    let dims = lowering.optional(by, 0).filter(|_| by.int("block_size", 0) == 0)?.dims.to_vec();
    let bytes = fold(by.int("axis", 1), &dims, &weights).ok()?;
    Constant { element: Element::Float, dims, bytes }.numbers()
}

/// Dynamic quantization to bytes from 0 to 255, with the scale and zero point that cover every element and 0.
pub fn dynamically(lowering: &mut Lowering<'_>, x: &View) -> Lowered<(View, [View; 2])> {
    floats(&[x])?;
    let all: Vec<usize> = (0..x.rank()).collect();
    let most = lowering.reduce(ReductionMode::Max, x, &all)?;
    let most = lowering.with_number(Mode::Max, &most, 0.0)?;
    let least = lowering.reduce(ReductionMode::Min, x, &all)?;
    let least = lowering.with_number(Mode::Min, &least, 0.0)?;
    let range = lowering.binary(Mode::Sub, &most, &least)?;
    let scale = lowering.with_number(Mode::Div, &range, 255.0)?;
    // If every element is 0, any scale will do: 1.
    let is_zero = lowering.with_number(Mode::CmpEq, &range, 0.0)?;
    let scale = lowering.binary(Mode::Add, &scale, &is_zero)?;
    let down = lowering.binary(Mode::Div, &least, &scale)?;
    let zero = lowering.with_number(Mode::Mul, &down, -1.0)?;
    let zero = lowering.with_number(Mode::Add, &zero, ROUNDER)?;
    let zero = lowering.with_number_to(Mode::Sub, &zero, ROUNDER, Element::Uint8)?;
    let own = |view: &View| Parameter::Tensor(view.clone());
    let y = Quantization { scale: own(&scale), zero: own(&zero) }.quantize(lowering, x, Element::Uint8)?;
    Ok((y, [scale, zero]))
}

fn dynamic(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let (y, [scale, zero]) = dynamically(lowering, &x)?;
    let (scale, zero) = (lowering.reshape(&scale, &[])?, lowering.reshape(&zero, &[])?);
    lowering.set(node, 0, y)?;
    lowering.set(node, 1, scale)?;
    lowering.set(node, 2, zero)
}

/// An operand of a quantized node: its index, and those of scale and zero point.
pub fn operand(
    node: &Node,
    lowering: &mut Lowering<'_>,
    [at, scale, zero]: [usize; 3],
    along: i64,
) -> Lowered<View> {
    let x = lowering.input(node, at)?;
    bytes(x.element)?;
    let quantization = Quantization::read(node, lowering, [scale, zero], x.rank(), along)?;
    quantization.dequantize(lowering, &x, Element::Float)
}

/// Quantizes a result by the scale and zero point at `at`.
pub fn result(node: &Node, lowering: &mut Lowering<'_>, at: usize, y: &View) -> Lowered<()> {
    let element = declared(node, lowering)?;
    bytes(element)?;
    let quantization = Quantization::read(node, lowering, [at, at + 1], y.rank(), -1)?;
    let y = quantization.quantize(lowering, y, element)?;
    lowering.set(node, 0, y)
}

/// The operands of a node with several quantized tensors, each with its scale and zero point.
fn binary(node: &Node, lowering: &mut Lowering<'_>, mode: Mode) -> Lowered<()> {
    let (a, b) = (operand(node, lowering, [0, 1, 2], -1)?, operand(node, lowering, [3, 4, 5], -1)?);
    let y = lowering.binary(mode, &a, &b)?;
    result(node, lowering, 6, &y)
}

fn unary(node: &Node, lowering: &mut Lowering<'_>, mode: Mode) -> Lowered<()> {
    let x = operand(node, lowering, [0, 1, 2], -1)?;
    let slope = (mode == Mode::ReluFwd).then(|| node.float("alpha", 0.01));
    let y = lowering.map_with(mode, &[&x], x.element, |of| of.relu_lower_clip_slope = slope)?;
    result(node, lowering, 3, &y)
}

/// Along one axis for versions of Softmax from 13 on, before that along all from one on.
fn softmax(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering, [0, 1, 2], -1)?;
    let first = axis(node.int("axis", -1), x.rank())?;
    let end = if node.int("opset", 13) >= 13 { first + 1 } else { x.rank() };
    let y = softmax_of(lowering, &x, &(first..end).collect::<Vec<_>>())?;
    result(node, lowering, 3, &y)
}

fn global_average_pool(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering, [0, 1, 2], -1)?;
    if node.int("channels_last", 0) != 0 || x.rank() < 3 {
        return refuse(format!("channels of dims {:?} are last", x.dims));
    }
    let y = lowering.reduce(ReductionMode::Avg, &x, &(2..x.rank()).collect::<Vec<_>>())?;
    result(node, lowering, 3, &y)
}

/// Concatenation of parts, each with its own scale and zero point.
fn concat(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let parts = (2..node.inputs.len()).step_by(3);
    let parts =
        parts.map(|at| operand(node, lowering, [at, at + 1, at + 2], -1)).collect::<Lowered<Vec<_>>>()?;
    let whole = joined(lowering, &parts, node.int("axis", 0))?;
    result(node, lowering, 0, &whole)
}
