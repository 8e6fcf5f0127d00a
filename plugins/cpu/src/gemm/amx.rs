//! AMX: hardware tiles of 16 rows of 64 bytes, and the micro-kernel that uses them.
//!
//! Written in assembly because the compiler's intrinsics are unstable. Tiles 0 to 3 accumulate 32 rows and 32
//! columns, 4 and 5 hold rows of operand A, 6 and 7 columns of operand B.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;

use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::os::processors;

use crate::gemm::byte_tile::{ByteTile, GROUP};

/// Groups of columns in the largest tile.
pub(crate) const GROUPS: usize = 2;

/// Terms of a row of a tile.
const TERMS: usize = 64;

/// Words in a row of a tile.
const WORDS: usize = TERMS / 4;

/// Whether the processor has AMX for bytes and the system permits it. Only this function requests the
/// permission, once, because it enlarges signal frames.
pub(crate) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        const TILES_AND_BYTES: u32 = 1 << 24 | 1 << 25;
        __cpuid_count(7, 0).edx & TILES_AND_BYTES == TILES_AND_BYTES && processors::allow_tiles()
    })
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

/// Configures this thread's tiles. Call only if [`is_available`].
pub(crate) fn begin() {
    debug_assert!(is_available());
    // SAFETY: AMX is only chosen on processors with tiles, and the shapes are valid.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const SHAPES, options(nostack, readonly)) };
}

/// Releases this thread's tiles, so that the system need not save them.
pub(crate) fn end() {
    // SAFETY: the processor has tiles, as `begin` required.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

/// The loop over the terms of one or two times 16 rows and 16 columns.
macro_rules! tile {
    ($name:ident, $multiply:literal, $rows:tt, $columns:tt) => {
        tile!($name, $multiply, $rows, $columns, ["tmm0" "tmm1" "tmm2" "tmm3" "tmm4" "tmm5" "tmm6" "tmm7"]);
    };
    ($name:ident, $multiply:literal, $rows:tt, $columns:tt, [$($tile:tt)*]) => {
        /// # Safety
        /// As [`run`].
        unsafe fn $name(tile: &ByteTile) {
            let second_row = tile.a.wrapping_add(16 * tile.a_stride);
            let stride = tile!(@count $columns) * GROUP * 4;
            let to_second = tile.to.wrapping_add(16 * tile.to_stride);
            // SAFETY: the tiles are configured, and the operands have the rows, columns and terms.
            unsafe {
                asm!(
                    "/* {to1} */ tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                    "2: tileloadd tmm4, [{a0} + {a_stride}*1]", "tileloadd tmm6, [{b} + {b_stride}*1]",
                    concat!($multiply, " tmm0, tmm4, tmm6"),
                    tile!(@columns $columns, "tileloadd tmm7, [{b} + {b_stride}*1 + 64]"),
                    tile!(@columns $columns, concat!($multiply, " tmm1, tmm4, tmm7")),
                    tile!(@rows $rows, "tileloadd tmm5, [{a1} + {a_stride}*1]"),
                    tile!(@rows $rows, concat!($multiply, " tmm2, tmm5, tmm6")),
                    tile!(@both $rows $columns, concat!($multiply, " tmm3, tmm5, tmm7")),
                    "add {a0}, 64", "add {a1}, 64", "add {b}, {step}", "dec {left}", "jnz 2b",
                    "tilestored [{to} + {to_stride}*1], tmm0",
                    tile!(@columns $columns, "tilestored [{to} + {to_stride}*1 + 64], tmm1"),
                    tile!(@rows $rows, "tilestored [{to1} + {to_stride}*1], tmm2"),
                    tile!(@both $rows $columns, "tilestored [{to1} + {to_stride}*1 + 64], tmm3"),
                    a0 = inout(reg) tile.a => _, a1 = inout(reg) second_row => _, a_stride = in(reg) tile.a_stride,
                    b = inout(reg) tile.b => _, b_stride = in(reg) stride, step = in(reg) WORDS * stride,
                    left = inout(reg) tile.words / WORDS => _, to = in(reg) tile.to, to1 = in(reg) to_second,
                    to_stride = in(reg) tile.to_stride * 4, options(nostack), $(out($tile) _),*
                );
            }
        }
    };
    (@count one) => { 1 };
    (@count two) => { 2 };
    (@rows one, $line:expr) => { "" };
    (@rows two, $line:expr) => { $line };
    (@columns one, $line:expr) => { "" };
    (@columns two, $line:expr) => { $line };
    (@both two two, $line:expr) => { $line };
    (@both $rows:tt $columns:tt, $line:expr) => { "" };
}

tile!(unsigned_1_1, "tdpbusd", one, one);
tile!(unsigned_1_2, "tdpbusd", one, two);
tile!(unsigned_2_1, "tdpbusd", two, one);
tile!(unsigned_2_2, "tdpbusd", two, two);
tile!(signed_1_1, "tdpbssd", one, one);
tile!(signed_1_2, "tdpbssd", one, two);
tile!(signed_2_1, "tdpbssd", two, one);
tile!(signed_2_2, "tdpbssd", two, two);

/// Computes a tile; rows are computed 16 at a time.
///
/// # Safety
/// This thread's tiles are configured ([`begin`]). `words` is a positive multiple of 16, operand A has the
/// rows rounded up to 16, operand B the words of `groups` groups of columns, and `to` has room for as many
/// rows and columns.
#[inline(always)]
pub(crate) unsafe fn run(tile: &ByteTile, rows: usize, groups: usize) {
    let run = match (tile.is_signed, rows > 16, groups > 1) {
        (false, false, false) => unsigned_1_1,
        (false, false, true) => unsigned_1_2,
        (false, true, false) => unsigned_2_1,
        (false, true, true) => unsigned_2_2,
        (true, false, false) => signed_1_1,
        (true, false, true) => signed_1_2,
        (true, true, false) => signed_2_1,
        (true, true, true) => signed_2_2,
    };
    // SAFETY: this function requires tiles, operands and room.
    unsafe { run(tile) };
}
