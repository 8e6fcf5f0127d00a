//! AMX: hardware tiles of 16 rows of 64 bytes, and the micro-kernel that uses them.
//!
//! Written in assembly because the compiler's intrinsics are unstable. Tiles 0 to 3 accumulate 32 rows and 32
//! columns, 4 and 5 hold rows of operand A, 6 and 7 columns of operand B.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;

use hipdnn_plugin_sdk::cpu_isa::CpuIsa;
use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::os::processors;

/// Columns, and rows, of a hardware tile.
pub(crate) const SIDE: usize = 16;

/// Words of terms in a row of a tile.
pub(crate) const WORDS: usize = 16;

/// What the hardware tiles multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    /// Four unsigned bytes of operand A in a word.
    Unsigned,
    /// Four signed bytes of operand A in a word.
    Signed,
    /// Two `bfloat16` numbers in a word.
    Bfloat16,
}

/// Whether the processor has AMX for these terms, and the system and the environment permit it. Only this function
/// requests the permission, once, because it enlarges signal frames.
pub(crate) fn is_available(terms: Terms) -> bool {
    static FEATURES: OnceLock<u32> = OnceLock::new();
    const TILES: u32 = 1 << 24;
    let needed = TILES
        | match terms {
            Terms::Bfloat16 => 1 << 22,
            Terms::Unsigned | Terms::Signed => 1 << 25,
        };
    let features = *FEATURES.get_or_init(|| {
        let features = __cpuid_count(7, 0).edx;
        let permitted = features & TILES != 0 && CpuIsa::Amx.is_permitted() && processors::allow_tiles();
        if permitted { features } else { 0 }
    });
    features & needed == needed
}

/// The shapes of the tiles.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes_of_row: [u16; 16],
    rows: [u8; 16],
}

/// All tiles have their maximal size.
static SHAPES: Shapes = Shapes {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    bytes_of_row: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Configures this thread's tiles. Only where tiles are [available](is_available).
pub(crate) fn configure() {
    // SAFETY: kernels with tiles are only chosen on processors that have them, and the shapes are valid.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const SHAPES, options(nostack, readonly)) };
}

/// Releases this thread's tiles, so that the system need not save them.
pub(crate) fn release() {
    // SAFETY: the processor has tiles, as `configure` requires.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

/// Operands of up to 32 rows and columns: `to[r][j] = from[r][j] + Σ a[r][t][l] · b[t + l][j]` over the taps t and the
/// words l. Strides are in bytes.
#[repr(C)]
pub(crate) struct Product {
    pub(crate) a: *const u8,
    /// The second 16 rows, which may overlap the first.
    pub(crate) second_a: *const u8,
    pub(crate) a_stride: usize,
    /// One word of each column for each word of terms.
    pub(crate) b: *const u8,
    pub(crate) b_stride: usize,
    /// Words of terms of a tap: a positive multiple of [`WORDS`].
    pub(crate) words: usize,
    /// The first of the offsets of the taps in operand B, in words, and the end of these; at least one.
    pub(crate) taps: *const usize,
    pub(crate) taps_end: *const usize,
    /// Initial sums and those of the second rows; null for zeros.
    pub(crate) from: *const u8,
    pub(crate) second_from: *const u8,
    pub(crate) from_stride: usize,
    pub(crate) to: *mut u8,
    pub(crate) second_to: *mut u8,
    pub(crate) to_stride: usize,
}

/// Where the assembly finds the fields of a [`Product`].
mod at {
    use std::mem::offset_of;

    use super::Product;

    pub(super) const B: usize = offset_of!(Product, b);
    pub(super) const WORDS: usize = offset_of!(Product, words);
    pub(super) const TAPS_END: usize = offset_of!(Product, taps_end);
    pub(super) const FROM: usize = offset_of!(Product, from);
    pub(super) const SECOND_FROM: usize = offset_of!(Product, second_from);
    pub(super) const FROM_STRIDE: usize = offset_of!(Product, from_stride);
    pub(super) const TO: usize = offset_of!(Product, to);
    pub(super) const SECOND_TO: usize = offset_of!(Product, second_to);
    pub(super) const TO_STRIDE: usize = offset_of!(Product, to_stride);
}

/// A matrix has a single tap.
pub(crate) static MATRIX: [usize; 1] = [0];

/// A line for the second 16 rows, for the second 16 columns, or for both.
macro_rules! line {
    (rows one $columns:tt $line:expr) => {
        ""
    };
    (columns $rows:tt one $line:expr) => {
        ""
    };
    (both two two $line:expr) => {
        concat!($line, "\n")
    };
    (both $rows:tt $columns:tt $line:expr) => {
        ""
    };
    ($of:tt $rows:tt $columns:tt $line:expr) => {
        concat!($line, "\n")
    };
}

/// Loads the sums, or zeros.
macro_rules! begin {
    ($rows:tt $columns:tt) => {
        concat!(
            "mov {x}, [{p} + {from}]\n mov {y}, [{p} + {from_stride}]\n test {x}, {x}\n jz 3f\n",
            "tileloadd tmm0, [{x} + {y}*1]\n",
            line!(columns $rows $columns "tileloadd tmm1, [{x} + {y}*1 + 64]"),
            line!(rows $rows $columns "mov {x}, [{p} + {from2}]\n tileloadd tmm2, [{x} + {y}*1]"),
            line!(both $rows $columns "tileloadd tmm3, [{x} + {y}*1 + 64]"),
            "jmp 4f\n 3: tilezero tmm0\n tilezero tmm1\n tilezero tmm2\n tilezero tmm3\n",
        )
    };
}

/// The loops over taps and their words.
macro_rules! multiply {
    ($multiply:literal $rows:tt $columns:tt) => {
        concat!(
            "4: mov {b}, [{tap}]\n shl {b}, 2\n add {b}, [{p} + {first}]\n mov {left}, [{p} + {words}]\n",
            "2: tileloadd tmm4, [{a0} + {a_stride}*1]\n tileloadd tmm6, [{b} + {b_stride}*1]\n",
            $multiply, " tmm0, tmm4, tmm6\n",
            line!(columns $rows $columns "tileloadd tmm7, [{b} + {b_stride}*1 + 64]"),
            line!(columns $rows $columns concat!($multiply, " tmm1, tmm4, tmm7")),
            line!(rows $rows $columns "tileloadd tmm5, [{a1} + {a_stride}*1]"),
            line!(rows $rows $columns concat!($multiply, " tmm2, tmm5, tmm6")),
            line!(both $rows $columns concat!($multiply, " tmm3, tmm5, tmm7")),
            "add {a0}, 64\n add {a1}, 64\n add {b}, {step}\n sub {left}, 16\n jnz 2b\n",
            "add {tap}, 8\n cmp {tap}, [{p} + {taps_end}]\n jne 4b /* {from2} {to2} */\n",
        )
    };
}

/// Stores the sums.
macro_rules! end {
    ($rows:tt $columns:tt) => {
        concat!(
            "mov {x}, [{p} + {to}]\n mov {y}, [{p} + {to_stride}]\n tilestored [{x} + {y}*1], tmm0\n",
            line!(columns $rows $columns "tilestored [{x} + {y}*1 + 64], tmm1"),
            line!(rows $rows $columns "mov {x}, [{p} + {to2}]\n tilestored [{x} + {y}*1], tmm2"),
            line!(both $rows $columns "tilestored [{x} + {y}*1 + 64], tmm3"),
        )
    };
}

/// A product of one or two times 16 rows and 16 columns.
macro_rules! tile {
    ($name:ident, $multiply:literal, $rows:tt, $columns:tt) => {
        tile!($name, $multiply, $rows, $columns, ["tmm0" "tmm1" "tmm2" "tmm3" "tmm4" "tmm5" "tmm6" "tmm7"]);
    };
    ($name:ident, $multiply:literal, $rows:tt, $columns:tt, [$($tile:tt)*]) => {
        /// # Safety
        /// As [`run`].
        unsafe fn $name(product: &Product) {
            let Product { a, second_a, a_stride, b_stride, taps, .. } = *product;
            // SAFETY: the tiles are configured, and the operands have the rows, columns and terms.
            unsafe {
                asm!(
                    begin!($rows $columns), multiply!($multiply $rows $columns), end!($rows $columns),
                    p = in(reg) product, x = out(reg) _, y = out(reg) _, b = out(reg) _, left = out(reg) _,
                    a0 = inout(reg) a => _, a1 = inout(reg) second_a => _, a_stride = in(reg) a_stride,
                    b_stride = in(reg) b_stride, step = in(reg) WORDS * b_stride, tap = inout(reg) taps => _,
                    first = const at::B, words = const at::WORDS, taps_end = const at::TAPS_END,
                    from = const at::FROM, from2 = const at::SECOND_FROM, from_stride = const at::FROM_STRIDE,
                    to = const at::TO, to2 = const at::SECOND_TO, to_stride = const at::TO_STRIDE,
                    options(nostack), $(out($tile) _),*
                );
            }
        }
    };
}

tile!(unsigned_1_1, "tdpbusd", one, one);
tile!(unsigned_1_2, "tdpbusd", one, two);
tile!(unsigned_2_1, "tdpbusd", two, one);
tile!(unsigned_2_2, "tdpbusd", two, two);
tile!(signed_1_1, "tdpbssd", one, one);
tile!(signed_1_2, "tdpbssd", one, two);
tile!(signed_2_1, "tdpbssd", two, one);
tile!(signed_2_2, "tdpbssd", two, two);
tile!(bfloat16_1_1, "tdpbf16ps", one, one);
tile!(bfloat16_1_2, "tdpbf16ps", one, two);
tile!(bfloat16_2_1, "tdpbf16ps", two, one);
tile!(bfloat16_2_2, "tdpbf16ps", two, two);

/// Computes one or two times 16 rows and columns.
///
/// # Safety
/// Terms are available, and tiles are [configured](configure) on this thread. `a` has 16 rows and so has `second_a`
/// if `two_rows`, with the words of all taps; operand B has the words of 16 or, if `two_columns`, 32 columns for each
/// tap; `from`, unless null, and `to` have these rows and columns.
#[inline(always)]
pub(crate) unsafe fn run(product: &Product, terms: Terms, [two_rows, two_columns]: [bool; 2]) {
    let run = match (terms, two_rows, two_columns) {
        (Terms::Unsigned, false, false) => unsigned_1_1,
        (Terms::Unsigned, false, true) => unsigned_1_2,
        (Terms::Unsigned, true, false) => unsigned_2_1,
        (Terms::Unsigned, true, true) => unsigned_2_2,
        (Terms::Signed, false, false) => signed_1_1,
        (Terms::Signed, false, true) => signed_1_2,
        (Terms::Signed, true, false) => signed_2_1,
        (Terms::Signed, true, true) => signed_2_2,
        (Terms::Bfloat16, false, false) => bfloat16_1_1,
        (Terms::Bfloat16, false, true) => bfloat16_1_2,
        (Terms::Bfloat16, true, false) => bfloat16_2_1,
        (Terms::Bfloat16, true, true) => bfloat16_2_2,
    };
    // SAFETY: this function requires tiles, operands and room.
    unsafe { run(product) };
}
