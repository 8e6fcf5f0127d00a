//! The elements that a deformable convolution multiplies: sampled at places that differ by given offsets from those of a window.

use super::divided;
use crate::lowering::{OnHost, Shared, Slab};
use crate::threads::Parallel;

/// Reads packed images `[N, H, W, C]`, offsets `[N, offset groups · window · 2, rows, columns]` and perhaps factors
/// `[N, offset groups · window, rows, columns]`; writes `[groups, N · rows · columns, window, C / groups]`.
#[derive(Clone, Copy, Debug)]
pub struct Deformed {
    /// The size of the window.
    pub window: [usize; 2],
    /// The step of the window.
    pub stride: [i64; 2],
    /// The padding before the image.
    pub before: [i64; 2],
    /// The distance of the window's elements.
    pub dilation: [i64; 2],
    /// The groups of channels that are multiplied apart.
    pub groups: usize,
    /// The groups of channels that have their own offsets.
    pub offset_groups: usize,
    /// Whether there are factors. What is read behind them only has to be computed before.
    pub is_masked: bool,
}

/// An image, its sizes, and the numbers of a sample.
struct Image<'a> {
    elements: &'a [f32],
    sizes: [usize; 2],
    channels: usize,
}

impl Image<'_> {
    /// Adds the channels from `first` on at a place, by a factor.
    fn add(&self, [y, x]: [f32; 2], factor: f32, first: usize, to: &mut [f32]) {
        let [height, width] = self.sizes;
        let is_near = |at: f32, size: usize| at > -1.0 && at < size as f32;
        if !is_near(y, height) || !is_near(x, width) {
            return;
        }
        let (top, left) = (y.floor(), x.floor());
        let (down, right) = (y - top, x - left);
        for (row, of_row) in [(top, 1.0 - down), (top + 1.0, down)] {
            for (column, of_column) in [(left, 1.0 - right), (left + 1.0, right)] {
                if row < 0.0 || row >= height as f32 || column < 0.0 || column >= width as f32 {
                    continue;
                }
                let at = (row as usize * width + column as usize) * self.channels + first;
                let weight = of_row * of_column * factor;
                let elements = self.elements.get(at..at + to.len()).unwrap_or(&[]);
                to.iter_mut().zip(elements).for_each(|(to, element)| *to += weight * element);
            }
        }
    }
}

impl OnHost for Deformed {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let ([image, offsets, factors @ ..], [_]) = (reads, writes) else {
            return Err("a deformed image of no tensors".to_owned());
        };
        let dim = |slab: &Slab<'_>, axis: usize| usize::try_from(slab.dim(axis)).unwrap_or(0);
        let [height, width, channels] = [1, 2, 3].map(|axis| dim(image, axis));
        let [rows, columns] = [2, 3].map(|axis| dim(offsets, axis));
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        let (elements, offsets) = unsafe { (image.items::<f32>()?, offsets.items::<f32>()?) };
        // SAFETY: the same.
        let factors =
            factors.first().filter(|_| self.is_masked).map(|of| unsafe { of.items::<f32>() }).transpose()?;
        let (places, size) = (rows * columns, height * width * channels);
        let [tall, wide] = self.window;
        let (window, of_group) = (tall * wide, channels / self.groups.max(1));
        let of_offsets = channels / self.offset_groups.max(1);
        let lines = dim(image, 0) * places;
        let to = Shared(writes);
        divided(lines, window * channels * 16, parallel, &|range| {
            let mut line = vec![0.0_f32; channels];
            for at in range {
                let (item, place) = (at / places.max(1), at % places.max(1));
                let (row, column) = (place / columns, place % columns);
                let image = Image {
                    elements: elements.get(item * size..(item + 1) * size).unwrap_or(&[]),
                    sizes: [height, width],
                    channels,
                };
                for tap in 0..window {
                    line.fill(0.0);
                    for (group, to) in line.chunks_mut(of_offsets.max(1)).enumerate() {
                        let number = |of: &[f32], index: usize, count: usize| {
                            let plane = (item * self.offset_groups + group) * count + index;
                            of.get(plane * places + place).copied().unwrap_or(0.0)
                        };
                        let start = |axis: usize, at: usize, tap: usize| {
                            let of = |list: [i64; 2]| list.get(axis).copied().unwrap_or(0);
                            let (at, tap) = (i64::try_from(at).unwrap_or(0), i64::try_from(tap).unwrap_or(0));
                            (at * of(self.stride) - of(self.before) + tap * of(self.dilation)) as f32
                        };
                        let y = start(0, row, tap / wide) + number(&offsets, 2 * tap, 2 * window);
                        let x = start(1, column, tap % wide) + number(&offsets, 2 * tap + 1, 2 * window);
                        let factor = factors.as_ref().map_or(1.0, |of| number(of, tap, window));
                        image.add([y, x], factor, group * of_offsets, to);
                    }
                    for (group, part) in line.chunks(of_group.max(1)).enumerate() {
                        let first = ((group * lines + at) * window + tap) * of_group;
                        // SAFETY: the result has these elements for each group, place and tap, which only this thread writes.
                        to.get(0).into_iter().for_each(|to| unsafe { to.put(first, part) });
                    }
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_between_elements_are_means() {
        let image = Image { elements: &[1.0, 2.0, 3.0, 4.0], sizes: [2, 2], channels: 1 };
        let at = |place: [f32; 2]| {
            let mut to = [0.0];
            image.add(place, 2.0, 0, &mut to);
            to[0]
        };
        assert_eq!(at([0.5, 0.5]), 5.0);
        assert_eq!([at([1.0, 0.0]), at([1.5, 1.0]), at([-0.5, 0.0])], [6.0, 4.0, 1.0]);
        assert_eq!([at([-1.0, 0.0]), at([2.0, 0.0]), at([f32::NAN, 0.0]), at([0.0, 1e30])], [0.0; 4]);
    }
}
