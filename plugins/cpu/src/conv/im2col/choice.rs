//! Where im2col is the algorithm to choose.

use crate::conv::implicit_gemm::tile::GemmTileKernel;
use crate::conv::operands::{Operands, are_columns};
use crate::conv::prefetch::pays;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::row_converter::is_number;

/// The columns of all images, and how many more whole vectors have.
pub(crate) fn columns(operands: &Operands, lanes: usize) -> [usize; 2] {
    let columns = operands.windows.batch * operands.windows.output.iter().product::<usize>();
    [columns, columns.next_multiple_of(lanes) - columns]
}

/// The part of the columns, as a divisor, that may be computed in vain.
const MAX_IN_VAIN: usize = 3;

/// The same from which on vectors of channels are faster, where columns follow each other in memory, and where not.
const WASTE: [usize; 2] = [20, 5];

/// Terms of a sum below which these are not.
const LEAST_TERMS: usize = 512;

/// Channels on both sides up to which columns that follow each other in memory are better read there, if they are near.
const SMALL: usize = 64;

/// Terms of a sum above which a tile is too large for any cache.
const MAX_DEPTH: usize = 1 << 16;

/// Rows below which a tile is multiplied too seldom for its copy.
const LEAST_ROWS: usize = 64;

/// Whether the form is one for this convolution: of two dimensions, with elements as they are computed, one product alone, and not too many
/// terms.
pub(crate) fn has_form<T: Float>(operands: &Operands) -> bool {
    let Operands { windows, input, output, .. } = operands;
    let Some(part) = operands.whole() else { return false };
    part.first == 0
        && [windows.input[0], windows.output[0]] == [1; 2]
        && windows.taps.iter().all(|tap| tap[0] == 0)
        && (input.strides.spatial[2] == 1 || windows.input[2] == 1)
        && output.strides.are_flat(windows.output)
        && is_number::<T>(input.data_type)
        && is_number::<T>(output.data_type)
        && operands.channels.saturating_mul(part.taps.len()) <= MAX_DEPTH
}

/// Whether this form is likely to be the fastest one on processors with whole vectors of 512 bits.
pub(crate) fn suits<T: Float>(operands: &Operands, isa: Isa) -> bool {
    let kernel = GemmTileKernel::<T>::of(isa);
    let [columns, in_vain] = columns(operands, kernel.lanes);
    let is_small =
        are_columns::<T>(operands) && operands.rows.max(operands.channels) <= SMALL && !pays(operands);
    isa.has_whole_vectors()
        && operands.rows >= LEAST_ROWS
        && !is_small
        && columns >= kernel.columns()
        && in_vain <= columns / MAX_IN_VAIN
}

/// Whether so many columns are computed in vain that vectors of channels are faster, which compute none: they read filters more often, and
/// have to transpose sums, which takes long where these have few terms.
pub(crate) fn wastes<T: Float>(operands: &Operands, isa: Isa) -> bool {
    let [columns, in_vain] = columns(operands, GemmTileKernel::<T>::of(isa).lanes);
    let divisor = WASTE[usize::from(!are_columns::<T>(operands))];
    suits::<T>(operands, isa)
        && in_vain * divisor > columns
        && operands.channels * operands.windows.taps.len() >= LEAST_TERMS
}
