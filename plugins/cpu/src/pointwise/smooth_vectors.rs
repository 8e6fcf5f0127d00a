//! The functions of one or two operands on vectors.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use hipdnn_plugin_sdk::graph::PointwiseMode;

use crate::pointwise::functions::Functions;
use crate::pointwise::gelu::gelu;
use crate::pointwise::scalar::{ActivationParameters, FAR, function};
use crate::pointwise::smooth::Smooth;
use crate::pointwise::transcendental::{
    error_function, exponential, exponential_less_1, hyperbolic_tangent, logarithm, logarithm_of_1_more,
    normal_function, within,
};
use crate::simd::vector::{Lanewise, Vector};

/// The scalar function of each lane.
#[inline(always)]
pub(crate) fn exactly<V: Vector>(smooth: Smooth, x: V, y: V, parameter: V::Scalar) -> V
where
    V::Scalar: Functions,
{
    let mut results = x.values();
    one_by_one(smooth.mode(), &mut results[..V::LANES], &y.values(), parameter);
    x.with_values(&results)
}

#[inline(never)]
fn one_by_one<T: Functions>(mode: PointwiseMode, results: &mut [T], others: &[T], parameter: T) {
    let parameters = ActivationParameters {
        lower_clip: T::ZERO,
        upper_clip: None,
        lower_clip_slope: T::ZERO,
        swish_beta: parameter,
        elu_alpha: parameter,
        softplus_beta: parameter,
    };
    let Some(function) = function::<T>(mode) else { return };
    for (result, other) in results.iter_mut().zip(others) {
        *result = function([*result, *other, T::ZERO], &parameters);
    }
}

/// √(2/π).
const GELU_FACTOR: f32 = (FRAC_2_SQRT_PI * FRAC_1_SQRT_2) as f32;

/// The factor of x³ in the approximation of GELU by tanh.
const GELU_CUBIC: f32 = 0.044_715;

/// 1/√(2π).
const DENSITY: f32 = (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2) as f32;

/// The function in single precision.
#[inline(always)]
pub(crate) fn in_single<V: Vector<Scalar = f32>>(smooth: Smooth, x: V, y: V, parameter: f32) -> V {
    use Lanewise::{Abs, Add, Div, Mul, Neg, NotAbove, NotBelow, Sqrt, Sub};
    let (zero, half, one) = (x.broadcast(0.0), x.broadcast(0.5), x.broadcast(1.0));
    match smooth {
        Smooth::Erf => error_function(x),
        Smooth::Exp => exponential(x),
        Smooth::Log => logarithm(x),
        Smooth::Rsqrt => one.lanewise(Div, x.lanewise(Sqrt, x)),
        Smooth::Reciprocal => one.lanewise(Div, x),
        // The square is rounded, as in the reference: it may overflow although the sum does not.
        Smooth::AddSquare => x.lanewise(Add, y.lanewise(Mul, y)),
        // NaN counts as positive.
        Smooth::ReluBwd => one.lanewise(NotAbove, y).where_above_0(x, zero),
        Smooth::SigmoidFwd => sigmoid(x),
        Smooth::SigmoidBwd => {
            let s = sigmoid(y);
            x.lanewise(Mul, s).lanewise(Mul, one.lanewise(Sub, s))
        }
        Smooth::TanhFwd => hyperbolic_tangent(x),
        Smooth::TanhBwd => {
            let t = hyperbolic_tangent(y);
            x.lanewise(Mul, one.lanewise(Sub, t.lanewise(Mul, t)))
        }
        Smooth::GeluFwd if V::LOOKS_UP => gelu(x),
        // The least finite value instead of -∞, whose product with 0 is 0.
        Smooth::GeluFwd => {
            let half = x.lanewise(NotBelow, x.broadcast(-f32::MAX)).lanewise(Mul, half);
            half.mul_add(normal_function(x), half)
        }
        Smooth::GeluBwd => {
            let y = within(y, -FAR, FAR);
            let below = half.mul_add(normal_function(y), half);
            let squares = y.lanewise(Mul, half).lanewise(Mul, y);
            let density = exponential(squares.lanewise(Neg, squares)).lanewise(Mul, x.broadcast(DENSITY));
            x.lanewise(Mul, y.mul_add(density, below))
        }
        Smooth::GeluApproxTanhFwd => {
            let half = x.lanewise(NotBelow, x.broadcast(-f32::MAX)).lanewise(Mul, half);
            half.mul_add(hyperbolic_tangent(gelu_argument(x)), half)
        }
        Smooth::GeluApproxTanhBwd => {
            let y = within(y, -FAR, FAR);
            let t = hyperbolic_tangent(gelu_argument(y));
            let square = y.lanewise(Mul, x.broadcast(3.0 * GELU_CUBIC)).lanewise(Mul, y);
            let slope = x.broadcast(GELU_FACTOR).lanewise(Mul, one.lanewise(Add, square));
            let rest = one.lanewise(Sub, t.lanewise(Mul, t));
            let second = half.lanewise(Mul, y).lanewise(Mul, rest);
            x.lanewise(Mul, second.mul_add(slope, half.mul_add(t, half)))
        }
        Smooth::SwishFwd => {
            let z = x.lanewise(Mul, x.broadcast(-parameter));
            x.lanewise(Div, one.lanewise(Add, exponential(z)))
        }
        Smooth::SwishBwd => {
            let z = y.lanewise(Mul, x.broadcast(parameter));
            let s = sigmoid(z);
            let second = z.lanewise(Mul, s).lanewise(Mul, one.lanewise(Sub, s));
            x.lanewise(Mul, s.lanewise(Add, second))
        }
        Smooth::EluFwd => {
            let below = x.broadcast(parameter).lanewise(Mul, exponential_less_1(x));
            x.where_above_0(x, below)
        }
        Smooth::EluBwd => {
            let below = x.lanewise(Mul, x.broadcast(parameter)).lanewise(Mul, exponential(y));
            y.where_above_0(x, below)
        }
        Smooth::SoftplusFwd => {
            // ln(1 + eᶻ) = max(z, 0) + ln(1 + e^-|z|), which does not overflow.
            let z = x.lanewise(Mul, x.broadcast(parameter));
            let size = z.lanewise(Abs, z);
            let rest = logarithm_of_1_more(exponential(size.lanewise(Neg, size)));
            let relu = zero.lanewise(NotBelow, z);
            relu.lanewise(Add, rest).lanewise(Div, x.broadcast(parameter))
        }
        Smooth::SoftplusBwd => x.lanewise(Mul, sigmoid(y.lanewise(Mul, x.broadcast(parameter)))),
    }
}

#[inline(always)]
fn sigmoid<V: Vector<Scalar = f32>>(x: V) -> V {
    let one = x.broadcast(1.0);
    one.lanewise(Lanewise::Div, exponential(x.lanewise(Lanewise::Neg, x)).lanewise(Lanewise::Add, one))
}

/// The argument of tanh in the approximation of GELU.
#[inline(always)]
fn gelu_argument<V: Vector<Scalar = f32>>(x: V) -> V {
    let cube = x
        .lanewise(Lanewise::Mul, x.broadcast(GELU_CUBIC))
        .lanewise(Lanewise::Mul, x)
        .lanewise(Lanewise::Mul, x);
    x.broadcast(GELU_FACTOR).lanewise(Lanewise::Mul, x.lanewise(Lanewise::Add, cube))
}
