//! The configurations to measure.

use hipdnn::tuning::{Candidate, Configuration};
use hipdnn::{KnobSetting, KnobValue};

/// With more combinations of knob values than this, one knob is changed at a time.
const MOST_COMBINATIONS: usize = 32;

/// Every engine with every combination of its knob values, or with one knob changed at a time if there are too many.
pub fn configurations(candidates: &[Candidate]) -> Vec<Configuration> {
    let of = |candidate: &Candidate| {
        let samples: Vec<Vec<KnobSetting>> = candidate
            .knobs
            .iter()
            .map(|tunable| {
                let setting =
                    |value: &KnobValue| KnobSetting { id: tunable.knob.id.clone(), value: value.clone() };
                tunable.values.iter().map(setting).collect()
            })
            .collect();
        let make = |knobs| Configuration { engine: candidate.engine, knobs };
        combinations(&samples).into_iter().map(make).collect::<Vec<_>>()
    };
    candidates.iter().flat_map(of).collect()
}

/// All combinations, starting with the first values; or those that differ from the first combination in one position.
fn combinations<T: Clone>(of: &[Vec<T>]) -> Vec<Vec<T>> {
    let count = of.iter().try_fold(1_usize, |count, values| count.checked_mul(values.len()));
    if count.is_some_and(|count| count <= MOST_COMBINATIONS) {
        return of.iter().fold(vec![Vec::new()], |all, values| {
            all.iter()
                .flat_map(|begun| values.iter().map(|value| [begun.clone(), vec![value.clone()]].concat()))
                .collect()
        });
    }
    let first: Vec<T> = of.iter().filter_map(|values| values.first().cloned()).collect();
    let mut all = vec![first.clone()];
    for (place, values) in of.iter().enumerate() {
        for value in values.iter().skip(1) {
            let mut changed = first.clone();
            if let Some(slot) = changed.get_mut(place) {
                *slot = value.clone();
            }
            all.push(changed);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_all_or_one_at_a_time() {
        assert_eq!(combinations::<u8>(&[]), [Vec::<u8>::new()]);
        assert_eq!(combinations(&[vec![1, 2], vec![3, 4]]), [[1, 3], [1, 4], [2, 3], [2, 4]]);
        let many = combinations(&[(0..8).collect::<Vec<_>>(), (0..8).collect()]);
        assert_eq!(many.len(), 15);
        assert_eq!(many[..3], [[0, 0], [1, 0], [2, 0]]);
    }
}
