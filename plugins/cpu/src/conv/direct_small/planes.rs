//! Zero-padded images.

use crate::conv::geometry::{Block, Strides, Windows};
use crate::conv::operands::OperandView;
use crate::kernel::Refusal;
use crate::simd::array::Each;
use crate::simd::vector::Float;
use crate::tensor::row_converter::{RowConverter, is_compute_type};

/// The source of images: the tensor itself, or a copy that includes the padding.
pub(crate) struct Planes<T> {
    /// Conversion of the tensor's elements.
    run: RowConverter<T>,
    input: [usize; 3],
    stride: [usize; 3],
    view: OperandView,
    /// The first position that the first block reaches, possibly in the padding, and the number of positions.
    low: [isize; 3],
    size: [usize; 3],
    /// Strides in the planes, or in the tensor.
    strides: Strides,
    /// Images of a block at most.
    images: usize,
    copied: bool,
    padded: bool,
    /// Whether blocks are parts of images, each with different padding.
    parted: bool,
}

impl<T: Float> Planes<T> {
    /// Plans planes for this many channels, and blocks of some images and some of their outputs. If `inside`,
    /// nothing outside the tensor is read, so that no padding is needed.
    pub(crate) fn plan(
        windows: &Windows,
        view: OperandView,
        channels: usize,
        (images, outputs): (usize, [usize; 3]),
        inside: bool,
    ) -> Result<Self, Refusal> {
        let (mut low, mut size, mut padded) = ([0; 3], [1; 3], false);
        for i in 0..3 {
            let taps_of_axis = || windows.taps.iter().map(|tap| tap[i]);
            let (first, behind) = (taps_of_axis().min().unwrap_or(0), taps_of_axis().max().unwrap_or(0) + 1);
            let end = |outputs: usize| (outputs - 1) as isize * windows.stride[i] as isize + behind;
            padded |= !inside && (first < 0 || end(windows.output[i]) > windows.input[i] as isize);
            (low[i], size[i]) = (first, (end(outputs[i]) - first) as usize);
        }
        let elements: f64 = size.iter().map(|n| *n as f64).product();
        if elements * channels as f64 * images as f64 > (1_u64 << 32) as f64 {
            return Err(format!("planes of {elements} elements for {channels} channels of {images} images"));
        }
        let copied = padded || !is_compute_type::<T>(view.data_type);
        let plane: usize = size.iter().product();
        let strides = if !copied {
            view.strides
        } else if view.strides.channel == 1 && channels > 1 {
            let spatial = [size[1] * size[2] * channels, size[2] * channels, channels];
            Strides { batch: plane * channels, channel: 1, spatial }
        } else {
            Strides { batch: plane * channels, channel: plane, spatial: [size[1] * size[2], size[2], 1] }
        };
        let run = RowConverter::of(view.data_type)?;
        let Windows { input, stride, output, .. } = *windows;
        let parted = outputs != output;
        Ok(Self { run, input, stride, view, low, size, strides, images, copied, padded, parted })
    }

    /// Whether some output meets padding.
    pub(crate) fn are_padded(&self) -> bool {
        self.padded
    }

    /// Elements of the copy.
    pub(crate) fn elements(&self) -> usize {
        if self.copied { self.strides.batch * self.images } else { 0 }
    }

    /// Offsets of the outputs of some images, image by image: from the first output's first tap to each
    /// one's.
    pub(crate) fn outputs(&self, images: usize, size: [usize; 3], stride: [usize; 3]) -> Vec<usize> {
        let [_, height, length] = size;
        let of_image: usize = size.iter().product();
        let outputs = (0..images).flat_map(|image| (0..of_image).map(move |index| (image, index)));
        let offsets = outputs.map(|(image, index)| {
            let at = [index / length / height, index / length % height, index % length];
            self.strides.offset(image, [0, 1, 2].each(|i| at[i] * stride[i]))
        });
        offsets.collect()
    }

    /// Offset of a channel's element for a tap, relative to an output.
    pub(crate) fn term(&self, channel: usize, tap: [isize; 3]) -> usize {
        let at = [0, 1, 2].each(|i| (tap[i] - self.low[i]) as usize);
        channel * self.strides.channel + self.strides.offset(0, at)
    }

    /// The planes of some channels for a block, copied to `to` unless the tensor is read in place. The
    /// pointer may lie before the tensor's first element.
    ///
    /// # Safety
    /// `from` is the first element of the first channel; `to` is writable for [`Planes::elements`] values, which
    /// are zero or from an earlier call.
    pub(crate) unsafe fn fill(
        &self,
        from: *const u8,
        channels: usize,
        block: &Block,
        to: *mut T,
    ) -> *const T {
        let strides = &self.view.strides;
        let low = [0, 1, 2].each(|i| self.low[i] + (block.origin[i] * self.stride[i]) as isize);
        if !self.copied {
            let first = (0..3).map(|i| low[i] * strides.spatial[i] as isize).sum::<isize>();
            return from.cast::<T>().wrapping_add(block.image * strides.batch).wrapping_offset(first);
        }
        if self.padded && self.parted {
            // SAFETY: the room is valid, as this function requires.
            unsafe { to.write_bytes(0, self.strides.batch * block.images) };
        }
        // Elements inside the image.
        let inside = |i: usize| {
            let first = low[i].clamp(0, self.input[i] as isize);
            let end = (low[i] + self.size[i] as isize).clamp(first, self.input[i] as isize);
            first as usize..end as usize
        };
        let [depth, height, width] = [inside(0), inside(1), inside(2)];
        // A run of each row's elements per channel, or a run of channels per element.
        let (runs, len, stride) = if self.strides.channel == 1 {
            (width.len(), channels, strides.channel)
        } else {
            (channels, width.len(), strides.spatial[2])
        };
        let (next, to_next) = if self.strides.channel == 1 {
            (strides.spatial[2], self.strides.spatial[2])
        } else {
            (strides.channel, self.strides.channel)
        };
        for n in 0..block.images {
            for d in depth.clone() {
                for h in height.clone() {
                    let position = [d, h, width.start];
                    let at = [0, 1, 2].each(|i| (position[i] as isize - low[i]) as usize);
                    let source = strides.offset(block.image + n, position);
                    let target = self.strides.offset(n, at);
                    for i in 0..runs {
                        // SAFETY: the elements are those of the tensor, the values those of the planes.
                        unsafe {
                            let from = from.add((source + i * next) * self.run.size);
                            let to = to.add(target + i * to_next);
                            if self.run.same && stride == 1 {
                                copy_short(from.cast(), to, len);
                            } else {
                                (self.run.load)(from, stride, to, len);
                            }
                        }
                    }
                }
            }
        }
        to
    }
}

/// Copies a few elements, for which a call would take longer than the copy itself.
///
/// # Safety
/// Both pointers are valid for `len` values.
#[inline(always)]
unsafe fn copy_short<T: Copy>(from: *const T, to: *mut T, len: usize) {
    // SAFETY: the values are readable and writable, as this function requires.
    unsafe {
        let mut i = 0;
        while i + 8 <= len {
            to.add(i).cast::<[T; 8]>().write_unaligned(from.add(i).cast::<[T; 8]>().read_unaligned());
            i += 8;
        }
        if i + 4 <= len {
            to.add(i).cast::<[T; 4]>().write_unaligned(from.add(i).cast::<[T; 4]>().read_unaligned());
            i += 4;
        }
        while i < len {
            to.add(i).write(from.add(i).read_unaligned());
            i += 1;
        }
    }
}
