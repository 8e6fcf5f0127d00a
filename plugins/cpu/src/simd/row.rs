//! Vectors of a row: whole ones, some lanes, and rows surrounded by zeros.

use std::ops::Range;

use crate::dtype::element::ComputeType;
use crate::simd::vector::{MAX_LANES, Vector};

/// A vector, or some of its lanes and zeros.
///
/// # Safety
/// The processor has the vector's instructions, and the elements are readable.
#[inline(always)]
pub(crate) unsafe fn read<V: Vector>(from: *const V::Scalar, lanes: Option<V::Lanes>) -> V {
    // SAFETY: this function requires the elements of the vector, or of its lanes.
    unsafe {
        match lanes {
            None => V::load(from),
            Some(lanes) => V::load_lanes(from, lanes),
        }
    }
}

/// Writes a vector, or some of its lanes.
///
/// # Safety
/// The processor has the vector's instructions, and the elements are writable.
#[inline(always)]
pub(crate) unsafe fn write<V: Vector>(vector: V, to: *mut V::Scalar, lanes: Option<V::Lanes>) {
    // SAFETY: this function requires the elements of the vector, or of its lanes.
    unsafe {
        match lanes {
            None => vector.store(to),
            Some(lanes) => vector.store_lanes(to, lanes),
        }
    }
}

/// How many of `len` elements are left after whole vectors up to `at`. The compiler sees that they are fewer than lanes, and makes
/// no vector loop of a loop from 0 to here.
#[inline(always)]
pub(crate) fn left<V: Vector>(at: usize, len: usize) -> usize {
    (len - at) % V::LANES
}

/// The lanes, below `lanes`, whose positions (from `first` on with this stride) are in `0..len`.
#[inline(always)]
pub(crate) fn lanes_inside(first: isize, stride: usize, len: usize, lanes: usize) -> Range<usize> {
    let (stride, len) = (stride as isize, len as isize);
    let low = if first < 0 { (stride - 1 - first) / stride } else { 0 };
    let high = if first < len { (len - first + stride - 1) / stride } else { 0 };
    let lanes = lanes as isize;
    low.min(lanes) as usize..high.clamp(0, lanes) as usize
}

/// [`lanes_inside`] as a mask.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
pub(crate) unsafe fn inside<V: Vector>(first: isize, stride: usize, len: usize) -> V::Lanes {
    let Range { start, end } = lanes_inside(first, stride, len, V::LANES);
    // SAFETY: the processor has the vector's instructions, as this function requires.
    unsafe { V::lanes(start, end) }
}

/// Elements of a row from position `first` on with this stride in some lanes, and zeros in the others.
///
/// # Safety
/// The processor has the vector's instructions; the row has the elements of the lanes.
#[inline(always)]
pub(crate) unsafe fn gather<V: Vector>(
    row: *const V::Scalar,
    first: isize,
    stride: usize,
    lanes: Range<usize>,
) -> V {
    let mut values = [V::Scalar::ZERO; MAX_LANES];
    let from = row.wrapping_offset(first);
    for lane in lanes {
        // SAFETY: the row has the element, as this function requires; a lane is below `MAX_LANES`.
        unsafe { *values.get_unchecked_mut(lane) = from.wrapping_add(lane * stride).read_unaligned() };
    }
    // SAFETY: no vector has more lanes than there are values.
    unsafe { V::load(values.as_ptr()) }
}

/// Elements of a row from position `first` on with this stride, and zeros for positions outside `0..len`.
///
/// # Safety
/// The processor has the vector's instructions; the row has `len` elements.
#[inline(always)]
pub(crate) unsafe fn load_strided<V: Vector>(
    row: *const V::Scalar,
    first: isize,
    stride: usize,
    len: usize,
) -> V {
    let from = row.wrapping_offset(first);
    // SAFETY: the row is valid, as this function requires; positions outside are not read.
    unsafe {
        match stride {
            1 => V::load_lanes(from, inside::<V>(first, 1, len)),
            2 => {
                let second = first + V::LANES as isize;
                let near = V::load_lanes(from, inside::<V>(first, 1, len));
                let far = V::load_lanes(row.wrapping_offset(second), inside::<V>(second, 1, len));
                near.unzip(far).0
            }
            _ => gather(row, first, stride, lanes_inside(first, stride, len, V::LANES)),
        }
    }
}
