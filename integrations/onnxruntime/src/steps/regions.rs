//! Regions of images, resampled to a grid of bins.

use super::divided;
use crate::lowering::{OnHost, Shared, Slab};
use crate::threads::Parallel;

/// Reads packed images, regions `[R, 4]` and the image of each; writes means or maxima `[R, C, bins, bins]`.
#[derive(Clone, Copy, Debug)]
pub struct Regions {
    /// The bins along each axis.
    pub bins: [usize; 2],
    /// The samples along each axis of a bin; 0 for one for each element that it covers.
    pub samples: usize,
    /// The size of an element of the image, in units of the regions' corners.
    pub scale: f32,
    /// Whether elements are at the middles of their unit, and regions may be smaller than one.
    pub is_half_pixel: bool,
    /// Whether images are `[N, H, W, C]`, not `[N, C, H, W]`.
    pub is_channels_last: bool,
    /// Whether a bin is the maximum of its samples, not their mean. As in ONNX Runtime, that is one of weighted elements: neighbours
    /// of a sample are not added, and a sample beyond the image is 0.
    pub is_maximum: bool,
}

/// The larger number; the first one if one is NaN.
fn larger(a: f32, b: f32) -> f32 {
    if a < b { b } else { a }
}

/// The largest of weighted elements.
fn largest([a, b, c, d]: [f32; 4]) -> f32 {
    larger(larger(larger(a, b), c), d)
}

/// Two neighbours along an axis with their weights.
type Pair = [(usize, f32); 2];

/// The most samples of a bin along an axis, by its length: floats distinguish no single elements of longer ones.
const MOST: f32 = 16_777_216.0;

/// The most samples by which rounding may move a bin.
const MOST_ROUNDED: f64 = 4096.0;

/// The most samples of a bin whose places are kept for all channels.
const KEPT: usize = 4096;

impl Regions {
    /// The samples of each bin along an axis that are inside of the image, and the number of all of a bin.
    fn along(self, [from, to]: [f32; 2], bins: usize, size: usize) -> (Vec<Vec<Pair>>, usize) {
        let offset = if self.is_half_pixel { 0.5 } else { 0.0 };
        let (from, to) = (from * self.scale - offset, to * self.scale - offset);
        let length = if self.is_half_pixel { to - from } else { (to - from).max(1.0) };
        let bin = length / bins as f32;
        let samples = if self.samples > 0 { self.samples } else { bin.ceil().clamp(0.0, MOST) as usize };
        let sample = |of: usize, inside: usize| {
            let x = from + of as f32 * bin + (inside as f32 + 0.5) * bin / samples as f32;
            // NaN is outside as well.
            if !(x >= -1.0 && x <= size as f32) {
                return None;
            }
            let x = x.max(0.0);
            let low = x as usize;
            if low + 1 >= size {
                let last = size.saturating_sub(1);
                return Some([(last, 1.0), (last, 0.0)]);
            }
            let behind = x - low as f32;
            Some([(low, 1.0 - behind), (low + 1, behind)])
        };
        // A bin may be longer than the image by far: most of its samples are beyond.
        let near = |of: usize| {
            if self.samples > 0 {
                return 0..samples;
            }
            let (start, step) =
                (f64::from(from) + of as f64 * f64::from(bin), f64::from(bin) / samples as f64);
            let rounded = 2.0 + (start.abs() * 1e-6 / step).min(MOST_ROUNDED);
            let at = |x: f64, more: f64| ((x - start) / step + more).clamp(0.0, samples as f64) as usize;
            at(-1.0, -rounded)..at(size as f64, rounded)
        };
        let bin = |of: usize| near(of).filter_map(|inside| sample(of, inside)).collect();
        ((0..bins).map(bin).collect(), samples)
    }

    /// Calls `each` with every sample of a bin: the places of four elements with their weights.
    fn bin(rows: &[Pair], columns: &[Pair], width: usize, each: &mut impl FnMut([usize; 4], [f32; 4])) {
        for [top, bottom] in rows {
            for [left, right] in columns {
                let place = |y: &(usize, f32), x: &(usize, f32)| y.0 * width + x.0;
                each(
                    [place(top, left), place(top, right), place(bottom, left), place(bottom, right)],
                    [top.1 * left.1, top.1 * right.1, bottom.1 * left.1, bottom.1 * right.1],
                );
            }
        }
    }

    /// Computes a region of an image to `[C, bins, bins]`.
    fn region(self, image: &[f32], [channels, height, width]: [usize; 3], of: &[f32; 4], to: &mut [f32]) {
        let [left, top, right, bottom] = *of;
        let [tall, wide] = self.bins;
        let (rows, of_bin) = self.along([top, bottom], tall, height);
        let (columns, of_column) = self.along([left, right], wide, width);
        let count = (of_bin as f32 * of_column as f32).max(1.0);
        let bins = tall * wide;
        let mut sums = vec![0.0_f32; if self.is_channels_last { channels } else { 0 }];
        let mut taps: Vec<([usize; 4], [f32; 4])> = Vec::new();
        for at in 0..bins {
            let (Some(rows), Some(columns)) = (rows.get(at / wide), columns.get(at % wide)) else { continue };
            let has_beyond = rows.len() * columns.len() < of_bin.saturating_mul(of_column);
            let result = |sum: f32| match self.is_maximum {
                true if has_beyond => larger(sum, 0.0),
                true => sum,
                false => sum / count,
            };
            if self.is_channels_last {
                sums.fill(0.0);
                let mut is_first = true;
                Self::bin(rows, columns, width, &mut |places, [a, b, c, d]| {
                    let [p, q, r, s] =
                        places.map(|of| image.get(of * channels..(of + 1) * channels).unwrap_or(&[]));
                    let all = sums.iter_mut().zip(p).zip(q).zip(r).zip(s);
                    if self.is_maximum {
                        for ((((sum, p), q), r), s) in all {
                            let of = largest([a * p, b * q, c * r, d * s]);
                            *sum = if is_first { of } else { larger(*sum, of) };
                        }
                        is_first = false;
                    } else {
                        all.for_each(|((((sum, p), q), r), s)| *sum += a * p + b * q + c * r + d * s);
                    }
                });
                let places = to.iter_mut().skip(at).step_by(bins);
                places.zip(&sums).for_each(|(to, sum)| *to = result(*sum));
                continue;
            }
            taps.clear();
            let is_kept = rows.len() * columns.len() <= KEPT;
            if is_kept {
                Self::bin(rows, columns, width, &mut |places, weights| taps.push((places, weights)));
            }
            let planes = image.chunks_exact((height * width).max(1));
            for (to, plane) in to.iter_mut().skip(at).step_by(bins).zip(planes) {
                let (mut sum, mut is_first) = (0.0, true);
                let mut add = |places: [usize; 4], weights: [f32; 4]| {
                    let element = |at: &usize| plane.get(*at).copied().unwrap_or(0.0);
                    let [p, q, r, s] = places.each_ref().map(element);
                    let [a, b, c, d] = weights;
                    let weighted = [a * p, b * q, c * r, d * s];
                    if self.is_maximum {
                        let of = largest(weighted);
                        sum = if is_first { of } else { larger(sum, of) };
                        is_first = false;
                    } else {
                        sum += weighted.iter().sum::<f32>();
                    }
                };
                if is_kept {
                    taps.iter().for_each(|(places, weights)| add(*places, *weights));
                } else {
                    Self::bin(rows, columns, width, &mut add);
                }
                *to = result(sum);
            }
        }
    }
}

impl OnHost for Regions {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let [image, regions, images] = reads else { return Err("regions of no image".to_owned()) };
        let dim = |axis: usize| usize::try_from(image.dim(axis)).unwrap_or(0);
        let sizes = if self.is_channels_last { [dim(3), dim(1), dim(2)] } else { [dim(1), dim(2), dim(3)] };
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        let (elements, regions, images) =
            unsafe { (image.items::<f32>()?, regions.items::<f32>()?, images.integers()?) };
        let regions = regions.as_chunks::<4>().0;
        let size: usize = sizes.iter().product();
        if let Some(of) = images.iter().find(|of| !usize::try_from(**of).is_ok_and(|of| of < dim(0))) {
            return Err(format!("image {of} of {}", dim(0)));
        }
        let [bins, channels] = [self.bins.iter().product::<usize>(), sizes.first().copied().unwrap_or(0)];
        let to = Shared(writes);
        divided(regions.len(), bins * channels * 64, parallel, &|range| {
            let mut line = vec![0.0; bins * channels];
            for at in range {
                let (Some(region), Some(of)) = (regions.get(at), images.get(at)) else { continue };
                let of = usize::try_from(*of).unwrap_or(0);
                let image = elements.get(of * size..(of + 1) * size).unwrap_or(&[]);
                self.region(image, sizes, region, &mut line);
                // SAFETY: the result has these elements for each region, which only this thread writes.
                to.get(0).into_iter().for_each(|to| unsafe { to.put(at * line.len(), &line) });
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Regions = Regions {
        bins: [1, 1],
        samples: 0,
        scale: 1.0,
        is_half_pixel: true,
        is_channels_last: false,
        is_maximum: false,
    };

    #[test]
    fn both_layouts_are_sampled_alike() {
        let sizes = [3, 4, 5];
        let first: Vec<f32> = (0..60).map(|at| (at * 37 % 61) as f32).collect();
        let last: Vec<f32> = (0..60).map(|at| first[at % 3 * 20 + at / 3]).collect();
        for is_maximum in [false, true] {
            let of = Regions { bins: [2, 3], scale: 0.5, is_maximum, ..MEAN };
            for region in [[1.0, 2.0, 9.0, 7.0], [-6.0, -3.0, 30.0, 0.5], [4.0, 4.0, 4.0, 4.0], [f32::NAN; 4]]
            {
                let (mut a, mut b) = (vec![1.0; 18], vec![2.0; 18]);
                Regions { is_channels_last: true, ..of }.region(&last, sizes, &region, &mut a);
                of.region(&first, sizes, &region, &mut b);
                assert_eq!(a, b, "{region:?}");
            }
        }
    }

    #[test]
    fn samples_beyond_the_image_are_counted_but_not_kept() {
        let of = Regions { bins: [1, 2], ..MEAN };
        let (bins, samples) = of.along([-40_000.0, 60_000.0], 2, 5);
        // One for each element, and those next to the image.
        assert!((5..8).contains(&bins[0].len()) && bins[1].is_empty() && samples == 50_000, "{bins:?}");
        for far in [1e9, 1e20, 1e38] {
            let (bins, samples) = of.along([-far, far], 2, 5);
            assert!(bins.iter().all(|bin| bin.len() <= 12) && samples > 4096, "{far}");
        }
    }

    #[test]
    fn places_that_are_not_kept_give_the_same() {
        let image: Vec<f32> = (0..2 * 70 * 80).map(|at| (at % 80 + at / 80) as f32 / 64.0).collect();
        let sample = |samples: usize| {
            let of = Regions { samples, ..MEAN };
            let mut to = [0.0; 2];
            of.region(&image, [2, 70, 80], &[1.0, 2.0, 79.0, 66.0], &mut to);
            to
        };
        // The mean of a slope is that of any places; the sums have so many terms that their roundings are not counted.
        let (kept, direct) = (sample(KEPT.isqrt()), sample(KEPT.isqrt() * 4));
        assert!(kept.iter().zip(&direct).all(|(a, b)| (a - b).abs() < 1e-3), "{kept:?} {direct:?}");
    }

    #[test]
    fn a_region_of_whole_elements_is_itself() {
        let of = Regions { bins: [2, 2], samples: 1, ..MEAN };
        let mut to = [0.0; 4];
        of.region(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], [1, 3, 3], &[1.0, 1.0, 3.0, 3.0], &mut to);
        assert_eq!(to, [5.0, 6.0, 8.0, 9.0]);
    }

    #[test]
    fn a_maximum_is_one_of_weighted_elements() {
        let image = [-4.0, -8.0, -16.0, -32.0];
        let of = Regions { samples: 1, is_maximum: true, ..MEAN };
        for is_channels_last in [false, true] {
            let largest = |samples, region| {
                let mut to = [1.0];
                let of = Regions { samples, is_channels_last, ..of };
                of.region(&image, [1, 2, 2], &region, &mut to);
                to[0]
            };
            // In the middle each element has a quarter of the weight.
            assert_eq!(largest(1, [0.0, 0.0, 2.0, 2.0]), -1.0);
            // On an element its neighbours have none.
            assert_eq!(largest(1, [0.0, 0.0, 1.0, 1.0]), 0.0);
            // Of four samples, three are beyond the image.
            assert_eq!(largest(2, [0.5, 0.5, 6.5, 6.5]), 0.0);
        }
    }
}
