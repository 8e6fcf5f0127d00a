//! Resizing along up to two axes: each element of the result is a weighted sum of neighbours, line by line.

use std::ops::Range;

use super::divided;
use crate::lowering::{Item, OnHost, Shared, Slab};
use crate::model::Element;
use crate::threads::Parallel;

/// The most lines that are kept while an image is enlarged: cubic interpolation has as many.
const MOST_KEPT: usize = 4;

/// For each element of the result along an axis, the elements of the input that it is made of.
#[derive(Clone, Debug)]
pub struct Taps {
    /// How many an element has.
    pub count: usize,
    /// Their places, `count` for each element.
    pub places: Vec<usize>,
    /// Their weights; none if each is a single one that is copied.
    pub weights: Vec<f32>,
}

impl Taps {
    /// Every element, of `size`.
    pub fn all(size: usize) -> Self {
        Self { count: 1, places: (0..size).collect(), weights: Vec::new() }
    }

    /// The elements of the result.
    pub fn size(&self) -> usize {
        self.places.len() / self.count.max(1)
    }

    /// The places and weights of an element of the result.
    fn of(&self, at: usize) -> impl Iterator<Item = (usize, f32)> {
        let range = at * self.count..(at + 1) * self.count;
        let places = self.places.get(range.clone()).unwrap_or(&[]);
        let weights = self.weights.get(range).unwrap_or(&[]);
        places.iter().enumerate().map(|(tap, place)| (*place, weights.get(tap).copied().unwrap_or(1.0)))
    }
}

/// Resizes a packed tensor, which is `[outer, first, middle, second, inner]`, along the axes `first` and `second`.
#[derive(Debug)]
pub struct Resize {
    /// The sizes that stay: outer, middle, inner.
    pub stays: [usize; 3],
    /// The sizes of both axes in the input.
    pub from: [usize; 2],
    /// What results along both axes are made of.
    pub taps: [Taps; 2],
}

/// A type that can be weighted.
trait Weighted: Item + Default {
    fn weighted(self, weight: f32) -> Self;
    fn plus(self, other: Self) -> Self;
}

impl Weighted for f32 {
    #[inline(always)]
    fn weighted(self, weight: f32) -> Self {
        self * weight
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

impl Weighted for f64 {
    #[inline(always)]
    fn weighted(self, weight: f32) -> Self {
        self * Self::from(weight)
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

/// The weighted sum of lines.
fn sum<T: Weighted>(lines: &[(&[T], f32)], to: &mut [T]) {
    match lines {
        [(a, u), (b, v)] => {
            for ((to, a), b) in to.iter_mut().zip(*a).zip(*b) {
                *to = a.weighted(*u).plus(b.weighted(*v));
            }
        }
        _ => {
            to.fill(T::default());
            for (line, weight) in lines {
                for (to, x) in to.iter_mut().zip(*line) {
                    *to = to.plus(x.weighted(*weight));
                }
            }
        }
    }
}

impl Resize {
    fn line(&self) -> usize {
        self.from[1] * self.stays[2]
    }

    /// The offset of the input's line for a line of the result, at a place along the first axis.
    fn source(&self, outer: usize, place: usize, middle: usize) -> usize {
        ((outer * self.from[0] + place) * self.stays[1] + middle) * self.line()
    }

    /// The lines of the result, with their outer, first and middle index.
    fn lines(&self) -> usize {
        self.stays[0] * self.taps[0].size() * self.stays[1]
    }

    fn index(&self, line: usize) -> [usize; 3] {
        let (size, middle) = (self.taps[0].size().max(1), self.stays[1].max(1));
        [line / middle / size, line / middle % size, line % middle]
    }

    /// # Safety
    /// The tensors are readable and writable, and have the sizes.
    unsafe fn weigh<T: Weighted>(
        &self,
        from: &Slab<'_>,
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        // SAFETY: the tensors are readable and writable, as this function requires.
        let (items, to) = (unsafe { from.items::<T>() }?, Shared(writes));
        let [first, second] = &self.taps;
        let inner = self.stays[2];
        let width = second.size() * inner;
        let bytes = (self.line() * first.count + width * second.count) * size_of::<T>();
        if self.enlarges() {
            return divided(self.lines(), bytes, parallel, &|range| {
                self.enlarge(&items, range, |line, result| {
                    if let Some(to) = to.get(0) {
                        // SAFETY: the result has these lines, which only this thread writes.
                        unsafe { to.put(line * width, result) };
                    }
                });
            });
        }
        divided(self.lines(), bytes, parallel, &|range| {
            let (mut between, mut result) = (vec![T::default(); self.line()], vec![T::default(); width]);
            let mut lines: Vec<(&[T], f32)> = Vec::new();
            for line in range {
                let [outer, at, middle] = self.index(line);
                let whole = |place: usize| {
                    let begin = self.source(outer, place, middle);
                    items.get(begin..begin + self.line()).unwrap_or(&[])
                };
                lines.clear();
                lines.extend(first.of(at).map(|(place, weight)| (whole(place), weight)));
                let source: &[T] = match lines.as_slice() {
                    [(line, _)] if first.weights.is_empty() => line,
                    lines => {
                        sum(lines, &mut between);
                        &between
                    }
                };
                self.along(source, &mut result);
                // SAFETY: the result has this line, which only this thread writes.
                to.get(0).into_iter().for_each(|to| unsafe { to.put(line * width, &result) });
            }
        })
    }

    /// Whether each line of the input serves several lines of the result, one after the other.
    fn enlarges(&self) -> bool {
        let first = &self.taps[0];
        // Lines are kept by their place modulo the number of taps.
        let are_apart = |of: &[usize]| {
            let mut pairs =
                of.iter().enumerate().flat_map(|(at, a)| of.iter().skip(at + 1).map(move |b| (a, b)));
            pairs.all(|(a, b)| a == b || a % first.count != b % first.count)
        };
        self.stays[1] == 1
            && (1..=MOST_KEPT).contains(&first.count)
            && self.from[0] < first.size()
            && first.places.chunks(first.count).all(are_apart)
    }

    /// Lines of the result, each given to `put` with its number: every line of the input is resized once along the second axis, and
    /// kept while lines of the result need it.
    fn enlarge<T: Weighted>(&self, items: &[T], range: Range<usize>, mut put: impl FnMut(usize, &[T])) {
        let [first, second] = &self.taps;
        let (count, width) = (first.count, second.size() * self.stays[2]);
        let (mut kept, mut sources) = (vec![T::default(); count * width], [usize::MAX; MOST_KEPT]);
        let mut result = vec![T::default(); width];
        let [mut outer, mut at, _] = self.index(range.start);
        for line in range {
            for (place, _) in first.of(at) {
                let (slot, source) = (place % count, outer * self.from[0] + place);
                let (Some(holds), Some(to)) =
                    (sources.get_mut(slot), kept.get_mut(slot * width..(slot + 1) * width))
                else {
                    continue;
                };
                if *holds != source {
                    *holds = source;
                    let begin = source * self.line();
                    self.along(items.get(begin..begin + self.line()).unwrap_or(&[]), to);
                }
            }
            let part = |place: usize| {
                let slot = place % count;
                kept.get(slot * width..(slot + 1) * width).unwrap_or(&[])
            };
            let none: &[T] = &[];
            let mut lines = [(none, 0.0); MOST_KEPT];
            lines
                .iter_mut()
                .zip(first.of(at))
                .for_each(|(line, (place, weight))| *line = (part(place), weight));
            match lines.get(..count).unwrap_or(&[]) {
                [(only, _)] if first.weights.is_empty() => put(line, only),
                lines => {
                    sum(lines, &mut result);
                    put(line, &result);
                }
            }
            at += 1;
            if at == first.size() {
                (outer, at) = (outer + 1, 0);
            }
        }
    }

    /// Resizes a line along the second axis.
    fn along<T: Weighted>(&self, source: &[T], result: &mut [T]) {
        let (second, inner) = (&self.taps[1], self.stays[2]);
        if inner == 1 {
            let take = |place: usize| source.get(place).copied().unwrap_or_default();
            match (second.count, second.weights.is_empty()) {
                (_, true) => result.iter_mut().zip(&second.places).for_each(|(to, place)| *to = take(*place)),
                (2, _) => {
                    let (places, weights) = (second.places.as_chunks().0, second.weights.as_chunks().0);
                    for ((to, [a, b]), [u, v]) in result.iter_mut().zip(places).zip(weights) {
                        *to = take(*a).weighted(*u).plus(take(*b).weighted(*v));
                    }
                }
                _ => {
                    for (at, to) in result.iter_mut().enumerate() {
                        let sum =
                            |sum: T, (place, weight): (usize, f32)| sum.plus(take(place).weighted(weight));
                        *to = second.of(at).fold(T::default(), sum);
                    }
                }
            }
            return;
        }
        let mut lines: Vec<(&[T], f32)> = Vec::with_capacity(second.count);
        for (at, to) in result.chunks_exact_mut(inner.max(1)).enumerate() {
            let part = |place: usize| source.get(place * inner..(place + 1) * inner).unwrap_or(&[]);
            lines.clear();
            lines.extend(second.of(at).map(|(place, weight)| (part(place), weight)));
            match lines.as_slice() {
                [(line, _)] if second.weights.is_empty() => to.copy_from_slice(line),
                lines => sum(lines, to),
            }
        }
    }

    /// Copies elements of any size.
    ///
    /// # Safety
    /// The tensors are readable and writable, and have the sizes.
    unsafe fn pick(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let (from, to) = (Shared(reads), Shared(writes));
        let size = reads.first().map_or(1, |from| from.size().unsigned_abs());
        let [first, second] = &self.taps;
        let part = self.stays[2] * size;
        let width = second.size() * part;
        divided(self.lines(), width, parallel, &|range| {
            let (Some(from), Some(to)) = (from.get(0), to.get(0)) else { return };
            for line in range {
                let [outer, at, middle] = self.index(line);
                let begin = self.source(outer, first.places.get(at).copied().unwrap_or(0), middle) * size;
                for (at, place) in second.places.iter().enumerate() {
                    let source = from.start.wrapping_add(begin + place * part);
                    // SAFETY: the places are those of elements, and the result has this line, which only this thread writes.
                    unsafe {
                        to.start
                            .wrapping_add(line * width + at * part)
                            .copy_from_nonoverlapping(source, part);
                    }
                }
            }
        })
    }
}

impl OnHost for Resize {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let [from] = reads else { return Err("no image is resized".to_owned()) };
        let is_copied = self.taps.iter().all(|taps| taps.weights.is_empty());
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        unsafe {
            match from.bound.element {
                Element::Float => self.weigh::<f32>(from, writes, parallel),
                Element::Double => self.weigh::<f64>(from, writes, parallel),
                _ if is_copied => self.pick(reads, writes, parallel),
                other => Err(format!("elements are {}", other.name())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Taps with any weights, at places side by side that end at the input's last one.
    fn taps(count: usize, [from, to]: [usize; 2], next: &mut impl FnMut() -> usize) -> Taps {
        let first = |at: usize| (at * from / to).min(from - 1);
        let places =
            (0..to).flat_map(|at| (0..count).map(move |tap| (first(at) + tap).min(from - 1))).collect();
        let weights =
            if count == 1 { Vec::new() } else { (0..to * count).map(|_| next() as f32 / 8.0).collect() };
        Taps { count, places, weights }
    }

    /// Sums of these small numbers are exact in any order.
    #[test]
    fn enlarged_lines_are_the_weighted_sums_whatever_the_range() {
        let mut seed = 1_usize;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed >> 60
        };
        for round in 0..60 {
            let counts = [1 + round % 4, 1 + round / 4 % 3];
            let from = [1 + next() % 6, 1 + next() % 6];
            let size = [from[0] + 1 + next(), 1 + next()];
            let own = [0, 1].map(|axis| taps(counts[axis], [from[axis], size[axis]], &mut next));
            let resize = Resize { stays: [1 + next() % 3, 1, 1 + round % 3], from, taps: own };
            assert!(resize.enlarges());
            let [outer, _, inner] = resize.stays;
            let items: Vec<f32> = (0..outer * from[0] * from[1] * inner).map(|_| next() as f32).collect();
            let mut expected = Vec::new();
            for line in 0..outer * size[0] {
                for at in 0..size[1] * inner {
                    let rows = resize.taps[0].of(line % size[0]);
                    let terms = rows.flat_map(|(row, u)| {
                        let place = (line / size[0] * from[0] + row) * from[1];
                        let of_column = move |(column, v)| (place + column, u * v);
                        resize.taps[1].of(at / inner).map(of_column)
                    });
                    expected.push(
                        terms.map(|(place, weight)| items[place * inner + at % inner] * weight).sum::<f32>(),
                    );
                }
            }
            let width = size[1] * inner;
            for parts in [1, 3] {
                let mut have = vec![f32::NAN; expected.len()];
                for part in 0..parts {
                    let range = resize.lines() * part / parts..resize.lines() * (part + 1) / parts;
                    resize.enlarge(&items, range, |line, result| {
                        have[line * width..(line + 1) * width].copy_from_slice(result);
                    });
                }
                assert_eq!(have, expected, "{resize:?}");
            }
        }
    }

    /// Lines that are kept at the same place, and images that become smaller, are resized line by line.
    #[test]
    fn only_larger_images_with_neighbours_are_enlarged() {
        let resize = |places: &[usize], from: usize| {
            let first = Taps { count: 2, places: places.to_vec(), weights: vec![0.5; places.len()] };
            Resize { stays: [1; 3], from: [from, 2], taps: [first, Taps::all(2)] }.enlarges()
        };
        assert_eq!(
            [resize(&[0, 1, 1, 1], 1), resize(&[0, 2, 1, 2], 1), resize(&[0, 1, 1, 2], 2)],
            [true, false, false]
        );
    }
}
