//! Mean and inverse of rows.

use crate::dtype::element::ComputeType;
use crate::simd::convert;
use crate::simd::row::left;
use crate::simd::stored::Stored;
use crate::simd::vector::{Lanewise, MAX_LANES, Vector};
use crate::tensor::moments::{Moments, NEAR, Totals, deviations, first_mean, is_held};

/// How many values are summed in the compute type before the sum is added in double precision.
pub(crate) const EXACT: usize = 4096;

/// Mean and 1/√(mean of (x - mean)² + ε) of some rows; a mean that is not subtracted counts as 0. A row's
/// result does not depend on other rows.
///
/// A row is read once if its first values are close to its mean, and twice if not.
///
/// # Safety
/// The processor has the vector's instructions, and `len` elements of each row, at least one, are readable.
/// If they do not have the compute type, there are at most [`EXACT`], and as many values are writable in the
/// buffer.
#[inline(always)]
pub(crate) unsafe fn statistics<S: Stored, V: Vector, const ROWS: usize>(
    rows: &[*const S; ROWS],
    len: usize,
    centered: bool,
    epsilon: f64,
    buffer: *mut V::Scalar,
) -> [[f64; 2]; ROWS] {
    let (mut about, mut found) = ([V::Scalar::ZERO; ROWS], [[0.0; 2]; ROWS]);
    if centered {
        for (about, x) in about.iter_mut().zip(rows) {
            // SAFETY: the row has an element, as this function requires.
            *about = unsafe { beginning::<S, V>(*x, len) };
        }
    }
    let is_short = len <= EXACT;
    if is_short {
        // SAFETY: the rows have `len` elements, as this function requires.
        found = unsafe { moments_of_some::<S, V, ROWS>(rows, len, &about, centered) };
    }
    for (i, [mean, variance]) in found.iter_mut().enumerate() {
        // A row that is longer than a short one has elements of the compute type.
        let (mut x, mut shift) = (rows[i].cast(), about[i]);
        // Both times in one place: what is called there is compiled once.
        for time in 0..2 {
            if time == 1 || !is_short {
                // SAFETY: these are the `len` values of the row, in place or in the buffer.
                [*mean, *variance] = unsafe { moments::<V>(x, len, shift, centered) };
            }
            let deviation = *mean - shift.to_f64();
            let is_far = centered && deviation * deviation > NEAR * *variance;
            if time == 1 || !is_far {
                break;
            }
            // SAFETY: the row has `len` elements, for whose values this function requires the buffer.
            x = unsafe { values::<S, V>(rows[i], len, buffer) };
            shift = V::Scalar::from_f64(*mean);
        }
        if !is_held::<V::Scalar>(*mean, *variance, epsilon) {
            // SAFETY: the row has `len` elements, for whose values this function requires the buffer.
            [*mean, *variance] = unsafe { in_double(values::<S, V>(rows[i], len, buffer), len, centered) };
        }
    }
    for [_, variance] in &mut found {
        *variance = 1.0 / (*variance + epsilon).sqrt();
    }
    found
}

/// The mean of the first values of a row.
///
/// # Safety
/// As [`statistics`].
#[inline(always)]
unsafe fn beginning<S: Stored, V: Vector>(x: *const S, len: usize) -> V::Scalar {
    let mut first = [V::Scalar::ZERO; MAX_LANES];
    // SAFETY: this function requires the instructions and elements; the buffer has room for any vector.
    unsafe {
        if len < V::LANES {
            first[0] = x.read_unaligned().value();
        } else {
            convert::load::<S, V>(x).store(first.as_mut_ptr());
        }
        first_mean::<V>(first.as_ptr(), len)
    }
}

/// The values of a row: in place, or in the buffer.
///
/// # Safety
/// As [`statistics`].
#[inline(always)]
unsafe fn values<S: Stored, V: Vector>(x: *const S, len: usize, buffer: *mut V::Scalar) -> *const V::Scalar {
    if convert::same::<S, V::Scalar>() {
        return x.cast();
    }
    // SAFETY: the instructions, elements and the buffer are valid, as this function requires.
    unsafe {
        let mut at = 0;
        while at + V::LANES <= len {
            convert::load::<S, V>(x.add(at)).store(buffer.add(at));
            at += V::LANES;
        }
        for i in 0..left::<V>(at, len) {
            buffer.add(at + i).write(x.add(at + i).read_unaligned().value());
        }
    }
    buffer
}

/// As [`moments`], for rows of up to [`EXACT`] values: the additions of different rows overlap.
///
/// # Safety
/// As [`statistics`].
#[inline(always)]
unsafe fn moments_of_some<S: Stored, V: Vector, const ROWS: usize>(
    rows: &[*const S; ROWS],
    len: usize,
    about: &[V::Scalar; ROWS],
    centered: bool,
) -> [[f64; 2]; ROWS] {
    let mut found = [[0.0; 2]; ROWS];
    // SAFETY: this function requires the instructions.
    let zero = unsafe { V::zero() };
    let (mut means, mut sums, mut squares) = ([zero; ROWS], [zero; ROWS], [zero; ROWS]);
    let mut rest = [[V::Scalar::ZERO; 2]; ROWS];
    for (mean, about) in means.iter_mut().zip(about) {
        *mean = zero.broadcast(*about);
    }
    let mut at = 0;
    while at + V::LANES <= len {
        for i in 0..ROWS {
            // SAFETY: the vector ends at most at `len`, up to which this function requires all elements.
            let x = unsafe { convert::load::<S, V>(rows[i].add(at)) };
            let deviation = x.lanewise(Lanewise::Sub, means[i]);
            sums[i] = sums[i].lanewise(Lanewise::Add, deviation);
            squares[i] = deviation.mul_add(deviation, squares[i]);
        }
        at += V::LANES;
    }
    for index in 0..left::<V>(at, len) {
        for i in 0..ROWS {
            // SAFETY: the index is below `len`, up to which this function requires all elements.
            let x = unsafe { rows[i].add(at + index).read_unaligned() };
            let deviation = x.value::<V::Scalar>() - about[i];
            rest[i] = [rest[i][0] + deviation, deviation * deviation + rest[i][1]];
        }
    }
    for i in 0..ROWS {
        let sum = if centered { (sums[i].sum() + rest[i][0]).to_f64() } else { 0.0 };
        let squares = (squares[i].sum() + rest[i][1]).to_f64();
        found[i] = Moments { about: about[i].to_f64(), sum, squares }.statistics(len as f64);
    }
    found
}

/// Mean and mean squared deviation, computed from deviations from a shift.
///
/// # Safety
/// As [`statistics`].
#[inline(always)]
unsafe fn moments<V: Vector>(x: *const V::Scalar, len: usize, about: V::Scalar, centered: bool) -> [f64; 2] {
    // SAFETY: the values are valid, as this function requires; the chunks are inside of them.
    let [sum, squares] = unsafe {
        let mut totals = Totals::<V, 2>::new();
        let mut at = 0;
        while at < len {
            let chunk = EXACT.min(len - at);
            deviations(&mut totals, x.add(at), about, chunk);
            totals.keep();
            at += chunk;
        }
        totals.finished()
    };
    let sum = if centered { sum } else { 0.0 };
    Moments { about: about.to_f64(), sum, squares }.statistics(len as f64)
}

/// Mean and mean squared deviation, in double precision throughout.
///
/// # Safety
/// `x` is readable for `len` values, at any alignment.
#[cold]
unsafe fn in_double<T: ComputeType>(x: *const T, len: usize, centered: bool) -> [f64; 2] {
    let n = len as f64;
    // SAFETY: the values are readable and writable, as this function requires.
    let values = || (0..len).map(|i| unsafe { x.add(i).read_unaligned() }.to_f64());
    let mean = if centered { values().sum::<f64>() / n } else { 0.0 };
    [mean, values().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n]
}
