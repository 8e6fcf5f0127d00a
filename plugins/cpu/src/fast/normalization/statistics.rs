//! Mean and inverse of a row.

use super::super::batchnorm::loops::{NEAR, Totals, deviations, first_mean};
use super::super::vector::Vector;
use crate::element::Real;

/// Numbers whose sum is in the compute type, before it is added to others in double precision.
pub(super) const EXACT: usize = 4096;

/// Mean and 1/√(mean of (x - mean)² + ε) of a row. Where the mean is not to be subtracted, it counts as 0.
///
/// A row is read once where its first numbers are about its mean, and once more where they are not.
///
/// # Safety
/// The processor has the vector's instructions, and `len` numbers are readable, of which there is one.
#[inline(always)]
pub(super) unsafe fn statistics<V: Vector>(
    x: *const V::Number,
    len: usize,
    centered: bool,
    epsilon: f64,
) -> (f64, f64) {
    // SAFETY: the caller promises the numbers.
    unsafe {
        let about = if centered { first_mean::<V>(x, len) } else { V::Number::ZERO };
        let (mut mean, mut variance) = moments::<V>(x, len, about, centered);
        let apart = mean - about.to_f64();
        if centered && apart * apart > NEAR * variance {
            (mean, variance) = moments::<V>(x, len, V::Number::from_f64(mean), true);
        }
        if !(mean.is_finite() && variance.is_finite()) {
            (mean, variance) = in_double(x, len, centered);
        }
        (mean, 1.0 / (variance + epsilon).sqrt())
    }
}

/// Mean and mean square of the differences from it, from the differences from a number.
///
/// # Safety
/// As [`statistics`].
#[inline(always)]
unsafe fn moments<V: Vector>(
    x: *const V::Number,
    len: usize,
    about: V::Number,
    centered: bool,
) -> (f64, f64) {
    let n = len as f64;
    // SAFETY: the caller promises the numbers; the pieces are inside of them.
    let [apart, squares] = unsafe {
        let mut totals = Totals::<V, 2>::new();
        let mut at = 0;
        while at < len {
            let piece = EXACT.min(len - at);
            deviations(&mut totals, x.add(at), about, piece);
            totals.keep();
            at += piece;
        }
        totals.finished()
    };
    let apart = if centered { apart / n } else { 0.0 };
    let variance = squares / n - apart * apart;
    (about.to_f64() + apart, if variance < 0.0 { 0.0 } else { variance })
}

/// Mean and mean square of the differences from it, number by number in double precision.
///
/// # Safety
/// `len` numbers are readable.
#[cold]
unsafe fn in_double<T: Real>(x: *const T, len: usize, centered: bool) -> (f64, f64) {
    let n = len as f64;
    // SAFETY: the caller promises the numbers.
    let numbers = || (0..len).map(|i| unsafe { x.add(i).read_unaligned() }.to_f64());
    let mean = if centered { numbers().sum::<f64>() / n } else { 0.0 };
    (mean, numbers().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n)
}
