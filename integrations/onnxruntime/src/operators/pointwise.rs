//! Pointwise operations.

use hipdnn::graph::PointwiseMode as Mode;
use hipdnn::graph::operation::Pointwise;

use super::Cost::Light;
use super::quantize::constants;
use super::{Operator, floats, microsoft, onnx, own, same_type, whole};
use crate::lowering::{Integer, Lowered, Lowering, View, broadcast, refuse};
use crate::model::{Constant, Element, Node};
use crate::steps::Pairwise;

pub const OPERATORS: &[Operator] = &[
    onnx("Abs", (6, 13), Light, |n, l| unary(n, l, Mode::Abs)),
    onnx("Neg", (6, 13), Light, |n, l| unary(n, l, Mode::Neg)),
    onnx("Ceil", (6, 13), Light, |n, l| unary(n, l, Mode::Ceil)),
    onnx("Floor", (6, 13), Light, |n, l| unary(n, l, Mode::Floor)),
    onnx("Erf", (9, 13), Light, |n, l| unary(n, l, Mode::Erf)),
    onnx("Exp", (6, 13), Light, |n, l| unary(n, l, Mode::Exp)),
    onnx("Log", (6, 13), Light, |n, l| unary(n, l, Mode::Log)),
    onnx("Sqrt", (6, 13), Light, |n, l| unary(n, l, Mode::Sqrt)),
    onnx("Reciprocal", (6, 13), Light, |n, l| unary(n, l, Mode::Reciprocal)),
    onnx("Sin", (7, 22), Light, |n, l| unary(n, l, Mode::Sin)),
    onnx("Tan", (7, 22), Light, |n, l| unary(n, l, Mode::Tan)),
    onnx("Tanh", (6, 13), Light, |n, l| unary(n, l, Mode::TanhFwd)),
    onnx("Sigmoid", (6, 13), Light, |n, l| unary(n, l, Mode::SigmoidFwd)),
    onnx("Relu", (6, 14), Light, |n, l| unary(n, l, Mode::ReluFwd)),
    onnx("Softplus", (1, 22), Light, |n, l| unary(n, l, Mode::SoftplusFwd)),
    onnx("Softsign", (1, 22), Light, softsign),
    onnx("Mish", (18, 22), Light, mish),
    onnx("LeakyRelu", (6, 16), Light, leaky_relu),
    onnx("Elu", (6, 22), Light, |n, l| elu(n, l, 1.0, 1.0)),
    onnx("Selu", (6, 22), Light, |n, l| elu(n, l, 1.673_263_2, 1.050_701)),
    onnx("Celu", (12, 28), Light, celu),
    onnx("HardSigmoid", (6, 22), Light, hard_sigmoid),
    onnx("HardSwish", (14, 22), Light, hard_swish),
    onnx("Swish", (24, 24), Light, swish),
    onnx("ThresholdedRelu", (10, 22), Light, thresholded_relu),
    onnx("Gelu", (20, 20), Light, gelu),
    onnx("Sign", (9, 13), Light, sign),
    onnx("IsNaN", (9, 20), Light, is_nan),
    onnx("IsInf", (10, 20), Light, is_infinite),
    onnx("Shrink", (9, 9), Light, shrink),
    onnx("Not", (1, 1), Light, not),
    onnx("Cast", (6, 28), Light, cast),
    onnx("Add", (7, 14), Light, |n, l| binary(n, l, Mode::Add)),
    onnx("Sub", (7, 14), Light, |n, l| binary(n, l, Mode::Sub)),
    onnx("Mul", (7, 14), Light, |n, l| binary(n, l, Mode::Mul)),
    onnx("Div", (7, 14), Light, |n, l| binary(n, l, Mode::Div)),
    onnx("Pow", (7, 15), Light, pow),
    onnx("PRelu", (7, 16), Light, prelu),
    onnx("Max", (6, 13), Light, |n, l| variadic(n, l, Mode::Max)),
    onnx("Min", (6, 13), Light, |n, l| variadic(n, l, Mode::Min)),
    onnx("Sum", (6, 13), Light, |n, l| variadic(n, l, Mode::Add)),
    onnx("Mean", (6, 13), Light, mean),
    onnx("Equal", (7, 19), Light, |n, l| compare(n, l, Mode::CmpEq)),
    onnx("Greater", (7, 13), Light, |n, l| compare(n, l, Mode::CmpGt)),
    onnx("Less", (7, 13), Light, |n, l| compare(n, l, Mode::CmpLt)),
    onnx("GreaterOrEqual", (12, 16), Light, |n, l| compare(n, l, Mode::CmpGe)),
    onnx("LessOrEqual", (12, 16), Light, |n, l| compare(n, l, Mode::CmpLe)),
    onnx("And", (7, 7), Light, |n, l| logic(n, l, Mode::LogicalAnd)),
    onnx("Or", (7, 7), Light, |n, l| logic(n, l, Mode::LogicalOr)),
    onnx("Xor", (7, 7), Light, |n, l| logic(n, l, Mode::CmpNeq)),
    onnx("Where", (9, 16), Light, select),
    microsoft("Gelu", Light, |n, l| unary(n, l, Mode::GeluFwd)),
    microsoft("FastGelu", Light, fast_gelu),
    microsoft("BiasGelu", Light, bias_gelu),
    microsoft("QuickGelu", Light, |n, l| swish_of(n, l, n.float("alpha", 1.702))),
];

fn operand(node: &Node, lowering: &Lowering<'_>) -> Lowered<View> {
    let x = lowering.input(node, 0)?;
    floats(&[&x])?;
    Ok(x)
}

fn unary(node: &Node, lowering: &mut Lowering<'_>, mode: Mode) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let y = if x.element.is_float() {
        lowering.unary(mode, &x)?
    } else {
        whole::map(lowering, mode, &[&x], x.element)?
    };
    lowering.set(node, 0, y)
}

fn binary(node: &Node, lowering: &mut Lowering<'_>, mode: Mode) -> Lowered<()> {
    let (x, y) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    let z = match by_number(node, lowering, mode, [&x, &y])? {
        Some(z) => z,
        None => together_of(lowering, mode, &x, &y)?,
    };
    lowering.set(node, 0, z)
}

/// An operation with a constant number, stored in the graph: engines can use its value while they plan.
fn by_number(
    node: &Node,
    lowering: &mut Lowering<'_>,
    mode: Mode,
    [a, b]: [&View; 2],
) -> Lowered<Option<View>> {
    let commutes = matches!(mode, Mode::Add | Mode::Mul | Mode::Max | Mode::Min);
    for (at, x, y) in [(1, a, b), (0, b, a)] {
        let fits = y.elements() == 1 && y.rank() <= x.rank() && (at == 1 || commutes);
        let are_single = x.element == Element::Float && y.element == Element::Float;
        let numbers = if fits && are_single { constants(node, lowering, at) } else { None };
        if let Some([number]) = numbers.as_deref() {
            return lowering.with_number(mode, x, *number).map(Some);
        }
    }
    Ok(None)
}

/// Of floating-point numbers or of integers.
pub fn together_of(lowering: &mut Lowering<'_>, mode: Mode, x: &View, y: &View) -> Lowered<View> {
    same_type(&[x, y])?;
    if x.element.is_float() {
        return lowering.binary(mode, x, y);
    }
    whole::map(lowering, mode, &[x, y], x.element)
}

fn softsign(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering)?;
    let size = lowering.unary(Mode::Abs, &x)?;
    let below = lowering.with_number(Mode::Add, &size, 1.0)?;
    let y = lowering.binary(Mode::Div, &x, &below)?;
    lowering.set(node, 0, y)
}

fn mish(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering)?;
    let plus = lowering.unary(Mode::SoftplusFwd, &x)?;
    let tanh = lowering.unary(Mode::TanhFwd, &plus)?;
    let y = lowering.binary(Mode::Mul, &x, &tanh)?;
    lowering.set(node, 0, y)
}

fn leaky_relu(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering)?;
    let slope = node.float("alpha", 0.01);
    let y =
        lowering.map_with(Mode::ReluFwd, &[&x], x.element, |of| of.relu_lower_clip_slope = Some(slope))?;
    lowering.set(node, 0, y)
}

fn elu(node: &Node, lowering: &mut Lowering<'_>, alpha: f32, gamma: f32) -> Lowered<()> {
    let x = operand(node, lowering)?;
    let (alpha, gamma) = (node.float("alpha", alpha), node.float("gamma", gamma));
    let mut y = lowering.map_with(Mode::EluFwd, &[&x], x.element, |of| of.elu_alpha = Some(alpha))?;
    if gamma != 1.0 {
        y = lowering.with_number(Mode::Mul, &y, f64::from(gamma))?;
    }
    lowering.set(node, 0, y)
}

/// max(0, x) + min(0, α(e^(x/α) - 1)).
fn celu(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering)?;
    let alpha = f64::from(node.float("alpha", 1.0));
    if alpha <= 0.0 || !alpha.is_finite() {
        return refuse(format!("alpha is {alpha}"));
    }
    if alpha == 1.0 {
        let y = lowering.map_with(Mode::EluFwd, &[&x], x.element, |of| of.elu_alpha = Some(1.0))?;
        return lowering.set(node, 0, y);
    }
    // Quotients of large numbers would be infinite.
    let below = lowering.with_number(Mode::Min, &x, 0.0)?;
    let inner = lowering.with_number(Mode::Div, &below, alpha)?;
    let below = lowering.map_with(Mode::EluFwd, &[&inner], x.element, |of| of.elu_alpha = Some(1.0))?;
    let below = lowering.with_number(Mode::Mul, &below, alpha)?;
    let above = lowering.with_number(Mode::Max, &x, 0.0)?;
    let y = lowering.binary(Mode::Add, &above, &below)?;
    lowering.set(node, 0, y)
}

/// α · x + β, clamped to between 0 and 1.
pub fn ramp(lowering: &mut Lowering<'_>, x: &View, alpha: f64, beta: f64) -> Lowered<View> {
    let y = lowering.with_number(Mode::Mul, x, alpha)?;
    let y = lowering.with_number(Mode::Add, &y, beta)?;
    lowering.map_with(Mode::ReluFwd, &[&y], x.element, |of| of.relu_upper_clip = Some(1.0))
}

fn hard_sigmoid(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering)?;
    let (alpha, beta) = (f64::from(node.float("alpha", 0.2)), f64::from(node.float("beta", 0.5)));
    let y = ramp(lowering, &x, alpha, beta)?;
    lowering.set(node, 0, y)
}

fn hard_swish(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering)?;
    let factor = ramp(lowering, &x, f64::from(1.0_f32 / 6.0), 0.5)?;
    let y = lowering.binary(Mode::Mul, &x, &factor)?;
    lowering.set(node, 0, y)
}

fn swish(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    swish_of(node, lowering, node.float("alpha", 1.0))
}

fn swish_of(node: &Node, lowering: &mut Lowering<'_>, beta: f32) -> Lowered<()> {
    let x = operand(node, lowering)?;
    let y = lowering.map_with(Mode::SwishFwd, &[&x], x.element, |of| of.swish_beta = Some(beta))?;
    lowering.set(node, 0, y)
}

/// The numbers for which a condition holds, and zeros for others.
fn or_zero(lowering: &mut Lowering<'_>, x: &View, condition: &View) -> Lowered<View> {
    let y = lowering.fresh(x.element, &x.dims);
    let zero = lowering.number(0.0, x.element == Element::Double, x.rank());
    let (from, condition, out) = (lowering.tensor(x), lowering.tensor(condition), lowering.tensor(&y));
    let mut select = Pointwise::new(Mode::BinarySelect, from, Some(zero), out);
    select.in_2 = Some(condition);
    lowering.op("select", select)?;
    Ok(y)
}

fn thresholded_relu(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering)?;
    let least = f64::from(node.float("alpha", 1.0));
    let is_above = lowering.with_number_to(Mode::CmpGt, &x, least, Element::Bool)?;
    let y = or_zero(lowering, &x, &is_above)?;
    lowering.set(node, 0, y)
}

fn gelu(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let mode = match node.text("approximate", "none") {
        "none" => Mode::GeluFwd,
        "tanh" => Mode::GeluApproxTanhFwd,
        other => return refuse(format!("approximate is {other:?}")),
    };
    unary(node, lowering, mode)
}

fn with_bias(node: &Node, lowering: &mut Lowering<'_>, mode: Mode) -> Lowered<()> {
    let mut x = operand(node, lowering)?;
    if let Some(bias) = lowering.optional(node, 1) {
        same_type(&[&x, &bias])?;
        x = lowering.binary(Mode::Add, &x, &bias)?;
    }
    let y = lowering.unary(mode, &x)?;
    lowering.set(node, 0, y)
}

fn fast_gelu(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    with_bias(node, lowering, Mode::GeluApproxTanhFwd)
}

fn bias_gelu(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    with_bias(node, lowering, Mode::GeluFwd)
}

/// (x > 0) - (0 > x), and NaN of NaN, except for `float16`, as ONNX Runtime computes it.
fn sign(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    if !x.element.is_float() {
        let y = whole::compute(lowering, Integer::Sign, &[&x], x.element)?;
        return lowering.set(node, 0, y);
    }
    let above = lowering.with_number(Mode::CmpGt, &x, 0.0)?;
    let below = lowering.with_number(Mode::CmpLt, &x, 0.0)?;
    let sign = lowering.binary(Mode::Sub, &above, &below)?;
    if x.element == Element::Half {
        return lowering.set(node, 0, sign);
    }
    // NaN is neither, and stays.
    let is_number = lowering.map(Mode::CmpEq, &[&x, &x], Element::Bool)?;
    let y = lowering.map(Mode::BinarySelect, &[&sign, &x, &is_number], x.element)?;
    lowering.set(node, 0, y)
}

fn is_nan(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering)?;
    let y = lowering.map(Mode::CmpNeq, &[&x, &x], Element::Bool)?;
    lowering.set(node, 0, y)
}

fn is_infinite(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering)?;
    let [below, above] = ["detect_negative", "detect_positive"].map(|name| node.int(name, 1) != 0);
    let number = if below == above { lowering.unary(Mode::Abs, &x)? } else { x };
    let limit = if above || !below { f64::INFINITY } else { f64::NEG_INFINITY };
    // Nothing is greater than infinity.
    let mode = if below || above { Mode::CmpEq } else { Mode::CmpGt };
    let y = lowering.with_number_to(mode, &number, limit, Element::Bool)?;
    lowering.set(node, 0, y)
}

/// Numbers near zero become zero, and others come nearer to it.
fn shrink(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = operand(node, lowering)?;
    let (limit, bias) = (f64::from(node.float("lambd", 0.5)), f64::from(node.float("bias", 0.0)));
    let is_above = lowering.with_number_to(Mode::CmpGt, &x, limit, Element::Bool)?;
    let less = lowering.with_number(Mode::Sub, &x, bias)?;
    let above = or_zero(lowering, &less, &is_above)?;
    let is_below = lowering.with_number_to(Mode::CmpLt, &x, -limit, Element::Bool)?;
    let more = lowering.with_number(Mode::Add, &x, bias)?;
    let y = lowering.map(Mode::BinarySelect, &[&more, &above, &is_below], x.element)?;
    lowering.set(node, 0, y)
}

fn not(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    if x.element != Element::Bool {
        return refuse("elements are not bool");
    }
    let y = lowering.map(Mode::LogicalNot, &[&x], Element::Bool)?;
    lowering.set(node, 0, y)
}

fn cast(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let Some(to) = i32::try_from(node.int("to", 0)).ok().and_then(Element::from_onnx) else {
        return refuse("the type is not known here");
    };
    if to.is_of_4_bits() {
        return refuse(format!("elements become {}", to.name()));
    }
    let x = if to == x.element { x } else { whole::unpacked(lowering, &x)? };
    if to.is_float_of_8_bits() && to != x.element {
        let y = whole::as_float_of_8_bits(lowering, &x, to, node.int("saturate", 1) != 0)?;
        return lowering.set(node, 0, y);
    }
    let readable = x.element.is_float()
        || matches!(x.element, Element::Bool | Element::Uint8 | Element::Int8 | Element::Int32);
    let y = if to == x.element {
        x
    } else if readable && (to.is_float() || to == Element::Bool) {
        lowering.map(Mode::Identity, &[&x], to)?
    } else {
        whole::cast(lowering, &x, to)?
    };
    lowering.set(node, 0, y)
}

/// Powers: as products and roots where that is exact.
fn pow(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, by) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    if !x.element.is_float() {
        let y = if by.element.is_float() {
            let wide =
                [whole::cast(lowering, &x, Element::Double)?, as_type(lowering, &by, Element::Double)?];
            let y = own::pairwise(lowering, Pairwise::Power, &wide[0], &wide[1])?;
            whole::cast(lowering, &y, x.element)?
        } else {
            whole::compute(lowering, Integer::Pow, &[&x, &by], x.element)?
        };
        return lowering.set(node, 0, y);
    }
    let number = lowering.constant(node, 1).and_then(Constant::scalar);
    let number = number.filter(|_| broadcast(&[&x, &by]).is_ok_and(|dims| x.dims == dims));
    let Some(exponent) = number else { return any_power(node, lowering, &x, &by) };
    let y = if exponent == 1.0 {
        x
    } else if exponent == 2.0 {
        lowering.binary(Mode::Mul, &x, &x)?
    } else if exponent == 3.0 {
        let square = lowering.binary(Mode::Mul, &x, &x)?;
        lowering.binary(Mode::Mul, &square, &x)?
    } else if exponent == 0.5 {
        root(lowering, &x)?
    } else if exponent == -1.0 {
        lowering.unary(Mode::Reciprocal, &x)?
    } else {
        return any_power(node, lowering, &x, &by);
    };
    lowering.set(node, 0, y)
}

/// The square root, and ∞ of -∞, as powers are defined.
fn root(lowering: &mut Lowering<'_>, x: &View) -> Lowered<View> {
    let root = lowering.unary(Mode::Sqrt, x)?;
    let is_least = lowering.with_number_to(Mode::CmpEq, x, f64::NEG_INFINITY, Element::Bool)?;
    let opposite = lowering.unary(Mode::Neg, x)?;
    lowering.map(Mode::BinarySelect, &[&opposite, &root, &is_least], x.element)
}

/// A tensor's numbers in a floating-point type.
fn as_type(lowering: &mut Lowering<'_>, x: &View, element: Element) -> Lowered<View> {
    match x.element {
        own if own == element => Ok(x.clone()),
        own if own.is_float() => lowering.map(Mode::Identity, &[x], element),
        _ => whole::cast(lowering, x, element),
    }
}

/// A power by the provider itself.
fn any_power(node: &Node, lowering: &mut Lowering<'_>, x: &View, by: &View) -> Lowered<()> {
    let by = as_type(lowering, by, x.element)?;
    let y = own::pairwise(lowering, Pairwise::Power, x, &by)?;
    lowering.set(node, 0, y)
}

fn prelu(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, slope) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    same_type(&[&x, &slope])?;
    if x.dims != broadcast(&[&x, &slope])? {
        return refuse("the slope has more dimensions than the input");
    }
    if !x.element.is_float() {
        let below = whole::compute(lowering, Integer::Mul, &[&x, &slope], x.element)?;
        let zero = lowering.data(x.element, &[1], &vec![0; x.element.size()])?;
        let is_below = whole::compute(lowering, Integer::Less, &[&x, &zero], Element::Bool)?;
        let y = whole::compute(lowering, Integer::Where, &[&is_below, &below, &x], x.element)?;
        return lowering.set(node, 0, y);
    }
    let below = lowering.binary(Mode::Mul, &x, &slope)?;
    let to = lowering.fresh(Element::Bool, &x.dims);
    let (from, out) = (lowering.tensor(&x), lowering.tensor(&to));
    let zero = lowering.number(0.0, x.element == Element::Double, x.rank());
    lowering.op("below", Pointwise::new(Mode::CmpLt, from, Some(zero), out))?;
    let y = lowering.map(Mode::BinarySelect, &[&below, &x, &to], x.element)?;
    lowering.set(node, 0, y)
}

fn all_inputs(node: &Node, lowering: &Lowering<'_>) -> Lowered<Vec<View>> {
    (0..node.inputs.len()).map(|at| lowering.input(node, at)).collect()
}

fn together(node: &Node, lowering: &mut Lowering<'_>, mode: Mode) -> Lowered<(View, usize)> {
    let mut views = all_inputs(node, lowering)?;
    same_type(&views.iter().collect::<Vec<_>>())?;
    // Sums of 16-bit floats are rounded once.
    if mode == Mode::Add
        && matches!(views.first().map(|of| of.element), Some(Element::Half | Element::Bfloat16))
    {
        let wide = views.iter().map(|view| lowering.map(Mode::Identity, &[view], Element::Float));
        views = wide.collect::<Lowered<_>>()?;
    }
    let [first, rest @ ..] = views.as_slice() else { return refuse("no input") };
    let mut y = first.clone();
    for view in rest {
        y = together_of(lowering, mode, &y, view)?;
    }
    Ok((y, views.len()))
}

fn variadic(node: &Node, lowering: &mut Lowering<'_>, mode: Mode) -> Lowered<()> {
    let (y, _) = together(node, lowering, mode)?;
    let y = as_declared(node, lowering, y)?;
    lowering.set(node, 0, y)
}

/// A result in the type of the inputs.
fn as_declared(node: &Node, lowering: &mut Lowering<'_>, y: View) -> Lowered<View> {
    let element = lowering.input(node, 0)?.element;
    if y.element == element { Ok(y) } else { lowering.map(Mode::Identity, &[&y], element) }
}

fn mean(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (sum, count) = together(node, lowering, Mode::Add)?;
    floats(&[&sum])?;
    let y = if count == 1 { sum } else { lowering.with_number(Mode::Div, &sum, count as f64)? };
    let y = as_declared(node, lowering, y)?;
    lowering.set(node, 0, y)
}

/// Types whose elements fit into single or double precision.
fn exact(element: Element) -> bool {
    element.is_float() || matches!(element, Element::Bool | Element::Uint8 | Element::Int8 | Element::Int32)
}

fn compare(node: &Node, lowering: &mut Lowering<'_>, mode: Mode) -> Lowered<()> {
    let (x, y) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    same_type(&[&x, &y])?;
    let z = if exact(x.element) {
        lowering.map(mode, &[&x, &y], Element::Bool)?
    } else {
        whole::map(lowering, mode, &[&x, &y], Element::Bool)?
    };
    lowering.set(node, 0, z)
}

fn logic(node: &Node, lowering: &mut Lowering<'_>, mode: Mode) -> Lowered<()> {
    let (x, y) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    if x.element != Element::Bool || y.element != Element::Bool {
        return refuse("elements are not bool");
    }
    let z = lowering.map(mode, &[&x, &y], Element::Bool)?;
    lowering.set(node, 0, z)
}

fn select(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (condition, x, y) = (lowering.input(node, 0)?, lowering.input(node, 1)?, lowering.input(node, 2)?);
    same_type(&[&x, &y])?;
    if condition.element != Element::Bool {
        return refuse(format!("the condition is of {}", condition.element.name()));
    }
    let z = if exact(x.element) {
        lowering.map(Mode::BinarySelect, &[&x, &y, &condition], x.element)?
    } else {
        whole::compute(lowering, Integer::Where, &[&condition, &x, &y], x.element)?
    };
    lowering.set(node, 0, z)
}
