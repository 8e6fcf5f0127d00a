//! The loops around the micro-kernel: blocking, packing and work partition.

use std::ops::Range;

use crate::gemm::accumulator::Accumulator;
use crate::gemm::context::Context;
use crate::gemm::dots::{DotProducts, MOST_ROWS};
use crate::gemm::kernel::{MAX_LINE, WIDE_ROWS};
use crate::gemm::pack::Accumulators;
use crate::gemm::session::Session;
use crate::gemm::tile::{RegisterEpilogue, Tile};
use crate::kernel::{Facts, Kernel, Refusal};
use crate::matmul::problem::Problem;
use crate::matmul::scheme::Scheme;
use crate::settings::Settings;
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::tensor::prepacked::Prepacked;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::tensor::store::PackedForm;
use crate::threading::partition::{Workers, part};

/// How many rows are computed with a panel before the next is packed.
const ROWS: usize = 512;

/// The same for prepacked panels on processors with full 512-bit vector units: there the rows must stay in
/// the L2 cache, and reading panels more often costs less.
const FEW_ROWS: usize = 256;

/// How many elements of operand A are packed at a time.
const COPIED: usize = 2 << 20;

/// The most terms for which operand A is packed.
const MAX_COPIED: usize = 1 << 24;

/// Rows of operand A per unit of packing work.
pub(super) const COPIED_ROWS: usize = 32;

/// Row strides in bytes at which the rows of a tile compete for few sets of the L1 cache.
const CROWDED: usize = 1024;

/// A planned matrix multiplication.
pub(crate) struct Gemm<T: 'static> {
    pub(super) problem: Problem,
    pub(super) isa: Isa,
    pub(super) scheme: Scheme<T>,
    /// Words that a tile multiplies for each sum.
    pub(super) words: usize,
    /// Whether the rows of operand B are read in place, because only one tile reads them.
    b_in_place: bool,
    /// Blocks of rows, panels of columns, and K blocks.
    pub(super) row_blocks: usize,
    pub(super) panels: usize,
    /// How many panels are for wide tiles or lines, and the vectors of all of these; they come first.
    wide: usize,
    wide_vectors: usize,
    pub(super) depth_blocks: usize,
    /// Blocks of rows between two packings of operand A.
    group: usize,
    /// Row stride of packed rows.
    pub(super) row_stride: usize,
    pub(super) workers: Workers,
    pack_workers: Workers,
    /// The prepacked panels of a constant operand B.
    pub(super) prepacked: Prepacked<T>,
    areas: ScratchLayout,
}

/// Elements of the parts of the scratch memory.
pub(crate) struct ScratchLayout {
    a: usize,
    b: usize,
    sums: usize,
    row: usize,
}

/// Estimated nanoseconds to pack a byte of operand B or an element of operand A, and to read a byte of B in
/// place.
const COPY: f64 = 0.3;

const READ: f64 = 0.05;

impl<T: Accumulator> Gemm<T> {
    pub(crate) fn plan(
        problem: Problem,
        isa: Isa,
        settings: Settings,
        scheme: Scheme<T>,
    ) -> Result<Self, Refusal> {
        let Problem { b, m, n, k, matrices, .. } = &problem;
        let (m, n, k, matrices) = (*m, *n, *k, *matrices);
        let Scheme { kernel, tile_epilogue, .. } = &scheme;
        let threads = settings.threads;
        if !scheme.a_readable && k > MAX_COPIED {
            return Err(format!("k is {k}, expected at most {MAX_COPIED} where an operand has to be copied"));
        }
        let words = k.div_ceil(kernel.terms);
        let work = [m, n, k, matrices].iter().map(|size| *size as f64).product::<f64>() * scheme.time;
        // Enough parts for the workers if there are few columns.
        let wanted =
            threads.workers(work, usize::MAX).count().div_ceil(matrices * n.div_ceil(kernel.columns()));
        let has_dots = scheme.dots.is_some();
        let keeps = settings.constant_weights && problem.has_one_rhs() && !has_dots;
        let most_rows = if keeps && isa.has_whole_vectors() { FEW_ROWS } else { ROWS };
        let row_blocks = m.div_ceil(most_rows).max(wanted.min(m / kernel.rows));
        let block = m.div_ceil(row_blocks);
        let depth_blocks =
            if has_dots || words <= kernel.max_k_block { 1 } else { words.div_ceil(kernel.k_block) };
        let b_in_place = scheme.b_readable && m <= kernel.rows;
        let copies = (b.size * n * k) as f64 * (matrices * row_blocks) as f64;
        let copies = match has_dots {
            true => 0.0,
            false => copies * if b_in_place { READ } else { COPY },
        };
        let (wide, wide_vectors) = match m {
            // Prepacked panels are contiguous: tiles read them faster.
            1 if scheme.b_readable && !keeps && n / kernel.lanes > kernel.vectors => {
                let vectors = n / kernel.lanes;
                let wanted = threads.workers(work + copies, vectors * matrices).count().div_ceil(matrices);
                (
                    vectors.div_ceil(MAX_LINE).next_multiple_of(wanted).min(vectors / (kernel.vectors + 1)),
                    vectors,
                )
            }
            WIDE_ROWS if scheme.b_readable => {
                let wide = n / (kernel.lanes * kernel.wide);
                (wide, wide * kernel.wide)
            }
            _ => (0, 0),
        };
        let others = n.div_ceil(kernel.lanes) - wide_vectors;
        let panels = wide + others.div_ceil(kernel.vectors);
        let line = 64 / size_of::<T>();
        let row_stride = words.next_multiple_of(line);
        let row_stride = if (row_stride * size_of::<T>()).is_multiple_of(CROWDED) {
            row_stride + line
        } else {
            row_stride
        };
        let (group, copied) = if scheme.a_readable {
            (matrices * row_blocks, 0)
        } else {
            let group = (COPIED / (block * row_stride)).clamp(1, matrices * row_blocks);
            (group, group * block * row_stride)
        };
        let widest = if wide > 0 {
            kernel.columns().max(kernel.lanes * wide_vectors.div_ceil(wide))
        } else {
            kernel.columns()
        };
        let workers = threads.workers(work + copies, group.saturating_mul(panels));
        let pack_parts = group * block.div_ceil(COPIED_ROWS);
        let pack_workers = threads.workers(copied as f64 * COPY, pack_parts);
        let areas = ScratchLayout {
            a: copied,
            b: if has_dots { 0 } else { words.div_ceil(depth_blocks) * kernel.columns() },
            sums: (kernel.columns() * if depth_blocks > 1 { block } else { kernel.rows })
                .max(widest * m.min(WIDE_ROWS)),
            row: if tile_epilogue.row.is_some() { widest } else { 0 },
        };
        let prepacked = words.saturating_mul(n.next_multiple_of(kernel.lanes));
        let form = settings.shares_weights.then(|| {
            let of_panels = [words, depth_blocks, wide, wide_vectors, panels, kernel.lanes, kernel.terms];
            let form = PackedForm::new("gemm", scheme.pack_b as usize).on(isa).and(of_panels);
            form.and([n, k, b.row, b.column, b.size])
        });
        Ok(Self {
            isa,
            words,
            b_in_place,
            row_blocks,
            panels,
            wide,
            wide_vectors,
            depth_blocks,
            group,
            row_stride,
            workers,
            pack_workers,
            prepacked: Prepacked::in_large_pages(prepacked, keeps, form),
            scheme,
            areas,
            problem,
        })
    }

    /// The layout of the scratch memory: packed rows, and each worker's panel, accumulators, and part of the
    /// added row.
    fn layout(&self, scratch: &mut Scratch) -> [usize; 4] {
        let workers = self.workers.count();
        [
            scratch.area::<T>(self.areas.a, 1),
            scratch.area::<T>(self.areas.b, workers),
            scratch.area::<T>(self.areas.sums, workers),
            scratch.area::<T>(self.areas.row, workers),
        ]
    }

    /// The columns of a panel, in vectors.
    pub(super) fn vectors(&self, panel: usize) -> Range<usize> {
        if panel < self.wide {
            return part(self.wide_vectors, self.wide, panel);
        }
        let first = self.wide_vectors;
        let others = self.problem.n.div_ceil(self.scheme.kernel.lanes) - first;
        let vectors = part(others, self.panels - self.wide, panel - self.wide);
        first + vectors.start..first + vectors.end
    }

    /// Computes the columns of a panel in a block of rows.
    ///
    /// # Safety
    /// `a` is the block's first row with row stride `a_stride`; `b` and `c` are the first elements of operand B
    /// and the result; `row` is the first of the added row; `all_panels` are the prepacked panels or null;
    /// `panel`, `sums` and `part_of_row` are a worker's areas.
    unsafe fn multiply(
        &self,
        block: usize,
        index: usize,
        (a, a_stride): (*const T, usize),
        [b, c, row, all_panels]: [*mut u8; 4],
        [panel, sums, part_of_row]: [*mut T; 3],
    ) {
        let Problem { b: right, c: result, m, n, .. } = &self.problem;
        let Scheme { kernel, tile_epilogue, .. } = &self.scheme;
        let Context { lanes, rows: most_rows, .. } = *kernel;
        let rows = part(*m, self.row_blocks, block % self.row_blocks);
        let vectors = self.vectors(index);
        let columns = vectors.start * lanes..(vectors.end * lanes).min(*n);
        let width = vectors.len() * lanes;
        let whole = columns.len() == width;
        let [_, b_offset, c_offset] = self.problem.offsets(block / self.row_blocks);
        let tiles = rows.len().div_ceil(most_rows);
        let is_kept = !all_panels.is_null();
        let in_place = self.b_in_place && whole && !is_kept;
        // A panel's first tile reads it in place and leaves a packed copy for the others.
        let copied_by_first = self.scheme.b_readable && whole && !in_place && !is_kept;
        let near = tile_epilogue.near.as_deref();
        let straight = whole && result.holds::<T>() && result.column == 1 && near.is_none();
        let c = c
            .wrapping_add((c_offset + rows.start * result.row + columns.start * result.column) * result.size);
        let added = match tile_epilogue.row {
            None => std::ptr::null(),
            Some(_) if whole => row.cast::<T>().wrapping_add(columns.start).cast_const(),
            Some(_) => {
                // SAFETY: the row has these columns, and the worker's area room for whole vectors.
                unsafe {
                    let from = row.add(columns.start * size_of::<T>());
                    part_of_row.write_bytes(0, width);
                    part_of_row.cast::<u8>().copy_from(from, columns.len() * size_of::<T>());
                }
                part_of_row.cast_const()
            }
        };
        for part_of_depth in 0..self.depth_blocks {
            let words = part(self.words, self.depth_blocks, part_of_depth);
            let terms = self.terms(&words);
            let matrix = b.wrapping_add(b_offset * right.size);
            let from = matrix
                .wrapping_add((terms.start * right.row + columns.start * right.column) * right.size)
                .cast::<T>();
            let (b, b_stride) = if is_kept {
                let place = self.prepacked_place(&vectors, &words);
                (all_panels.cast::<T>().wrapping_add(place).cast_const(), width)
            } else if in_place {
                (from.cast_const(), right.row)
            } else {
                if !copied_by_first && self.scheme.dots.is_none() {
                    // SAFETY: operand B has these terms and columns, and the area room for a panel.
                    unsafe { self.copy_panel(&vectors, &words, matrix, panel) };
                }
                (panel.cast_const(), width)
            };
            let (first, last) = (part_of_depth == 0, part_of_depth + 1 == self.depth_blocks);
            for index in 0..tiles {
                let rows = part(rows.len(), tiles, index);
                let prepacked =
                    if self.depth_blocks > 1 { sums.wrapping_add(rows.start * width) } else { sums };
                let c = c.wrapping_add(rows.start * result.row * result.size);
                let (to, to_stride) =
                    if last && straight { (c.cast::<T>(), result.row) } else { (prepacked, width) };
                let copies = copied_by_first && index == 0;
                let mut tile = Tile {
                    a: a.wrapping_add(rows.start * a_stride + words.start),
                    a_stride,
                    b: if copies { from.cast_const() } else { b },
                    b_stride: if copies { right.row } else { b_stride },
                    // With 256-bit vector units there is enough time to wait for the L2 cache.
                    prefetches: self.isa.has_whole_vectors(),
                    keep: if copies { panel } else { std::ptr::null_mut() },
                    depth: words.len(),
                    from: if first { std::ptr::null() } else { prepacked.cast_const() },
                    from_stride: width,
                    epilogue: RegisterEpilogue {
                        residual: if last { added } else { std::ptr::null() },
                        ..RegisterEpilogue::NONE
                    },
                    to,
                    to_stride,
                    ..Tile::EMPTY
                };
                if let Some(dots) = self.scheme.dots {
                    let products = DotProducts {
                        a: tile.a,
                        a_stride,
                        rows: rows.len(),
                        b: from.cast_const().cast(),
                        b_stride: right.column,
                        columns: columns.len(),
                        terms: words.len(),
                        to: sums,
                        to_stride: width,
                    };
                    (tile.from, tile.depth) = (sums.cast_const(), 0);
                    // SAFETY: rows, columns and terms are inside the operands, and the area has room for a tile's sums.
                    unsafe {
                        sums.write_bytes(0, if whole { 0 } else { rows.len() * width });
                        dots(self.isa, &products);
                    }
                }
                // SAFETY: rows, columns and terms are inside the operands and the result, which has whole
                // vectors in whole panels only; the areas have room for a panel and for a block's sums.
                unsafe { kernel.run(&mut tile, rows.len(), vectors.len()) };
                if let Some(near) = near.filter(|_| last) {
                    // SAFETY: the sums of the tile's rows are complete.
                    unsafe { near.run_on_box(&[prepacked.cast()], &[0], &[rows.len() * width]) };
                }
                if last && !straight {
                    let sums = Accumulators {
                        from: prepacked.cast_const(),
                        row_stride: width,
                        rows: rows.len(),
                        columns: columns.len(),
                        row: result.row,
                        column: result.column,
                    };
                    // SAFETY: the result has the tile's rows and columns.
                    unsafe { (self.scheme.store)(self.isa, &sums, c) };
                }
            }
        }
    }
}

impl<T: Accumulator> Kernel for Gemm<T> {
    fn facts(&self) -> Facts {
        let kernel = &self.scheme.kernel;
        if self.scheme.dots.is_some() {
            let tile = [MOST_ROWS.min(self.problem.m), 1];
            return Facts::tiled::<T>("dot products", self.workers.threads(), tile, 1);
        }
        let tile = [kernel.rows, kernel.columns()];
        let tiled = Facts::tiled::<T>("gemm", self.workers.threads(), tile, kernel.terms);
        Facts { matrix: kernel.uses_tiles(), ..tiled }
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Problem { a, b, c, m, matrices, .. } = &self.problem;
        let layout = self.layout(&mut Scratch::default());
        let row = self.scheme.tile_epilogue.row.map_or(std::ptr::null_mut(), |slot| tensors[slot]);
        // SAFETY: the trait requires the operation's tensors, among which `b.slot` is that of operand B.
        let panels = unsafe { self.prepacked_panels(tensors[b.slot]) }.cast_mut().cast();
        let base = Shared([tensors[a.slot], tensors[b.slot], tensors[c.slot], scratch, row, panels]);
        let all = Tensors(tensors);
        let blocks = matrices * self.row_blocks;
        let rows = m.div_ceil(self.row_blocks);
        let copied = rows * self.row_stride;
        let parts = rows.div_ceil(COPIED_ROWS);
        for start in (0..blocks).step_by(self.group) {
            let group = self.group.min(blocks - start);
            if !self.scheme.a_readable {
                self.pack_workers.for_each_part(group * parts, |_, index| {
                    // SAFETY: the scratch memory has room for a group of blocks; every part is
                    // copied by one worker.
                    unsafe {
                        let to = base.get(3).add(layout[0]).cast::<T>().add(index / parts * copied);
                        self.copy_rows(start + index / parts, index % parts, base.get(0), to);
                    }
                });
            }
            self.workers.for_each_part(group * self.panels, |worker, index| {
                let (block, panel) = (index / self.panels, index % self.panels);
                let sizes = [self.areas.b, self.areas.sums, self.areas.row];
                let own =
                    |area: usize| Scratch::of_worker(base.get(3), layout[area + 1], worker, sizes[area]);
                let areas = [0, 1, 2].each(own);
                let of_block = part(*m, self.row_blocks, (start + block) % self.row_blocks);
                let _session = Session::of(self.scheme.kernel.uses_tiles());
                // SAFETY: the tensors cover their matrices, the scratch memory has room for every
                // worker; no two panels of blocks write the same elements of c.
                unsafe {
                    let rows = if !self.scheme.a_readable {
                        (
                            base.get(3).add(layout[0]).cast::<T>().add(block * copied).cast_const(),
                            self.row_stride,
                        )
                    } else {
                        let [offset, ..] = self.problem.offsets((start + block) / self.row_blocks);
                        let first = base.get(0).add((offset + of_block.start * a.row) * a.size);
                        (first.cast::<T>().cast_const(), a.row / self.scheme.kernel.terms)
                    };
                    self.multiply(
                        start + block,
                        panel,
                        rows,
                        [base.get(1), base.get(2), base.get(4), base.get(5)],
                        areas,
                    );
                }
                if let Some(block_epilogue) = &self.scheme.tile_epilogue.block_epilogue {
                    let vectors = self.vectors(panel);
                    let lanes = self.scheme.kernel.lanes;
                    let columns = vectors.start * lanes..(vectors.end * lanes).min(self.problem.n);
                    self.problem.areas((start + block) / self.row_blocks, of_block, columns, |area| {
                        // SAFETY: the area is inside c, and was just computed.
                        unsafe {
                            block_epilogue.run_on_box(
                                all.all(),
                                &area.origin[..area.rank],
                                &area.size[..area.rank],
                            );
                        }
                    });
                }
            });
        }
    }
}
