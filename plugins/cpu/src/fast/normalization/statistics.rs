//! Mean and inverse of a row.

use super::super::batchnorm::loops::{deviations, sum};
use super::super::vector::Vector;
use crate::element::Real;

/// Numbers whose sum is in the compute type, before it is added to others in double precision.
pub(super) const EXACT: usize = 4096;

/// Mean and 1/√(mean of (x - mean)² + ε) of a row. Where the mean is not to be subtracted, it counts as 0.
///
/// # Safety
/// The processor has the vector's instructions, and `len` numbers are readable.
#[inline(always)]
pub(super) unsafe fn statistics<V: Vector>(
    x: *const V::Number,
    len: usize,
    centered: bool,
    epsilon: f64,
) -> (f64, f64) {
    let n = len as f64;
    let (mut about, mut apart, mut squares) = (V::Number::ZERO, 0.0, 0.0);
    // SAFETY: the caller promises the numbers; the parts are inside of them.
    unsafe {
        if centered {
            let mut total = 0.0;
            let mut at = 0;
            while at < len {
                let part = EXACT.min(len - at);
                total += sum::<V>(x.add(at), part).to_f64();
                at += part;
            }
            about = V::Number::from_f64(total / n);
        }
        let mut at = 0;
        while at < len {
            let part = EXACT.min(len - at);
            let [differences, their_squares] = deviations::<V>(x.add(at), about, part);
            apart += differences.to_f64();
            squares += their_squares.to_f64();
            at += part;
        }
        let (mean, variance) = if squares.is_finite() {
            let apart = if centered { apart / n } else { 0.0 };
            let variance = squares / n - apart * apart;
            (about.to_f64() + apart, if variance < 0.0 { 0.0 } else { variance })
        } else {
            in_double(x, len, centered)
        };
        (mean, 1.0 / (variance + epsilon).sqrt())
    }
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
