//! The micro-kernel's loops over the terms of a tile, for a register type and a constant tile size.

#![expect(clippy::needless_range_loop, reason = "iterators over registers are calls, see `simd::array`")]

use std::marker::PhantomData;

use crate::gemm::prefetch::{
    PREFETCH_BYTES_OF_LINE, PREFETCH_ROWS, PREFETCH_WORDS, prefetch, prefetch_to_l2, prefetch_to_write,
};
use crate::gemm::register::{Register, load};
use crate::gemm::tile::{Lhs, RegisterEpilogue, Tile};
use crate::simd::CACHE_LINE;
use crate::simd::isa::IsaTask;

/// How many terms are added to a line's accumulators together: as many rows of B are read at once, each from
/// start to end.
const LINE_TERMS: usize = 8;

/// From this many rows on, multiplications hide prefetches that are not needed. Such tiles have no loop without.
const HIDING_ROWS: usize = 4;

/// Whether a tile's loop prefetches in any case. With few registers reads limit it, and hardware prefetches packed weights.
const fn hides_prefetches<R: Register, A: Lhs<R, MR>, const MR: usize>() -> bool {
    MR >= HIDING_ROWS && !(A::TAPS && size_of::<R>() == BYTES_OF_SIXTEEN)
}

/// A tile of one size.
struct TileTask<'t, 'a, R: Register, A, const MR: usize, const NR: usize>(
    &'t mut Tile<'a, R::Word>,
    PhantomData<A>,
);

impl<R: Register, A: Lhs<R, MR>, const MR: usize, const NR: usize> IsaTask
    for TileTask<'_, '_, R, A, MR, NR>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let tile = self.0;
        // Other operands' tiles do not follow one another with constant strides.
        let mut left = if A::TAPS { tile.next.count } else { 0 };
        loop {
            compute::<R, A, MR, NR>(tile);
            if left == 0 {
                return;
            }
            left -= 1;
            tile.advance();
        }
    }
}

/// Computes a tile.
#[inline(always)]
fn compute<R: Register, A: Lhs<R, MR>, const MR: usize, const NR: usize>(tile: &mut Tile<'_, R::Word>) {
    if tile.prefetches_results {
        let RegisterEpilogue { residual, residual_stride, .. } = tile.epilogue;
        for r in 0..MR {
            let to = tile.to.wrapping_add(r * tile.to_stride);
            (0..NR).for_each(|v| prefetch_to_write(to.wrapping_add(v * R::LANES)));
            if !residual.is_null() {
                prefetch_row::<R, NR>(residual.wrapping_add(r * residual_stride));
            }
        }
    }
    // SAFETY: `run_tile` is called with the register's instructions.
    let mut acc = [[unsafe { R::zero() }; NR]; MR];
    if !tile.from.is_null() {
        for (r, row) in acc.iter_mut().enumerate() {
            // SAFETY: if `from` is given, it has all rows of the tile.
            *row = unsafe { load(tile.from.add(r * tile.from_stride)) };
        }
    }
    let mut position = Position { a: A::of(tile), at: 0, b: tile.b, keep: tile.keep };
    let (taps, mut left) = (tile.taps, tile.depth);
    if A::TAPS && unrolls::<R>(MR) && tile.tap_stride > 0 {
        for (index, tap) in taps.iter().enumerate() {
            position.at = *tap;
            position.b = tile.b.wrapping_add(index * tile.tap_stride);
            // SAFETY: `run_tile` is called with `depth` adjacent terms of both operands for each tap.
            unsafe { position.multiply::<R, MR, NR, false>(left, &[0], [1, NR * R::LANES], &mut acc) };
        }
        left = 0;
    }
    while left > 0 {
        let run = tile.tile_prefetch.as_ref().map_or(left, |prefetch| prefetch.until(left));
        left -= run;
        let strides = [tile.a_stride, tile.b_stride];
        // SAFETY: `run_tile` is called with `depth` terms of both operands for each tap.
        unsafe {
            if let [tap] = taps {
                let tap = &[*tap];
                if tile.prefetches || hides_prefetches::<R, A, MR>() || !position.keep.is_null() {
                    position.multiply::<R, MR, NR, true>(run, tap, strides, &mut acc);
                } else {
                    position.multiply::<R, MR, NR, false>(run, tap, strides, &mut acc);
                }
            } else if A::TAPS && tile.prefetches {
                position.multiply::<R, MR, NR, true>(run, taps, strides, &mut acc);
            } else {
                position.multiply::<R, MR, NR, false>(run, taps, strides, &mut acc);
            }
        }
        if let Some(prefetch) = &mut tile.tile_prefetch {
            prefetch.prefetch();
        }
    }
    // SAFETY: bias and residual are null or cover the tile.
    unsafe { tile.epilogue.apply(&mut acc, 0) };
    for (r, row) in acc.iter().enumerate() {
        // SAFETY: the result has room for the tile.
        unsafe { store(row, tile.to.add(r * tile.to_stride)) };
    }
}

/// Progress within a tile.
struct Position<A, T> {
    a: A,
    /// Offset of the next term in operand A.
    at: usize,
    b: *const T,
    keep: *mut T,
}

impl<A, T: Copy + 'static> Position<A, T> {
    /// Adds the products of `run` more terms l and all taps.
    ///
    /// # Safety
    /// As [`Context::run`](crate::gemm::context::Context::run).
    #[inline(always)]
    unsafe fn multiply<R: Register<Word = T>, const MR: usize, const NR: usize, const PREFETCH: bool>(
        &mut self,
        run: usize,
        taps: &(impl AsRef<[usize]> + ?Sized),
        [a_stride, b_stride]: [usize; 2],
        acc: &mut [[R; NR]; MR],
    ) where
        A: Lhs<R, MR>,
    {
        let is_adjacent =
            if A::TAPS { a_stride == 1 } else { A::next(0, 2) == 1 } && b_stride == NR * R::LANES;
        let is_unrolled = unrolls::<R>(MR) && self.keep.is_null();
        let mut left = run;
        if let ([tap], true, true) = (taps.as_ref(), is_unrolled, is_adjacent) {
            let (of_a, of_b) = if A::TAPS { (*tap, 0) } else { (0, *tap) };
            while left >= UNROLLED {
                let (at, b) = (self.at.wrapping_add(of_a), self.b.wrapping_add(of_b));
                // SAFETY: this function requires the instructions and the terms, which are adjacent in both operands.
                unsafe { eight_terms::<R, A, MR, NR, PREFETCH>(&self.a, at, b, acc) };
                self.at = self.at.wrapping_add(UNROLLED);
                self.b = self.b.wrapping_add(UNROLLED * b_stride);
                left -= UNROLLED;
            }
        }
        for _ in 0..left {
            let mut packed = self.b;
            for tap in taps.as_ref() {
                let (at, b) = if A::TAPS {
                    (self.at.wrapping_add(*tap), packed)
                } else {
                    (self.at, self.b.wrapping_add(*tap))
                };
                if PREFETCH {
                    // Rows are often in different pages, where hardware prefetching does not follow.
                    let offset = if A::TAPS { PREFETCH_WORDS } else { PREFETCH_ROWS * b_stride };
                    if MR == 1 && !A::TAPS {
                        let of_packed = PREFETCH_BYTES_OF_LINE / size_of::<T>();
                        let offset = if b_stride == NR * R::LANES { of_packed } else { offset };
                        (0..NR).for_each(|v| prefetch_to_l2(b.wrapping_add(offset + v * R::LANES)));
                    } else {
                        prefetch_row::<R, NR>(b.wrapping_add(offset));
                    }
                    self.a.prefetch(at, a_stride);
                }
                // SAFETY: this function requires the instructions, the terms and the rows.
                unsafe {
                    let columns = load::<R, NR>(b);
                    if PREFETCH && !A::TAPS && !self.keep.is_null() {
                        store(&columns, self.keep);
                        self.keep = self.keep.add(NR * R::LANES);
                    }
                    multiply(&self.a, at, columns, acc);
                }
                if A::TAPS {
                    packed = packed.wrapping_add(NR * R::LANES);
                } else {
                    self.at = A::next(self.at, a_stride);
                }
            }
            self.b = self.b.wrapping_add(b_stride);
            if A::TAPS {
                self.at = self.at.wrapping_add(a_stride);
            }
        }
    }
}

/// Whether loops of a register type and a number of rows add [`UNROLLED`] adjacent terms in an iteration.
pub(crate) const fn unrolls<R: Register>(rows: usize) -> bool {
    size_of::<R>() == BYTES_OF_SIXTEEN && rows >= HIDING_ROWS
}

/// Terms in an iteration of loops with few registers. Few iterations are predicted to the last one, and cost few other instructions.
pub(crate) const UNROLLED: usize = 8;

/// Adds the products of eight terms that are adjacent in both operands.
///
/// # Safety
/// The operands have the terms, and the processor has the register's instructions.
#[inline(always)]
unsafe fn eight_terms<R: Register, A: Lhs<R, MR>, const MR: usize, const NR: usize, const PREFETCH: bool>(
    a: &A,
    at: usize,
    b: *const R::Word,
    acc: &mut [[R; NR]; MR],
) {
    // Not a loop: the compiler need not unroll it.
    macro_rules! add {
        ($($term:literal)*) => { $( {
            let b = b.wrapping_add($term * NR * R::LANES);
            if PREFETCH {
                prefetch_row::<R, NR>(b.wrapping_add(PREFETCH_ROWS * NR * R::LANES));
            }
            // SAFETY: this function requires the instructions and the terms.
            unsafe { multiply(a, at.wrapping_add($term), load::<R, NR>(b), acc) };
        } )* };
    }
    add!(0 1 2 3 4 5 6 7);
}

/// Prefetches a row of vectors; it need not exist.
#[inline(always)]
fn prefetch_row<R: Register, const NR: usize>(row: *const R::Word) {
    let step = CACHE_LINE / size_of::<R::Word>();
    (0..(NR * R::LANES).div_ceil(step)).for_each(|line| prefetch(row.wrapping_add(line * step)));
}

/// Stores a row of vectors.
///
/// # Safety
/// `to` is writable for `NR` vectors, and the processor has the register's instructions.
#[inline(always)]
pub(crate) unsafe fn store<R: Register, const NR: usize>(row: &[R; NR], to: *mut R::Word) {
    for v in 0..NR {
        // SAFETY: this function requires the instructions and the row.
        unsafe { row[v].store(to.add(v * R::LANES)) };
    }
}

/// Adds the products of the term at offset `at` of each row and the columns.
///
/// # Safety
/// The rows have the term, and the processor has the register's instructions.
#[inline(always)]
pub(crate) unsafe fn multiply<R: Register, A: Lhs<R, MR>, const MR: usize, const NR: usize>(
    a: &A,
    at: usize,
    b: [R; NR],
    acc: &mut [[R; NR]; MR],
) {
    for r in 0..MR {
        // SAFETY: this function requires the instructions and the term.
        let a = unsafe { a.get(r, at) };
        if size_of::<R>() == BYTES_OF_SIXTEEN && MR * NR + NR + 2 >= REGISTERS {
            // A later row's value, read earlier, has no register: an accumulator would pass through memory.
            for v in 0..NR {
                acc[r][v] = acc[r][v].add_product_in_order(a, b[v]);
            }
        } else {
            multiply_row(a, b, &mut acc[r]);
        }
    }
}

/// Registers of instruction sets with as many bytes in each: AVX2.
const REGISTERS: usize = 16;
const BYTES_OF_SIXTEEN: usize = 32;

/// Adds the products of one term and the columns.
#[inline(always)]
pub(crate) fn multiply_row<R: Register, const NR: usize>(a: R, b: [R; NR], acc: &mut [R; NR]) {
    for v in 0..NR {
        acc[v] = acc[v].add_product(a, b[v]);
    }
}

/// One row of any number of vectors, with accumulators in memory.
struct LineTask<'t, 'a, R: Register>(&'t Tile<'a, R::Word>, usize);

impl<R: Register> IsaTask for LineTask<'_, '_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(Tile { a, b, b_stride, depth, from, epilogue, to, .. }, vectors) = self;
        let whole = depth - depth % LINE_TERMS;
        for v in (0..vectors).map(|v| v * R::LANES) {
            // SAFETY: `run_line` is called with room for as many vectors in the result, and in `from` if
            // given.
            unsafe {
                let acc = if from.is_null() { R::zero() } else { R::load(from.add(v)) };
                acc.store(to.add(v));
            }
        }
        let row = |l: usize| (b.wrapping_add(l * b_stride), *b_stride);
        for l in (0..whole).step_by(LINE_TERMS) {
            // SAFETY: A has `depth` terms, and B as many rows of vectors.
            unsafe { line_terms::<R, LINE_TERMS>(a.add(l), row(l), *to, vectors) };
        }
        for l in whole..*depth {
            // SAFETY: A has `depth` terms, and B as many rows of vectors.
            unsafe { line_terms::<R, 1>(a.add(l), row(l), *to, vectors) };
        }
        if epilogue.is_none() {
            return;
        }
        for v in (0..vectors).map(|v| v * R::LANES) {
            // SAFETY: the vectors were stored above; bias and residual are null or have as many.
            unsafe {
                let mut acc = [[R::load(to.add(v))]];
                epilogue.apply(&mut acc, v);
                acc[0][0].store(to.add(v));
            }
        }
    }
}

/// Adds some terms to the accumulators of a line.
///
/// # Safety
/// The terms, as many rows of vectors and the accumulators are valid, and the processor has the register's
/// instructions.
#[inline(always)]
unsafe fn line_terms<R: Register, const TERMS: usize>(
    a: *const R::Word,
    (b, b_stride): (*const R::Word, usize),
    to: *mut R::Word,
    vectors: usize,
) {
    // SAFETY: this function requires the instructions, the terms, the rows and the accumulators.
    unsafe {
        let mut terms = [R::zero(); TERMS];
        for (l, term) in terms.iter_mut().enumerate() {
            *term = R::splat(a.add(l).read_unaligned());
        }
        for v in 0..vectors {
            let to = to.add(v * R::LANES);
            let mut acc = R::load(to);
            for (l, term) in terms.iter().enumerate() {
                acc = acc.add_product(*term, R::load(b.wrapping_add(l * b_stride + v * R::LANES)));
            }
            acc.store(to);
        }
    }
}

/// The tiles of a register type. These are methods of the type because rustc compiles a method in the codegen unit
/// of its type's module: tiles are most of the kernels' code, and each type's are compiled beside the others'.
pub(crate) trait RunTiles: Register {
    /// Computes a line.
    ///
    /// # Safety
    /// As [`Context::run`](crate::gemm::context::Context::run).
    unsafe fn run_line(tile: &Tile<'_, Self::Word>, vectors: usize) {
        // SAFETY: this function requires the instructions.
        unsafe { Self::run(LineTask::<Self>(tile, vectors)) };
    }

    /// Computes a tile of one size.
    ///
    /// # Safety
    /// As [`Context::run`](crate::gemm::context::Context::run).
    unsafe fn run_tile<A: Lhs<Self, MR>, const MR: usize, const NR: usize>(tile: &mut Tile<'_, Self::Word>) {
        // SAFETY: this function requires the instructions.
        unsafe { Self::run(TileTask::<Self, A, MR, NR>(tile, PhantomData)) };
    }
}

impl<R: Register> RunTiles for R {}
