//! Transforms the weights: G g Gᵀ, panel by panel.

use hipdnn_plugin_sdk::graph::DataType;

use crate::conv::operands::Operands;
use crate::conv::winograd::transform::{Filters, Tile, with_sides};
use crate::kernel::Refusal;
use crate::simd::isa::Isa;
use crate::simd::stored::{Stored, with_stored};
use crate::simd::vector::Float;
use crate::tensor::row_converter::not_a_float;
use crate::tensor::scratch::Shared;
use crate::threading::partition::Workers;

/// Filters that are transformed together: those of a panel's rows, for some channels.
const TOGETHER: usize = 256;

/// Transforms the filters of a panel of rows of a group, zeros beyond the last row.
pub(crate) type Pack<T> = unsafe fn(&Filter<'_>, (usize, usize), *const u8, *mut T);

/// Reads a weight.
pub(crate) type Weight<T> = unsafe fn(*const u8, usize) -> T;

/// What is packed.
pub(crate) struct Filter<'a> {
    pub(crate) operands: &'a Operands,
    /// Offset of each tap in the filter, row by row.
    pub(crate) window: &'a [usize; 9],
    pub(crate) tile: Tile,
    pub(crate) isa: Isa,
    /// Panels of output channels in a group, and rows of a panel.
    pub(crate) panels: usize,
    pub(crate) height: usize,
}

impl Filter<'_> {
    /// Elements of a panel of transformed weights at one position: for each channel one per row. Panels are consecutive, then
    /// positions.
    pub(crate) fn panel(&self) -> usize {
        self.operands.channels * self.height
    }

    /// Packs all panels, by several workers.
    ///
    /// # Safety
    /// `source` is the first weight; `to` is writable for all panels at each of the transformed positions.
    pub(crate) unsafe fn pack_all<T: Float>(
        &self,
        pack: Pack<T>,
        workers: Workers,
        source: *mut u8,
        to: *mut T,
    ) {
        let shared = Shared([source, to.cast()]);
        workers.for_each_part(self.operands.groups * self.panels, |_, index| {
            let (group, panel) = (index / self.panels, index % self.panels);
            let first = (group * self.tile.positions() * self.panels + panel) * self.panel();
            // SAFETY: this function requires the weights and the panels; one worker packs each.
            unsafe {
                pack(self, (group, panel), shared.get(0), shared.get(1).cast::<T>().add(first));
            }
        });
    }
}

/// The routines for a dtype of weights.
pub(crate) fn routines<T: Float>(data_type: DataType) -> Result<(Pack<T>, Weight<T>), Refusal> {
    Ok(with_stored!(
        data_type,
        S => (pack::<S, T>, weight::<S, T>),
        other => return Err(not_a_float(other))
    ))
}

/// Transforms the filters of a panel of rows, zeros beyond the last row.
///
/// # Safety
/// `from` is the first weight; `to` is writable for a panel, at each of the transformed positions.
unsafe fn pack<S: Stored, T: Float>(
    filter: &Filter<'_>,
    (group, panel): (usize, usize),
    from: *const u8,
    to: *mut T,
) {
    let Operands { channels, rows, weights, .. } = filter.operands;
    let height = filter.height;
    let channels_at_once = TOGETHER / height;
    let first = panel * height;
    // Tap by tap; values after the last row stay zero.
    let mut elements = [[T::ZERO; TOGETHER]; 9];
    for begin in (0..*channels).step_by(channels_at_once) {
        let count = (channels - begin).min(channels_at_once);
        for row in 0..(rows - first).min(height) {
            let first_weight = group * weights.group + (first + row) * weights.row + begin * weights.channel;
            for channel in 0..count {
                for (values, offset) in elements.iter_mut().zip(filter.window) {
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
        let (from, stride, len) = (elements.as_ptr().cast(), TOGETHER, count * height);
        let to_stride = filter.panels * filter.panel();
        // SAFETY: the panel is valid, as this function requires; there are as many elements.
        unsafe {
            let to = to.add(begin * height);
            with_sides!(filter.tile, SIDE, _OUTPUTS => {
                let work = Filters::<T, SIDE> { from, stride, len, to, to_stride };
                filter.isa.run_vectors(work);
            });
        }
    }
}

/// One weight.
///
/// # Safety
/// `from` is readable for `index` + 1 elements, at any alignment.
unsafe fn weight<S: Stored, T: Float>(from: *const u8, index: usize) -> T {
    // SAFETY: the tensor has a weight with this index.
    unsafe { from.cast::<S>().add(index).read_unaligned().value() }
}
