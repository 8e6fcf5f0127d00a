//! The pointwise modes: each a function of up to three values.

use hipdnn_plugin_sdk::graph::PointwiseMode;

use crate::dtype::element::ComputeType;
use crate::problem::pointwise::Activation;

/// The parameters of the activations in the compute type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActivationParameters<R> {
    /// The lower bound of RELU.
    pub(crate) lower_clip: R,
    /// The upper bound of RELU, if it has one.
    pub(crate) upper_clip: Option<R>,
    /// The slope of RELU below its lower bound.
    pub(crate) lower_clip_slope: R,
    /// β of SWISH.
    pub(crate) swish_beta: R,
    /// α of ELU.
    pub(crate) elu_alpha: R,
    /// β of SOFTPLUS.
    pub(crate) softplus_beta: R,
}

impl<R: ComputeType> ActivationParameters<R> {
    /// The parameters, rounded to the compute type.
    pub(crate) fn of(activation: &Activation) -> Self {
        let real = |value: f32| R::from_f64(f64::from(value));
        Self {
            lower_clip: real(activation.lower_clip),
            upper_clip: activation.upper_clip.map(real),
            lower_clip_slope: real(activation.lower_clip_slope),
            swish_beta: real(activation.swish_beta),
            elu_alpha: real(activation.elu_alpha),
            softplus_beta: real(activation.softplus_beta),
        }
    }
}

/// A mode as a function of in_0, in_1 and in_2; operands that the mode does not read are ignored.
pub(crate) type Function<R> = fn([R; 3], &ActivationParameters<R>) -> R;

/// The function of a mode; `None` for `Unset` and for `GenIndex`, which depends on the index, not an operand.
pub(crate) fn function<R: ComputeType>(mode: PointwiseMode) -> Option<Function<R>> {
    use PointwiseMode as M;
    Some(match mode {
        M::Unset | M::GenIndex => return None,
        M::Abs => |[x, ..], _| x.abs(),
        M::Neg => |[x, ..], _| -x,
        M::Identity => |[x, ..], _| x,
        M::Ceil => |[x, ..], _| x.ceil(),
        M::Floor => |[x, ..], _| x.floor(),
        M::Erf => |[x, ..], _| x.erf(),
        M::Exp => |[x, ..], _| x.exp(),
        M::Log => |[x, ..], _| logarithm(x),
        M::Sin => |[x, ..], _| x.sin(),
        M::Tan => |[x, ..], _| x.tan(),
        M::Sqrt => |[x, ..], _| x.sqrt(),
        M::Rsqrt => |[x, ..], _| R::ONE / x.sqrt(),
        M::Reciprocal => |[x, ..], _| R::ONE / x,
        M::Add => |[x, y, _], _| x + y,
        M::Sub => |[x, y, _], _| x - y,
        M::Mul => |[x, y, _], _| x * y,
        M::Div => |[x, y, _], _| x / y,
        M::AddSquare => |[x, y, _], _| x + y * y,
        // NaN wins in both.
        M::Max => |[x, y, _], _| if x >= y || x.is_nan() { x } else { y },
        M::Min => |[x, y, _], _| if x <= y || x.is_nan() { x } else { y },
        M::CmpEq => |[x, y, _], _| truth(x == y),
        M::CmpNeq => |[x, y, _], _| truth(x != y),
        M::CmpGe => |[x, y, _], _| truth(x >= y),
        M::CmpGt => |[x, y, _], _| truth(x > y),
        M::CmpLe => |[x, y, _], _| truth(x <= y),
        M::CmpLt => |[x, y, _], _| truth(x < y),
        M::LogicalAnd => |[x, y, _], _| truth(x != R::ZERO && y != R::ZERO),
        M::LogicalOr => |[x, y, _], _| truth(x != R::ZERO || y != R::ZERO),
        M::LogicalNot => |[x, ..], _| truth(x == R::ZERO),
        M::BinarySelect => |[x, y, z], _| if z != R::ZERO { x } else { y },
        M::ReluFwd => |[x, ..], n| {
            if x <= n.lower_clip {
                // A slope of 0 is flat even at minus infinity.
                let below = if n.lower_clip_slope == R::ZERO {
                    R::ZERO
                } else {
                    n.lower_clip_slope * (x - n.lower_clip)
                };
                below + n.lower_clip
            } else {
                n.upper_clip.filter(|upper| x >= *upper).unwrap_or(x)
            }
        },
        M::ReluBwd => |[dy, x, _], n| {
            if x <= n.lower_clip {
                // A slope of 0 blocks even an infinite gradient.
                if n.lower_clip_slope == R::ZERO { R::ZERO } else { n.lower_clip_slope * dy }
            } else if n.upper_clip.is_some_and(|upper| x > upper) {
                R::ZERO
            } else {
                dy
            }
        },
        M::SigmoidFwd => |[x, ..], _| sigmoid(x),
        M::SigmoidBwd => |[dy, x, _], _| {
            let s = sigmoid(x);
            dy * s * (R::ONE - s)
        },
        M::TanhFwd => |[x, ..], _| x.tanh(),
        M::TanhBwd => |[dy, x, _], _| {
            let t = x.tanh();
            dy * (R::ONE - t * t)
        },
        M::GeluFwd => |[x, ..], _| {
            let x = above_minus_infinity(x);
            half::<R>() * x * (R::ONE + (x * inv_sqrt_2()).erf())
        },
        M::GeluBwd => |[dy, x, _], _| {
            let x = within(x, FAR);
            let below = half::<R>() * (R::ONE + (x * inv_sqrt_2()).erf());
            let density = (-(half::<R>() * x * x)).exp() * R::from_f64(INV_SQRT_2_PI);
            dy * (below + x * density)
        },
        M::GeluApproxTanhFwd => |[x, ..], _| {
            let x = above_minus_infinity(x);
            half::<R>() * x * (R::ONE + gelu_argument(x).tanh())
        },
        M::GeluApproxTanhBwd => |[dy, x, _], _| {
            let x = within(x, FAR);
            let t = gelu_argument(x).tanh();
            let slope = R::from_f64(SQRT_2_OVER_PI) * (R::ONE + R::from_f64(3.0 * GELU_CUBIC) * x * x);
            dy * (half::<R>() * (R::ONE + t) + half::<R>() * x * (R::ONE - t * t) * slope)
        },
        M::SwishFwd => |[x, ..], n| x / (R::ONE + (-(n.swish_beta * x)).exp()),
        M::SwishBwd => |[dy, x, _], n| {
            let s = sigmoid(n.swish_beta * x);
            dy * (s + n.swish_beta * x * s * (R::ONE - s))
        },
        M::EluFwd => |[x, ..], n| if x > R::ZERO { x } else { n.elu_alpha * x.exp_m1() },
        M::EluBwd => |[dy, x, _], n| if x > R::ZERO { dy } else { dy * n.elu_alpha * x.exp() },
        M::SoftplusFwd => |[x, ..], n| {
            // ln(1 + eᶻ) = max(z, 0) + ln(1 + e^-|z|), which does not overflow.
            let z = n.softplus_beta * x;
            let relu = if z > R::ZERO { z } else { R::ZERO };
            (relu + (-z.abs()).exp().ln_1p()) / n.softplus_beta
        },
        M::SoftplusBwd => |[dy, x, _], n| dy * sigmoid(n.softplus_beta * x),
    })
}

/// 1/√(2π).
const INV_SQRT_2_PI: f64 = 0.398_942_280_401_432_7;

/// √(2/π).
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;

/// The factor of x³ in the approximation of GELU by tanh.
const GELU_CUBIC: f64 = 0.044_715;

fn truth<R: ComputeType>(holds: bool) -> R {
    if holds { R::ONE } else { R::ZERO }
}

/// From here on the slope of GELU is 1, or 0 on the other side; the terms of its formula would overflow later.
pub(crate) const FAR: f32 = 1e4;

/// The value with its magnitude limited; NaN stays.
fn within<R: ComputeType>(x: R, most: f32) -> R {
    let most = R::from_f64(f64::from(most));
    if x > most {
        most
    } else if x < -most {
        -most
    } else {
        x
    }
}

/// The value, or the least finite one for -∞, whose product with 0 is 0; NaN stays.
fn above_minus_infinity<R: ComputeType>(x: R) -> R {
    if x < -R::LARGEST { -R::LARGEST } else { x }
}

fn half<R: ComputeType>() -> R {
    R::from_f64(0.5)
}

fn inv_sqrt_2<R: ComputeType>() -> R {
    R::from_f64(std::f64::consts::FRAC_1_SQRT_2)
}

/// Where the processor flushes, subnormal numbers are equal to 0, but the library's logarithm takes their bits for other numbers.
fn logarithm<R: ComputeType>(x: R) -> R {
    if x == R::ZERO { -(R::ONE / R::ZERO) } else { x.ln() }
}

fn sigmoid<R: ComputeType>(x: R) -> R {
    R::ONE / (R::ONE + (-x).exp())
}

fn gelu_argument<R: ComputeType>(x: R) -> R {
    R::from_f64(SQRT_2_OVER_PI) * (x + R::from_f64(GELU_CUBIC) * x * x * x)
}
