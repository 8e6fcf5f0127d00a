//! Decides whether im2col applies to a convolution, and whether it is probably the fastest algorithm.

use crate::conv::epilogue::ChannelEpilogue;
use crate::conv::geometry::{Strides, Windows};
use crate::conv::operands::{Operands, are_columns};
use crate::conv::prefetch::pays;
use crate::gemm::context::Context;
use crate::kernel::Refusal;
use crate::pointwise::Epilogue;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::row_converter::is_compute_type;

/// Columns of all images, and by how many columns whole vectors exceed them.
pub(crate) fn columns(operands: &Operands, lanes: usize) -> [usize; 2] {
    let columns = operands.windows.batch * operands.windows.output.iter().product::<usize>();
    [columns, columns.next_multiple_of(lanes) - columns]
}

/// At most 1/3 of the columns may be wasted.
const MAX_IN_VAIN: usize = 3;

/// The wasted part, as a divisor, from which vectors of channels are faster: for columns that are contiguous
/// in memory, and for others.
const WASTE: [usize; 2] = [20, 5];

/// With fewer terms per sum, vectors of channels are not faster; the second if more than a quarter of the columns is
/// wasted, as for images of 7 × 7.
const LEAST_TERMS: [usize; 2] = [512, 128];

/// With at most this many channels on both sides, contiguous columns in cache are better read in place.
const SMALL: usize = 64;

/// With more terms per sum, a tile exceeds every cache.
const MAX_DEPTH: usize = 1 << 16;

/// With fewer output channels, a copied tile is not reused enough. All algorithms copy the input of strided windows.
const LEAST_ROWS: usize = 64;
const LEAST_STRIDED: usize = 24;

/// The same for the first layer of a network, which has at most this many channels.
const LEAST_OF_STEM: usize = 16;
const CHANNELS_OF_STEM: usize = 4;

/// With a smaller part of the taps inside the input, the direct convolution is faster.
const LEAST_MET: f64 = 0.75;

/// On processors that split 512-bit operations: columns of large images; output and input channels with which the direct
/// convolution is slower for few contiguous columns that are not whole vectors; bytes of weights in the L2 cache; the
/// output channels up to which other algorithms waste as many columns; the taps that copies suit with any number of output
/// channels; and the part that is wasted otherwise, as a divisor.
const LONG: usize = 512;
const LEAST_WIDE: [usize; 2] = [192, 160];
const NEAR_WEIGHTS: usize = 300 << 10;
const FEW_ROWS: usize = 32;
const FEW_TAPS: usize = 9;
const WIDE_IN_VAIN: usize = 12;

/// The epilogue if im2col applies: at most two spatial dimensions, operands of the compute type, a single
/// sub-problem, not too many terms, and an epilogue in registers.
pub(crate) fn form<T: Float>(
    operands: &Operands,
    spatial: usize,
    epilogue: Option<&Epilogue>,
) -> Result<ChannelEpilogue, Refusal> {
    if !has_form::<T>(operands) {
        return Err("a stride in backward data, or an unsupported dtype or layout".to_owned());
    }
    let channel_epilogue = epilogue.map_or_else(
        || Some(ChannelEpilogue::default()),
        |epilogue| ChannelEpilogue::of::<T>(epilogue, spatial),
    );
    let is_flat = |strides: &Strides| strides.are_flat(operands.windows.output);
    channel_epilogue
        .filter(|epilogue| epilogue.residual.as_ref().is_none_or(|(_, strides)| is_flat(strides)))
        .ok_or_else(|| "an epilogue that is not computed in registers".to_owned())
}

fn has_form<T: Float>(operands: &Operands) -> bool {
    let Operands { windows, input, output, .. } = operands;
    let Some(part) = operands.whole() else { return false };
    part.first == 0
        && [windows.input[0], windows.output[0]] == [1; 2]
        && windows.taps.iter().all(|tap| tap[0] == 0)
        && (input.strides.spatial[2] == 1 || windows.input[2] == 1)
        && output.strides.are_flat(windows.output)
        && is_compute_type::<T>(input.data_type)
        && is_compute_type::<T>(output.data_type)
        && operands.channels.saturating_mul(part.taps.len()) <= MAX_DEPTH
}

/// The part of the taps that outputs meet inside the input, on average over rows. The direct convolution skips the others,
/// im2col multiplies zeros.
fn met(operands: &Operands) -> f64 {
    let Windows { input, output, stride, taps, .. } = &operands.windows;
    let rows = |tap: &[isize; 3]| {
        let inside = |row: &usize| (0..input[1] as isize).contains(&((row * stride[1]) as isize + tap[1]));
        (0..output[1]).filter(inside).count() as f64 / output[1] as f64
    };
    taps.iter().map(rows).sum::<f64>() / taps.len() as f64
}

/// Whether im2col is probably the fastest algorithm.
pub(crate) fn suits<T: Float>(operands: &Operands, isa: Isa) -> bool {
    if isa.has_whole_vectors() { suits_whole::<T>(operands, isa) } else { suits_halves::<T>(operands, isa) }
}

/// Whether the window has a stride.
fn is_strided(operands: &Operands) -> bool {
    operands.windows.stride.iter().any(|stride| *stride > 1)
}

/// [`suits`] on processors with full 512-bit vector units.
fn suits_whole<T: Float>(operands: &Operands, isa: Isa) -> bool {
    let kernel = Context::<T>::of(isa);
    let [columns, in_vain] = columns(operands, kernel.lanes);
    let is_small =
        are_columns::<T>(operands) && operands.rows.max(operands.channels) <= SMALL && !pays(operands);
    let least = match operands.windows.taps.len() > 1 && is_strided(operands) {
        true if operands.channels <= CHANNELS_OF_STEM => LEAST_OF_STEM,
        true => LEAST_STRIDED,
        false => LEAST_ROWS,
    };
    operands.rows >= least
        && !is_small
        && columns >= kernel.columns()
        && met(operands) >= LEAST_MET
        && in_vain <= columns / MAX_IN_VAIN
}

/// [`suits`] on processors that split 512-bit operations in two. Multiplications take so long there that copies hardly
/// matter, unless all of them are short or weights come from beyond the L2 cache.
fn suits_halves<T: Float>(operands: &Operands, isa: Isa) -> bool {
    let kernel = Context::<T>::of(isa);
    if !isa.splits_vectors() {
        return false;
    }
    let Operands { rows, channels, windows, .. } = operands;
    let (rows, channels) = (*rows, *channels);
    let [columns, in_vain] = columns(operands, kernel.lanes);
    let is_long = columns >= LONG;
    if are_columns::<T>(operands) {
        let is_small = rows.max(channels) <= SMALL && !pays(operands);
        let is_wide = rows >= channels.max(LEAST_WIDE[0]) && channels >= LEAST_WIDE[1] && in_vain > 0;
        return !is_small && rows >= LEAST_ROWS && in_vain <= columns / WIDE_IN_VAIN && (is_long || is_wide);
    }
    let (taps, is_stem) = (windows.taps.len(), channels <= CHANNELS_OF_STEM);
    let weights = rows * channels * taps * size_of::<T>();
    let most_in_vain = columns / if rows <= FEW_ROWS { MAX_IN_VAIN } else { WIDE_IN_VAIN };
    // Other algorithms copy an element once for all taps.
    let is_reused = taps <= FEW_TAPS || rows >= if is_stem { taps } else { 2 * taps };
    (is_strided(operands) || is_stem)
        && rows >= LEAST_OF_STEM
        && is_reused
        && columns >= kernel.columns()
        && (is_long || weights <= NEAR_WEIGHTS)
        && met(operands) >= LEAST_MET
        && in_vain <= most_in_vain
}

/// Whether so many columns are wasted that vectors of output channels are faster. Those waste no columns, but
/// read the weights more often and transpose the results, which is expensive for short sums.
pub(crate) fn wastes<T: Float>(operands: &Operands, isa: Isa) -> bool {
    let [columns, in_vain] = columns(operands, Context::<T>::of(isa).lanes);
    let divisor = WASTE[usize::from(!are_columns::<T>(operands))];
    isa.has_whole_vectors()
        && suits_whole::<T>(operands, isa)
        && in_vain * divisor > columns
        && operands.channels * operands.windows.taps.len() >= LEAST_TERMS[usize::from(in_vain * 4 > columns)]
}
