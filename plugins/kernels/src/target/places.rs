//! Fragments from what a device tells: the place of each slot of each lane. As text, for files.

use std::collections::HashSet;
use std::fmt;

use super::{Fragment, LanePart, NONE, part};

/// The part that adds these numbers, one for each lane.
fn lane_part(added: &[u32]) -> Option<LanePart> {
    let Some(first) = added.iter().position(|number| *number != 0) else { return Some(NONE) };
    let (divisor, factor) = (u32::try_from(first).ok()?, *added.get(first)?);
    let count = u32::try_from(added.len()).ok()?;
    let fits = |own: &LanePart| (0..count).zip(added).all(|(lane, number)| own.at(lane) == *number);
    let moduli = (1..=count.ilog2()).map(|bits| 1 << bits);
    moduli.map(|modulus| part(divisor, modulus, factor)).find(fits)
}

impl Fragment {
    /// The fragment of a tile of these dimensions whose slots are in these places, those of a lane behind each other. None if a lane does
    /// not shift all its slots alike, if an element is missing, or, of a sum, if an element is there twice.
    pub fn from_places(places: &[Vec<(u32, u32)>], dims: (u32, u32), is_sum: bool) -> Option<Self> {
        let slots = places.first()?.clone();
        let shift = |own: &Vec<(u32, u32)>, along: fn(&(u32, u32)) -> u32| -> Option<u32> {
            let mut shifts = own.iter().zip(&slots).map(|(own, first)| along(own).checked_sub(along(first)));
            let first = shifts.next()??;
            (own.len() == slots.len() && shifts.all(|shift| shift == Some(first))).then_some(first)
        };
        let part = |along: fn(&(u32, u32)) -> u32| -> Option<LanePart> {
            let added: Option<Vec<u32>> = places.iter().map(|own| shift(own, along)).collect();
            lane_part(&added?)
        };
        let fragment = Self { row: part(|place| place.0)?, column: part(|place| place.1)?, slots };
        let (rows, columns) = dims;
        let all: HashSet<(u32, u32)> = places.iter().flatten().copied().collect();
        let count: usize = places.iter().map(Vec::len).sum();
        let is_inside = all.iter().all(|(row, column)| *row < rows && *column < columns);
        let is_whole = all.len() == (rows * columns) as usize && (!is_sum || count == all.len());
        (is_inside && is_whole).then_some(fragment)
    }

    /// The fragment that a text of [`fmt::Display`] says.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let mut part = || {
            let numbers = words.next()?.split('/').map(str::parse).collect::<Result<Vec<u32>, _>>().ok()?;
            match *numbers.as_slice() {
                [divisor, modulus, factor] if divisor > 0 && modulus > 0 => {
                    Some(LanePart { divisor, modulus, factor })
                }
                _ => None,
            }
        };
        let (row, column) = (part()?, part()?);
        let slot = |word: &str| {
            let (row, column) = word.split_once(',')?;
            Some((row.parse().ok()?, column.parse().ok()?))
        };
        let slots: Vec<(u32, u32)> = words.map(slot).collect::<Option<_>>()?;
        (!slots.is_empty()).then_some(Self { row, column, slots })
    }
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |part: LanePart| format!("{}/{}/{}", part.divisor, part.modulus, part.factor);
        write!(f, "{} {}", part(self.row), part(self.column))?;
        self.slots.iter().try_for_each(|(row, column)| write!(f, " {row},{column}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Role, Target};

    #[test]
    fn places_give_the_fragments_that_they_are_of() {
        for name in ["sm_90", "gfx1100", "gfx1200", "gfx942"] {
            let target = Target::of(name).unwrap();
            for shape in target.shapes.iter().filter(|shape| shape.is_matrix()) {
                for role in [Role::A, Role::B, Role::Accumulator] {
                    let fragment = shape.fragment(role).unwrap();
                    let lane = |lane| (0..fragment.slots.len()).map(|slot| fragment.at(lane, slot)).collect();
                    let mut places: Vec<Vec<(u32, u32)>> = (0..target.subgroup).map(lane).collect();
                    let found = Fragment::from_places(&places, shape.dims(role), role == Role::Accumulator);
                    let found = found.unwrap_or_else(|| panic!("{name} {shape:?} {role:?}"));
                    for (lane, own) in (0..target.subgroup).zip(&places) {
                        let again: Vec<_> = (0..own.len()).map(|slot| found.at(lane, slot)).collect();
                        assert_eq!(again, *own);
                    }
                    assert_eq!(Fragment::from_text(&found.to_string()), Some(found));
                    places[3][0].0 ^= 1;
                    assert_eq!(Fragment::from_places(&places, shape.dims(role), false), None);
                }
            }
        }
    }

    #[test]
    fn elements_that_are_missing_or_twice_make_no_sum() {
        let places = vec![vec![(0, 0), (0, 1)], vec![(1, 0), (1, 1)]];
        assert!(Fragment::from_places(&places, (2, 2), true).is_some());
        assert_eq!(Fragment::from_places(&places, (2, 4), true), None);
        assert_eq!(Fragment::from_places(&places, (1, 2), true), None);
        let twice = vec![vec![(0, 0), (0, 1)], vec![(0, 0), (0, 1)]];
        assert!(Fragment::from_places(&twice, (1, 2), false).is_some());
        assert_eq!(Fragment::from_places(&twice, (1, 2), true), None);
        assert_eq!(Fragment::from_places(&[], (1, 1), true), None);
    }

    #[test]
    fn other_texts_are_no_fragments() {
        for text in ["", "1/4/2", "1/4/2 4/8/1", "0/4/2 4/8/1 0,0", "1/4/2 4/8/1 0", "a/4/2 4/8/1 0,0"] {
            assert_eq!(Fragment::from_text(text), None, "{text}");
        }
    }
}
