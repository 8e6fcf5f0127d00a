//! The GEMM of a panel's queries with a block of keys or values, which skips masked tiles.

use std::ops::Range;

use crate::attention::rows::Matrix;
use crate::attention::scores::{MaskColumns, VisibleKeys};
use crate::gemm::tile::{Tile, TileKernel};
use crate::simd::isa::Isa;
use crate::simd::vector::Float;

/// The columns of a panel, and which keys they see.
pub(crate) struct PanelGemm<'a, T: 'static> {
    pub(crate) isa: Isa,
    pub(crate) tiles: TileKernel<T>,
    pub(crate) seen: &'a VisibleKeys,
    /// Columns, a multiple of the vector length; also the row stride of operand B and of the results.
    pub(crate) columns: usize,
    /// Terms of each sum.
    pub(crate) depth: usize,
    /// The first row of operand B.
    pub(crate) right: *const T,
}

impl<T: Float> PanelGemm<'_, T> {
    /// Multiplies rows of keys by the columns, except for tiles that are masked entirely; these become -∞.
    ///
    /// # Safety
    /// The processor supports the instruction set, and operands and results are valid.
    pub(crate) unsafe fn of(&self, keys: &Range<usize>, rows: Matrix<T>, to: *mut T) {
        let Self { isa, tiles, seen, columns, depth, right } = self;
        let TileKernel { rows: most_rows, lanes, .. } = *tiles;
        let vectors = columns / lanes;
        for first in (0..keys.len()).step_by(most_rows) {
            let count = (keys.len() - first).min(most_rows);
            let of_tile = keys.start + first..keys.start + first + count;
            let touches = |vector: usize| seen.touches(vector * lanes..(vector + 1) * lanes, &of_tile);
            let (mut begin, mut end) = (0, vectors);
            while begin < end && !touches(begin) {
                begin += 1;
            }
            while begin < end && !touches(end - 1) {
                end -= 1;
            }
            // SAFETY: everything read and written here is valid, as this function requires.
            unsafe {
                let to = to.add(first * columns);
                if end - begin < vectors {
                    for hidden in [0..begin * lanes, end * lanes..*columns] {
                        isa.run(MaskColumns { scores: to, row_stride: *columns, rows: count, hidden });
                    }
                }
                if begin < end {
                    let tile = Tile {
                        a: rows.skip(first).first,
                        a_stride: rows.row_stride,
                        b: right.add(begin * lanes),
                        b_stride: *columns,
                        prefetches: false,
                        keep: std::ptr::null_mut(),
                        depth: *depth,
                        from: std::ptr::null(),
                        from_stride: 0,
                        add: std::ptr::null(),
                        to: to.add(begin * lanes),
                        to_stride: *columns,
                    };
                    tiles.run(&tile, count, end - begin);
                }
            }
        }
    }
}
