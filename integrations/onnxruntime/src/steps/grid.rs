//! Images sampled at the places of a grid.

#![expect(
    clippy::indexing_slicing,
    reason = "arrays are indexed below their length; iterators over them are not inlined in loops of this size"
)]

use super::divided;
use crate::lowering::{OnHost, Shared, Slab};
use crate::threads::Parallel;

/// How elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// The nearest one.
    Nearest,
    /// Linear along each axis.
    Linear,
    /// Cubic along each axis, with the factor -0.75.
    Cubic,
}

/// What is beyond the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Zeros.
    Zeros,
    /// The nearest element.
    Border,
    /// The image, reflected.
    Reflection,
}

/// Samples packed images `[N, C, sizes...]` at the places of a packed grid `[N, outer..., axes]`, whose last axis comes first.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// How elements are combined.
    pub interpolation: Interpolation,
    /// What is beyond the image.
    pub beyond: Beyond,
    /// Whether -1 and 1 are the middles of the outer elements, not their outer edges.
    pub is_aligned: bool,
}

/// The most axes, and the most elements along an axis.
const AXES: usize = 3;
const ALONG: usize = 4;

/// The places that are computed before the channels of each.
const PLACES: usize = 64;

/// An element with its weight.
type Tap = (usize, f32);

/// The index of an element beyond the image, which is zero.
const OUTSIDE: usize = usize::MAX;

impl Grid {
    /// The place of a number of the grid along an axis.
    fn place(self, number: f32, size: usize) -> f32 {
        let size = size as f32;
        if self.is_aligned {
            (number + 1.0) / 2.0 * (size - 1.0)
        } else {
            ((number + 1.0) * size - 1.0) / 2.0
        }
    }

    /// A place reflected into the image, between the middles or the edges of the outer elements.
    fn reflected(self, x: f32, size: usize) -> f32 {
        let last = size as f32 - 1.0;
        let (least, most) = if self.is_aligned { (0.0, last) } else { (-0.5, last + 0.5) };
        let range = most - least;
        if range <= 0.0 || (least..=most).contains(&x) {
            return if range <= 0.0 { 0.0 } else { x };
        }
        let far = if x < least { least - x } else { x - most };
        let rest = far % range;
        let is_odd = ((far / range).floor() % 2.0) != 0.0;
        if (x < least) == is_odd { most - rest } else { least + rest }
    }

    /// The element at a whole place.
    #[inline(always)]
    fn element(self, x: f32, size: usize) -> usize {
        let last = size as f32 - 1.0;
        let x = match self.beyond {
            Beyond::Zeros => x,
            Beyond::Border => x.clamp(0.0, last),
            // Truncated, like an index.
            Beyond::Reflection => self.reflected(x, size).trunc().clamp(0.0, last),
        };
        if x >= 0.0 && x <= last { x as usize } else { OUTSIDE }
    }

    /// The elements along an axis that belong to a place, and their number.
    #[inline(always)]
    fn along(self, x: f32, size: usize) -> ([Tap; ALONG], usize) {
        let mut taps = [(OUTSIDE, 0.0); ALONG];
        let (first, weights, count) = match self.interpolation {
            Interpolation::Nearest => (x.round_ties_even(), [1.0, 0.0, 0.0, 0.0], 1),
            Interpolation::Linear => {
                let behind = x - x.floor();
                (x.floor(), [1.0 - behind, behind, 0.0, 0.0], 2)
            }
            Interpolation::Cubic => {
                const A: f32 = -0.75;
                let behind = x - x.floor();
                let near = |x: f32| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
                let far = |x: f32| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
                let before = 1.0 - behind;
                (x.floor() - 1.0, [far(behind + 1.0), near(behind), near(before), far(before + 1.0)], 4)
            }
        };
        for at in 0..count {
            taps[at] = (self.element(first + at as f32, size), weights[at]);
        }
        (taps, count)
    }

    /// Adds the elements that belong to a place, and returns their number. Of the place, the last axis comes first.
    #[inline(always)]
    fn taps(self, place: &[f32], sizes: &[usize], to: &mut Vec<Tap>) -> usize {
        let mut own = [[(0, 1.0); ALONG]; AXES];
        let (mut counts, mut steps) = ([1; AXES], [1; AXES]);
        // The last axes, behind those of one element.
        for axis in 0..place.len() {
            let (at, size) = (AXES - 1 - axis, sizes[sizes.len() - 1 - axis]);
            (own[at], counts[at]) = self.along(self.place(place[axis], size), size);
            steps[at] = size;
        }
        for first in &own[0][..counts[0]] {
            for second in &own[1][..counts[1]] {
                let plane = joined(*first, *second, steps[1]);
                for third in &own[2][..counts[2]] {
                    to.push(joined(plane, *third, steps[2]));
                }
            }
        }
        counts[0] * counts[1] * counts[2]
    }
}

/// The element at two indices, of which the second one has so many.
#[inline(always)]
fn joined(outer: Tap, inner: Tap, size: usize) -> Tap {
    let at = if outer.0 == OUTSIDE || inner.0 == OUTSIDE { OUTSIDE } else { outer.0 * size + inner.0 };
    (at, outer.1 * inner.1)
}

/// The sum of elements by their weights.
#[inline(always)]
fn sum(taps: &[Tap], elements: &[f32]) -> f32 {
    let mut sum = 0.0;
    for (at, weight) in taps {
        sum += if *at < elements.len() { elements[*at] } else { 0.0 } * weight;
    }
    sum
}

impl OnHost for Grid {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let ([image, grid], [_]) = (reads, writes) else { return Err("a grid of no tensors".to_owned()) };
        let count = |dims: &[i64]| usize::try_from(dims.iter().product::<i64>()).unwrap_or(0);
        let [batch, channels, sizes @ ..] = image.bound.dims.as_slice() else {
            return Err(format!("an image has dims {:?}", image.bound.dims));
        };
        let [_, outer @ .., axes] = grid.bound.dims.as_slice() else {
            return Err(format!("a grid has dims {:?}", grid.bound.dims));
        };
        let (batch, channels, axes) = (count(&[*batch]), count(&[*channels]), count(&[*axes]));
        if axes != sizes.len() || axes > AXES || (axes > 2 && self.interpolation == Interpolation::Cubic) {
            return Err(format!("a grid of {axes} axes over {} ones", sizes.len()));
        }
        let (size, places) = (count(sizes), count(outer));
        let sizes: Vec<usize> = sizes.iter().map(|size| count(&[*size])).collect();
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        let (image, grid) = unsafe { (image.items::<f32>()?, grid.items::<f32>()?) };
        let to = Shared(writes);
        let parts = places.div_ceil(PLACES);
        divided(batch * parts, channels * PLACES * 16, parallel, &|range| {
            let mut taps: Vec<Tap> = Vec::with_capacity(PLACES * 8);
            let mut line = [0.0_f32; PLACES];
            for at in range {
                let (image_at, first) = (at / parts, at % parts * PLACES);
                let end = (first + PLACES).min(places);
                let own = grid.get((image_at * places + first) * axes..(image_at * places + end) * axes);
                taps.clear();
                let mut count = 1;
                for place in own.unwrap_or(&[]).chunks_exact(axes.max(1)) {
                    count = self.taps(place, &sizes, &mut taps);
                }
                for channel in 0..channels {
                    let plane = image_at * channels + channel;
                    let elements = image.get(plane * size..(plane + 1) * size).unwrap_or(&[]);
                    // The usual number, so that its loop is unrolled.
                    if let (4, (fours, _)) = (count, taps.as_chunks::<4>()) {
                        for at in 0..fours.len().min(PLACES) {
                            line[at] = sum(&fours[at], elements);
                        }
                    } else {
                        let all = taps.chunks_exact(count.max(1));
                        line.iter_mut().zip(all).for_each(|(to, taps)| *to = sum(taps, elements));
                    }
                    let line = line.get(..end - first).unwrap_or(&[]);
                    // SAFETY: the result has a number for each place and channel, which only this thread writes.
                    to.get(0).into_iter().for_each(|to| unsafe { to.put(plane * places + first, line) });
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_beyond_the_image_are_its_own_reflected() {
        let of = |is_aligned| Grid {
            interpolation: Interpolation::Nearest,
            beyond: Beyond::Reflection,
            is_aligned,
        };
        let all = |is_aligned: bool| -> Vec<usize> {
            (-7..8).map(|x| of(is_aligned).element(x as f32, 3)).collect()
        };
        assert_eq!(all(true), [1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]);
        assert_eq!(all(false), [0, 0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1]);
        assert_eq!(of(true).element(9.0, 1), 0);
        for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
            let at = of(false).element(x, 3);
            assert!(at < 3 || at == OUTSIDE);
        }
    }
}
