//! Linear resizing by whole factors as pointwise operations, for GPUs: the engines of none have an operation for it.

use hipdnn::graph::PointwiseMode;

use super::layout::joined;
use crate::lowering::{Lowered, Lowering, View, elements, refuse};
use crate::model::Element;
use crate::steps::Taps;

/// The results of an axis, a whole number for each element: what an element and its neighbour count in each.
#[derive(Debug, PartialEq)]
pub(super) struct Phases {
    /// For each result of an element, whether the neighbour is the previous one.
    is_before: Vec<bool>,
    /// For each result of the axis, the weights of element and neighbour.
    weights: Vec<(f32, f32)>,
}

impl Phases {
    /// Those of an axis of this size, if every element has the same neighbours.
    pub(super) fn of(taps: &Taps, size: i64) -> Option<Self> {
        let size = usize::try_from(size).ok().filter(|size| *size > 0)?;
        let factor = taps.size() / size;
        (taps.count == 2 && factor > 1 && taps.size() == factor * size).then_some(())?;
        let tap = |at: usize, which: usize| {
            Some((*taps.places.get(2 * at + which)?, *taps.weights.get(2 * at + which)?))
        };
        // The second element has a previous one. An only element is its own neighbour.
        let second = size.min(2) - 1;
        let is_before: Vec<bool> = (0..factor)
            .map(|phase| tap(second * factor + phase, 0).map(|(place, _)| place < second))
            .collect::<Option<_>>()?;
        let weights = (0..taps.size()).map(|at| {
            let (own, is_before) = (at / factor, *is_before.get(at % factor)?);
            let beside = if is_before { own.saturating_sub(1) } else { (own + 1).min(size - 1) };
            let ((first, u), (second, v)) = (tap(at, 0)?, tap(at, 1)?);
            match is_before {
                true => ((first, second) == (beside, own)).then_some((v, u)),
                false => ((first, second) == (own, beside)).then_some((u, v)),
            }
        });
        let weights = weights.collect::<Option<_>>()?;
        Some(Self { is_before, weights })
    }

    /// A tensor resized along an axis.
    pub(super) fn resized(&self, lowering: &mut Lowering<'_>, x: &View, at: usize) -> Lowered<View> {
        let (outer, rest) = x.dims.split_at(at.min(x.rank()));
        let [size, inner @ ..] = rest else { return refuse("no such axis") };
        let (outer, size, inner) = (elements(outer), *size, elements(inner));
        let factor = self.is_before.len() as i64;
        let packed = lowering.packed(x)?;
        let own = lowering.reshape(&packed, &[outer, size, 1, inner])?;
        let part = |from: i64, count: i64| match own.sliced(1, from, 1, count) {
            Some(part) => Ok(part),
            None => refuse("no such elements"),
        };
        let bytes = |numbers: &mut dyn Iterator<Item = f32>| -> Vec<u8> {
            numbers.flat_map(f32::to_ne_bytes).collect()
        };
        let beside = if size > 1 {
            let before = joined(lowering, &[part(0, 1)?, part(0, size - 1)?], 1)?;
            let behind = joined(lowering, &[part(1, size - 1)?, part(size - 1, 1)?], 1)?;
            let which = bytes(&mut self.is_before.iter().map(|is_before| f32::from(u8::from(*is_before))));
            let which = lowering.data(Element::Float, &[1, 1, factor, 1], &which)?;
            lowering.map(PointwiseMode::BinarySelect, &[&before, &behind, &which], x.element)?
        } else {
            own.clone()
        };
        let weights = [1, size, factor, 1];
        let of_own = bytes(&mut self.weights.iter().map(|(own, _)| *own));
        let of_own = lowering.data(Element::Float, &weights, &of_own)?;
        let of_beside = bytes(&mut self.weights.iter().map(|(_, beside)| *beside));
        let of_beside = lowering.data(Element::Float, &weights, &of_beside)?;
        let first = lowering.binary(PointwiseMode::Mul, &own, &of_own)?;
        let second = lowering.binary(PointwiseMode::Mul, &beside, &of_beside)?;
        let sum = lowering.binary(PointwiseMode::Add, &first, &second)?;
        let mut dims = x.dims.to_vec();
        dims.iter_mut().skip(at).take(1).for_each(|dim| *dim = size * factor);
        lowering.reshape(&sum, &dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Taps as `half_pixel` has them.
    fn taps(size: usize, factor: usize) -> Taps {
        let (mut places, mut weights) = (Vec::new(), Vec::new());
        for at in 0..size * factor {
            let origin = (at as f32 + 0.5) / factor as f32 - 0.5;
            let ratio = origin - origin.floor();
            for (place, weight) in [(origin.floor(), 1.0 - ratio), (origin.floor() + 1.0, ratio)] {
                places.push(place.clamp(0.0, (size - 1) as f32) as usize);
                weights.push(weight);
            }
        }
        Taps { count: 2, places, weights }
    }

    #[test]
    fn whole_factors_have_the_same_neighbours_everywhere() {
        let two = Phases::of(&taps(5, 2), 5).unwrap();
        assert_eq!(two.is_before, [true, false]);
        assert_eq!(two.weights[2..8], [(0.75, 0.25); 6]);
        let three = Phases::of(&taps(2, 3), 2).unwrap();
        assert_eq!(three.is_before, [true, false, false]);
        assert!(three.weights[1].1.abs() < 1e-6 && (three.weights[3].1 - 1.0 / 3.0).abs() < 1e-6);
        let one = Phases::of(&taps(1, 4), 1).unwrap();
        assert!(one.weights.iter().all(|(own, other)| (own + other - 1.0).abs() < 1e-6));
    }

    #[test]
    fn weights_are_those_of_each_result() {
        let mut drifting = taps(4, 2);
        drifting.weights[6] += 0.001;
        assert_eq!(Phases::of(&drifting, 4).unwrap().weights[3].0, 0.751);
    }

    #[test]
    fn other_taps_have_none() {
        let mut moved = taps(4, 2);
        moved.places[8] = 0;
        assert!(Phases::of(&moved, 4).is_none());
        assert!(Phases::of(&taps(4, 2), 3).is_none() && Phases::of(&Taps::all(4), 4).is_none());
    }
}
