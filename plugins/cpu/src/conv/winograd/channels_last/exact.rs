//! Recomputes outputs that are NaN or infinite directly: the transforms spread such values to unrelated outputs.

use std::ops::Range;

use crate::conv::operands::Operands;
use crate::conv::winograd::channels_last::problem::{ChannelsLast, Place};
use crate::conv::winograd::transform::MAX_OUTPUTS;
use crate::simd::vector::{Float, MAX_LANES};

impl<T: Float> ChannelsLast<T> {
    /// Computes the outputs of a tile again, from inputs inside the image only, for those of the channels with an output that is
    /// NaN or infinite.
    ///
    /// # Safety
    /// The tensors are those of the operation, which has the group, the place and the channels.
    #[cold]
    pub(super) unsafe fn correct(
        &self,
        tensors: &[*mut u8],
        group: usize,
        place: &Place,
        channels: Range<usize>,
        sums: &mut [[T; MAX_LANES]; MAX_OUTPUTS],
    ) {
        let Operands { weights, windows, input, .. } = &self.operands;
        let side = self.tile.outputs;
        let source = tensors[weights.slot].cast_const();
        let from = self.operands.input_of(tensors, group, size_of::<T>()).cast_const().cast::<T>();
        let [depth, row, column] = [0, 1, 2].map(|i| {
            let step = if i == 0 { 1 } else { self.tile.input_stride() };
            (place.at[i] * step) as isize + self.first[i]
        });
        for (lane, channel) in channels.enumerate() {
            let is_finite = |sums: &[T; MAX_LANES]| sums[lane].abs() <= T::LARGEST;
            if sums.iter().take(side * side).all(is_finite) {
                continue;
            }
            let first = group * weights.group + channel * weights.row;
            sums.iter_mut().for_each(|sums| sums[lane] = T::ZERO);
            for element in 0..9 {
                // The outputs whose tap is inside the image, and the pixel that it meets.
                let (mut met, mut count) = ([(0, 0); MAX_OUTPUTS], 0);
                for output in 0..side * side {
                    let at = [
                        depth,
                        row + (output / side * self.tile.stride + element / 3) as isize,
                        column + (output % side * self.tile.stride + element % 3) as isize,
                    ];
                    if (0..3).all(|i| (0..windows.input[i] as isize).contains(&at[i])) {
                        let pixel = input.strides.offset(place.image, at.map(|at| at as usize));
                        met[count] = (output, pixel);
                        count += 1;
                    }
                }
                for c in 0..self.operands.channels {
                    // SAFETY: the tensors have the weight and the pixels, which are inside the image.
                    unsafe {
                        let weight =
                            (self.weight)(source, first + c * weights.channel + self.window[element]);
                        for (output, pixel) in &met[..count] {
                            let sum = &mut sums[*output][lane];
                            *sum = *sum + weight * from.add(pixel + c).read_unaligned();
                        }
                    }
                }
            }
        }
    }
}
