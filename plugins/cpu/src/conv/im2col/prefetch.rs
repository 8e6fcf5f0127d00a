//! Prefetches the input of the next tiles while others are multiplied.

use std::ops::Range;

use crate::conv::im2col::problem::Im2col;
use crate::gemm::prefetch::CacheLines;
use crate::simd::CACHE_LINE;
use crate::simd::vector::Float;

/// Images whose input is prefetched at most.
const MAX_IMAGES: usize = 8;

/// What is prefetched, tile by tile: the input of some channels of an image.
///
/// All rows of a channel are prefetched in order: the hardware prefetcher continues on contiguous rows, but not
/// across other channels.
pub(crate) struct InputPrefetch {
    /// The input of each image, over all channels, and how many images there are.
    images: [CacheLines; MAX_IMAGES],
    count: usize,
    /// Channels that are prefetched together, and parts of an image for each tile.
    together: usize,
    each: usize,
    /// The next image, and its next channel.
    image: usize,
    channel: usize,
}

impl InputPrefetch {
    /// Prefetches the input of some tiles of a group, or of none, spread over `gemm_tiles` tiles of GEMM, of
    /// which `done` are computed already.
    pub(crate) fn new<T: Float>(
        tiled: &Im2col<T>,
        tensors: &[*mut u8],
        next: Option<(usize, Range<usize>)>,
        [done, gemm_tiles]: [usize; 2],
    ) -> Self {
        let channels = tiled.operands.channels;
        let images = [CacheLines::NONE; MAX_IMAGES];
        let mut all = Self { images, count: 0, together: channels, each: 1, image: 0, channel: 0 };
        if let Some((group, tiles)) = next {
            let from = tiled.operands.input_of(tensors, group, size_of::<T>());
            let columns = tiled.columns(tiles.start).start..tiled.columns(tiles.end - 1).end;
            all.count = tiled.reads(&columns, from, &mut all.images);
        }
        if let Some(parts) = gemm_tiles.checked_div(all.count) {
            all.together = channels.div_ceil(parts.max(1));
            all.each = all.count.div_ceil(gemm_tiles);
            let taken = done * all.each;
            (all.image, all.channel) = (taken % all.count, taken / all.count * all.together);
        }
        all
    }

    /// What is prefetched during the next tile; `None` if nothing is left.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<[CacheLines; 3]> {
        if self.channel >= self.images[self.image].channels {
            return None;
        }
        let mut taken = [CacheLines::NONE; 3];
        for lines in taken.iter_mut().take(self.each) {
            let all = self.images[self.image];
            if self.channel >= all.channels {
                break;
            }
            let first = all.first.wrapping_add(self.channel * all.channel_stride);
            *lines = CacheLines { first, channels: self.together.min(all.channels - self.channel), ..all };
            self.image += 1;
            if self.image == self.count {
                (self.image, self.channel) = (0, self.channel + self.together);
            }
        }
        Some(taken)
    }
}

impl<T: Float> Im2col<T> {
    /// The input that some columns meet, image by image as far as there is room, and the number of images;
    /// `from` is the group's first element.
    fn reads(&self, columns: &Range<usize>, from: *const u8, images: &mut [CacheLines]) -> usize {
        let strides = self.operands.input.strides;
        let len = self.output[1];
        let size = size_of::<T>();
        let reach = |axis: usize, first: usize, last: usize| {
            let (low, high) = self.reach[axis];
            let inside = |at: isize| at.clamp(0, self.input[axis] as isize - 1) as usize;
            let at = |output: usize| (output * self.stride[axis]) as isize;
            (inside(at(first) + low), inside(at(last) + high))
        };
        let window = self.reach[0].1 - self.reach[0].0 + 1;
        let mut count = 0;
        self.images(columns, |_, outputs, image, first| {
            let Some(to) = images.get_mut(count) else { return };
            count += 1;
            let last = first + outputs - 1;
            let (left, right) =
                if first / len == last / len { (first % len, last % len) } else { (0, len - 1) };
            let (left, right) = reach(1, left, right);
            let (top, bottom) = reach(0, first / len, last / len);
            let channel_stride = strides.spatial[1];
            // Rows that no tap meets are skipped.
            let (runs, height) = if self.stride[0] as isize > window {
                (1 + (bottom - top) / self.stride[0], 0)
            } else {
                (1, bottom - top)
            };
            let address = from.wrapping_add((image * strides.batch + top * channel_stride + left) * size);
            let before = address.addr() % CACHE_LINE;
            *to = CacheLines {
                first: address.wrapping_sub(before),
                together: (before + (height * channel_stride + right - left + 1) * size).div_ceil(CACHE_LINE),
                runs: (runs, self.stride[0] * channel_stride * size),
                channels: self.operands.channels,
                channel_stride: strides.channel * size,
                is_written: false,
            };
        });
        count
    }
}
