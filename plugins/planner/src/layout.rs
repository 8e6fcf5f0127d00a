//! Tensor layouts.

#![expect(
    clippy::indexing_slicing,
    reason = "every index is below a rank that is checked to be at most MAX_RANK"
)]

use hipdnn_plugin_sdk::graph::{DataType, Tensor};

use crate::Refusal;

/// Maximum number of dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// The sizes and strides of a tensor, in elements.
///
/// Every size is at least 1, no stride is negative, and neither the number of elements nor the extent in
/// bytes exceeds `isize::MAX`, so offsets inside the tensor never overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    rank: usize,
    dims: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
}

impl Layout {
    /// The layout of a tensor of a known data type; the refusal states what is wrong with it.
    pub fn of(tensor: &Tensor) -> Result<Self, Refusal> {
        let rank = tensor.dims.len();
        if rank > MAX_RANK {
            return Err(format!("dims has {rank} entries, expected at most {MAX_RANK}"));
        }
        if tensor.strides.len() != rank {
            return Err(format!(
                "strides has {} entries, expected {rank} as in dims {:?}",
                tensor.strides.len(),
                tensor.dims
            ));
        }
        // Types smaller than a byte count as one, so that neither elements nor bytes overflow.
        let size = storage_size(tensor.data_type, 1)?;
        let mut layout = Self { rank, dims: [1; MAX_RANK], strides: [0; MAX_RANK] };
        let mut elements = 1_usize;
        let mut last = 0_usize;
        for axis in 0..rank {
            let (dim, stride) = (tensor.dims[axis], tensor.strides[axis]);
            if dim < 1 {
                return Err(format!("dims[{axis}] is {dim}, expected at least 1"));
            }
            if stride < 0 {
                return Err(format!("strides[{axis}] is {stride}, expected at least 0"));
            }
            let fit = |value: i64| usize::try_from(value).ok();
            let grown = fit(dim).zip(fit(stride)).and_then(|(dim, stride)| {
                layout.dims[axis] = dim;
                layout.strides[axis] = stride;
                elements = elements.checked_mul(dim)?;
                last = last.checked_add((dim - 1).checked_mul(stride)?)?;
                Some(())
            });
            let limit = isize::MAX as usize / size;
            if grown.is_none() || elements > limit || last >= limit {
                return Err(format!(
                    "dims {:?} with strides {:?} reach beyond the address space, expected at most {limit} elements of {size} bytes",
                    tensor.dims, tensor.strides
                ));
            }
        }
        Ok(layout)
    }

    /// The same elements as another layout, with these axes.
    pub(crate) fn of_axes<const RANK: usize>(dims: &[usize; RANK], strides: &[usize; RANK]) -> Self {
        let mut layout = Self { rank: RANK, dims: [1; MAX_RANK], strides: [0; MAX_RANK] };
        layout.dims[..RANK].copy_from_slice(dims);
        layout.strides[..RANK].copy_from_slice(strides);
        layout
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of elements along each dimension.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// Stride of each dimension in elements.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.rank]
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.dims().iter().product()
    }

    /// Number of elements from the first to the last in memory, including gaps.
    pub fn extent(&self) -> usize {
        1 + self.dims().iter().zip(self.strides()).map(|(dim, stride)| (dim - 1) * stride).sum::<usize>()
    }

    /// Whether no two indices share an element. Exact for layouts that nest their dimensions, with or without
    /// gaps; layouts that interleave dimensions without a collision count as overlapping.
    pub fn is_injective(&self) -> bool {
        let mut axes = [(0, 0); MAX_RANK];
        for (axis, slot) in axes.iter_mut().enumerate().take(self.rank) {
            *slot = (self.strides[axis], self.dims[axis]);
        }
        let axes = &mut axes[..self.rank];
        axes.sort_unstable();
        let mut reach = 0;
        for &(stride, dim) in axes.iter().filter(|(_, dim)| *dim > 1) {
            if stride <= reach {
                return false;
            }
            reach += (dim - 1) * stride;
        }
        true
    }
}

/// Bits of one element; refuses a type that is not set.
pub fn element_bits(data_type: DataType) -> Result<usize, Refusal> {
    match data_type {
        DataType::Fp4E2m1 | DataType::Int4 => Ok(4),
        DataType::Fp6E2m3 | DataType::Fp6E3m2 => Ok(6),
        other => other.size().map(|bytes| 8 * bytes).ok_or_else(|| "data type is unset".to_owned()),
    }
}

/// Bytes of this many elements. Elements smaller than a byte are packed bit by bit.
///
/// Does not overflow for the elements of a [`Layout`].
pub fn storage_size(data_type: DataType, elements: usize) -> Result<usize, Refusal> {
    let bits = element_bits(data_type)?;
    // Eight elements take as many bytes as one element has bits.
    Ok(if bits < 8 { elements / 8 * bits + (elements % 8 * bits).div_ceil(8) } else { elements * (bits / 8) })
}

/// Iterates over the indices of a shape, last dimension fastest, with the offset in elements under each of
/// `N` sets of strides.
pub struct Walk<const N: usize> {
    rank: usize,
    dims: [usize; MAX_RANK],
    strides: [[usize; MAX_RANK]; N],
    index: [usize; MAX_RANK],
    offsets: [usize; N],
    is_done: bool,
}

impl<const N: usize> Iterator for Walk<N> {
    type Item = ([usize; MAX_RANK], [usize; N]);

    fn next(&mut self) -> Option<Self::Item> {
        let next = (!self.is_done).then_some((self.index, self.offsets))?;
        self.is_done = !self.advance();
        Some(next)
    }
}

impl<const N: usize> Walk<N> {
    /// A walk that begins at index 0; `dims` has at most [`MAX_RANK`] entries, all at least 1.
    pub fn new(dims: &[usize], strides: [&[usize]; N]) -> Self {
        let mut walk = Self {
            rank: dims.len().min(MAX_RANK),
            dims: [1; MAX_RANK],
            strides: [[0; MAX_RANK]; N],
            index: [0; MAX_RANK],
            offsets: [0; N],
            is_done: false,
        };
        for (to, from) in walk.dims.iter_mut().zip(dims) {
            *to = *from;
        }
        for (to, from) in walk.strides.iter_mut().zip(strides) {
            for (to, from) in to.iter_mut().zip(from) {
                *to = *from;
            }
        }
        walk
    }

    /// Advances to the next index; after the last one returns false and restarts at index 0.
    fn advance(&mut self) -> bool {
        for axis in (0..self.rank).rev() {
            self.index[axis] += 1;
            if self.index[axis] < self.dims[axis] {
                for (offset, strides) in self.offsets.iter_mut().zip(&self.strides) {
                    *offset += strides[axis];
                }
                return true;
            }
            self.index[axis] = 0;
            for (offset, strides) in self.offsets.iter_mut().zip(&self.strides) {
                *offset -= (self.dims[axis] - 1) * strides[axis];
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(dims: &[i64], strides: &[i64]) -> Result<Layout, Refusal> {
        Layout::of(&Tensor::new(1, DataType::Float, dims, strides))
    }

    #[test]
    fn extent_counts_gaps() {
        let layout = layout(&[2, 3], &[10, 2]).unwrap();
        assert_eq!((layout.elements(), layout.extent()), (6, 15));
        assert_eq!((super::tests::layout(&[], &[]).unwrap().extent()), 1);
    }

    #[test]
    fn refusals_name_the_entry() {
        assert_eq!(layout(&[2, 0], &[1, 1]).unwrap_err(), "dims[1] is 0, expected at least 1");
        assert_eq!(layout(&[2, 2], &[-2, 1]).unwrap_err(), "strides[0] is -2, expected at least 0");
        assert!(layout(&[2], &[1, 1]).unwrap_err().starts_with("strides has 2 entries, expected 1"));
        assert!(layout(&[1; 9], &[1; 9]).unwrap_err().starts_with("dims has 9 entries"));
        for (dims, strides) in [
            (vec![i64::MAX, i64::MAX], vec![1, 1]),
            (vec![i64::MAX / 2, 8], vec![0, 0]),
            (vec![2, 2], vec![i64::MAX, i64::MAX]),
            (vec![2], vec![i64::MAX]),
        ] {
            assert!(layout(&dims, &strides).unwrap_err().contains("address space"), "{dims:?} {strides:?}");
        }
    }

    #[test]
    fn overlap_is_seen() {
        let injective = |dims: &[i64], strides: &[i64]| layout(dims, strides).unwrap().is_injective();
        assert!(injective(&[2, 3, 4], &[12, 4, 1]));
        assert!(injective(&[2, 3, 4], &[12, 1, 3]));
        assert!(injective(&[2, 3, 4], &[100, 20, 3]));
        assert!(injective(&[1, 3, 1], &[0, 1, 0]));
        assert!(!injective(&[2, 3], &[0, 1]));
        assert!(!injective(&[2, 3], &[2, 1]));
    }

    #[test]
    fn walk_visits_every_index_once() {
        let walk = || Walk::new(&[2, 1, 3], [&[3, 7, 1], &[1, 7, 2]]);
        let offsets: Vec<_> = walk().map(|(_, offsets)| offsets).collect();
        assert_eq!(offsets, [[0, 0], [1, 2], [2, 4], [3, 1], [4, 3], [5, 5]]);
        let indices: Vec<_> = walk().map(|(index, _)| [index[0], index[1], index[2]]).collect();
        assert_eq!(indices, [[0, 0, 0], [0, 0, 1], [0, 0, 2], [1, 0, 0], [1, 0, 1], [1, 0, 2]]);
        assert_eq!(Walk::new(&[], [&[]]).count(), 1);
    }
}
