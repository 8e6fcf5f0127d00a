//! The arguments of the micro-kernel, and how operand A is addressed.

use crate::gemm::prefetch::{PREFETCH_WORDS, TilePrefetch, prefetch};
use crate::gemm::register::{Register, load};
use crate::simd::array;
use crate::simd::clip::Clip;

/// How the elements of operand A lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The terms of a row are contiguous, and `a_stride` is the stride of rows.
    Rows,
    /// A packed panel, or a transposed matrix: a term's rows are contiguous, and `a_stride` is the stride of
    /// terms.
    Panel,
}

/// Arguments of the micro-kernel: `to[r][j] = epilogue(from[r][j] + Σ a[r][l][t] · b[l][t][j])` over the depth l and
/// the taps t.
pub(crate) struct Tile<'a, T> {
    /// The first element of operand A, which has one value per row for each l and t.
    pub(crate) a: *const T,
    pub(crate) order: Order,
    pub(crate) a_stride: usize,
    /// The first row of operand B, whose columns are contiguous.
    pub(crate) b: *const T,
    /// Stride of l in operand B.
    pub(crate) b_stride: usize,
    /// Offset of each tap in the operand that is read in place: a single 0 for matrices. That is operand B,
    /// or operand A for an [`Lhs`] with [`Lhs::TAPS`].
    pub(crate) taps: &'a [usize],
    /// Stride of taps in operand B if the terms of a tap are adjacent in both operands, for an [`Lhs`] with [`Lhs::TAPS`]; 0 if
    /// the taps of a term are adjacent in operand B.
    pub(crate) tap_stride: usize,
    /// Offset of each row in operand A, for an [`Lhs`] with [`Lhs::TAPS`].
    pub(crate) rows: &'a [usize],
    /// Number of l.
    pub(crate) depth: usize,
    /// Whether upcoming rows of `b` are prefetched, because they are not in the L1 cache.
    pub(crate) prefetches: bool,
    /// What else to prefetch meanwhile.
    pub(crate) tile_prefetch: Option<&'a mut TilePrefetch>,
    /// Whether `to` and the residual are prefetched before the first term.
    pub(crate) prefetches_results: bool,
    /// Where to copy whole vectors of the rows of `b`, row after row; null to not copy. Requires a single
    /// tap, and always prefetches rows.
    pub(crate) keep: *mut T,
    /// Initial accumulators, and their row stride; null for zeros.
    pub(crate) from: *const T,
    pub(crate) from_stride: usize,
    pub(crate) epilogue: RegisterEpilogue<'a, T>,
    /// Where the results go; may be `from`.
    pub(crate) to: *mut T,
    pub(crate) to_stride: usize,
    /// The tiles to compute after this one, for an [`Lhs`] with [`Lhs::TAPS`]; the prefetch of other lines is only for one tile.
    pub(crate) next: NextTiles,
}

/// Tiles with the same operand B, and the strides of their other operands from tile to tile, in elements.
#[derive(Clone, Copy)]
pub(crate) struct NextTiles {
    pub(crate) count: usize,
    pub(crate) a: usize,
    pub(crate) from: usize,
    pub(crate) residual: usize,
    pub(crate) to: usize,
}

impl NextTiles {
    pub(crate) const NONE: Self = Self { count: 0, a: 0, from: 0, residual: 0, to: 0 };
}

impl<T> Tile<'_, T> {
    /// Moves on to the next tile.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        self.a = self.a.wrapping_add(self.next.a);
        self.from = self.from.wrapping_add(self.next.from);
        self.epilogue.residual = self.epilogue.residual.wrapping_add(self.next.residual);
        self.to = self.to.wrapping_add(self.next.to);
    }
}

impl<T> Tile<'_, T> {
    /// No terms: the defaults of most tiles.
    pub(crate) const EMPTY: Self = Self {
        a: std::ptr::null(),
        order: Order::Rows,
        a_stride: 0,
        b: std::ptr::null(),
        b_stride: 0,
        taps: &[0],
        tap_stride: 0,
        rows: &[],
        depth: 0,
        prefetches: false,
        tile_prefetch: None,
        prefetches_results: false,
        keep: std::ptr::null_mut(),
        from: std::ptr::null(),
        from_stride: 0,
        epilogue: RegisterEpilogue::NONE,
        to: std::ptr::null_mut(),
        to_stride: 0,
        next: NextTiles::NONE,
    };
}

/// What is computed on a tile's accumulators before they are stored, in this order.
#[derive(Clone, Copy)]
pub(crate) struct RegisterEpilogue<'a, T> {
    /// A value per row, and the stride of these values; null for none.
    pub(crate) bias: *const T,
    pub(crate) bias_stride: usize,
    /// A tile to add, and its row stride, which may be 0; null for none.
    pub(crate) residual: *const T,
    pub(crate) residual_stride: usize,
    /// A function of each value, with its parameters.
    pub(crate) function: Option<(&'a dyn TileFunction, [f64; 2])>,
    /// Whether the residual is added after the function instead of before.
    pub(crate) residual_last: bool,
    pub(crate) clip: Clip<T>,
}

/// A function of the values of a tile.
pub(crate) trait TileFunction: Sync {
    /// Computes values in place.
    ///
    /// # Safety
    /// There are `len` values of the type that the function is planned for, and the processor has its instructions.
    unsafe fn apply(&self, numbers: [f64; 2], values: *mut u8, len: usize);
}

impl<T> RegisterEpilogue<'_, T> {
    pub(crate) const NONE: Self = Self {
        bias: std::ptr::null(),
        bias_stride: 0,
        residual: std::ptr::null(),
        residual_stride: 0,
        function: None,
        residual_last: false,
        clip: Clip::Nothing,
    };

    /// Whether nothing is computed.
    pub(crate) fn is_none(&self) -> bool {
        self.bias.is_null()
            && self.residual.is_null()
            && self.function.is_none()
            && matches!(self.clip, Clip::Nothing)
    }
}

impl<T: Copy + 'static> RegisterEpilogue<'_, T> {
    /// Applies the epilogue to accumulators whose first column is `column`.
    ///
    /// # Safety
    /// The processor has the register's instructions; bias and residual are null or have the tile.
    #[inline(always)]
    pub(crate) unsafe fn apply<R: Register<Word = T>, const MR: usize, const NR: usize>(
        &self,
        acc: &mut [[R; NR]; MR],
        column: usize,
    ) {
        if !self.bias.is_null() {
            for (r, row) in acc.iter_mut().enumerate() {
                // SAFETY: the bias has a value for each row, and the processor the instructions.
                unsafe {
                    let bias = R::splat(self.bias.add(r * self.bias_stride).read_unaligned());
                    row.iter_mut().for_each(|acc| *acc = acc.plus(bias));
                }
            }
        }
        if !self.residual_last {
            // SAFETY: the residual is null or has the tile.
            unsafe { self.add_residual(acc, column) };
        }
        if let Some((function, numbers)) = self.function {
            // A copy, so that the accumulators stay in registers until here.
            let mut near = *acc;
            // SAFETY: the copy has this many values, and the processor the instructions.
            unsafe { function.apply(numbers, near.as_mut_ptr().cast(), MR * NR * R::LANES) };
            *acc = near;
        }
        if self.residual_last {
            // SAFETY: the residual is null or has the tile.
            unsafe { self.add_residual(acc, column) };
        }
        match self.clip {
            Clip::Nothing => {}
            Clip::Relu => {
                for row in acc {
                    for acc in row {
                        *acc = acc.relu();
                    }
                }
            }
            Clip::Clamp(low, high) => {
                for row in acc {
                    for acc in row {
                        *acc = acc.clamp(low, high);
                    }
                }
            }
        }
    }
}

impl<T: Copy + 'static> RegisterEpilogue<'_, T> {
    /// Adds the residual, if there is one.
    ///
    /// # Safety
    /// As [`Self::apply`].
    #[inline(always)]
    unsafe fn add_residual<R: Register<Word = T>, const MR: usize, const NR: usize>(
        &self,
        acc: &mut [[R; NR]; MR],
        column: usize,
    ) {
        if self.residual.is_null() {
            return;
        }
        for (r, row) in acc.iter_mut().enumerate() {
            // SAFETY: this function requires the instructions and the tile.
            unsafe {
                let residual = load::<R, NR>(self.residual.add(r * self.residual_stride + column));
                *row = array::zip(*row, residual, |acc, residual| acc.plus(residual));
            }
        }
    }
}

/// Operand A as a micro-kernel of `MR` rows reads it.
///
/// # Safety
/// The functions are `#[inline(always)]` and only need the register's instructions.
pub(crate) unsafe trait Lhs<R: Register, const MR: usize>: Copy {
    /// Whether [`Tile::taps`] and `a_stride`, the stride of l, address this operand. Operand B is then
    /// packed: a row of whole vectors per tap, and `b_stride` from one l to the next.
    const TAPS: bool = false;

    /// The rows of a tile.
    fn of(tile: &Tile<'_, R::Word>) -> Self;

    /// The value of row `row` for the term at offset `at`.
    ///
    /// # Safety
    /// The processor has the register's instructions, and the operand has the row and the term.
    unsafe fn get(&self, row: usize, at: usize) -> R;

    /// Offset of the next term, if taps address operand B.
    #[inline(always)]
    fn next(at: usize, _a_stride: usize) -> usize {
        at + 1
    }

    /// Prefetches a later term.
    #[inline(always)]
    fn prefetch(&self, _at: usize, _a_stride: usize) {}
}

/// [`Order::Rows`].
#[derive(Clone, Copy)]
pub(crate) struct Rows<T, const MR: usize>([*const T; MR]);

// SAFETY: a broadcast element is a function of the register.
unsafe impl<R: Register, const MR: usize> Lhs<R, MR> for Rows<R::Word, MR> {
    #[inline(always)]
    fn of(tile: &Tile<'_, R::Word>) -> Self {
        Self(array::from_fn(|row| tile.a.wrapping_add(row * tile.a_stride)))
    }

    #[inline(always)]
    unsafe fn get(&self, row: usize, at: usize) -> R {
        // SAFETY: this function requires the instructions and the term.
        unsafe { R::splat(self.0[row].add(at).read_unaligned()) }
    }
}

/// [`Order::Panel`].
#[derive(Clone, Copy)]
pub(crate) struct Panel<T>(*const T);

// SAFETY: a broadcast element is a function of the register.
unsafe impl<R: Register, const MR: usize> Lhs<R, MR> for Panel<R::Word> {
    #[inline(always)]
    fn of(tile: &Tile<'_, R::Word>) -> Self {
        Self(tile.a)
    }

    #[inline(always)]
    unsafe fn get(&self, row: usize, at: usize) -> R {
        // SAFETY: this function requires the instructions and the term.
        unsafe { R::splat(self.0.add(at + row).read_unaligned()) }
    }

    #[inline(always)]
    fn next(at: usize, a_stride: usize) -> usize {
        at + a_stride
    }

    #[inline(always)]
    fn prefetch(&self, at: usize, _a_stride: usize) {
        prefetch(self.0.wrapping_add(at + PREFETCH_WORDS));
    }
}

/// Rows at arbitrary offsets: [`Tile::rows`].
#[derive(Clone, Copy)]
pub(crate) struct Gathered<T, const MR: usize>([*const T; MR]);

// SAFETY: a broadcast element is a function of the register.
unsafe impl<R: Register, const MR: usize> Lhs<R, MR> for Gathered<R::Word, MR> {
    const TAPS: bool = true;

    #[inline(always)]
    fn of(tile: &Tile<'_, R::Word>) -> Self {
        Self(array::from_fn(|row| tile.a.wrapping_add(tile.rows[row])))
    }

    #[inline(always)]
    unsafe fn get(&self, row: usize, at: usize) -> R {
        // SAFETY: this function requires the instructions and the term.
        unsafe { R::splat(self.0[row].wrapping_add(at).read_unaligned()) }
    }
}
