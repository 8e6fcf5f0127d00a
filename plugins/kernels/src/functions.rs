//! Functions of real numbers, written with a builder. Values are of a type that computes; results have it.

use crate::builder::Builder;
use crate::form::{Unary, Value};

const INVERSE_ROOT_OF_2: f64 = std::f64::consts::FRAC_1_SQRT_2;
/// √(2 / π) and the factor of the cube in GELU by tanh.
const ROOT_OF_2_BY_PI: f64 = 0.797_884_560_802_865_4;
const CUBE: f64 = 0.044_715;
/// 1 / √(2π)
const DENSITY: f64 = 0.398_942_280_401_432_7;

impl Builder {
    /// e^x.
    pub fn exp(&mut self, x: Value) -> Value {
        self.unary(Unary::Exp, x)
    }

    /// −x.
    pub fn neg(&mut self, x: Value) -> Value {
        self.unary(Unary::Neg, x)
    }

    /// 1 / √x.
    pub fn rsqrt(&mut self, x: Value) -> Value {
        self.unary(Unary::Rsqrt, x)
    }

    /// 1 if a condition holds, else 0.
    fn truth(&mut self, condition: Value, like: Value) -> Value {
        let scalar = self.type_of(like).scalar;
        let [one, zero] = [1.0, 0.0].map(|number| self.float(number, scalar));
        self.select(condition, one, zero)
    }
}

/// 1 where a condition holds, else 0, in the type of a value.
pub fn truth(b: &mut Builder, condition: Value, like: Value) -> Value {
    b.truth(condition, like)
}

/// x below `lower` by a slope, between the bounds itself, above `upper` that.
pub fn relu(b: &mut Builder, x: Value, lower: f64, upper: Option<f64>, slope: f64) -> Value {
    let scalar = b.type_of(x).scalar;
    let bound = b.float(lower, scalar);
    let low = if slope == 0.0 {
        bound
    } else {
        let below = b.sub(x, bound);
        let scaled = b.mul(below, slope);
        b.add(scaled, bound)
    };
    let is_low = b.less_equal(x, bound);
    let high = match upper {
        None => x,
        Some(upper) => {
            let upper = b.float(upper, scalar);
            let is_high = b.greater_equal(x, upper);
            b.select(is_high, upper, x)
        }
    };
    b.select(is_low, low, high)
}

/// dy times the slope of [`relu`] at x.
pub fn relu_slope(b: &mut Builder, dy: Value, x: Value, lower: f64, upper: Option<f64>, slope: f64) -> Value {
    let scalar = b.type_of(x).scalar;
    let zero = b.float(0.0, scalar);
    let low = if slope == 0.0 { zero } else { b.mul(dy, slope) };
    let is_low = b.less_equal(x, lower);
    let high = match upper {
        None => dy,
        Some(upper) => {
            let is_high = b.greater(x, upper);
            b.select(is_high, zero, dy)
        }
    };
    b.select(is_low, low, high)
}

/// 1 / (1 + e^−x).
pub fn sigmoid(b: &mut Builder, x: Value) -> Value {
    let minus = b.neg(x);
    let power = b.exp(minus);
    let below = b.add(power, 1.0);
    b.unary(Unary::Reciprocal, below)
}

/// dy times the slope of [`sigmoid`] at x.
pub fn sigmoid_slope(b: &mut Builder, dy: Value, x: Value) -> Value {
    let s = sigmoid(b, x);
    let one = b.float(1.0, b.type_of(x).scalar);
    let rest = b.sub(one, s);
    let scaled = b.mul(dy, s);
    b.mul(scaled, rest)
}

/// dy times the slope of the hyperbolic tangent at x.
pub fn tanh_slope(b: &mut Builder, dy: Value, x: Value) -> Value {
    let t = b.unary(Unary::Tanh, x);
    let square = b.mul(t, t);
    let one = b.float(1.0, b.type_of(x).scalar);
    let rest = b.sub(one, square);
    b.mul(dy, rest)
}

/// The normal distribution function.
fn distribution(b: &mut Builder, x: Value) -> Value {
    let scaled = b.mul(x, INVERSE_ROOT_OF_2);
    let error = b.unary(Unary::Erf, scaled);
    let sum = b.add(error, 1.0);
    b.mul(sum, 0.5)
}

/// x times the normal distribution function of x.
pub fn gelu(b: &mut Builder, x: Value) -> Value {
    let below = distribution(b, x);
    b.mul(x, below)
}

/// dy times the slope of [`gelu`] at x.
pub fn gelu_slope(b: &mut Builder, dy: Value, x: Value) -> Value {
    let below = distribution(b, x);
    let square = b.mul(x, x);
    let half = b.mul(square, -0.5);
    let power = b.exp(half);
    let density = b.mul(power, DENSITY);
    let product = b.mul(x, density);
    let slope = b.add(below, product);
    b.mul(dy, slope)
}

/// The hyperbolic tangent in GELU's approximation.
fn gelu_tanh(b: &mut Builder, x: Value) -> Value {
    let square = b.mul(x, x);
    let cube = b.mul(square, CUBE);
    let sum = b.add(cube, 1.0);
    let scaled = b.mul(x, ROOT_OF_2_BY_PI);
    let argument = b.mul(scaled, sum);
    b.unary(Unary::Tanh, argument)
}

/// GELU by its approximation with tanh.
pub fn gelu_by_tanh(b: &mut Builder, x: Value) -> Value {
    let t = gelu_tanh(b, x);
    let sum = b.add(t, 1.0);
    let half = b.mul(x, 0.5);
    b.mul(half, sum)
}

/// dy times the slope of [`gelu_by_tanh`] at x.
pub fn gelu_by_tanh_slope(b: &mut Builder, dy: Value, x: Value) -> Value {
    let t = gelu_tanh(b, x);
    let one = b.float(1.0, b.type_of(x).scalar);
    let sum = b.add(t, one);
    let first = b.mul(sum, 0.5);
    let square = b.mul(t, t);
    let rest = b.sub(one, square);
    let own = b.mul(x, x);
    let inner = b.mul(own, 3.0 * CUBE);
    let inner = b.add(inner, one);
    let inner = b.mul(inner, ROOT_OF_2_BY_PI * 0.5);
    let second = b.mul(x, rest);
    let second = b.mul(second, inner);
    let slope = b.add(first, second);
    b.mul(dy, slope)
}

/// x times the sigmoid of βx.
pub fn swish(b: &mut Builder, x: Value, beta: f64) -> Value {
    let scaled = b.mul(x, beta);
    let s = sigmoid(b, scaled);
    b.mul(x, s)
}

/// dy times the slope of [`swish`] at x.
pub fn swish_slope(b: &mut Builder, dy: Value, x: Value, beta: f64) -> Value {
    let scaled = b.mul(x, beta);
    let s = sigmoid(b, scaled);
    let one = b.float(1.0, b.type_of(x).scalar);
    let rest = b.sub(one, s);
    let product = b.mul(scaled, s);
    let product = b.mul(product, rest);
    let slope = b.add(s, product);
    b.mul(dy, slope)
}

/// e^x − 1, also near 0: 2 tanh(x / 2) / (1 − tanh(x / 2)).
fn exp_less_one(b: &mut Builder, x: Value) -> Value {
    let half = b.mul(x, 0.5);
    let t = b.unary(Unary::Tanh, half);
    let one = b.float(1.0, b.type_of(x).scalar);
    let below = b.sub(one, t);
    let twice = b.add(t, t);
    let near = b.div(twice, below);
    let power = b.exp(x);
    let far = b.sub(power, one);
    let size = b.unary(Unary::Abs, x);
    let is_near = b.less(size, 1.0);
    b.select(is_near, near, far)
}

/// x above 0, else α (e^x − 1).
pub fn elu(b: &mut Builder, x: Value, alpha: f64) -> Value {
    let below = exp_less_one(b, x);
    let below = b.mul(below, alpha);
    let is_above = b.greater(x, 0.0);
    b.select(is_above, x, below)
}

/// dy times the slope of [`elu`] at x.
pub fn elu_slope(b: &mut Builder, dy: Value, x: Value, alpha: f64) -> Value {
    let power = b.exp(x);
    let scaled = b.mul(dy, alpha);
    let below = b.mul(scaled, power);
    let is_above = b.greater(x, 0.0);
    b.select(is_above, dy, below)
}

/// ln(1 + x) for x from 0 to 1: x · ln u / (u − 1), u = 1 + x, which cancels the rounding of u.
fn log_of_one_more(b: &mut Builder, x: Value) -> Value {
    let u = b.add(x, 1.0);
    let log = b.unary(Unary::Log, u);
    let own = b.sub(u, 1.0);
    let product = b.mul(x, log);
    let quotient = b.div(product, own);
    let is_one = b.equal(u, 1.0);
    b.select(is_one, x, quotient)
}

/// ln(1 + e^(βx)) / β.
pub fn softplus(b: &mut Builder, x: Value, beta: f64) -> Value {
    let scaled = b.mul(x, beta);
    let size = b.unary(Unary::Abs, scaled);
    let minus = b.neg(size);
    let power = b.exp(minus);
    let log = log_of_one_more(b, power);
    let above = b.max(scaled, 0.0);
    let sum = b.add(above, log);
    b.div(sum, beta)
}

/// dy times the slope of [`softplus`] at x.
pub fn softplus_slope(b: &mut Builder, dy: Value, x: Value, beta: f64) -> Value {
    let scaled = b.mul(x, beta);
    let s = sigmoid(b, scaled);
    b.mul(dy, s)
}

/// The tangent.
pub fn tan(b: &mut Builder, x: Value) -> Value {
    let [sine, cosine] = [Unary::Sin, Unary::Cos].map(|function| b.unary(function, x));
    b.div(sine, cosine)
}
