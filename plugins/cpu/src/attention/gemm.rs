//! The GEMMs of attention: queries of a panel times a block of keys without masked tiles, and weighted row
//! sums.

use std::ops::Range;

use hipdnn_plugin_sdk::graph::DataType;

use crate::attention::rows::Matrix;
use crate::attention::scores::{MaskColumns, VisibleKeys};
use crate::gemm::context::Context;
use crate::gemm::dots::{DotProducts, Dots, MOST_ROWS, dots_of};
use crate::gemm::tile::{Order, Tile};
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, has_special_cases};
use crate::threading::partition::part;

/// The most elements of a query whose scores are dot products, and the keys whose scores are computed at once: both stay on the stack.
const MAX_TERMS: usize = 128;
const MOST_KEYS: usize = 64;

/// The dot products that compute the scores of single queries with this many elements, if they are faster.
pub(crate) fn dots_for<T: Float>(depth: usize, isa: Isa) -> Option<Dots<T>> {
    let suits = depth <= MAX_TERMS && size_of::<T>() == size_of::<f32>() && has_special_cases::<T>(isa);
    dots_of::<T>(DataType::Float).filter(|_| suits)
}

/// The columns of a panel, and which keys they see.
pub(crate) struct PanelGemm<'a, T: 'static> {
    pub(crate) isa: Isa,
    pub(crate) kernel: Context<T>,
    pub(crate) seen: &'a VisibleKeys,
    /// Columns, a multiple of the vector length; also the row stride of operand B and of the results.
    pub(crate) columns: usize,
    /// Terms of each sum.
    pub(crate) depth: usize,
    /// The first row of operand B.
    pub(crate) right: *const T,
    /// How scores of few queries are computed as dot products with keys, and how many columns are queries.
    pub(crate) dots: Option<(Dots<T>, usize)>,
}

impl<T: Float> PanelGemm<'_, T> {
    /// Multiplies rows of keys by the columns, except for fully masked tiles, which become -∞.
    ///
    /// # Safety
    /// The processor supports the instruction set, and operands and results are valid.
    pub(crate) unsafe fn of(&self, keys: &Range<usize>, rows: Matrix<T>, to: *mut T) {
        let Self { isa, kernel, seen, columns, depth, right, dots } = self;
        if let Some((dots, queries)) = *dots {
            // SAFETY: this function requires the instruction set, and valid operands and results.
            return unsafe { self.by_dots(dots, queries, keys.len(), rows, to) };
        }
        let Context { rows: most_rows, lanes, .. } = *kernel;
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
            // SAFETY: this function requires the instruction set; operands and results cover the tile.
            unsafe {
                let to = to.add(first * columns);
                if end - begin < vectors {
                    for hidden in [0..begin * lanes, end * lanes..*columns] {
                        isa.run(MaskColumns { scores: to, row_stride: *columns, rows: count, hidden });
                    }
                }
                if begin < end {
                    let mut tile = Tile {
                        a: rows.skip(first).first,
                        a_stride: rows.row_stride,
                        b: right.add(begin * lanes),
                        b_stride: *columns,
                        depth: *depth,
                        to: to.add(begin * lanes),
                        to_stride: *columns,
                        ..Tile::EMPTY
                    };
                    kernel.run(&mut tile, count, end - begin);
                }
            }
        }
    }

    /// The scores of few queries, which would leave most lanes of a vector empty: each key is read once, from its first
    /// element to its last one. Columns without a query become 0.
    ///
    /// # Safety
    /// As [`PanelGemm::of`], for keys of at most [`MAX_TERMS`] elements of single precision, as [`dots_for`] requires; the columns contain
    /// the queries.
    unsafe fn by_dots(&self, dots: Dots<T>, queries: usize, keys: usize, rows: Matrix<T>, to: *mut T) {
        let Self { isa, columns, depth, right, .. } = *self;
        // Of single precision, as `T` is: the instances of others are never called, but have frames.
        let (mut lhs, mut sums) = ([0_f32; MOST_ROWS * MAX_TERMS], [0_f32; MOST_ROWS * MOST_KEYS]);
        let (lhs, sums) = (lhs.as_mut_ptr().cast::<T>(), sums.as_mut_ptr().cast::<T>());
        // SAFETY: the results have these columns of all keys.
        unsafe { to.write_bytes(0, keys * columns) };
        for first in (0..queries).step_by(MOST_ROWS) {
            let count = (queries - first).min(MOST_ROWS);
            for at in 0..count * depth {
                // SAFETY: operand B has the columns of all terms, and there is room for those of the queries.
                unsafe { lhs.add(at).write(right.add(at % depth * columns + first + at / depth).read()) };
            }
            for start in (0..keys).step_by(MOST_KEYS) {
                let products = DotProducts {
                    a: lhs.cast_const(),
                    a_stride: depth,
                    rows: count,
                    b: rows.skip(start).first.cast(),
                    b_stride: rows.row_stride,
                    columns: (keys - start).min(MOST_KEYS),
                    terms: depth,
                    to: sums,
                    to_stride: MOST_KEYS,
                };
                // SAFETY: `lhs` has the queries and `sums` room for their scores; the keys are valid, as this function requires.
                unsafe { dots(isa, &products) };
                for row in 0..count {
                    for key in 0..products.columns {
                        // SAFETY: the results have the key's row and the query's column, and the sums were written above.
                        unsafe {
                            let sum = sums.add(row * MOST_KEYS + key).read();
                            to.add((start + key) * columns + first + row).write(sum);
                        }
                    }
                }
            }
        }
    }
}

/// Adds weighted rows: `to[r][j] = to[r][j] + Σ a[r][l] · b[l][j]` over the depth l.
pub(crate) struct WeightedRows<T> {
    /// The weights and their memory order.
    pub(crate) a: Matrix<T>,
    pub(crate) order: Order,
    pub(crate) b: Matrix<T>,
    pub(crate) depth: usize,
    pub(crate) to: *mut T,
    /// Elements of a row, also the row stride of `to`: whole vectors.
    pub(crate) width: usize,
}

impl<T: Float> WeightedRows<T> {
    /// Computes `rows` rows.
    ///
    /// # Safety
    /// The processor supports the kernel's instruction set, and operands and accumulators are valid.
    pub(crate) unsafe fn add(&self, kernel: &Context<T>, rows: usize) {
        let Self { a, order, b, depth, to, width } = *self;
        let all = width / kernel.lanes;
        let (most_rows, most_vectors) = kernel.largest_for(all);
        let parts = all.div_ceil(most_vectors);
        for first in (0..rows).step_by(most_rows) {
            for index in 0..parts {
                let vectors = part(all, parts, index);
                // SAFETY: this function requires the instruction set; operands and accumulators cover the
                // tile.
                unsafe {
                    let to = to.add(first * width + vectors.start * kernel.lanes);
                    let mut tile = Tile {
                        a: a.first.add(if order == Order::Rows { first * a.row_stride } else { first }),
                        order,
                        a_stride: a.row_stride,
                        b: b.first.add(vectors.start * kernel.lanes),
                        b_stride: b.row_stride,
                        depth,
                        from: to,
                        from_stride: width,
                        to,
                        to_stride: width,
                        ..Tile::EMPTY
                    };
                    kernel.run(&mut tile, (rows - first).min(most_rows), vectors.len());
                }
            }
        }
    }

    /// The same if elements of B may be infinite or NaN: skips terms with weight `skipped`, whatever B
    /// contains.
    ///
    /// # Safety
    /// `a` has `rows` rows of `depth` terms, `b` `depth` rows and `to` `rows` rows of `width` elements.
    pub(crate) unsafe fn add_with_any(&self, rows: usize, skipped: impl Fn(T) -> bool) {
        let Self { a, order, b, depth, to, width } = *self;
        for l in 0..depth {
            for r in 0..rows {
                let (row, term) = if order == Order::Rows { (r, l) } else { (l, r) };
                // SAFETY: the operands have the term, and the accumulators the row.
                unsafe {
                    let weight = a.skip(row).first.add(term).read();
                    if !skipped(weight) {
                        let to = std::slice::from_raw_parts_mut(to.add(r * width), width);
                        let b = b.skip(l).first;
                        for (j, to) in to.iter_mut().enumerate() {
                            *to = *to + weight * b.add(j).read_unaligned();
                        }
                    }
                }
            }
        }
    }
}
