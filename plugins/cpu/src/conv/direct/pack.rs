//! Packs the weights into panels of output channels.

use crate::conv::direct::problem::Direct;
use crate::conv::operands::Operands;
use crate::gemm::accumulator::Accumulator;
use crate::gemm::pack::PackSource;
use crate::tensor::scratch::Shared;

impl<T: Accumulator> Direct<T> {
    /// Elements of a packed panel.
    pub(super) fn panel(&self) -> usize {
        self.scheme.kernel.width * self.words * self.taps.len()
    }

    /// Offset of a word's weights for a tap in a packed panel.
    pub(super) fn weight(&self, word: usize, tap: usize) -> usize {
        let taps = self.taps.len();
        let at = if self.scheme.channels_last { tap * self.words + word } else { word * taps + tap };
        at * self.scheme.kernel.width
    }

    /// Packs all weights.
    ///
    /// # Safety
    /// `from` is the first weight; `to` is writable for all panels.
    pub(super) unsafe fn pack_all(&self, from: *const u8, to: *mut T) {
        let Operands { channels, rows, groups, weights, .. } = &self.operands;
        let shared = Shared([from.cast_mut(), to.cast()]);
        let width = self.scheme.kernel.width;
        let taps = &self.part.taps;
        let in_order = self.scheme.terms == 1
            && !self.scheme.channels_last
            && weights.channel == taps.len()
            && taps.iter().enumerate().all(|(index, (_, offset))| index == *offset);
        self.pack_workers.for_each_part(groups * self.panels, |_, index| {
            let (group, panel) = (index / self.panels, index % self.panels);
            let first = panel * width;
            let from = group * weights.group + first * weights.row;
            let copy = |offset: usize, terms: usize, stride: usize, row_stride: usize| PackSource {
                from: shared.get(0).wrapping_add((from + offset) * self.scheme.weights_size),
                rows: terms,
                row: stride,
                columns: (rows - first).min(width),
                column: weights.row,
                width,
                row_stride,
            };
            // SAFETY: the tensor covers its weights, and there is memory for every panel; a panel is
            // packed by one worker.
            unsafe {
                let to = shared.get(1).cast::<T>().add(index * self.panel());
                if in_order {
                    (self.scheme.pack)(self.isa, &copy(0, channels * taps.len(), 1, width), to);
                } else {
                    for (tap, (_, offset)) in taps.iter().enumerate() {
                        let stride = if self.scheme.channels_last { width } else { taps.len() * width };
                        let copy = copy(*offset, *channels, weights.channel, stride);
                        (self.scheme.pack)(self.isa, &copy, to.add(self.weight(0, tap)));
                    }
                }
            }
        });
    }
}
