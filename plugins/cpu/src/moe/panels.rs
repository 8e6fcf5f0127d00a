//! A panel of columns of a matrix multiplication, for a block of rows and several runs of terms.

use std::ops::Range;

use hipdnn_plugin_planner::problem::Operand;

use crate::dtype::element::Compute;
use crate::gemm::context::Context;
use crate::gemm::kernel::fused;
use crate::gemm::pack::{Accumulators, Pack, PackSource, Store};
use crate::gemm::tile::{Order, Tile};
use crate::kernel::{Facts, Refusal};
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::row_converter::is_compute_type;
use crate::tensor::scratch::Scratch;
use crate::threading::partition::{Threads, Workers, part};

/// Terms per K block, and rows that are computed with a packed panel.
const DEPTH: usize = 1024;
const ROWS: usize = 256;

/// Elements between packed rows of operand A, so that they do not compete for few sets of the L1 cache.
const GAP: usize = 16;

/// A matrix in memory.
pub(crate) struct Matrix<T> {
    pub(crate) slot: usize,
    /// Bytes of an element.
    pub(crate) size: usize,
    /// Strides of rows and columns.
    pub(crate) strides: [usize; 2],
    /// Whether rows are contiguous values of the compute type.
    is_direct: bool,
    pack: Pack<T>,
    store: Store<T>,
}

impl<T: Float> Matrix<T> {
    pub(crate) fn of(
        name: &str,
        operand: &Operand,
        strides: [usize; 2],
        kernel: &Context<T>,
    ) -> Result<Self, Refusal> {
        let (pack, store) =
            ((kernel.pack_rhs)(name, operand.data_type)?, (kernel.store)(name, operand.data_type)?);
        let size = operand.data_type.size().unwrap_or(1);
        let is_direct = is_compute_type::<T>(operand.data_type) && strides[1] == 1;
        Ok(Self { slot: operand.slot, size, strides, is_direct, pack, store })
    }

    /// The address of an element of the matrix at `first`, an offset in elements.
    pub(crate) fn at(&self, base: *mut u8, first: usize, [row, column]: [usize; 2]) -> *mut u8 {
        base.wrapping_add((first + row * self.strides[0] + column * self.strides[1]) * self.size)
    }
}

/// The compute type: double precision if any tensor has it.
pub(crate) fn compute_of(compute: Compute, operands: [&Operand; 3]) -> Compute {
    let is_double = |operand: &&Operand| is_compute_type::<f64>(operand.data_type);
    if operands.iter().any(is_double) { Compute::Double } else { compute }
}

/// How results of `rows` × `columns` are divided.
pub(crate) struct Panels<T: 'static> {
    isa: Isa,
    kernel: Context<T>,
    rows: usize,
    columns: usize,
    pub(crate) row_blocks: usize,
    pub(crate) panels: usize,
    /// Terms of a K block.
    depth: usize,
    pub(crate) workers: Workers,
}

/// The rows of operand A to multiply a panel with.
pub(crate) enum Lhs<'a> {
    /// These rows of the matrix.
    Rows(&'a [usize]),
    /// Rows that follow this one.
    From(usize),
    /// Columns that follow this one: the matrix is transposed.
    Columns(usize),
}

impl<T: Float> Panels<T> {
    /// Describes the micro-kernel.
    pub(crate) fn facts(&self) -> Facts {
        Facts::tiled::<T>(
            "grouped-gemm",
            self.workers.threads(),
            [self.kernel.rows, self.kernel.columns()],
            1,
        )
    }

    /// The division of `matrices` results, with `terms` multiply-adds per element of one of them.
    pub(crate) fn plan(
        [rows, columns, matrices]: [usize; 3],
        depth: usize,
        terms: f64,
        isa: Isa,
        threads: Threads,
    ) -> Self {
        let kernel = Context::<T>::of(isa);
        let panels = columns.div_ceil(kernel.columns());
        let time = fused::<T>(isa) * rows as f64 * columns as f64 * terms;
        let wanted = threads.workers(time, usize::MAX).count().div_ceil(matrices * panels);
        let row_blocks = rows.div_ceil(ROWS).max(wanted.min(rows.div_ceil(kernel.rows)));
        let workers = threads.workers(time, matrices * row_blocks * panels);
        Self { isa, kernel, rows, columns, row_blocks, panels, depth: depth.min(DEPTH), workers }
    }

    /// For each worker a packed panel, a tile of operand A, and sums of a block.
    pub(crate) fn layout(&self, scratch: &mut Scratch) -> [usize; 3] {
        self.sizes().map(|size| scratch.area::<T>(size, self.workers.count()))
    }

    fn sizes(&self) -> [usize; 3] {
        let Self { kernel, depth, .. } = self;
        let columns = kernel.columns();
        [depth * columns, kernel.rows * (depth + GAP), self.rows.div_ceil(self.row_blocks) * columns]
    }

    /// A worker's areas.
    pub(crate) fn areas(&self, layout: [usize; 3], scratch: *mut u8, worker: usize) -> [*mut T; 3] {
        let sizes = self.sizes();
        std::array::from_fn(|area| Scratch::of_worker(scratch, layout[area], worker, sizes[area]))
    }

    /// The rows of a block.
    pub(crate) fn block(&self, index: usize) -> Range<usize> {
        part(self.rows, self.row_blocks, index)
    }

    /// Values of the widest panel's row.
    pub(crate) fn width(&self) -> usize {
        self.kernel.columns()
    }

    fn vectors(&self, panel: usize) -> Range<usize> {
        part(self.columns.div_ceil(self.kernel.lanes), self.panels, panel)
    }

    /// A run of terms, split into K blocks.
    pub(crate) fn blocks(&self, terms: Range<usize>) -> impl Iterator<Item = Range<usize>> + use<T> {
        let (end, depth) = (terms.end, self.depth);
        terms.step_by(depth).map(move |start| start..(start + depth).min(end))
    }

    /// Sums `rows` rows of a panel over runs of terms, in the last of the areas.
    ///
    /// # Safety
    /// `a` and `b` are the first elements of operands that have the rows, columns and terms, and `areas`
    /// those of a worker. A block has at least `rows` rows.
    pub(crate) unsafe fn sum(
        &self,
        rows: usize,
        panel: usize,
        terms: impl Iterator<Item = Range<usize>>,
        (a, lhs): ((&Matrix<T>, *mut u8), &Lhs<'_>),
        (b, of_b): (&Matrix<T>, *mut u8),
        [packed, tile_of_a, sums]: [*mut T; 3],
    ) {
        let Context { lanes, rows: most, .. } = self.kernel;
        let vectors = self.vectors(panel);
        let width = vectors.len() * lanes;
        let first = vectors.start * lanes;
        let columns = width.min(self.columns - first);
        let tiles = rows.div_ceil(most);
        let in_place = b.is_direct && columns == width;
        let mut from: *const T = std::ptr::null();
        for terms in terms {
            let of_panel = b.at(of_b, 0, [terms.start, first]);
            if !in_place {
                let [row, column] = b.strides;
                let (rows, row_stride) = (terms.len(), width);
                let copy = PackSource { from: of_panel, rows, row, columns, column, width, row_stride };
                // SAFETY: operand B has the terms and columns, and the area room for a panel.
                unsafe { (b.pack)(self.isa, &copy, packed) };
            }
            for index in 0..tiles {
                let of_tile = part(rows, tiles, index);
                // The first tile reads a panel in place and leaves a packed copy for the others.
                let reads = in_place && index == 0;
                // SAFETY: the operands have the terms of the tile's rows and the panel's whole vectors; the areas have room for
                // a block and a panel.
                unsafe {
                    let (a, order, a_stride) = self.tile_of_a(a, lhs, &of_tile, &terms, tile_of_a);
                    let to = sums.add(of_tile.start * width);
                    let mut tile = Tile {
                        a,
                        order,
                        a_stride,
                        b: if reads { of_panel.cast_const().cast() } else { packed.cast_const() },
                        b_stride: if reads { b.strides[0] } else { width },
                        prefetches: self.isa.has_whole_vectors(),
                        keep: if reads && tiles > 1 { packed } else { std::ptr::null_mut() },
                        depth: terms.len(),
                        from: if from.is_null() { from } else { to.cast_const() },
                        from_stride: width,
                        to,
                        to_stride: width,
                        ..Tile::EMPTY
                    };
                    self.kernel.run(&mut tile, of_tile.len(), vectors.len());
                }
            }
            from = sums.cast_const();
        }
        if from.is_null() {
            // SAFETY: the area has room for a block.
            unsafe { sums.write_bytes(0, rows * width) };
        }
    }

    /// The rows of a tile of operand A: in place, or packed.
    ///
    /// # Safety
    /// As for [`Panels::sum`].
    unsafe fn tile_of_a(
        &self,
        (a, base): (&Matrix<T>, *mut u8),
        lhs: &Lhs<'_>,
        rows: &Range<usize>,
        terms: &Range<usize>,
        to: *mut T,
    ) -> (*const T, Order, usize) {
        let [row, column] = a.strides;
        let pack = |at: [usize; 2], rows: usize, columns: usize, row_stride: usize, to: *mut T| {
            let from = a.at(base, 0, at);
            let copy = PackSource { from, rows, row, columns, column, width: columns, row_stride };
            // SAFETY: this function requires that the operand has the rows; the area has room for a tile.
            unsafe { (a.pack)(self.isa, &copy, to) };
        };
        let stride = self.depth + GAP;
        let (at, order) = match lhs {
            Lhs::From(first) => ([first + rows.start, terms.start], Order::Rows),
            Lhs::Columns(first) => ([terms.start, first + rows.start], Order::Panel),
            Lhs::Rows(list) => {
                for (index, row) in list[rows.clone()].iter().enumerate() {
                    pack([*row, terms.start], 1, terms.len(), stride, to.wrapping_add(index * stride));
                }
                return (to, Order::Rows, stride);
            }
        };
        if a.is_direct {
            return (a.at(base, 0, at).cast_const().cast(), order, row);
        }
        let (count, width, stride) = match order {
            Order::Rows => (rows.len(), terms.len(), stride),
            Order::Panel => (terms.len(), rows.len(), rows.len()),
        };
        pack(at, count, width, stride, to);
        (to, order, stride)
    }

    /// Stores `rows` rows of sums from row `skipped` on as rows of a panel of the result, whose first element is `to`.
    ///
    /// # Safety
    /// The result has the rows, and the sums were computed.
    pub(crate) unsafe fn store(
        &self,
        (skipped, rows): (usize, usize),
        panel: usize,
        sums: *const T,
        (c, to): (&Matrix<T>, *mut u8),
    ) {
        let (vectors, lanes) = (self.vectors(panel), self.kernel.lanes);
        let (first, width) = (vectors.start * lanes, vectors.len() * lanes);
        let sums = Accumulators {
            from: sums.wrapping_add(skipped * width),
            row_stride: width,
            rows,
            columns: width.min(self.columns - first),
            row: c.strides[0],
            column: c.strides[1],
        };
        // SAFETY: this function requires the rows.
        unsafe { (c.store)(self.isa, &sums, c.at(to, 0, [0, first])) };
    }
}
