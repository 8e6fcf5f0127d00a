//! Packing of both operands.

use std::ops::Range;

use crate::gemm::accumulator::Accumulator;
use crate::gemm::pack::PackSource;
use crate::matmul::kernel::{COPIED_ROWS, Gemm};
use crate::matmul::problem::Problem;
use crate::tensor::scratch::Shared;
use crate::threading::partition::part;

impl<T: Accumulator> Gemm<T> {
    /// Packs part of a block's rows.
    ///
    /// # Safety
    /// `a` is the first element of operand A; `to` has room for the block.
    pub(super) unsafe fn copy_rows(&self, block: usize, index: usize, a: *const u8, to: *mut T) {
        let Problem { a: lhs, m, k, .. } = &self.problem;
        let rows = part(*m, self.row_blocks, block % self.row_blocks);
        let first = index * COPIED_ROWS;
        let last = (first + COPIED_ROWS).min(rows.len());
        if first >= last {
            return;
        }
        let [offset, ..] = self.problem.offsets(block / self.row_blocks);
        // SAFETY: `last` is at most the number of operand A's rows in this block, so that all rows are inside of it.
        unsafe {
            let copy = PackSource {
                from: a.add((offset + (rows.start + first) * lhs.row) * lhs.size),
                rows: last - first,
                row: lhs.row,
                columns: *k,
                column: lhs.column,
                width: *k,
                row_stride: self.row_stride,
            };
            (self.scheme.pack_a)(self.isa, &copy, to.add(first * self.row_stride));
        }
    }

    /// The terms that some words are made of.
    pub(super) fn terms(&self, words: &Range<usize>) -> Range<usize> {
        words.start * self.scheme.kernel.terms..(words.end * self.scheme.kernel.terms).min(self.problem.k)
    }

    /// Packs some words of the columns of a panel.
    ///
    /// # Safety
    /// `b` is the first element of the panel's matrix; `to` has room for the words.
    pub(super) unsafe fn copy_panel(
        &self,
        vectors: &Range<usize>,
        words: &Range<usize>,
        b: *const u8,
        to: *mut T,
    ) {
        let Problem { b: right, n, .. } = &self.problem;
        let lanes = self.scheme.kernel.lanes;
        let terms = self.terms(words);
        let first = vectors.start * lanes;
        // SAFETY: the terms and columns are inside operand B.
        unsafe {
            let copy = PackSource {
                from: b.add((terms.start * right.row + first * right.column) * right.size),
                rows: terms.len(),
                row: right.row,
                columns: (vectors.end * lanes).min(*n) - first,
                column: right.column,
                width: vectors.len() * lanes,
                row_stride: vectors.len() * lanes,
            };
            (self.scheme.pack_b)(self.isa, &copy, to);
        }
    }

    /// The offset of some words of a panel in the prepacked operand.
    pub(super) fn prepacked_place(&self, vectors: &Range<usize>, words: &Range<usize>) -> usize {
        (vectors.start * self.words + words.start * vectors.len()) * self.scheme.kernel.lanes
    }

    /// All panels of a constant operand B; null if they are not prepacked.
    ///
    /// # Safety
    /// `b` is the operand's first element.
    pub(super) unsafe fn prepacked_panels(&self, b: *mut u8) -> *const T {
        let b = Shared([b]);
        let (panels, _) = self.prepacked.get(b.get(0), std::ptr::null_mut(), |to| {
            if !to.is_null() {
                let to = Shared([to.cast::<u8>()]);
                self.workers.for_each_part(self.panels * self.depth_blocks, |_, index| {
                    let vectors = self.vectors(index / self.depth_blocks);
                    let words = part(self.words, self.depth_blocks, index % self.depth_blocks);
                    // SAFETY: there is room for all panels, and each is copied by one worker.
                    unsafe {
                        let to = to.get(0).cast::<T>().add(self.prepacked_place(&vectors, &words));
                        self.copy_panel(&vectors, &words, b.get(0), to);
                    }
                });
            }
            true
        });
        panels
    }
}
