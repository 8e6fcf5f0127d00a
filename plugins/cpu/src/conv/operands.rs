//! The operands of a convolution, common to all algorithms, and how they are packed, filled and stored.

use hipdnn_plugin_sdk::graph::DataType;

use crate::conv::geometry::{Block, Geometry, Strides, Windows};
use crate::conv::planes::{TileSums, store_tile};
use crate::conv::strided_backward_data::StridedBackwardData;
use crate::kernel::Refusal;
use crate::simd::stored::{Stored, with_stored};
use crate::simd::vector::Float;
use crate::tensor::row_converter::{is_compute_type, not_a_float};
use crate::tensor::store::PackedForm;

/// A tensor in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperandView {
    /// Its index among the kernel's pointers.
    pub(crate) slot: usize,
    /// Its dtype.
    pub(crate) data_type: DataType,
    /// Its strides.
    pub(crate) strides: Strides,
}

/// The weights in memory.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    /// Their index among the kernel's pointers.
    pub(crate) slot: usize,
    /// Their dtype.
    pub(crate) data_type: DataType,
    /// Strides in elements: of groups, of output channels (rows of GEMM), and of input channels.
    pub(crate) group: usize,
    pub(crate) row: usize,
    pub(crate) channel: usize,
}

impl Weights {
    /// Whether each row is contiguous in the order of summation, given the offsets of the taps.
    pub(crate) fn are_rows<T: Float>(&self, taps: impl ExactSizeIterator<Item = usize>) -> bool {
        is_compute_type::<T>(self.data_type)
            && self.channel == taps.len()
            && taps.enumerate().all(|(index, offset)| index == offset)
    }
}

/// A sub-problem: outputs that sum over the same taps.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubProblem {
    /// Its taps: index among those of the windows, and offset in the weights.
    pub(crate) taps: Vec<(usize, usize)>,
    /// Offset of its first output.
    pub(crate) first: usize,
    /// The size of its output, at most that of the windows.
    pub(crate) size: [usize; 3],
}

/// A convolution as sub-problems over the same input and output.
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    pub(crate) windows: Windows,
    pub(crate) parts: Vec<SubProblem>,
    pub(crate) groups: usize,
    /// Input channels of a group, which are summed over.
    pub(crate) channels: usize,
    /// Output channels of a group.
    pub(crate) rows: usize,
    pub(crate) input: OperandView,
    pub(crate) weights: Weights,
    pub(crate) output: OperandView,
    /// For a single sub-problem that computes only some outputs: the zeros between them.
    pub(crate) between: Option<StridedBackwardData>,
}

impl Operands {
    /// The only sub-problem, if it has all outputs and all taps in order.
    pub(crate) fn whole(&self) -> Option<&SubProblem> {
        let Self { windows, parts, between, .. } = self;
        let [part] = parts.as_slice() else { return None };
        let in_order = part.taps.iter().enumerate().all(|(index, (tap, _))| index == *tap);
        let is_whole = between.is_none() && in_order && part.taps.len() == windows.taps.len();
        (is_whole && part.size == windows.output).then_some(part)
    }

    /// The packed form of the weights, for a kernel and its routine.
    pub(crate) fn form(&self, kernel: &'static str, routine: usize) -> PackedForm {
        let Self { groups, channels, rows, weights, parts, .. } = self;
        let form = PackedForm::new(kernel, routine).and([*groups, *channels, *rows]);
        let form = form.and([weights.group, weights.row, weights.channel, parts.len()]);
        parts
            .iter()
            .fold(form, |form, part| form.and([part.taps.len()]).and(part.taps.iter().map(|tap| tap.1)))
    }

    /// The first input element of a group, for elements of `size` bytes; the group may be empty.
    pub(crate) fn input_of(&self, tensors: &[*mut u8], group: usize, size: usize) -> *mut u8 {
        tensors[self.input.slot].wrapping_add(group * self.channels * self.input.strides.channel * size)
    }
}

/// See [`Geometry::fill`].
pub(crate) type Fill<T> = unsafe fn(&Geometry, &Block, *const u8, &Strides, usize, *mut T);

/// See [`store_tile`].
pub(crate) type Store<T> = unsafe fn(&Geometry, &Block, &TileSums<T>, *mut u8, &Strides);

/// Whether GEMM's columns are the input elements as they lie in memory: a 1 × 1 filter with stride 1 and no
/// padding.
pub(crate) fn are_columns<T: Float>(operands: &Operands) -> bool {
    let Operands { windows, parts, input, .. } = operands;
    is_compute_type::<T>(input.data_type)
        && windows.taps == [[0; 3]]
        && windows.stride == [1; 3]
        && windows.output == windows.input
        && matches!(parts.as_slice(), [part] if part.taps.len() == 1)
        && input.strides.are_flat(windows.input)
}

/// Row stride of weights that can be read in place: each row is contiguous in the order of summation.
pub(crate) fn rows_stride<T: Float>(operands: &Operands) -> Option<usize> {
    let [part] = operands.parts.as_slice() else { return None };
    let taps = part.taps.iter().map(|(_, offset)| *offset);
    operands.weights.are_rows::<T>(taps).then_some(operands.weights.row)
}

/// See [`Geometry::fill`], or [`Geometry::fill_channels_last`].
///
/// # Safety
/// As that function.
pub(crate) unsafe fn fill<S: Stored, T: Float, const CHANNELS_LAST: bool>(
    geometry: &Geometry,
    block: &Block,
    from: *const u8,
    strides: &Strides,
    channels: usize,
    planes: *mut T,
) {
    // SAFETY: block, strides and planes satisfy the contract of either function, which this function repeats.
    unsafe {
        if CHANNELS_LAST {
            geometry.fill_channels_last::<S, T>(block, from, strides, channels, planes);
        } else {
            geometry.fill::<S, T>(block, from, strides, channels, planes);
        }
    }
}

/// See [`store_tile`].
///
/// # Safety
/// As [`store_tile`].
pub(crate) unsafe fn store<S: Stored, T: Float>(
    geometry: &Geometry,
    block: &Block,
    sums: &TileSums<T>,
    to: *mut u8,
    strides: &Strides,
) {
    // SAFETY: tile and tensor satisfy the contract of `store_tile`, which this function repeats.
    unsafe { store_tile::<S, T>(geometry, block, sums, to, strides) };
}

/// See [`pack`].
pub(crate) type Pack<T> = unsafe fn(&Operands, &[(usize, usize)], usize, (usize, usize), *const u8, *mut T);

/// Packs the weights of one panel: for each channel and tap the weights of all rows, and zeros for rows beyond the
/// last.
///
/// # Safety
/// `from` is the first weight; `to` is writable for a panel.
unsafe fn pack<S: Stored, T: Float>(
    operands: &Operands,
    taps: &[(usize, usize)],
    height: usize,
    (group, panel): (usize, usize),
    from: *const u8,
    to: *mut T,
) {
    let Operands { channels, rows, weights, .. } = operands;
    let first = panel * height;
    let present = (rows - first).min(height);
    // SAFETY: the weights are inside the tensor, and the panel has room for them.
    unsafe {
        let from = from.cast::<S>().add(group * weights.group + first * weights.row);
        if present < height {
            to.write_bytes(0, channels * taps.len() * height);
        }
        // The inner loop is over rows: reads are strided, but writes are contiguous.
        for channel in 0..*channels {
            for (tap, (_, offset)) in taps.iter().enumerate() {
                let from = from.add(channel * weights.channel + offset);
                let to = to.add((channel * taps.len() + tap) * height);
                for r in 0..present {
                    to.add(r).write(from.add(r * weights.row).read_unaligned().value());
                }
            }
        }
    }
}

/// The packing routine for a dtype.
pub(crate) fn pack_of<T: Float>(data_type: DataType) -> Result<Pack<T>, Refusal> {
    Ok(with_stored!(data_type, S => pack::<S, T>, other => match other {
        DataType::Int8 => pack::<i8, T>,
        DataType::Uint8 => pack::<u8, T>,
        other => return Err(not_a_float(other)),
    }))
}

/// The refusal of a dtype.
fn is_other(argument: &str, data_type: DataType, also: &str) -> Refusal {
    format!("{argument}: data type is {}, expected float, double, half, bfloat16{also}", data_type.name())
}

/// The routine that fills planes, which may have their channels last, from a dtype, and the size of an element.
pub(crate) fn fill_of<T: Float, const CHANNELS_LAST: bool>(
    data_type: DataType,
) -> Result<(Fill<T>, usize), Refusal> {
    Ok(with_stored!(data_type, S => (fill::<S, T, CHANNELS_LAST>, size_of::<S>()), other => match other {
        DataType::Int8 => (fill::<i8, T, CHANNELS_LAST>, size_of::<i8>()),
        DataType::Uint8 => (fill::<u8, T, CHANNELS_LAST>, size_of::<u8>()),
        other => return Err(is_other("input", other, ", int8 or uint8")),
    }))
}

/// The routine that stores tiles as a dtype, and the size of an element.
pub(crate) fn store_of<T: Float>(data_type: DataType) -> Result<(Store<T>, usize), Refusal> {
    Ok(with_stored!(data_type, S => (store::<S, T>, size_of::<S>()), other => match other {
        DataType::Int8 => (store::<i8, T>, size_of::<i8>()),
        DataType::Uint8 => (store::<u8, T>, size_of::<u8>()),
        DataType::Int32 => (store::<i32, T>, size_of::<i32>()),
        other => return Err(is_other("output", other, ", int32, int8 or uint8")),
    }))
}
