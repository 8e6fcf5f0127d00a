//! Functions of real numbers, written with a builder. Values are of a type that computes; results have it.

use crate::builder::Builder;
use crate::form::{Binary, Unary, Value};
use crate::scalar::Scalar;

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

/// log2 of the normal distribution function of −t, the best polynomial of its degree for t up to 5.6. Its last factor is below 0, so that it
/// falls on beyond.
const TAIL: [f64; 11] = [
    -0.999_999_961_111_488_9,
    -1.151_106_524_098_748_4,
    -0.459_200_728_851_134_6,
    -0.052_503_896_292_421_914,
    0.007_040_322_070_460_015,
    -7.607_747_464_762_125e-5,
    -0.000_243_539_697_121_027_5,
    6.620_741_540_914_041e-5,
    -9.259_279_877_613_026e-6,
    7.049_013_735_152_074e-7,
    -2.305_244_295_793_478_8e-8,
];

/// The normal distribution function. For floats within 4e-8, and relative to results below ½ within 5e-6, where a sum with the error function
/// would cancel; it takes two thirds of the error function's instructions.
fn distribution(b: &mut Builder, x: Value) -> Value {
    let scalar = b.type_of(x).scalar;
    if scalar == Scalar::F32 {
        let size = b.unary(Unary::Abs, x);
        let mut power = b.float(0.0, scalar);
        for (place, factor) in TAIL.into_iter().rev().enumerate() {
            let factor = b.float(factor, scalar);
            power = if place == 0 { factor } else { b.fma(power, size, factor) };
        }
        let below = b.unary(Unary::Exp2, power);
        let one = b.float(1.0, scalar);
        let above = b.sub(one, below);
        let is_below = b.less(x, 0.0);
        return b.select(is_below, below, above);
    }
    let scaled = b.mul(x, INVERSE_ROOT_OF_2);
    let error = b.unary(Unary::Erf, scaled);
    let sum = b.add(error, 1.0);
    b.mul(sum, 0.5)
}

/// Where GELU ends to differ from 0 or x: a factor that is 0 there makes no NaN of an infinity.
const END: f64 = 1e4;

/// x, or where GELU is 0 a number. A NaN becomes one, too.
fn from_below(b: &mut Builder, x: Value) -> Value {
    let end = b.float(-END, b.type_of(x).scalar);
    b.binary(Binary::MaxNumber, x, end)
}

/// x, or where GELU's slope is 0 or 1 a number, as for a NaN.
fn bounded(b: &mut Builder, x: Value) -> Value {
    let above = from_below(b, x);
    let end = b.float(END, b.type_of(x).scalar);
    b.binary(Binary::MinNumber, above, end)
}

/// x times the normal distribution function of x; 0 at −∞.
pub fn gelu(b: &mut Builder, x: Value) -> Value {
    let below = distribution(b, x);
    let own = from_below(b, x);
    b.mul(own, below)
}

/// dy times the slope of [`gelu`] at x.
pub fn gelu_slope(b: &mut Builder, dy: Value, x: Value) -> Value {
    let below = distribution(b, x);
    let square = b.mul(x, x);
    let half = b.mul(square, -0.5);
    let power = b.exp(half);
    let density = b.mul(power, DENSITY);
    let own = bounded(b, x);
    let product = b.mul(own, density);
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

/// GELU by its approximation with tanh. For floats x / (1 + e^−2u), where 1 + tanh u would cancel.
pub fn gelu_by_tanh(b: &mut Builder, x: Value) -> Value {
    let scalar = b.type_of(x).scalar;
    if scalar == Scalar::F32 {
        const LINEAR: f64 = -2.0 * ROOT_OF_2_BY_PI * std::f64::consts::LOG2_E;
        let square = b.mul(x, x);
        let cube = b.float(LINEAR * CUBE, scalar);
        let factor = b.fma(cube, square, LINEAR);
        let exponent = b.mul(x, factor);
        let power = b.unary(Unary::Exp2, exponent);
        let below = b.add(power, 1.0);
        let own = from_below(b, x);
        return b.div(own, below);
    }
    let t = gelu_tanh(b, x);
    let sum = b.add(t, 1.0);
    let own = from_below(b, x);
    let half = b.mul(own, 0.5);
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
    let x = bounded(b, x);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{Index, Memory};
    use crate::interpret::{Argument, run};
    use crate::target::Target;

    const COUNT: usize = 1024;

    /// A function of floats.
    fn computed(function: fn(&mut Builder, Value) -> Value, numbers: &[f32]) -> Vec<f32> {
        let target = Target::of("gfx1100").unwrap();
        let mut b = Builder::new("function", 64, &target);
        let [x, y] = [b.pointer(Scalar::F32), b.output(Scalar::F32)];
        let [group, thread] = [b.index(Index::Group(0)), b.index(Index::Thread)];
        let first = b.mul(group, 64);
        let place = b.add(first, thread);
        let own = b.load(Memory::Global(x), place);
        let made = function(&mut b, own);
        b.store(Memory::Global(y), place, made);
        let mut x: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut y = vec![0; 4 * COUNT];
        let groups = [COUNT as u32 / 64, 1, 1];
        run(&b.finish(), groups, &mut [Argument::Memory(&mut x), Argument::Memory(&mut y)]).unwrap();
        y.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    /// x times the integral of the density up to x, by Simpson's rule.
    fn exact_gelu(x: f64) -> f64 {
        const STEPS: u32 = 1000;
        let width = 12.0 / f64::from(STEPS);
        let density = |t: f64| DENSITY * (-t * t / 2.0).exp();
        let sum: f64 = (0..=STEPS)
            .map(|step| {
                let weight = if step == 0 || step == STEPS { 1.0 } else { f64::from(2 + 2 * (step % 2)) };
                weight * density(x.abs() + f64::from(step) * width)
            })
            .sum();
        let beyond = sum * width / 3.0;
        x * if x < 0.0 { beyond } else { 1.0 - beyond }
    }

    fn exact_gelu_by_tanh(x: f64) -> f64 {
        x / (1.0 + (-2.0 * ROOT_OF_2_BY_PI * (x + CUBE * x * x * x)).exp())
    }

    #[test]
    fn gelu_of_floats_is_exact_to_some_places_also_where_it_is_small() {
        let mut numbers: Vec<f32> = (0..COUNT).map(|place| (place as f32 - 512.0) / 75.0).collect();
        numbers[..5].copy_from_slice(&[f32::NAN, f32::INFINITY, 1e30, f32::NEG_INFINITY, -1e30]);
        for (function, exact) in [
            (gelu as fn(&mut Builder, Value) -> Value, exact_gelu as fn(f64) -> f64),
            (gelu_by_tanh, exact_gelu_by_tanh),
        ] {
            let results = computed(function, &numbers);
            assert!(results[0].is_nan() && results[1..5] == [f32::INFINITY, 1e30, 0.0, 0.0]);
            for (x, result) in numbers.iter().zip(results).skip(5) {
                let exact = exact(f64::from(*x));
                let bound = if *x < -5.6 {
                    5e-8
                } else {
                    (1e-5 * exact.abs()).min(2e-7 * f64::from(x.abs().max(1.0)))
                };
                assert!((f64::from(result) - exact).abs() <= bound, "{x}: {result} rather than {exact}");
            }
        }
    }

    #[test]
    fn slopes_of_gelu_are_0_or_1_far_away() {
        let mut numbers = vec![0.0; COUNT];
        numbers[..5].copy_from_slice(&[f32::NAN, f32::INFINITY, 1e30, f32::NEG_INFINITY, -1e30]);
        fn slope(b: &mut Builder, x: Value) -> Value {
            let one = b.float(1.0, Scalar::F32);
            gelu_slope(b, one, x)
        }
        fn slope_by_tanh(b: &mut Builder, x: Value) -> Value {
            let one = b.float(1.0, Scalar::F32);
            gelu_by_tanh_slope(b, one, x)
        }
        for function in [slope, slope_by_tanh] {
            let results = computed(function, &numbers);
            assert!(results[0].is_nan(), "{}", results[0]);
            assert_eq!(results[1..6], [1.0, 1.0, 0.0, 0.0, 0.5]);
        }
    }
}
