//! Linear resizing by whole factors as pointwise operations, for GPUs: the engines of none have an operation for it.

use hipdnn::graph::PointwiseMode;

use super::layout::joined;
use crate::lowering::{Lowered, Lowering, View, elements, refuse};
use crate::model::Element;
use crate::steps::Taps;

/// How far places of a result, computed in single precision, move weights.
const CLOSE: f32 = 1e-3;

/// For each of the results that an element becomes: its weight, the neighbour's, and whether that is the previous one.
pub(super) struct Phases(Vec<(f32, f32, bool)>);

impl Phases {
    /// Those of an axis of this size, if every element has the same ones.
    pub(super) fn of(taps: &Taps, size: i64) -> Option<Self> {
        let size = usize::try_from(size).ok().filter(|size| *size > 0)?;
        let factor = taps.size() / size;
        (taps.count == 2 && factor > 1 && taps.size() == factor * size).then_some(())?;
        let tap = |at: usize, which: usize| {
            Some((*taps.places.get(2 * at + which)?, *taps.weights.get(2 * at + which)?))
        };
        // The second element has a previous one, the first a next one. An only element is its own neighbour.
        let second = size.min(2) - 1;
        let phases = (0..factor).map(|phase| {
            let (place, before) = tap(second * factor + phase, 0)?;
            let (_, own) = tap(second * factor + phase, 1)?;
            Some(if place < second {
                (own, before, true)
            } else {
                (tap(phase, 0)?.1, tap(phase, 1)?.1, false)
            })
        });
        let phases: Vec<(f32, f32, bool)> = phases.collect::<Option<_>>()?;
        let is_close = |a: f32, b: f32| (a - b).abs() <= CLOSE;
        for at in 0..taps.size() {
            let (own, &(weight, other, is_before)) = (at / factor, phases.get(at % factor)?);
            let beside = if is_before { own.saturating_sub(1) } else { (own + 1).min(size - 1) };
            let ((first, u), (second, v)) = (tap(at, 0)?, tap(at, 1)?);
            let fits = match first == second {
                // At an end: both are the same element.
                true => {
                    first == own && (own == beside || is_close(other, 0.0)) && is_close(u + v, weight + other)
                }
                false if is_before => {
                    (first, second) == (beside, own) && is_close(u, other) && is_close(v, weight)
                }
                false => (first, second) == (own, beside) && is_close(u, weight) && is_close(v, other),
            };
            fits.then_some(())?;
        }
        Some(Self(phases))
    }

    /// A tensor resized along an axis.
    pub(super) fn resized(&self, lowering: &mut Lowering<'_>, x: &View, at: usize) -> Lowered<View> {
        let (outer, rest) = x.dims.split_at(at.min(x.rank()));
        let [size, inner @ ..] = rest else { return refuse("no such axis") };
        let (outer, size, inner) = (elements(outer), *size, elements(inner));
        let factor = self.0.len() as i64;
        let packed = lowering.packed(x)?;
        let own = lowering.reshape(&packed, &[outer, size, 1, inner])?;
        let part = |from: i64, count: i64| match own.sliced(1, from, 1, count) {
            Some(part) => Ok(part),
            None => refuse("no such elements"),
        };
        let numbers = |lowering: &mut Lowering<'_>, number: &dyn Fn(&(f32, f32, bool)) -> f32| {
            let bytes: Vec<u8> = self.0.iter().flat_map(|phase| number(phase).to_ne_bytes()).collect();
            lowering.data(Element::Float, &[1, 1, factor, 1], &bytes)
        };
        let beside = if size > 1 {
            let before = joined(lowering, &[part(0, 1)?, part(0, size - 1)?], 1)?;
            let behind = joined(lowering, &[part(1, size - 1)?, part(size - 1, 1)?], 1)?;
            let is_before = numbers(lowering, &|of| f32::from(u8::from(of.2)))?;
            lowering.map(PointwiseMode::BinarySelect, &[&before, &behind, &is_before], x.element)?
        } else {
            own.clone()
        };
        let weights = numbers(lowering, &|of| of.0)?;
        let others = numbers(lowering, &|of| of.1)?;
        let first = lowering.binary(PointwiseMode::Mul, &own, &weights)?;
        let second = lowering.binary(PointwiseMode::Mul, &beside, &others)?;
        let sum = lowering.binary(PointwiseMode::Add, &first, &second)?;
        let mut dims = x.dims.clone();
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
    fn whole_factors_have_the_same_phases_everywhere() {
        let Phases(two) = Phases::of(&taps(5, 2), 5).unwrap();
        assert_eq!(two, [(0.75, 0.25, true), (0.75, 0.25, false)]);
        let Phases(three) = Phases::of(&taps(2, 3), 2).unwrap();
        assert_eq!(three.iter().map(|of| of.2).collect::<Vec<_>>(), [true, false, false]);
        assert!(three[1].1.abs() < 1e-6 && (three[0].1 - 1.0 / 3.0).abs() < 1e-6);
        let Phases(one) = Phases::of(&taps(1, 4), 1).unwrap();
        assert!(one.iter().all(|(own, other, _)| (own + other - 1.0).abs() < 1e-6));
    }

    #[test]
    fn other_taps_have_none() {
        let mut aligned = taps(4, 2);
        aligned.weights[6] += 0.1;
        assert!(Phases::of(&aligned, 4).is_none());
        let mut moved = taps(4, 2);
        moved.places[8] = 0;
        assert!(Phases::of(&moved, 4).is_none());
        assert!(Phases::of(&taps(4, 2), 3).is_none() && Phases::of(&Taps::all(4), 4).is_none());
    }
}
