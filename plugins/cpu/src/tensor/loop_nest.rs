//! Loop nests over several tensors of one shape, with as few loops as their strides allow.

use crate::layout::MAX_RANK;
use crate::simd::array::Each;

/// The dimensions of a shape that several tensors share, sorted by the strides of one of them.
#[derive(Clone, Debug)]
pub(crate) struct Axes<const N: usize> {
    rank: usize,
    /// The index in the shape, size and strides of each dimension.
    axes: [(usize, usize, [usize; N]); MAX_RANK],
}

impl<const N: usize> Axes<N> {
    /// The dimensions `dims`, at most [`MAX_RANK`] of them, sorted by the strides of tensor `by`.
    pub(crate) fn new(dims: &[usize], strides: [&[usize]; N], by: usize) -> Self {
        // Sorts indices instead of dimensions, which are large if there are many tensors.
        let mut order: [usize; MAX_RANK] = std::array::from_fn(|axis| axis);
        order[..dims.len()].sort_by_key(|axis| std::cmp::Reverse(strides[by][*axis]));
        let mut axes = [(0, 1, [0; N]); MAX_RANK];
        for (to, &axis) in axes.iter_mut().zip(&order[..dims.len()]) {
            *to = (axis, dims[axis], strides.each(|strides| strides[axis]));
        }
        Self { rank: dims.len(), axes }
    }

    /// The loops over the whole shape.
    pub(crate) fn nest(&self) -> LoopNest<N> {
        self.nest_of(|axis| self.axes[axis].1)
    }

    /// The loops over a box of the shape, and the offset of its first element in each tensor.
    pub(crate) fn nest_of_box(&self, origin: &[usize], size: &[usize]) -> (LoopNest<N>, [usize; N]) {
        let mut base = [0; N];
        for (axis, _, strides) in &self.axes[..self.rank] {
            for (offset, stride) in base.iter_mut().zip(strides) {
                *offset += origin[*axis] * stride;
            }
        }
        (self.nest_of(|axis| size[self.axes[axis].0]), base)
    }

    /// The loops for these dimension sizes. Dimensions that are dense in every tensor are merged.
    fn nest_of(&self, size: impl Fn(usize) -> usize) -> LoopNest<N> {
        let mut nest = LoopNest {
            rank: 0,
            dims: [1; MAX_RANK],
            strides: [[0; N]; MAX_RANK],
            len: 1,
            inner_strides: [1; N],
        };
        for (axis, (_, _, strides)) in self.axes[..self.rank].iter().enumerate() {
            let dim = size(axis);
            if dim == 1 {
                continue;
            }
            match nest.rank.checked_sub(1) {
                Some(outer) if (0..N).all(|i| nest.strides[outer][i] == strides[i] * dim) => {
                    nest.dims[outer] *= dim;
                    nest.strides[outer] = *strides;
                }
                _ => {
                    nest.dims[nest.rank] = dim;
                    nest.strides[nest.rank] = *strides;
                    nest.rank += 1;
                }
            }
        }
        if let Some(last) = nest.rank.checked_sub(1) {
            nest.rank = last;
            nest.len = std::mem::replace(&mut nest.dims[last], 1);
            nest.inner_strides = std::mem::replace(&mut nest.strides[last], [0; N]);
        }
        nest
    }
}

/// A loop nest, in which dimensions that are dense in every tensor are merged.
#[derive(Clone, Debug)]
pub(crate) struct LoopNest<const N: usize> {
    /// Number of loops besides the innermost.
    rank: usize,
    dims: [usize; MAX_RANK],
    strides: [[usize; N]; MAX_RANK],
    /// Length of the innermost loop.
    pub(crate) len: usize,
    /// Strides of the innermost loop.
    pub(crate) inner_strides: [usize; N],
}

/// A position in a nest.
#[derive(Clone)]
pub(crate) struct Position<const N: usize> {
    index: [usize; MAX_RANK],
    /// Offsets of the innermost loop's first element, in each tensor.
    pub(crate) offsets: [usize; N],
}

impl<const N: usize> LoopNest<N> {
    /// The loops over `dims`, at most [`MAX_RANK`] of them, sorted by the strides of tensor `by`.
    pub(crate) fn new(dims: &[usize], strides: [&[usize]; N], by: usize) -> Self {
        Axes::new(dims, strides, by).nest()
    }

    /// How often the innermost loop runs.
    pub(crate) fn runs(&self) -> usize {
        self.dims[..self.rank].iter().product()
    }

    /// Whether a tensor has its elements without gaps, in the order of the loops.
    pub(crate) fn is_contiguous(&self, tensor: usize) -> bool {
        let mut inner = self.len;
        let loops = self.dims[..self.rank].iter().zip(&self.strides[..self.rank]).rev();
        self.inner_strides[tensor] == 1
            && loops.into_iter().all(|(dim, strides)| {
                let follows = strides[tensor] == inner;
                inner *= dim;
                follows
            })
    }

    /// How often the innermost loop runs, and the strides of its runs, if there is a single outer loop.
    pub(crate) fn single(&self) -> Option<(usize, [usize; N])> {
        match self.rank {
            0 => Some((1, [0; N])),
            1 => Some((self.dims[0], self.strides[0])),
            _ => None,
        }
    }

    /// The position of one run of the innermost loop. Not inlined, so that kernels for each instruction set share it.
    #[inline(never)]
    pub(crate) fn position(&self, run: usize) -> Position<N> {
        let mut position = Position { index: [0; MAX_RANK], offsets: [0; N] };
        let mut rest = run;
        for axis in (0..self.rank).rev() {
            position.index[axis] = rest % self.dims[axis];
            rest /= self.dims[axis];
            for (offset, stride) in position.offsets.iter_mut().zip(self.strides[axis]) {
                *offset += position.index[axis] * stride;
            }
        }
        position
    }

    /// Advances to the next run, after the last to the first.
    #[inline(always)]
    pub(crate) fn advance(&self, position: &mut Position<N>) {
        let Some(last) = self.rank.checked_sub(1) else { return };
        position.index[last] += 1;
        if position.index[last] < self.dims[last] {
            for (offset, stride) in position.offsets.iter_mut().zip(self.strides[last]) {
                *offset += stride;
            }
        } else {
            self.carry(position);
        }
    }

    /// [`LoopNest::advance`] at the end of the innermost outer loop. Not inlined, since it is rare.
    #[inline(never)]
    fn carry(&self, position: &mut Position<N>) {
        for axis in (0..self.rank).rev() {
            if position.index[axis] < self.dims[axis] {
                return;
            }
            position.index[axis] = 0;
            for (offset, stride) in position.offsets.iter_mut().zip(self.strides[axis]) {
                *offset -= (self.dims[axis] - 1) * stride;
            }
            if let Some(outer) = axis.checked_sub(1) {
                position.index[outer] += 1;
                if position.index[outer] < self.dims[outer] {
                    for (offset, stride) in position.offsets.iter_mut().zip(self.strides[outer]) {
                        *offset += stride;
                    }
                }
            }
        }
    }
}

/// The runs of the innermost loop, split into chunks.
///
/// Kernels iterate with a plain loop: a closure would be compiled without the caller's instruction set.
pub(crate) struct Chunks<'a, const N: usize> {
    nest: &'a LoopNest<N>,
    base: [usize; N],
    chunk: usize,
    position: Position<N>,
    /// Elements of the current run that are done.
    done: usize,
    /// Runs that are left.
    left: usize,
}

impl<'a, const N: usize> Chunks<'a, N> {
    /// All runs, with `base` added to their offsets.
    #[inline(always)]
    pub(crate) fn new(nest: &'a LoopNest<N>, base: [usize; N], chunk: usize) -> Self {
        Self { nest, base, chunk, position: nest.position(0), done: 0, left: nest.runs() }
    }

    /// The offsets of the next chunk's first element, and its length.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<([usize; N], usize)> {
        if self.left == 0 {
            return None;
        }
        let mut offsets = self.base;
        for (i, offset) in offsets.iter_mut().enumerate() {
            *offset += self.position.offsets[i] + self.done * self.nest.inner_strides[i];
        }
        let len = (self.nest.len - self.done).min(self.chunk);
        self.done += len;
        if self.done == self.nest.len {
            self.done = 0;
            self.left -= 1;
            self.nest.advance(&mut self.position);
        }
        Some((offsets, len))
    }
}

/// The elements of a nest, one by one.
pub(crate) struct Elements<'a, const N: usize> {
    nest: &'a LoopNest<N>,
    position: Position<N>,
    at: usize,
    left: usize,
}

impl<'a, const N: usize> Elements<'a, N> {
    /// The elements with these indices, in the order of the loops.
    #[inline(always)]
    pub(crate) fn new(nest: &'a LoopNest<N>, elements: std::ops::Range<usize>) -> Self {
        let (run, at) = (elements.start / nest.len, elements.start % nest.len);
        Self { nest, position: nest.position(run), at, left: elements.len() }
    }

    /// The offsets of the next element.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<[usize; N]> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let mut offsets = self.position.offsets;
        for (offset, inner) in offsets.iter_mut().zip(self.nest.inner_strides) {
            *offset += self.at * inner;
        }
        self.at += 1;
        if self.at == self.nest.len {
            self.at = 0;
            self.nest.advance(&mut self.position);
        }
        Some(offsets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_dimensions_are_merged() {
        let nest = LoopNest::new(&[2, 3, 4, 5], [&[60, 20, 5, 1], &[60, 20, 5, 1]], 0);
        assert_eq!((nest.runs(), nest.len, nest.inner_strides), (1, 120, [1, 1]));
        let nest = LoopNest::new(&[2, 3, 4, 5], [&[60, 1, 15, 3], &[60, 1, 15, 3]], 1);
        assert_eq!((nest.runs(), nest.len, nest.inner_strides), (1, 120, [1, 1]));
        let nest = LoopNest::new(&[2, 3, 4, 5], [&[60, 20, 5, 1], &[0, 1, 0, 0]], 0);
        assert_eq!((nest.runs(), nest.len, nest.inner_strides), (6, 20, [1, 0]));
        assert_eq!([0, 1].map(|tensor| nest.is_contiguous(tensor)), [true, false]);
        let nest = LoopNest::new(&[2, 3, 4], [&[16, 5, 1], &[12, 4, 1]], 0);
        assert_eq!((nest.runs(), [0, 1].map(|tensor| nest.is_contiguous(tensor))), (6, [false, true]));
        let nest = LoopNest::new(&[], [&[]], 0);
        assert_eq!((nest.runs(), nest.len), (1, 1));
    }

    #[test]
    fn a_box_has_its_own_loops() {
        let axes = Axes::new(&[2, 3, 4, 5], [&[60, 20, 5, 1], &[0, 1, 0, 0]], 0);
        let (nest, base) = axes.nest_of_box(&[1, 1, 0, 0], &[1, 2, 4, 5]);
        assert_eq!((base, nest.runs(), nest.len, nest.inner_strides), ([80, 1], 2, 20, [1, 0]));
        let (nest, base) = axes.nest_of_box(&[0, 2, 1, 3], &[2, 1, 2, 2]);
        assert_eq!((base, nest.runs(), nest.len, nest.inner_strides), ([48, 2], 4, 2, [1, 0]));
        let (nest, base) = axes.nest_of_box(&[0, 0, 0, 4], &[1, 1, 1, 1]);
        assert_eq!((base, nest.runs(), nest.len), ([4, 0], 1, 1));
    }

    #[test]
    fn chunks_and_elements_cover_every_run() {
        let nest = LoopNest::new(&[2, 5], [&[10, 1], &[5, 1]], 0);
        let mut chunks = Chunks::new(&nest, [100, 0], 3);
        let mut seen = Vec::new();
        while let Some(([first, second], len)) = chunks.next() {
            seen.push((first, second, len));
        }
        assert_eq!(seen, [(100, 0, 3), (103, 3, 2), (110, 5, 3), (113, 8, 2)]);
        let mut elements = Elements::new(&nest, 3..7);
        let mut seen = Vec::new();
        while let Some(offsets) = elements.next() {
            seen.push(offsets);
        }
        assert_eq!(seen, [[3, 3], [4, 4], [10, 5], [11, 6]]);
    }

    #[test]
    fn positions_advance_in_order() {
        let nest = LoopNest::new(&[2, 3, 4], [&[100, 20, 2], &[12, 1, 3]], 0);
        let mut position = nest.position(0);
        for run in 0..nest.runs() {
            assert_eq!(position.offsets, nest.position(run).offsets);
            nest.advance(&mut position);
        }
        assert_eq!(position.offsets, [0, 0]);
    }
}
