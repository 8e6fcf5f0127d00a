//! The boxes of a class that overlap no better one too much.

use std::sync::{Mutex, PoisonError};

use super::divided;
use crate::lowering::{OnHost, Slab};
use crate::threads::Parallel;

/// Reads boxes `[N, boxes, 4]`, scores `[N, classes, boxes]` and what is given; writes rows of image, class and box, and
/// their number.
#[derive(Clone, Copy, Debug)]
pub struct Suppression {
    /// Whether a box is its middle and its size, not two corners.
    pub is_centered: bool,
    /// Whether the most boxes of a class are given, the most overlap, and the least score.
    pub given: [bool; 3],
}

/// A box's limits and its area.
#[derive(Clone, Copy)]
struct Area {
    least: [f32; 2],
    most: [f32; 2],
    area: f32,
}

impl Area {
    fn new(of: &[f32; 4], is_centered: bool) -> Self {
        let [a, b, c, d] = *of;
        let (least, most) = if is_centered {
            ([a - c / 2.0, b - d / 2.0], [a + c / 2.0, b + d / 2.0])
        } else {
            ([a.min(c), b.min(d)], [a.max(c), b.max(d)])
        };
        let ([left, top], [right, bottom]) = (least, most);
        Self { least, most, area: (right - left) * (bottom - top) }
    }

    /// Whether the common part of two is more than `limit` of what both cover.
    #[inline(always)]
    fn overlaps(&self, other: &Self, limit: f32) -> bool {
        // A box with NaN has no area, so comparisons need not treat it.
        let common =
            |[a, b]: [f32; 2], [c, d]: [f32; 2]| (if b < d { b } else { d }) - (if a > c { a } else { c });
        let [[top, left], [bottom, right]] = [self.least, self.most];
        let [[other_top, other_left], [other_bottom, other_right]] = [other.least, other.most];
        let height = common([top, bottom], [other_top, other_bottom]);
        if height <= 0.0 {
            return false;
        }
        let width = common([left, right], [other_left, other_right]);
        if width <= 0.0 {
            return false;
        }
        let both = self.area + other.area - height * width;
        self.area > 0.0 && other.area > 0.0 && both > 0.0 && height * width / both > limit
    }
}

/// The most strips for the boxes of a class.
const STRIPS: usize = 4096;

/// The chosen boxes by the place of their beginning along the first axis. Strips are as wide as the widest box, so that boxes overlap only
/// those of their own and the two next to it.
struct Strips {
    from: f32,
    width: f32,
    chosen: Vec<Vec<Area>>,
}

impl Strips {
    fn new(candidates: impl Iterator<Item = Area>) -> Self {
        let (mut from, mut to, mut width) = (f32::INFINITY, f32::NEG_INFINITY, 0.0_f32);
        for Area { least: [begin, _], most: [end, _], .. } in candidates {
            from = from.min(begin);
            to = to.max(begin);
            // NaN is in no comparison true, and overlaps nothing.
            width = width.max(end - begin);
        }
        // More than the widest one, since differences are rounded.
        let (range, width) = (to - from, width * 1.01 + (from.abs() + to.abs()) * 1e-5);
        let count = if range.is_finite() && width > 0.0 { (range / width).floor() as usize } else { 1 };
        let count = count.clamp(1, STRIPS);
        let width = if count > 1 { range / count as f32 } else { f32::INFINITY };
        Self { from, width, chosen: vec![Vec::new(); count] }
    }

    fn strip(&self, of: &Area) -> usize {
        let [begin, _] = of.least;
        let strip = (begin - self.from) / self.width;
        (strip.max(0.0) as usize).min(self.chosen.len() - 1)
    }

    /// Chooses a box, unless it overlaps one too much.
    fn add(&mut self, own: Area, limit: f32) -> bool {
        let strip = self.strip(&own);
        let near = self.chosen.get(strip.saturating_sub(1)..(strip + 2).min(self.chosen.len()));
        let is_free_of = |strip: &Vec<Area>| strip.iter().all(|other| !own.overlaps(other, limit));
        let is_free = near.unwrap_or(&[]).iter().all(is_free_of);
        if is_free && let Some(to) = self.chosen.get_mut(strip) {
            to.push(own);
        }
        is_free
    }
}

impl Suppression {
    /// The chosen boxes of a class, the best first.
    fn chosen(
        self,
        boxes: &[[f32; 4]],
        scores: &[f32],
        (most, limit, least): (usize, f32, Option<f32>),
    ) -> Vec<usize> {
        let is_candidate = |(_, score): &(usize, &f32)| least.is_none_or(|least| **score > least);
        let mut candidates: Vec<(usize, &f32)> = scores.iter().enumerate().filter(is_candidate).collect();
        // Of equal ones, which zeros of both signs are, the first comes first; what is no number is last.
        let rank = |score: &f32| if score.is_nan() { f32::NEG_INFINITY } else { score + 0.0 };
        candidates.sort_unstable_by(|(a, x), (b, y)| rank(y).total_cmp(&rank(x)).then(a.cmp(b)));
        let area = |at: &usize| boxes.get(*at).map(|of| Area::new(of, self.is_centered));
        let mut strips = Strips::new(candidates.iter().filter_map(|(at, _)| area(at)));
        let mut chosen = Vec::new();
        for (at, _) in candidates {
            if chosen.len() >= most {
                break;
            }
            let Some(own) = area(&at) else { break };
            if strips.add(own, limit) {
                chosen.push(at);
            }
        }
        chosen
    }
}

impl OnHost for Suppression {
    fn work(&self, elements: i64) -> i64 {
        // Each box, three elements, is compared with some hundreds of chosen ones.
        elements.saturating_mul(128)
    }

    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let ([boxes, scores, rest @ ..], [to, size_of_rows]) = (reads, writes) else {
            return Err("boxes of no tensor".to_owned());
        };
        let mut rest = rest.iter();
        let [most, limit, least] = self.given.map(|is_given| if is_given { rest.next() } else { None });
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        let most = most.map(|of| unsafe { of.integers() }).transpose()?;
        let most = most.and_then(|of| of.first().copied()).unwrap_or(0);
        let number = |of: &Slab<'_>| {
            // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
            // else.
            unsafe { of.items::<f32>() }.map(|of| of.first().copied())
        };
        let limit = limit.map(number).transpose()?.flatten().unwrap_or(0.0);
        if !(0.0..=1.0).contains(&limit) {
            return Err(format!("the most overlap is {limit}, expected 0 to 1"));
        }
        let least = least.map(number).transpose()?.flatten();
        let limits = (usize::try_from(most).unwrap_or(0), limit, least);
        let count = |slab: &Slab<'_>, axis: usize| usize::try_from(slab.dim(axis)).unwrap_or(0);
        let (size, classes) = (count(boxes, 1), count(scores, 1));
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        let (boxes, scores) = unsafe { (boxes.items::<f32>()?, scores.items::<f32>()?) };
        let boxes = boxes.as_chunks::<4>().0;
        let tasks = scores.len() / size.max(1);
        let found: Vec<Mutex<Vec<usize>>> = (0..tasks).map(|_| Mutex::default()).collect();
        divided(tasks, size * 64, parallel, &|range| {
            for (task, found) in found.iter().enumerate().take(range.end).skip(range.start) {
                let image = task / classes.max(1);
                let own = boxes.get(image * size..(image + 1) * size).unwrap_or(&[]);
                let scores = scores.get(task * size..(task + 1) * size).unwrap_or(&[]);
                *found.lock().unwrap_or_else(PoisonError::into_inner) = self.chosen(own, scores, limits);
            }
        })?;
        let number = |of: usize| i64::try_from(of).unwrap_or(0);
        let mut rows: Vec<i64> = Vec::new();
        for (task, found) in found.iter().enumerate() {
            for at in found.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                rows.extend([number(task / classes.max(1)), number(task % classes.max(1)), number(*at)]);
            }
        }
        let room = to.count();
        if rows.len() > room {
            return Err(format!("{} numbers of boxes, expected at most {room}", rows.len()));
        }
        // SAFETY: the results have room for the rows and their number, and only this thread writes them.
        unsafe {
            to.put(0, &rows);
            size_of_rows.put(0, &[number(rows.len() / 3)]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_that_are_no_numbers_come_last() {
        let boxes: Vec<[f32; 4]> = (0..100).map(|at| [0.0, at as f32, 1.0, at as f32 + 0.5]).collect();
        let mut scores: Vec<f32> = (0..100).map(|at| (at * 37 % 11) as f32).collect();
        scores.iter_mut().step_by(7).for_each(|score| *score = f32::NAN);
        (scores[1], scores[2], scores[3]) = (-0.0, 0.0, -0.0);
        let own = Suppression { is_centered: false, given: [false; 3] };
        let chosen = own.chosen(&boxes, &scores, (100, 0.5, None));
        assert_eq!(chosen.len(), 100);
        let place = |of: usize| chosen.iter().position(|at| *at == of).unwrap();
        assert!(place(1) < place(2) && place(2) < place(3));
        assert!(chosen[85..].iter().all(|at| at % 7 == 0), "{chosen:?}");
    }

    #[test]
    fn strips_hide_no_overlap() {
        let mut state = 7_u32;
        let mut number = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32
        };
        for (spread, size) in [(1.0, 1.0), (50.0, 1.0), (1e6, 3.0), (9000.0, 0.0), (1e-6, 1e-6)] {
            let corner = |number: &mut dyn FnMut() -> f32| [number() * spread - 5.0, number()];
            let mut boxes: Vec<[f32; 4]> = Vec::new();
            for _ in 0..600 {
                let [a, b] = corner(&mut number);
                boxes.push([a, b, a + number() * size, b + number() * 0.3]);
            }
            boxes.push([f32::NAN, 0.0, 1.0, 1.0]);
            boxes.push([-5.0, 0.0, f32::INFINITY, 1.0]);
            for count in [600, boxes.len()] {
                let boxes = &boxes[..count];
                let scores: Vec<f32> = boxes.iter().map(|_| number()).collect();
                let own = Suppression { is_centered: false, given: [true; 3] };
                let mut order: Vec<usize> = (0..count).collect();
                order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
                let mut want: Vec<usize> = Vec::new();
                for at in order {
                    let area = |at: usize| Area::new(&boxes[at], false);
                    if want.iter().all(|other| !area(at).overlaps(&area(*other), 0.3)) {
                        want.push(at);
                    }
                }
                assert_eq!(own.chosen(boxes, &scores, (count, 0.3, None)), want, "{spread} {size} {count}");
            }
        }
    }

    #[test]
    fn boxes_that_overlap_better_ones_are_left() {
        let boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [1.0, 1.9, 0.0, 0.9], [0.0, 3.0, 1.0, 4.0]];
        let own = Suppression { is_centered: false, given: [true; 3] };
        let chosen = |most, limit, least| own.chosen(&boxes, &[0.9, 0.8, 0.8, 0.9], (most, limit, least));
        assert_eq!(chosen(9, 0.5, None), [0, 3, 2]);
        assert_eq!(chosen(9, 0.9, None), [0, 3, 1, 2]);
        assert_eq!(chosen(1, 0.5, None), [0]);
        assert_eq!(chosen(9, 0.5, Some(0.85)), [0, 3]);
        assert!(chosen(0, 0.5, None).is_empty());
        let centered = Suppression { is_centered: true, ..own };
        assert_eq!(
            centered.chosen(&[[5.0, 5.0, 2.0, 2.0], [5.0, 5.5, 2.0, 2.0]], &[0.1, 0.2], (9, 0.5, None)),
            [1]
        );
    }
}
