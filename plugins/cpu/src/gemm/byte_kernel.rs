//! 8-bit operands, multiplied four terms at a time.
//!
//! A word holds the terms 4l to 4l + 3 of a row of operand A or a column of operand B, the first in the
//! lowest byte. The instructions require unsigned bytes in operand A and signed ones in operand B, so packing
//! shifts operands of the other kind by 128. Sums are exact as long as they fit in 32 bits.

#[cfg(target_arch = "x86_64")]
use hipdnn_plugin_sdk::cpu_isa::CpuIsa;

#[cfg(target_arch = "x86_64")]
use crate::gemm::amx;
use crate::gemm::byte_tile::ByteTile;
#[cfg(target_arch = "x86_64")]
use crate::gemm::byte_tile::GROUP;
use crate::gemm::multiply::multiply_row;
use crate::gemm::register::{Register, load};
use crate::simd::array;
use crate::simd::isa::{Isa, IsaTask, run_portable};

/// The most groups in a panel.
pub(crate) const MAX_GROUPS: usize = 3;

/// Rows of the largest tile of any form.
pub(crate) const MAX_ROWS: usize = 32;

/// How bytes are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The baseline of the target.
    Portable,
    /// Products of 16 bits, added in pairs.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-VNNI: dot products of four bytes, 256 bits wide.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    /// AVX-512 VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    /// AMX: tiles of 16 rows.
    #[cfg(target_arch = "x86_64")]
    Amx,
}

impl Form {
    /// Whether instructions multiply tiles of matrices.
    pub(crate) fn has_tiles(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self == Self::Amx;
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// The forms that this processor supports with an instruction set, the fastest last.
    pub(crate) fn available(isa: Isa) -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "the target has no other form"))]
        let mut forms = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        if isa != Isa::Portable {
            forms.push(Self::Avx2);
            if CpuIsa::Avx2Vnni.is_available() {
                forms.push(Self::AvxVnni);
            }
            if isa == Isa::Avx512 && CpuIsa::Avx512Vnni.is_available() {
                forms.push(Self::Avx512Vnni);
                if amx::is_available(amx::Terms::Unsigned) {
                    forms.push(Self::Amx);
                }
            }
        }
        let _ = isa;
        forms
    }

    /// The fastest form for tiles of at most this many rows.
    pub(crate) fn fastest(isa: Isa, rows: usize) -> Self {
        let forms = Self::available(isa);
        let is_worth = |form: &&Self| rows >= form.least_rows();
        forms.iter().rev().find(is_worth).copied().unwrap_or(Self::Portable)
    }

    /// From this many rows on, the form is faster than the previous one. AMX always computes 16 at a time.
    fn least_rows(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx => 3,
            _ => 0,
        }
    }

    /// The name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => "AVX-VNNI",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => "AVX-512 VNNI",
            #[cfg(target_arch = "x86_64")]
            Self::Amx => "AMX",
        }
    }

    /// Estimated nanoseconds of a multiply-add.
    pub(crate) fn time(self) -> f64 {
        let per_nanosecond = match self {
            Self::Portable => 4.0,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 18.0,
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => 80.0,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => 180.0,
            #[cfg(target_arch = "x86_64")]
            Self::Amx => 500.0,
        };
        1.0 / per_nanosecond
    }
}

type RunTile = unsafe fn(&ByteTile);

/// By rows minus 1, and by groups minus 1.
type Tiles = &'static [[RunTile; MAX_GROUPS]];

/// The micro-kernel of a form.
#[derive(Clone, Copy)]
pub(crate) struct ByteKernel {
    pub(crate) form: Form,
    /// Rows of the largest tile (MR).
    pub(crate) rows: usize,
    /// Groups of columns in its rows (NR is `groups * GROUP`).
    pub(crate) groups: usize,
    /// Packed rows and columns are padded with zeros to a multiple of this many terms.
    pub(crate) terms: usize,
    /// Tiles read multiples of this many rows.
    pub(crate) row_step: usize,
    /// Whether operand A may be signed.
    pub(crate) takes_signed: bool,
    tiles: Tiles,
}

impl ByteKernel {
    /// The micro-kernel of a form that the processor has.
    pub(crate) fn of(form: Form) -> Self {
        let (tiles, groups): (Tiles, usize) = match form {
            Form::Portable => (TileTable::<Portable, 4>::FOUR, 1),
            #[cfg(target_arch = "x86_64")]
            Form::Avx2 => (TileTable::<x86::Avx2, 2>::FOUR, 1),
            #[cfg(target_arch = "x86_64")]
            Form::AvxVnni => (TileTable::<x86::AvxVnni, 2>::FOUR, 1),
            #[cfg(target_arch = "x86_64")]
            Form::Avx512Vnni => (TileTable::<x86::Avx512Vnni, 1>::EIGHT, MAX_GROUPS),
            #[cfg(target_arch = "x86_64")]
            Form::Amx => return Self::amx(),
        };
        Self { form, rows: tiles.len(), groups, terms: 4, row_step: 1, takes_signed: false, tiles }
    }

    #[cfg(target_arch = "x86_64")]
    fn amx() -> Self {
        let (rows, groups, terms) = (MAX_ROWS, MAX_ROWS / amx::SIDE, 4 * amx::WORDS);
        Self { form: Form::Amx, rows, groups, terms, row_step: amx::SIDE, takes_signed: true, tiles: &[] }
    }

    /// Computes a tile of `rows` rows and `groups` groups of columns: at least 1 and at most those of the kernel.
    ///
    /// # Safety
    /// The processor has the form. Operand A has the rows, rounded up to `row_step`, and `words` words in each; operand B has the
    /// words of each column, and `to` has room for as many rows and columns. For AMX, [`Session`](crate::gemm::session::Session) is alive on this thread.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, tile: &ByteTile, rows: usize, groups: usize) {
        // SAFETY: operands and room are those of the tile, and the processor has the form, as this function requires.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if self.form == Form::Amx {
                return run_amx(tile, rows, groups);
            }
            self.tiles[rows - 1][groups - 1](tile);
        }
    }
}

/// Computes a tile by AMX, rows 16 at a time.
///
/// # Safety
/// As [`ByteKernel::run`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn run_amx(tile: &ByteTile, rows: usize, groups: usize) {
    let stride = 4 * tile.to_stride;
    let product = amx::Product {
        a: tile.a,
        second_a: tile.a.wrapping_add(amx::SIDE * tile.a_stride),
        a_stride: tile.a_stride,
        b: tile.b,
        b_stride: 4 * groups * GROUP,
        words: tile.words,
        taps: amx::MATRIX.as_ptr_range().start,
        taps_end: amx::MATRIX.as_ptr_range().end,
        from: std::ptr::null(),
        second_from: std::ptr::null(),
        from_stride: 0,
        to: tile.to.cast(),
        second_to: tile.to.cast::<u8>().wrapping_add(amx::SIDE * stride),
        to_stride: stride,
    };
    let terms = if tile.is_signed { amx::Terms::Signed } else { amx::Terms::Unsigned };
    // SAFETY: the tiles are configured, and the operands have the rows and columns, as `run` requires.
    unsafe { amx::run(&product, terms, [rows > amx::SIDE, groups > 1]) };
}

/// The tiles of a register type; `VECTORS` registers are a group.
struct TileTable<R, const VECTORS: usize>(R);

/// The tiles of this many rows, for up to three groups; if only one group is possible, all are the same.
macro_rules! rows {
    (one $register:ty, $vectors:expr, $rows:literal) => {
        [run_tile::<$register, $rows, $vectors>; MAX_GROUPS]
    };
    (three $register:ty, $rows:literal) => {
        [run_tile::<$register, $rows, 1>, run_tile::<$register, $rows, 2>, run_tile::<$register, $rows, 3>]
    };
}

impl<R: Register<Word = i32>, const VECTORS: usize> TileTable<R, VECTORS> {
    const FOUR: Tiles = &[
        rows!(one R, VECTORS, 1),
        rows!(one R, VECTORS, 2),
        rows!(one R, VECTORS, 3),
        rows!(one R, VECTORS, 4),
    ];
}

#[cfg(target_arch = "x86_64")]
impl<R: Register<Word = i32>> TileTable<R, 1> {
    const EIGHT: Tiles = &[
        rows!(three R, 1),
        rows!(three R, 2),
        rows!(three R, 3),
        rows!(three R, 4),
        rows!(three R, 5),
        rows!(three R, 6),
        rows!(three R, 7),
        rows!(three R, 8),
    ];
}

struct TileTask<'t, R, const MR: usize, const NR: usize>(&'t ByteTile, std::marker::PhantomData<R>);

impl<R: Register<Word = i32>, const MR: usize, const NR: usize> IsaTask for TileTask<'_, R, MR, NR> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let ByteTile { a, a_stride, b, words, to, to_stride, .. } = *self.0;
        let rows: [*const u8; MR] = array::from_fn(|row| a.wrapping_add(row * a_stride));
        let mut b = b.cast::<i32>();
        // SAFETY: `ByteKernel::run` is called with these rows, words and columns, with the register's instructions.
        unsafe {
            let mut acc = [[R::zero(); NR]; MR];
            for word in 0..words {
                let columns = load::<R, NR>(b);
                b = b.add(NR * R::LANES);
                for r in 0..MR {
                    let terms = R::splat(rows[r].cast::<i32>().add(word).read_unaligned());
                    multiply_row(terms, columns, &mut acc[r]);
                }
            }
            for (row, acc) in acc.iter().enumerate() {
                for (v, acc) in acc.iter().enumerate() {
                    acc.store(to.add(row * to_stride + v * R::LANES));
                }
            }
        }
    }
}

/// Computes a tile of one size.
///
/// # Safety
/// As [`ByteKernel::run`].
unsafe fn run_tile<R: Register<Word = i32>, const MR: usize, const NR: usize>(tile: &ByteTile) {
    // SAFETY: the processor has the register's instructions, as this function requires.
    unsafe { R::run(TileTask::<R, MR, NR>(tile, std::marker::PhantomData)) };
}

/// Four words, whose products are left to the compiler.
#[derive(Clone, Copy)]
struct Portable([i32; 4]);

impl Portable {
    #[inline(always)]
    fn products(self, a: Self, b: Self) -> Self {
        let mut sums = self.0;
        for ((sum, a), b) in sums.iter_mut().zip(a.0).zip(b.0) {
            for (a, b) in a.to_le_bytes().into_iter().zip(b.to_le_bytes()) {
                *sum = sum.wrapping_add(i32::from(a) * i32::from(b.cast_signed()));
            }
        }
        Self(sums)
    }

    #[inline(always)]
    fn each(self, other: Self, f: impl Fn(i32, i32) -> i32) -> Self {
        Self(array::from_fn(|lane| f(self.0[lane], other.0[lane])))
    }
}

// SAFETY: arrays need no instructions but those of the target.
unsafe impl Register for Portable {
    type Word = i32;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0; 4])
    }

    #[inline(always)]
    unsafe fn splat(word: i32) -> Self {
        Self([word; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: `Register::load` is called with as many readable words as a register has.
        Self(unsafe { from.cast::<[i32; 4]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: `Register::store` is called with as many writable words as a register has.
        unsafe { to.cast::<[i32; 4]>().write_unaligned(self.0) };
    }

    #[inline(always)]
    fn add_product(self, a: Self, b: Self) -> Self {
        self.products(a, b)
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.each(other, i32::wrapping_add)
    }

    #[inline(always)]
    fn relu(self) -> Self {
        self.each(self, |value, _| value.max(0))
    }

    #[inline(always)]
    fn clamp(self, low: i32, high: i32) -> Self {
        self.each(self, |value, _| value.max(low).min(high))
    }

    #[inline(always)]
    unsafe fn run<W: IsaTask>(task: W) -> W::Output {
        run_portable(task)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use crate::gemm::register::Register;
    use crate::simd::isa::{IsaTask, run_avx2};
    use crate::simd::vector::{by_contract, of_values};

    #[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    fn run_avx512_vnni<W: IsaTask>(task: W) -> W::Output {
        task.run()
    }

    #[target_feature(enable = "avxvnni,avx2,fma,f16c")]
    fn run_avx_vnni<W: IsaTask>(task: W) -> W::Output {
        task.run()
    }

    /// 16 words, with a dot product of AVX-512 VNNI.
    #[derive(Clone, Copy)]
    pub(super) struct Avx512Vnni(__m512i);

    // SAFETY: the functions only need the instructions that `run` compiles for.
    unsafe impl Register for Avx512Vnni {
        type Word = i32;
        const LANES: usize = 16;

        by_contract! {
            fn zero() -> Self { Self(_mm512_setzero_si512()) }
            fn splat(word: i32) -> Self { Self(_mm512_set1_epi32(word)) }
            fn load(from: *const i32) -> Self { Self(_mm512_loadu_epi32(from)) }
            fn store(self: Self, to: *mut i32) { _mm512_storeu_epi32(to, self.0) }
            fn run<W: IsaTask>(task: W) -> W::Output { run_avx512_vnni(task) }
        }

        of_values! {
            fn add_product(self: Self, a: Self, b: Self) -> Self { Self(_mm512_dpbusd_epi32(self.0, a.0, b.0)) }
            fn plus(self: Self, other: Self) -> Self { Self(_mm512_add_epi32(self.0, other.0)) }
            fn relu(self: Self) -> Self { Self(_mm512_max_epi32(self.0, _mm512_setzero_si512())) }
            fn clamp(self: Self, low: i32, high: i32) -> Self {
                Self(_mm512_min_epi32(_mm512_max_epi32(self.0, _mm512_set1_epi32(low)), _mm512_set1_epi32(high)))
            }
        }
    }

    /// A register of 8 words with the given product and way to run.
    macro_rules! words_of_256_bits {
        ($(#[$about:meta])* $name:ident, |$acc:ident, $a:ident, $b:ident| $product:expr, $run:ident) => {
            $(#[$about])*
            #[derive(Clone, Copy)]
            pub(super) struct $name(__m256i);

            // SAFETY: the functions only need the instructions that `run` compiles for.
            unsafe impl Register for $name {
                type Word = i32;
                const LANES: usize = 8;

                by_contract! {
                    fn zero() -> Self { Self(_mm256_setzero_si256()) }
                    fn splat(word: i32) -> Self { Self(_mm256_set1_epi32(word)) }
                    fn load(from: *const i32) -> Self { Self(_mm256_loadu_si256(from.cast())) }
                    fn store(self: Self, to: *mut i32) { _mm256_storeu_si256(to.cast(), self.0) }
                    fn run<W: IsaTask>(task: W) -> W::Output { $run(task) }
                }

                of_values! {
                    fn add_product(self: Self, a: Self, b: Self) -> Self {
                        match (self.0, a.0, b.0) { ($acc, $a, $b) => Self($product) }
                    }
                    fn plus(self: Self, other: Self) -> Self { Self(_mm256_add_epi32(self.0, other.0)) }
                    fn relu(self: Self) -> Self { Self(_mm256_max_epi32(self.0, _mm256_setzero_si256())) }
                    fn clamp(self: Self, low: i32, high: i32) -> Self {
                        Self(_mm256_min_epi32(_mm256_max_epi32(self.0, _mm256_set1_epi32(low)), _mm256_set1_epi32(high)))
                    }
                }
            }
        };
    }

    words_of_256_bits!(
        /// With a dot product of AVX-VNNI.
        AvxVnni,
        |acc, a, b| _mm256_dpbusd_avx_epi32(acc, a, b),
        run_avx_vnni
    );

    words_of_256_bits!(
        /// Even and odd bytes as 16 bits, whose products are added in pairs: 16-bit sums would saturate.
        Avx2,
        |acc, a, b| {
            let even = _mm256_and_si256(a, _mm256_set1_epi16(0xff));
            let odd = _mm256_srli_epi16::<8>(a);
            let low = _mm256_madd_epi16(even, _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(b)));
            let high = _mm256_madd_epi16(odd, _mm256_srai_epi16::<8>(b));
            _mm256_add_epi32(acc, _mm256_add_epi32(low, high))
        },
        run_avx2
    );
}
