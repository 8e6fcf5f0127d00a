//! Transforms the weights: G g Gᵀ, panel by panel.

use crate::conv::operands::Operands;
use crate::conv::winograd::problem::Winograd;
use crate::conv::winograd::transform::{Filters, with_sides};
use crate::simd::stored::Stored;
use crate::simd::vector::Float;

/// Rows of a panel at most.
const MAX_ROWS: usize = 8;

/// Channels whose filters are transformed together.
const CHANNELS: usize = 32;

/// Transforms the filters of a panel of rows, zeros beyond the last row.
///
/// # Safety
/// `from` is the first weight; `to` is writable for a panel, at each of the transformed positions.
pub(crate) unsafe fn pack<S: Stored, T: Float>(
    winograd: &Winograd<T>,
    (group, panel): (usize, usize),
    from: *const u8,
    to: *mut T,
) {
    let Operands { channels, rows, weights, .. } = &winograd.operands;
    let height = winograd.kernel.rows;
    let first = panel * height;
    // Tap by tap; values after the last row stay zero.
    let mut elements = [[T::ZERO; CHANNELS * MAX_ROWS]; 9];
    for begin in (0..*channels).step_by(CHANNELS) {
        let count = (channels - begin).min(CHANNELS);
        for row in 0..(rows - first).min(height) {
            let first_weight = group * weights.group + (first + row) * weights.row + begin * weights.channel;
            for channel in 0..count {
                for (values, offset) in elements.iter_mut().zip(winograd.window) {
                    // SAFETY: the weights are valid, as this function requires.
                    values[channel * height + row] = unsafe {
                        from.cast::<S>()
                            .add(first_weight + channel * weights.channel + offset)
                            .read_unaligned()
                            .value()
                    };
                }
            }
        }
        let (from, stride, len) = (elements.as_ptr().cast(), CHANNELS * MAX_ROWS, count * height);
        let to_stride = winograd.panels * winograd.panel();
        // SAFETY: the panel is valid, as this function requires; there are as many elements.
        unsafe {
            let to = to.add(begin * height);
            with_sides!(winograd.tile, SIDE, _OUTPUTS => {
                let work = Filters::<T, SIDE> { from, stride, len, to, to_stride };
                winograd.isa.run_vectors(work);
            });
        }
    }
}

/// One weight.
///
/// # Safety
/// `from` is readable for `index` + 1 elements, at any alignment.
pub(crate) unsafe fn weight<S: Stored, T: Float>(from: *const u8, index: usize) -> T {
    // SAFETY: the tensor has a weight with this index.
    unsafe { from.cast::<S>().add(index).read_unaligned().value() }
}
