//! Stores a panel's accumulators, which hold contiguous channels for each output, to the output tensor.

use std::ops::Range;

use crate::conv::direct::problem::{Direct, Scheme, Write};
use crate::conv::geometry::{Block, Strides};
use crate::gemm::accumulator::Accumulator;
use crate::simd::array;
use crate::simd::array::Each;
use crate::simd::clip::Clip;
use crate::simd::convert;
use crate::simd::isa::Isa;
use crate::simd::vector::{Vector, VectorTask};

/// Channels in the widest panel.
pub(super) const MAX_WIDTH: usize = 32;

/// Rows and columns of the blocks that are transposed at once.
const SIDE: usize = 16;

/// One panel's accumulators for a block.
pub(crate) struct Panel<'a, T: 'static> {
    pub(crate) channels: &'a Direct<T>,
    pub(crate) tensors: &'a [*mut u8],
    pub(crate) block: &'a Block,
    /// The block's outputs that are stored.
    pub(crate) pixels: Range<usize>,
    /// The first channel, and the number of channels.
    pub(crate) first: usize,
    pub(crate) present: usize,
    pub(crate) sums: *const T,
}

/// Outputs that are contiguous both in the accumulators and in memory.
#[derive(Clone, Copy)]
struct Line {
    /// Index of the first one among the block's outputs.
    pixel: usize,
    /// The range of them that is stored.
    range: (usize, usize),
    image: usize,
    at: [usize; 3],
}

/// A tensor from the panel's point of view.
#[derive(Clone, Copy)]
struct View<T> {
    /// The element of the panel's first channel in image 0.
    first: *mut T,
    strides: Strides,
}

/// The epilogue and the destination, copied so that the compiler keeps them in registers across stores.
#[derive(Clone, Copy)]
struct StoreEpilogue<T> {
    bias: Option<[T; MAX_WIDTH]>,
    residual: Option<View<T>>,
    clip: Clip<T>,
    /// The destination, and the conversion if its dtype differs.
    output: View<T>,
    other: Option<Write<T>>,
    /// Bytes of an element.
    size: usize,
}

// Of single precision whatever the sums are: only the instruction set counts.
impl<T: Accumulator> VectorTask<f32> for Panel<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = f32>>(self) {
        let Direct { operands, scheme: Scheme { channel_epilogue, write, output_size, .. }, .. } =
            self.channels;
        let channel_epilogue = channel_epilogue.unwrap_or_default();
        let bias = channel_epilogue.bias.map(|(slot, stride)| {
            let mut bias = [T::ZERO; MAX_WIDTH];
            for (c, bias) in bias.iter_mut().enumerate().take(self.present) {
                // SAFETY: there is a value for each channel of the output.
                *bias =
                    unsafe { self.tensors[slot].cast::<T>().add((self.first + c) * stride).read_unaligned() };
            }
            bias
        });
        let view = |slot: usize, strides: Strides, size: usize| View {
            first: self.tensors[slot].wrapping_add(self.first * strides.channel * size).cast::<T>(),
            strides,
        };
        let Block { image, images, origin, size } = *self.block;
        let whole = operands.windows.output;
        let are_flat = |strides: &Strides| strides.are_flat(whole);
        let lines_follow = size[2] == whole[2]
            && are_flat(&operands.output.strides)
            && channel_epilogue.residual.as_ref().is_none_or(|(_, strides)| are_flat(strides));
        let merged = |mut strides: Strides| {
            if lines_follow {
                // A dimension of size 1 may have any stride.
                strides.spatial[2] = 1;
            }
            strides
        };
        let epilogue = StoreEpilogue {
            bias,
            residual: channel_epilogue
                .residual
                .map(|(slot, strides)| view(slot, merged(strides), size_of::<T>())),
            clip: T::bounds(channel_epilogue.clip),
            output: view(operands.output.slot, merged(operands.output.strides), *output_size),
            other: *write,
            size: *output_size,
        };
        let planes_follow = lines_follow && size[1] == whole[1];
        let lines = if lines_follow { 1 } else { size[1] };
        let planes = if planes_follow { 1 } else { size[0] };
        let len = size.iter().product::<usize>() / (lines * planes);
        let mut pixel = 0;
        for n in 0..images {
            for d in 0..planes {
                for h in 0..lines {
                    let at = [origin[0] + d, origin[1] + h, origin[2]];
                    let [from, to] =
                        [self.pixels.start, self.pixels.end].each(|end| end.saturating_sub(pixel).min(len));
                    let line = Line { pixel, range: (from, to), image: image + n, at };
                    if epilogue.output.strides.channel == 1 {
                        self.by_outputs(&line, &epilogue);
                    } else {
                        self.by_channels(V::ISA, &line, &epilogue);
                    }
                    pixel += len;
                }
            }
        }
    }
}

impl<T> View<T> {
    /// The element of a line's first output and the panel's first channel, in elements of `T` or of this
    /// size.
    #[inline(always)]
    fn of(&self, line: &Line, size: usize) -> *mut T {
        self.first.wrapping_byte_add(self.strides.offset(line.image, line.at) * size)
    }
}

impl<T: Accumulator> StoreEpilogue<T> {
    /// Applies the epilogue to some accumulators: those present of bias, residual (whose elements have this
    /// stride) and the clip, in this order.
    ///
    /// # Safety
    /// The residual, if there is one, is readable for `present` elements of its stride.
    #[inline(always)]
    unsafe fn apply<const N: usize>(
        &self,
        sums: &mut [T; N],
        present: usize,
        bias: impl Fn(usize) -> T,
        other: Option<(*const T, usize)>,
    ) {
        if self.bias.is_some() {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = sum.plus(bias(i));
            }
        }
        if let Some((from, stride)) = other {
            let mut others = [T::ZERO; N];
            // SAFETY: the elements are valid, as this function requires.
            unsafe {
                if stride == 1 && present == N {
                    others = from.cast::<[T; N]>().read_unaligned();
                } else {
                    for (i, other) in others.iter_mut().enumerate().take(present) {
                        *other = from.add(i * stride).read_unaligned();
                    }
                }
            }
            *sums = array::zip(*sums, others, |sum, other| sum.plus(other));
        }
        match self.clip {
            Clip::Nothing => {}
            Clip::Relu => {
                for sum in sums {
                    *sum = sum.relu();
                }
            }
            Clip::Clamp(low, high) => {
                for sum in sums {
                    *sum = sum.clamp(low, high);
                }
            }
        }
    }

    /// Stores values with this stride.
    ///
    /// # Safety
    /// `to` is writable for `present` elements of this stride.
    #[inline(always)]
    unsafe fn write<const N: usize>(&self, values: &[T; N], present: usize, to: *mut T, stride: usize) {
        // SAFETY: the elements are valid, as this function requires.
        unsafe {
            if let Some(write) = self.other {
                write(values.as_ptr(), to.cast(), stride, present);
            } else if stride == 1 && present == N {
                to.cast::<[T; N]>().write_unaligned(*values);
            } else {
                for (i, value) in values.iter().enumerate().take(present) {
                    to.add(i * stride).write_unaligned(*value);
                }
            }
        }
    }
}

impl<T: Accumulator> Panel<'_, T> {
    /// Stores a line of a channels-last output.
    #[inline(always)]
    fn by_outputs(&self, line: &Line, epilogue: &StoreEpilogue<T>) {
        let width = self.channels.scheme.kernel.width;
        let (present, size) = (self.present, epilogue.size);
        let sums = self.sums.wrapping_add(line.pixel * width);
        let to = epilogue.output.of(line, size);
        let stride = epilogue.output.strides.spatial[2] * size;
        let other = epilogue.residual.map(|view| (view.of(line, size_of::<T>()), view.strides));
        let biases = epilogue.bias.unwrap_or([T::ZERO; MAX_WIDTH]);
        for i in line.range.0..line.range.1 {
            for from in (0..present).step_by(SIDE) {
                let present = (present - from).min(SIDE);
                let mut values = [T::ZERO; SIDE];
                // SAFETY: a line's sums are there, a row for each output; the tensors have the output.
                unsafe {
                    let sums = sums.add(i * width + from);
                    if present == SIDE {
                        values = sums.cast::<[T; SIDE]>().read();
                    } else {
                        for (c, value) in values.iter_mut().enumerate().take(present) {
                            *value = sums.add(c).read();
                        }
                    }
                    let other = other.map(|(at, strides)| {
                        let offset = i * strides.spatial[2] + from * strides.channel;
                        (at.add(offset).cast_const(), strides.channel)
                    });
                    epilogue.apply(&mut values, present, |c| biases[from + c], other);
                    epilogue.write(&values, present, to.byte_add(i * stride + from * size), 1);
                }
            }
        }
    }

    /// Stores a line channel by channel, transposing blocks.
    #[inline(always)]
    fn by_channels(&self, isa: Isa, line: &Line, epilogue: &StoreEpilogue<T>) {
        let width = self.channels.scheme.kernel.width;
        // Transposing only moves bits, so any dtype of this size will do.
        let side = if size_of::<T>() == size_of::<f32>() { convert::block::<f32, f32>(isa) } else { 0 };
        let (channels, size) = (self.present, epilogue.size);
        let sums = self.sums.wrapping_add(line.pixel * width);
        let to = epilogue.output.of(line, size);
        let (stride, row_stride) =
            (epilogue.output.strides.spatial[2], epilogue.output.strides.channel * size);
        let other = epilogue.residual.map(|view| (view.of(line, size_of::<T>()), view.strides));
        let biases = epilogue.bias.unwrap_or([T::ZERO; MAX_WIDTH]);
        let mut block = [[T::ZERO; SIDE]; SIDE];
        for from in (0..channels).step_by(SIDE) {
            let rows = (channels - from).min(SIDE);
            for i in (line.range.0..line.range.1).step_by(SIDE) {
                let present = (line.range.1 - i).min(SIDE);
                let sums = sums.wrapping_add(i * width + from);
                if side > 0 {
                    for c in (0..rows).step_by(side) {
                        for p in (0..present).step_by(side) {
                            // SAFETY: a line has a row of sums for each output, whose elements are a multiple of the instruction set's
                            // blocks, and so is the side of the block that they go to.
                            unsafe {
                                let to = block.as_mut_ptr().cast::<T>().add(c * SIDE + p);
                                let from = (sums.add(p * width + c).cast::<f32>(), width);
                                convert::transpose(
                                    isa,
                                    from,
                                    (present - p).min(side),
                                    (to.cast::<f32>(), SIDE),
                                );
                            }
                        }
                    }
                } else {
                    for p in 0..present {
                        for (c, row) in block.iter_mut().enumerate().take(rows) {
                            // SAFETY: the line has a row of sums for each output.
                            row[p] = unsafe { sums.add(p * width + c).read() };
                        }
                    }
                }
                for (c, row) in block.iter_mut().enumerate().take(rows) {
                    let bias = biases[from + c];
                    let other = other.map(|(at, strides)| {
                        let offset = i * strides.spatial[2] + (from + c) * strides.channel;
                        (at.wrapping_add(offset).cast_const(), strides.spatial[2])
                    });
                    // SAFETY: the tensors have the outputs of the channel.
                    unsafe {
                        let to = to.byte_add(i * stride * size + (from + c) * row_stride);
                        epilogue.apply(row, present, |_| bias, other);
                        epilogue.write(row, present, to, stride);
                    }
                }
            }
        }
    }
}
