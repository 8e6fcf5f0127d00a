//! The loops over the elements of a row.

use crate::dtype::element::ComputeType;
use crate::simd::array::Each;
use crate::simd::convert;
use crate::simd::row::left;
use crate::simd::stored::Stored;
use crate::simd::vector::{Lanewise, Vector};
use crate::tensor::moments::total;

/// A row of x, its mean and inverse, and the destination.
#[derive(Clone, Copy)]
pub(crate) struct Normalized<S, T> {
    pub(crate) x: *const S,
    pub(crate) mean: T,
    pub(crate) inverse: T,
    pub(crate) y: *mut S,
}

/// y = (x - mean) · inverse · scale, plus bias if there is one, for some rows, which share loads of scale and bias.
///
/// # Safety
/// The processor has the vector's instructions; `len` elements of the operands are readable, and of `y` writable. `y` may be `x`.
#[inline(always)]
pub(crate) unsafe fn normalize<S: Stored, V: Vector, const ROWS: usize>(
    rows: &[Normalized<S, V::Scalar>; ROWS],
    scale: *const V::Scalar,
    bias: Option<*const V::Scalar>,
    len: usize,
) {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        match bias {
            Some(bias) => scaled::<S, V, ROWS, true>(rows, scale, bias, len),
            None => scaled::<S, V, ROWS, false>(rows, scale, scale, len),
        }
    }
}

/// See [`normalize`]; `BIAS` tells whether there is a bias.
///
/// # Safety
/// As [`normalize`].
#[inline(always)]
unsafe fn scaled<S: Stored, V: Vector, const ROWS: usize, const BIAS: bool>(
    rows: &[Normalized<S, V::Scalar>; ROWS],
    scale: *const V::Scalar,
    bias: *const V::Scalar,
    len: usize,
) {
    // SAFETY: this function requires the instructions.
    let zero = unsafe { V::zero() };
    let (mut means, mut inverses) = ([zero; ROWS], [zero; ROWS]);
    for (i, row) in rows.iter().enumerate() {
        (means[i], inverses[i]) = (zero.broadcast(row.mean), zero.broadcast(row.inverse));
    }
    let mut at = 0;
    while at + V::LANES <= len {
        // SAFETY: the vector ends at most at `len`, up to which this function requires all values.
        unsafe {
            let factor = V::load(scale.add(at));
            let summand = if BIAS { V::load(bias.add(at)) } else { zero };
            for (i, row) in rows.iter().enumerate() {
                let deviation = convert::load::<S, V>(row.x.add(at)).lanewise(Lanewise::Sub, means[i]);
                let normal = deviation.lanewise(Lanewise::Mul, inverses[i]);
                let y = if BIAS {
                    normal.mul_add(factor, summand)
                } else {
                    normal.lanewise(Lanewise::Mul, factor)
                };
                convert::store(y, row.y.add(at));
            }
        }
        at += V::LANES;
    }
    for i in 0..left::<V>(at, len) {
        let at = at + i;
        // SAFETY: the index is below `len`, up to which this function requires all values.
        unsafe {
            let factor = scale.add(at).read_unaligned();
            for row in rows {
                let x: V::Scalar = row.x.add(at).read_unaligned().value();
                let normal = (x - row.mean) * row.inverse * factor;
                let y = if BIAS { normal + bias.add(at).read_unaligned() } else { normal };
                row.y.add(at).write_unaligned(S::nearest(y));
            }
        }
    }
}

/// Σ dy · scale and Σ dy · scale · (x - mean).
///
/// # Safety
/// As [`normalize`], for everything that is read.
#[inline(always)]
pub(crate) unsafe fn gradient_sums<V: Vector>(
    [dy, scale, x]: [*const V::Scalar; 3],
    mean: V::Scalar,
    len: usize,
) -> [V::Scalar; 2] {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        let means = V::splat(mean);
        total::<V, 2>(
            len,
            |i, [sum, product]| {
                let scaled = V::load(dy.add(i)).lanewise(Lanewise::Mul, V::load(scale.add(i)));
                let deviation = V::load(x.add(i)).lanewise(Lanewise::Sub, means);
                [sum.lanewise(Lanewise::Add, scaled), scaled.mul_add(deviation, product)]
            },
            |i, [sum, product]| {
                let scaled = dy.add(i).read_unaligned() * scale.add(i).read_unaligned();
                [sum + scaled, scaled * (x.add(i).read_unaligned() - mean) + product]
            },
        )
    }
}

/// As `gradient_sums`, for sums beyond the range of the compute type.
///
/// # Safety
/// All three are readable for `len` values.
#[cold]
pub(crate) unsafe fn gradient_sums_in_double<T: ComputeType>(
    [dy, scale, x]: [*const T; 3],
    mean: T,
    len: usize,
) -> [f64; 2] {
    let (mut sum, mut product) = (0.0, 0.0);
    for i in 0..len {
        // SAFETY: the index is below `len`, up to which this function requires all values.
        let [dy, scale, x] = [dy, scale, x].each(|row| unsafe { row.add(i).read_unaligned() }.to_f64());
        sum += dy * scale;
        product += dy * scale * (x - mean.to_f64());
    }
    [sum, product]
}

/// The coefficients of a row's gradient: dx = inverse · (dy · scale - bias - (x - mean) · slope). Each stays in range as long as x does.
#[derive(Clone, Copy)]
pub(crate) struct Gradient<T> {
    pub(crate) mean: T,
    pub(crate) inverse: T,
    pub(crate) bias: T,
    pub(crate) slope: T,
}

/// dx of a row, and its contribution to the gradients of the parameters: dscale += dy · (x - mean) · inverse, dbias += dy.
///
/// # Safety
/// As [`normalize`]; `dx` and the two sums are writable, and `dx` may be `x`.
#[inline(always)]
pub(crate) unsafe fn gradient<V: Vector>(
    [dy, scale, x]: [*const V::Scalar; 3],
    by: &Gradient<V::Scalar>,
    dx: *mut V::Scalar,
    [dscale, dbias]: [*mut V::Scalar; 2],
    len: usize,
) {
    // SAFETY: this function requires the instructions.
    let zero = unsafe { V::zero() };
    let [means, inverses] = [zero.broadcast(by.mean), zero.broadcast(by.inverse)];
    let [biases, slopes] = [zero.broadcast(by.bias), zero.broadcast(-by.slope)];
    let mut at = 0;
    while at + V::LANES <= len {
        // SAFETY: the vector ends at most at `len`, up to which this function requires all values.
        unsafe {
            let dy = V::load(dy.add(at));
            let deviation = V::load(x.add(at)).lanewise(Lanewise::Sub, means);
            let scaled = dy.lanewise(Lanewise::Mul, V::load(scale.add(at)));
            let first = scaled.lanewise(Lanewise::Sub, biases);
            deviation.mul_add(slopes, first).lanewise(Lanewise::Mul, inverses).store(dx.add(at));
            let normal = deviation.lanewise(Lanewise::Mul, inverses);
            dy.mul_add(normal, V::load(dscale.add(at))).store(dscale.add(at));
            dy.lanewise(Lanewise::Add, V::load(dbias.add(at))).store(dbias.add(at));
        }
        at += V::LANES;
    }
    for i in 0..left::<V>(at, len) {
        let at = at + i;
        // SAFETY: the index is below `len`, up to which this function requires all values.
        unsafe {
            let dy = dy.add(at).read_unaligned();
            let deviation = x.add(at).read_unaligned() - by.mean;
            let first = dy * scale.add(at).read_unaligned() - by.bias;
            dx.add(at).write_unaligned((first - deviation * by.slope) * by.inverse);
            dscale.add(at).write(dscale.add(at).read() + dy * (deviation * by.inverse));
            dbias.add(at).write(dbias.add(at).read() + dy);
        }
    }
}
