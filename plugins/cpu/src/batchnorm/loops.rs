//! The loops over contiguous values.

use crate::dtype::element::ComputeType;
use crate::simd::array::Each;
use crate::simd::row::{read, write};
use crate::simd::vector::{Lanewise, Vector};
use crate::tensor::moments::Totals;

/// Adds Σ dy and Σ dy · (x - mean).
///
/// # Safety
/// `dy` and `x` are readable for `len` values, and the processor has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn gradient_sums<V: Vector>(
    totals: &mut Totals<V, 2>,
    dy: *const V::Scalar,
    x: *const V::Scalar,
    mean: V::Scalar,
    len: usize,
) {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        let means = V::splat(mean);
        totals.add(
            len,
            |i, [sum, product]| {
                let dy = V::load(dy.add(i));
                let deviation = V::load(x.add(i)).lanewise(Lanewise::Sub, means);
                [sum.lanewise(Lanewise::Add, dy), dy.mul_add(deviation, product)]
            },
            |i, [sum, product]| {
                let dy = dy.add(i).read_unaligned();
                [sum + dy, dy * (x.add(i).read_unaligned() - mean) + product]
            },
        );
    }
}

/// As [`gradient_sums`], for sums beyond the range of the compute type.
///
/// # Safety
/// `dy` and `x` are readable for `len` values.
#[cold]
pub(crate) unsafe fn gradient_sums_in_double<T: ComputeType>(
    sums: &mut [f64; 2],
    dy: *const T,
    x: *const T,
    mean: T,
    len: usize,
) {
    for i in 0..len {
        // SAFETY: the index is below `len`, up to which this function requires all values.
        let [dy, x] = [dy, x].each(|from| unsafe { from.add(i).read_unaligned() }.to_f64());
        sums[0] += dy;
        sums[1] += dy * (x - mean.to_f64());
    }
}

/// The coefficients of a channel's gradient: dx = factor · (dy - bias - (x - mean) · slope).
#[derive(Clone, Copy)]
pub(crate) struct Gradient<T> {
    pub(crate) mean: T,
    pub(crate) factor: T,
    pub(crate) bias: T,
    pub(crate) slope: T,
}

/// Evaluates an expression with the index of every vector below `len`, and with its lanes if the last one is
/// partial. A closure might be compiled without the vector's instructions.
macro_rules! each {
    ($v:ident, $len:expr, |$i:ident, $lanes:ident| $body:expr) => {{
        let (len, mut $i) = ($len, 0);
        while $i + $v::LANES <= len {
            let $lanes: Option<$v::Lanes> = None;
            $body;
            $i += $v::LANES;
        }
        if $i < len {
            let $lanes = Some($v::lanes(0, len - $i));
            $body;
        }
    }};
}

/// dx of one channel.
///
/// # Safety
/// As for [`gradient_sums`], and `dx` is writable for `len` values.
#[inline(always)]
pub(crate) unsafe fn gradient<V: Vector>(
    dy: *const V::Scalar,
    x: *const V::Scalar,
    by: &Gradient<V::Scalar>,
    dx: *mut V::Scalar,
    len: usize,
) {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        let [mean, factor] = [V::splat(by.mean), V::splat(by.factor)];
        let [bias, slope] = [V::splat(by.bias), V::splat(-by.slope)];
        each!(V, len, |i, lanes| {
            let deviation = read::<V>(x.add(i), lanes).lanewise(Lanewise::Sub, mean);
            let dy = read::<V>(dy.add(i), lanes).lanewise(Lanewise::Sub, bias);
            write(deviation.mul_add(slope, dy).lanewise(Lanewise::Mul, factor), dx.add(i), lanes);
        });
    }
}

/// x - mean, channel by channel.
///
/// # Safety
/// As [`read`], for both.
#[inline(always)]
unsafe fn deviation<V: Vector>(
    x: *const V::Scalar,
    means: *const V::Scalar,
    i: usize,
    lanes: Option<V::Lanes>,
) -> V {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe { read::<V>(x.add(i), lanes).lanewise(Lanewise::Sub, read(means.add(i), lanes)) }
}

/// sums += x, channel by channel.
///
/// # Safety
/// The processor has the vector's instructions; `len` values of x are readable, and of `sums` writable.
#[inline(always)]
pub(crate) unsafe fn add_row<V: Vector>(x: *const V::Scalar, sums: *mut V::Scalar, len: usize) {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        each!(V, len, |i, lanes| {
            let sum = read::<V>(sums.add(i), lanes).lanewise(Lanewise::Add, read(x.add(i), lanes));
            write(sum, sums.add(i), lanes);
        });
    }
}

/// sums += x - mean and squares += (x - mean)², channel by channel.
///
/// # Safety
/// As [`add_row`], for all.
#[inline(always)]
pub(crate) unsafe fn add_deviations<V: Vector>(
    x: *const V::Scalar,
    means: *const V::Scalar,
    [sums, squares]: [*mut V::Scalar; 2],
    len: usize,
) {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        each!(V, len, |i, lanes| {
            let deviation = deviation::<V>(x, means, i, lanes);
            let sum = read::<V>(sums.add(i), lanes).lanewise(Lanewise::Add, deviation);
            write(sum, sums.add(i), lanes);
            write(deviation.mul_add(deviation, read(squares.add(i), lanes)), squares.add(i), lanes);
        });
    }
}

/// sums += dy and products += dy · (x - mean), channel by channel.
///
/// # Safety
/// As [`add_row`], for all.
#[inline(always)]
pub(crate) unsafe fn add_gradients<V: Vector>(
    dy: *const V::Scalar,
    x: *const V::Scalar,
    means: *const V::Scalar,
    [sums, products]: [*mut V::Scalar; 2],
    len: usize,
) {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        each!(V, len, |i, lanes| {
            let dy = read::<V>(dy.add(i), lanes);
            let deviation = deviation::<V>(x, means, i, lanes);
            write(read::<V>(sums.add(i), lanes).lanewise(Lanewise::Add, dy), sums.add(i), lanes);
            write(dy.mul_add(deviation, read(products.add(i), lanes)), products.add(i), lanes);
        });
    }
}

/// y = (x - mean) · factor + summand, channel by channel, with the roundings of a chain of nodes.
///
/// # Safety
/// As [`add_row`], and `y` is writable.
#[inline(always)]
pub(crate) unsafe fn scale_row<V: Vector>(
    x: *const V::Scalar,
    [means, factors, summands]: [*const V::Scalar; 3],
    y: *mut V::Scalar,
    len: usize,
) {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        each!(V, len, |i, lanes| {
            let deviation = deviation::<V>(x, means, i, lanes);
            let scaled = deviation.lanewise(Lanewise::Mul, read(factors.add(i), lanes));
            write(scaled.lanewise(Lanewise::Add, read(summands.add(i), lanes)), y.add(i), lanes);
        });
    }
}

/// dx, channel by channel; mean, factor, bias and slope as in [`Gradient`].
///
/// # Safety
/// As [`add_row`], and `dx` is writable.
#[inline(always)]
pub(crate) unsafe fn gradient_row<V: Vector>(
    dy: *const V::Scalar,
    x: *const V::Scalar,
    [means, factors, biases, slopes]: [*const V::Scalar; 4],
    dx: *mut V::Scalar,
    len: usize,
) {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        each!(V, len, |i, lanes| {
            let of_x = deviation::<V>(x, means, i, lanes);
            let dy = deviation::<V>(dy, biases, i, lanes);
            let slope = read::<V>(slopes.add(i), lanes).lanewise(Lanewise::Neg, V::zero());
            let dx_of = of_x.mul_add(slope, dy).lanewise(Lanewise::Mul, read(factors.add(i), lanes));
            write(dx_of, dx.add(i), lanes);
        });
    }
}
