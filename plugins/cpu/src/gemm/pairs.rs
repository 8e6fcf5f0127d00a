//! Operands of 16 bits, multiplied two terms at a time.
//!
//! A word holds terms 2l and 2l + 1 of a row of operand A or a column of operand B, the first in the lower
//! half.

#![cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "other processors have no instructions for pairs")
)]

use half::bf16;
#[cfg(target_arch = "x86_64")]
use hipdnn_plugin_sdk::cpu_isa::CpuIsa;

#[cfg(target_arch = "x86_64")]
pub(crate) use self::x86::Bfloat16Pairs;
#[cfg(target_arch = "x86_64")]
use crate::gemm::amx;
use crate::gemm::pack::PackSource;
use crate::gemm::prefetch::{PREFETCH_ROWS, prefetch_all};
use crate::simd::convert;
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::vector::{Vector, VectorTask};

/// Which pair instructions the processor has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pairs {
    /// For `bfloat16`, with accumulators in single precision.
    pub(crate) bfloat16: bool,
    /// Whether hardware tiles may multiply them, too.
    tiles: bool,
}

impl Pairs {
    /// The pair instructions of this processor, given the instruction set.
    pub(crate) fn of(isa: Isa) -> Self {
        #[cfg(target_arch = "x86_64")]
        if isa == Isa::Avx512 {
            let bfloat16 = CpuIsa::Avx512Bf16.is_available();
            return Self { bfloat16, tiles: bfloat16 };
        }
        let _ = isa;
        Self::default()
    }
}

#[cfg(target_arch = "x86_64")]
impl Pairs {
    /// Whether hardware tiles multiply `bfloat16`. Ask only for operands of that type, since the first question may
    /// request a permission from the system.
    pub(crate) fn has_tiles(self) -> bool {
        self.tiles && amx::is_available(amx::Terms::Bfloat16)
    }
}

/// An element that fills half a word.
pub(crate) trait PairElement: std::marker::Copy + Send + Sync + 'static {
    /// The half of a word.
    fn bits(self) -> u16;
}

impl PairElement for bf16 {
    #[inline(always)]
    fn bits(self) -> u16 {
        self.to_bits()
    }
}

/// The word of two elements.
pub(crate) fn word(first: u16, second: u16) -> u32 {
    u32::from(first) | u32::from(second) << 16
}

/// # Safety
/// As [`Pack`](crate::gemm::pack::Pack), with the row stride in words.
unsafe fn pack_left<S: PairElement, T>(isa: Isa, copy: &PackSource, to: *mut T) {
    // SAFETY: this function requires the instruction set, the matrix and the room for the result.
    unsafe { isa.run(Left::<S> { copy, from: copy.from.cast(), to: to.cast() }) };
}

/// # Safety
/// As [`Pack`](crate::gemm::pack::Pack), with half as many rows in the copy.
unsafe fn pack_right<S: PairElement, T>(isa: Isa, copy: &PackSource, to: *mut T) {
    // SAFETY: this function requires the instruction set, the matrix and the room for the result.
    unsafe { isa.run_vectors(Right::<S> { copy, from: copy.from.cast(), to: to.cast() }) };
}

struct Left<'a, S> {
    copy: &'a PackSource,
    from: *const S,
    to: *mut u32,
}

impl<S: PairElement> IsaTask for Left<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { copy: PackSource { rows, row, columns, column, row_stride, .. }, from, to } = self;
        for i in 0..*rows {
            // SAFETY: `pack_left` is called with a readable matrix and room for the copy.
            unsafe {
                let (from, to) = (from.add(i * row), to.add(i * row_stride).cast::<u16>());
                if *column == 1 {
                    for j in 0..*columns {
                        to.add(j).write(from.add(j).read_unaligned().bits());
                    }
                } else {
                    for j in 0..*columns {
                        to.add(j).write(from.add(j * column).read_unaligned().bits());
                    }
                }
                if !columns.is_multiple_of(2) {
                    to.add(*columns).write(0);
                }
            }
        }
    }
}

struct Right<'a, S> {
    copy: &'a PackSource,
    from: *const S,
    to: *mut u32,
}

/// Columns that are read in parallel if a row's elements are not contiguous.
const STREAMS: usize = 16;

impl<S: PairElement> VectorTask<f32> for Right<'_, S> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = f32>>(self) {
        let PackSource { rows, row, columns, column, width, row_stride, .. } = *self.copy;
        let pairs = rows / 2;
        if column == 1 {
            // SAFETY: `pack_right` is called with a readable matrix, whose columns are contiguous, and room for the copy.
            unsafe { self.pack_contiguous(pairs) };
        } else {
            // SAFETY: `pack_right` is called with a readable matrix and room for the copy.
            unsafe { self.pack_strided(V::ISA, pairs) };
        }
        if rows > 2 * pairs {
            // SAFETY: the matrix has one row after the pairs, and the copy room for it.
            unsafe {
                let (from, to) = (self.from.add(2 * pairs * row), self.to.add(pairs * row_stride));
                for j in 0..columns {
                    to.add(j).write(word(from.add(j * column).read_unaligned().bits(), 0));
                }
            }
        }
        if columns < width {
            for l in 0..rows.div_ceil(2) {
                // SAFETY: each row of the copy has room for the width.
                unsafe { self.to.add(l * row_stride + columns).write_bytes(0, width - columns) };
            }
        }
    }
}

impl<S: PairElement> Right<'_, S> {
    /// Packs pairs of rows whose columns are contiguous.
    ///
    /// # Safety
    /// The matrix is readable and has such columns, and the copy has room for the pairs.
    #[inline(always)]
    unsafe fn pack_contiguous(&self, pairs: usize) {
        let PackSource { row, columns, row_stride, .. } = *self.copy;
        for l in 0..pairs {
            // SAFETY: the matrix has both rows, and the copy room for the pair.
            unsafe {
                let (first, second) = (self.from.add(2 * l * row), self.from.add((2 * l + 1) * row));
                for from in [first, second] {
                    prefetch_all(from.wrapping_add(PREFETCH_ROWS * row), columns);
                }
                let to = self.to.add(l * row_stride);
                for j in 0..columns {
                    let pair = (first.add(j).read_unaligned(), second.add(j).read_unaligned());
                    to.add(j).write(word(pair.0.bits(), pair.1.bits()));
                }
            }
        }
    }

    /// Packs pairs of rows, a few columns at a time.
    ///
    /// # Safety
    /// The matrix is readable, and the copy has room for the pairs.
    #[inline(always)]
    unsafe fn pack_strided(&self, isa: Isa, pairs: usize) {
        let PackSource { row, columns, column, row_stride, .. } = *self.copy;
        for first in (0..columns).step_by(STREAMS) {
            let present = (columns - first).min(STREAMS);
            // SAFETY: the matrix has the columns, and the copy room for them.
            let done = unsafe { self.transpose(isa, pairs, (first, present)) };
            for l in done..pairs {
                // SAFETY: the matrix has both rows with these columns, and the copy room for the pair.
                unsafe {
                    let (from, to) = (self.from.add(2 * l * row), self.to.add(l * row_stride));
                    for j in first..first + present {
                        let at = from.add(j * column);
                        let pair = (at.read_unaligned(), at.add(row).read_unaligned());
                        to.add(j).write(word(pair.0.bits(), pair.1.bits()));
                    }
                }
            }
        }
    }

    /// Transposes columns whose pairs are contiguous, as words in blocks. Returns how many pairs are done.
    ///
    /// # Safety
    /// The matrix has `present` columns from `first` on, and the copy room for them.
    #[inline(always)]
    unsafe fn transpose(&self, isa: Isa, pairs: usize, (first, present): (usize, usize)) -> usize {
        let PackSource { row, column, width, row_stride, .. } = *self.copy;
        if row != 1 || !column.is_multiple_of(2) {
            return 0;
        }
        let side = convert::block::<f32, f32>(isa);
        if side == 0 || !(width - first).min(STREAMS).is_multiple_of(side) {
            return 0;
        }
        let done = pairs - pairs % side;
        for l in (0..done).step_by(side) {
            for j in (0..present).step_by(side) {
                // SAFETY: the matrix has the block, and the copy room for it.
                unsafe {
                    let from = self.from.add(first * column).cast::<f32>();
                    let block = (from.add(j * (column / 2) + l), column / 2);
                    let to = self.to.add(l * row_stride + first + j).cast::<f32>();
                    convert::transpose(isa, block, (present - j).min(side), (to, row_stride));
                }
            }
        }
        done
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use half::bf16;
    use hipdnn_plugin_sdk::graph::DataType;

    use super::{pack_left, pack_right};
    use crate::gemm::kernel::{MAX_ROWS, MAX_VECTORS, MicroKernel, RunTile, TileTable, Tiles, WIDE_ROWS};
    use crate::gemm::multiply::RunTiles;
    use crate::gemm::pack::{Pack, Store, store_of};
    use crate::gemm::register::Register;
    use crate::gemm::tile::Rows;
    use crate::kernel::Refusal;
    use crate::simd::isa::IsaTask;
    use crate::simd::vector::{Vector, by_contract, of_values};
    use crate::simd::x86::F32x16;

    #[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    fn run_bfloat16<W: IsaTask>(task: W) -> W::Output {
        task.run()
    }

    /// A register of single-precision accumulators, or of pairs of `bfloat16`.
    #[derive(Clone, Copy)]
    pub(crate) struct Bfloat16Pairs(F32x16);

    impl Bfloat16Pairs {
        #[inline(always)]
        fn pairs(self) -> __m512bh {
            // SAFETY: the types have as many bits, and any bits are values of both.
            unsafe { std::mem::transmute::<__m512, __m512bh>(self.0.0) }
        }
    }

    // SAFETY: the functions only need the instructions that `run` compiles for.
    unsafe impl Register for Bfloat16Pairs {
        type Word = f32;
        const LANES: usize = 16;

        by_contract! {
            fn zero() -> Self { Self(<F32x16 as Vector>::zero()) }
            fn splat(word: f32) -> Self { Self(<F32x16 as Vector>::splat(word)) }
            fn load(from: *const f32) -> Self { Self(<F32x16 as Vector>::load(from)) }
            fn store(self: Self, to: *mut f32) { Vector::store(self.0, to) }
            fn run<W: IsaTask>(task: W) -> W::Output { run_bfloat16(task) }
        }

        of_values! {
            fn add_product(self: Self, a: Self, b: Self) -> Self {
                Self(F32x16(_mm512_dpbf16_ps(self.0.0, a.pairs(), b.pairs())))
            }
        }

        #[inline(always)]
        fn plus(self, other: Self) -> Self {
            Self(self.0.plus(other.0))
        }

        #[inline(always)]
        fn relu(self) -> Self {
            Self(self.0.relu())
        }

        #[inline(always)]
        fn clamp(self, low: Self::Word, high: Self::Word) -> Self {
            Self(Register::clamp(self.0, low, high))
        }
    }

    // SAFETY: tiles and routines only use the register's functions.
    unsafe impl MicroKernel for Bfloat16Pairs {
        const MR: usize = MAX_ROWS;
        const VECTORS: usize = MAX_VECTORS;
        const WIDE: usize = 12;
        const TERMS: usize = 2;
        const TILES: Tiles<f32> = TileTable::<Self>::EIGHT;
        const RUN_WIDE: RunTile<f32> = Self::run_tile::<Rows<f32, WIDE_ROWS>, WIDE_ROWS, 12>;

        fn pack_lhs(name: &str, data_type: DataType) -> Result<Pack<f32>, Refusal> {
            match data_type {
                DataType::Bfloat16 => Ok(pack_left::<bf16, f32>),
                other => Err(format!("{name}: data type is {}, expected bfloat16", other.name())),
            }
        }

        fn pack_rhs(name: &str, data_type: DataType) -> Result<Pack<f32>, Refusal> {
            match data_type {
                DataType::Bfloat16 => Ok(pack_right::<bf16, f32>),
                other => Err(format!("{name}: data type is {}, expected bfloat16", other.name())),
            }
        }

        fn store_as(name: &str, data_type: DataType) -> Result<Store<f32>, Refusal> {
            store_of(name, data_type)
        }
    }
}
