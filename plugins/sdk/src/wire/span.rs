//! The bytes that a tensor occupies, relative to the address of its first element.

use crate::graph::DataType;

/// The range of bytes of a tensor's elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The lowest byte; negative if a stride is.
    pub begin: i64,
    /// One more than the highest byte. 0 if unknown, as for types smaller than a byte.
    pub end: i64,
}

impl Span {
    /// The span of elements of `size` bytes with these sizes and strides; none if there are no elements or it
    /// overflows.
    #[inline]
    pub fn of(size: usize, dims: impl Iterator<Item = (i64, i64)>) -> Option<Self> {
        let (mut before, mut behind) = (0_i64, 0_i64);
        // Runs for every graph that is finalized: branch-free, with one overflow check at the end.
        let mut fits = true;
        for (dim, stride) in dims {
            let last = dim.wrapping_sub(1);
            let (farthest, is_too_far) = last.overflowing_mul(stride);
            let (below, is_too_low) = before.overflowing_add(farthest.min(0));
            let (above, is_too_high) = behind.overflowing_add(farthest.max(0));
            (before, behind) = (below, above);
            fits &= (dim > 0) & !is_too_far & !is_too_low & !is_too_high;
        }
        let size = i64::try_from(size).ok()?;
        let span = Self { begin: before.checked_mul(size)?, end: behind.checked_add(1)?.checked_mul(size)? };
        fits.then_some(span)
    }
}

/// Bytes of an element, whose type may default to the graph's; none if unknown.
pub(super) fn size(data_type: u8, io_type: u8) -> Option<usize> {
    let number = if data_type == DataType::Unset.wire() { io_type } else { data_type };
    DataType::from_wire(number).and_then(DataType::size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(size: usize, dims: &[i64], strides: &[i64]) -> Option<(i64, i64)> {
        let span = Span::of(size, dims.iter().copied().zip(strides.iter().copied()))?;
        Some((span.begin, span.end))
    }

    #[test]
    fn spans_reach_from_the_lowest_to_the_highest_element() {
        assert_eq!(of(4, &[2, 3], &[3, 1]), Some((0, 24)));
        assert_eq!(of(2, &[2, 3], &[10, 1]), Some((0, 26)));
        assert_eq!(of(4, &[2, 3], &[-3, 1]), Some((-12, 12)));
        assert_eq!(of(8, &[5, 1], &[0, 7]), Some((0, 8)));
        assert_eq!(of(4, &[], &[]), Some((0, 4)));
        for (dims, strides) in
            [([0, 3], [3, 1]), ([-1, 3], [3, 1]), ([i64::MAX, 2], [4, 1]), ([i64::MIN, 2], [1, 1])]
        {
            assert_eq!(of(4, &dims, &strides), None);
        }
    }
}
