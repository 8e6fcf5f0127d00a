//! Repairs NaN caused by padding: the product of the padding's zeros with a weight that is NaN or infinite is
//! NaN. Such outputs are computed again without the padding.

use std::ops::Range;

use half::bf16;

use crate::conv::direct::problem::Direct;
use crate::conv::geometry::Block;
use crate::simd::isa::IsaTask;
use crate::simd::vector::Float;

/// Channels that are computed together.
const TOGETHER: usize = 16;

/// # Safety
/// As [`Direct::multiply`], with one panel's weights and accumulators of outputs of the block.
pub(crate) unsafe fn correct<T: Float>(
    channels: &Direct<T>,
    (block, pixels): (&Block, Range<usize>),
    weights: *const T,
    columns: *const T,
    sums: *mut T,
) {
    // SAFETY: the weights of the panel, the columns and the accumulators of the block are valid.
    unsafe { channels.correct((block, pixels), (weights, columns, sums), |weight, value| weight * value) };
}

/// The same for pairs of `bfloat16`.
///
/// # Safety
/// As [`correct`].
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "other processors have no instructions for pairs")
)]
pub(crate) unsafe fn correct_pairs(
    channels: &Direct<f32>,
    (block, pixels): (&Block, Range<usize>),
    weights: *const f32,
    columns: *const f32,
    sums: *mut f32,
) {
    let half = |word: f32, shift: u32| bf16::from_bits((word.to_bits() >> shift) as u16).to_f32();
    let product = |weight, value| half(weight, 0) * half(value, 0) + half(weight, 16) * half(value, 16);
    // SAFETY: the weights of the panel, the columns and the accumulators of the block are valid.
    unsafe { channels.correct((block, pixels), (weights, columns, sums), product) };
}

impl<T: Float> Direct<T> {
    /// Recomputes, without the padding, NaN outputs that meet it.
    ///
    /// # Safety
    /// As [`Direct::multiply`], with one panel's weights and accumulators.
    unsafe fn correct(
        &self,
        (block, pixels): (&Block, Range<usize>),
        (weights, columns, sums): (*const T, *const T, *mut T),
        product: impl Fn(T, T) -> T,
    ) {
        let width = self.scheme.kernel.width;
        let (first, count) = (pixels.start * width, pixels.len() * width);
        // SAFETY: the sums are valid, as this function requires.
        let has_nan = unsafe { self.isa.run(HasNan(std::slice::from_raw_parts(sums.add(first), count))) };
        if !has_nan {
            return;
        }
        let [depth, row, column, image] = self.stride;
        let [_, height, length] = block.size;
        for pixel in pixels {
            let line = pixel / length;
            let (n, d, h) = (line / height / block.size[0], line / height % block.size[0], line % height);
            let w = pixel % length;
            let pixel_offset = n * image + d * depth + h * row + w * column;
            let at = [block.origin[0] + d, block.origin[1] + h, block.origin[2] + w];
            if (0..self.taps.len()).all(|tap| self.geometry.meets(at, tap)) {
                continue;
            }
            for first in (0..width).step_by(TOGETHER) {
                let count = (width - first).min(TOGETHER);
                // SAFETY: the pixel has a sum for each of these channels.
                let sums = unsafe { std::slice::from_raw_parts_mut(sums.add(pixel * width + first), count) };
                let is_nan = |value: &T| value.partial_cmp(value).is_none();
                if !sums.iter().any(is_nan) {
                    continue;
                }
                let mut again = [T::ZERO; TOGETHER];
                for (tap, tap_offset) in self.taps.iter().enumerate() {
                    if !self.geometry.meets(at, tap) {
                        continue;
                    }
                    for c in 0..self.words {
                        // SAFETY: the panel has a weight for each channel, and the input the element that the tap meets.
                        unsafe {
                            let weights = weights.add(self.weight(c, tap) + first);
                            let value = columns
                                .add(c * self.channel_stride + tap_offset + pixel_offset)
                                .read_unaligned();
                            for (channel, sum) in again.iter_mut().enumerate().take(count) {
                                *sum = *sum + product(weights.add(channel).read_unaligned(), value);
                            }
                        }
                    }
                }
                for (old, sum) in sums.iter_mut().zip(again) {
                    if is_nan(old) {
                        *old = sum;
                    }
                }
            }
        }
    }
}

/// Whether one of the values is NaN.
struct HasNan<'a, T>(&'a [T]);

impl<T: Float> IsaTask for HasNan<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        // No early exit, so that the compiler vectorises the loop.
        self.0.iter().fold(false, |found, value| found | value.partial_cmp(value).is_none())
    }
}
