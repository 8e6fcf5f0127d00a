//! The loops over contiguous values.

use crate::dtype::element::Real;
use crate::simd::vector::{Lanewise, Vector};
use crate::tensor::image::{read, write};

/// Independent accumulators, so that additions overlap.
pub(crate) const SUMS: usize = 4;

/// Values that are summed in the compute type before they are added in double precision.
const EXACT: usize = 512;

/// The largest ratio of the squared distance between mean and shift to the variance: the rounding error of the sum
/// of squares grows with it.
pub(crate) const NEAR: f64 = 4.0;

/// Sums of values that come in several pieces.
pub(crate) struct Totals<V: Vector, const N: usize> {
    vectors: [[V; N]; SUMS],
    rest: [V::Scalar; N],
    /// How many values were added since the last [`Totals::keep`].
    count: usize,
    /// The sums before these, in double precision.
    sums: [f64; N],
}

impl<V: Vector, const N: usize> Totals<V, N> {
    /// Zero.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: the processor has the vector's instructions, as this function requires.
        let zero = unsafe { V::zero() };
        Self { vectors: [[zero; N]; SUMS], rest: [V::Scalar::ZERO; N], count: 0, sums: [0.0; N] }
    }

    /// Adds the values of all indices below `len`: `vector` adds those of a vector's lanes from an index on to a sum.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and the closures can be called with all indices.
    #[inline(always)]
    unsafe fn add(
        &mut self,
        len: usize,
        vector: impl Fn(usize, [V; N]) -> [V; N],
        number: impl Fn(usize, [V::Scalar; N]) -> [V::Scalar; N],
    ) {
        let mut at = 0;
        while at + SUMS * V::LANES <= len {
            for (i, sum) in self.vectors.iter_mut().enumerate() {
                *sum = vector(at + i * V::LANES, *sum);
            }
            at += SUMS * V::LANES;
        }
        for sum in &mut self.vectors {
            if at + V::LANES > len {
                break;
            }
            *sum = vector(at, *sum);
            at += V::LANES;
        }
        while at < len {
            self.rest = number(at, self.rest);
            at += 1;
        }
        self.count += len;
    }

    /// The recent sums, in the compute type.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    #[inline(always)]
    unsafe fn joined(&self) -> [V::Scalar; N] {
        // SAFETY: the processor has the vector's instructions, as this function requires.
        let mut result = unsafe { of_lanes(self.vectors) };
        for (result, rest) in result.iter_mut().zip(self.rest) {
            *result = *result + rest;
        }
        result
    }

    /// Moves the sums to double precision if enough values were added. To be called after each piece.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    #[inline(always)]
    pub(crate) unsafe fn keep(&mut self) {
        if self.count >= EXACT {
            // SAFETY: the processor has the vector's instructions, as this function requires.
            unsafe { *self = Self { sums: self.finished(), ..Self::new() } };
        }
    }

    /// The sums of all pieces.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    #[inline(always)]
    pub(crate) unsafe fn finished(&self) -> [f64; N] {
        // SAFETY: the processor has the vector's instructions, as this function requires.
        let last = unsafe { self.joined() };
        let mut sums = self.sums;
        for (sum, last) in sums.iter_mut().zip(last) {
            *sum += last.to_f64();
        }
        sums
    }
}

/// Adds all lanes of each of the sums.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
pub(crate) unsafe fn of_lanes<V: Vector, const N: usize>(vectors: [[V; N]; SUMS]) -> [V::Scalar; N] {
    let [a, b, c, d] = vectors;
    let mut sums = [V::Scalar::ZERO; N];
    for (i, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the processor has the vector's instructions, as this function requires.
        *sum = unsafe {
            let halves = [(a, b), (c, d)].map(|(x, y)| x[i].lanewise(Lanewise::Add, y[i]));
            halves[0].lanewise(Lanewise::Add, halves[1]).sum()
        };
    }
    sums
}

/// Sums the values of all indices below `len`; the closures are as in [`Totals`].
///
/// # Safety
/// The processor has the vector's instructions, and the closures can be called with all indices.
#[inline(always)]
pub(crate) unsafe fn total<V: Vector, const N: usize>(
    len: usize,
    vector: impl Fn(usize, [V; N]) -> [V; N],
    number: impl Fn(usize, [V::Scalar; N]) -> [V::Scalar; N],
) -> [V::Scalar; N] {
    // SAFETY: the processor has the vector's instructions, as this function requires.
    unsafe {
        let mut totals = Totals::<V, N>::new();
        totals.add(len, vector, number);
        totals.joined()
    }
}

/// Adds Σ x.
///
/// # Safety
/// The processor has the vector's instructions, and `len` values are readable.
#[inline(always)]
pub(crate) unsafe fn sum<V: Vector>(totals: &mut Totals<V, 1>, x: *const V::Scalar, len: usize) {
    // SAFETY: the processor has the vector's instructions and the values are valid, as this function requires.
    unsafe {
        totals.add(
            len,
            |i, [sum]| [sum.lanewise(Lanewise::Add, V::load(x.add(i)))],
            |i, [sum]| [sum + x.add(i).read_unaligned()],
        );
    }
}

/// The mean of the first values; exact if all values are the same.
///
/// # Safety
/// As [`sum`], and there is a value.
#[inline(always)]
pub(crate) unsafe fn first_mean<V: Vector>(x: *const V::Scalar, len: usize) -> V::Scalar {
    // SAFETY: the processor has the vector's instructions and the values are valid, as this function requires.
    unsafe {
        let first = x.read_unaligned();
        if len < V::LANES {
            return first;
        }
        let deviation = V::load(x).lanewise(Lanewise::Sub, V::splat(first));
        first + deviation.sum() / V::Scalar::from_f64(V::LANES as f64)
    }
}

/// Adds Σ (x - mean) and Σ (x - mean)².
///
/// # Safety
/// As [`sum`].
#[inline(always)]
pub(crate) unsafe fn deviations<V: Vector>(
    totals: &mut Totals<V, 2>,
    x: *const V::Scalar,
    mean: V::Scalar,
    len: usize,
) {
    // SAFETY: the processor has the vector's instructions and the values are valid, as this function requires.
    unsafe {
        // Subtraction and multiply-add use different execution units.
        let means = V::splat(mean);
        totals.add(
            len,
            |i, [sum, squares]| {
                let deviation = V::load(x.add(i)).lanewise(Lanewise::Sub, means);
                [sum.lanewise(Lanewise::Add, deviation), deviation.mul_add(deviation, squares)]
            },
            |i, [sum, squares]| {
                let deviation = x.add(i).read_unaligned() - mean;
                [sum + deviation, deviation * deviation + squares]
            },
        );
    }
}

/// Adds Σ dy and Σ dy · (x - mean).
///
/// # Safety
/// As [`sum`], for both.
#[inline(always)]
pub(crate) unsafe fn gradient_sums<V: Vector>(
    totals: &mut Totals<V, 2>,
    dy: *const V::Scalar,
    x: *const V::Scalar,
    mean: V::Scalar,
    len: usize,
) {
    // SAFETY: the processor has the vector's instructions and the values are valid, as this function requires.
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

/// The coefficients of a channel's gradient: dx = factor · (dy - bias - (x - mean) · slope).
#[derive(Clone, Copy)]
pub(crate) struct Gradient<T> {
    pub(crate) mean: T,
    pub(crate) factor: T,
    pub(crate) bias: T,
    pub(crate) slope: T,
}

/// Evaluates an expression with the index of every vector below `len`, and with its lanes if the last one is not whole. A closure might
/// be compiled without the vector's instructions.
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
/// As [`sum`] for both, and `dx` is writable for `len` values.
#[inline(always)]
pub(crate) unsafe fn gradient<V: Vector>(
    dy: *const V::Scalar,
    x: *const V::Scalar,
    by: &Gradient<V::Scalar>,
    dx: *mut V::Scalar,
    len: usize,
) {
    // SAFETY: the processor has the vector's instructions and the values are valid, as this function requires.
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
    // SAFETY: the processor has the vector's instructions and the values are valid, as this function requires.
    unsafe { read::<V>(x.add(i), lanes).lanewise(Lanewise::Sub, read(means.add(i), lanes)) }
}

/// sums += x, channel by channel.
///
/// # Safety
/// The processor has the vector's instructions; `len` values of x are readable, and of `sums` writable.
#[inline(always)]
pub(crate) unsafe fn add_row<V: Vector>(x: *const V::Scalar, sums: *mut V::Scalar, len: usize) {
    // SAFETY: the processor has the vector's instructions and the values are valid, as this function requires.
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
    // SAFETY: the processor has the vector's instructions and the values are valid, as this function requires.
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
    // SAFETY: the processor has the vector's instructions and the values are valid, as this function requires.
    unsafe {
        each!(V, len, |i, lanes| {
            let dy = read::<V>(dy.add(i), lanes);
            let deviation = deviation::<V>(x, means, i, lanes);
            write(read::<V>(sums.add(i), lanes).lanewise(Lanewise::Add, dy), sums.add(i), lanes);
            write(dy.mul_add(deviation, read(products.add(i), lanes)), products.add(i), lanes);
        });
    }
}

/// y = (x - mean) · factor + summand, channel by channel.
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
    // SAFETY: the processor has the vector's instructions and the values are valid, as this function requires.
    unsafe {
        each!(V, len, |i, lanes| {
            let deviation = deviation::<V>(x, means, i, lanes);
            let scaled = deviation.mul_add(read(factors.add(i), lanes), read(summands.add(i), lanes));
            write(scaled, y.add(i), lanes);
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
    // SAFETY: the processor has the vector's instructions and the values are valid, as this function requires.
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
