//! Images sampled at the places of a grid.

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

/// The most axes, and the most elements along an axis and for a place.
const AXES: usize = 3;
const ALONG: usize = 4;
const MOST: usize = 16;

/// The places that are computed before the channels of each.
const PLACES: usize = 64;

/// An element with its weight; none is zero.
type Tap = (Option<usize>, f32);

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

    /// The element at a whole place; none is beyond.
    fn element(self, x: f32, size: usize) -> Option<usize> {
        let last = size as f32 - 1.0;
        let x = match self.beyond {
            Beyond::Zeros => x,
            Beyond::Border => x.clamp(0.0, last),
            // Truncated, like an index.
            Beyond::Reflection => self.reflected(x, size).trunc().clamp(0.0, last),
        };
        (x >= 0.0 && x <= last).then_some(x as usize)
    }

    /// The elements along an axis that belong to a place, and their number.
    fn along(self, x: f32, size: usize) -> ([Tap; ALONG], usize) {
        let mut taps = [(None, 0.0); ALONG];
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
        for (at, (tap, weight)) in taps.iter_mut().zip(weights).enumerate().take(count) {
            *tap = (self.element(first + at as f32, size), weight);
        }
        (taps, count)
    }

    /// The elements that belong to a place, and their number. Of the place, the last axis comes first.
    fn taps(self, place: &[f32], sizes: &[usize]) -> ([Tap; MOST], usize) {
        let mut taps = [(Some(0), 1.0); MOST];
        let mut count = 1;
        for (number, size) in place.iter().rev().zip(sizes) {
            let (own, along) = self.along(self.place(*number, *size), *size);
            let before = taps;
            let pairs = before
                .iter()
                .take(count)
                .flat_map(|outer| own.iter().take(along).map(move |inner| (outer, inner)));
            for (to, ((outer, weight), (inner, by))) in taps.iter_mut().zip(pairs) {
                *to = (outer.zip(*inner).map(|(outer, inner)| outer * size + inner), weight * by);
            }
            count *= along;
        }
        (taps, count.min(MOST))
    }
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
            let mut taps = Vec::with_capacity(PLACES);
            let mut line = [0.0_f32; PLACES];
            for at in range {
                let (image_at, first) = (at / parts, at % parts * PLACES);
                let end = (first + PLACES).min(places);
                let own = grid.get((image_at * places + first) * axes..(image_at * places + end) * axes);
                taps.clear();
                taps.extend(
                    own.unwrap_or(&[]).chunks_exact(axes.max(1)).map(|place| self.taps(place, &sizes)),
                );
                for channel in 0..channels {
                    let plane = image_at * channels + channel;
                    let elements = image.get(plane * size..(plane + 1) * size).unwrap_or(&[]);
                    let element =
                        |at: Option<usize>| at.and_then(|at| elements.get(at)).copied().unwrap_or(0.0);
                    for (to, (taps, count)) in line.iter_mut().zip(&taps) {
                        *to = taps.iter().take(*count).map(|(at, weight)| element(*at) * weight).sum();
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
            (-7..8).map(|x| of(is_aligned).element(x as f32, 3).unwrap()).collect()
        };
        assert_eq!(all(true), [1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]);
        assert_eq!(all(false), [0, 0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1]);
        assert_eq!(of(true).element(9.0, 1), Some(0));
        for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
            assert!(of(false).element(x, 3).is_none_or(|at| at < 3));
        }
    }
}
