//! Exhaustive search, as far as the budget allows.

use super::problem::{Configuration, Measure, Outcome, Problem, Strategy};

/// Its name for users.
pub const NAME: &str = "exhaustive";

/// The most combinations tried of an engine's knobs.
const MOST: usize = 4096;

/// The least and the most runs of a configuration.
const RUNS: (u32, u32) = (5, 30);

/// Measures every combination of knob values, those with few settings first.
pub struct Exhaustive;

impl Strategy for Exhaustive {
    fn search(&self, problem: &Problem, measure: &mut dyn Measure) -> Result<Vec<usize>, String> {
        let mut all: Vec<Configuration> = problem.candidates.iter().flat_map(combinations).collect();
        // The sort keeps the library's order among equals.
        all.sort_by_key(|configuration| configuration.knobs.len());
        let mut times = Vec::new();
        for configuration in &all {
            match measure.measure(configuration, RUNS.0) {
                Outcome::Measured(found) => times.push((found.time, found.configuration, configuration)),
                Outcome::Failed(_) => {}
                Outcome::Over => break,
            }
        }
        times.sort_by_key(|(time, ..)| *time);
        // Configurations within a tenth of the best get more runs.
        let limit = times.first().map(|(time, ..)| time.mul_f64(1.1));
        for (time, _, configuration) in times.iter_mut().filter(|(time, ..)| Some(*time) <= limit) {
            match measure.measure(configuration, RUNS.1) {
                Outcome::Measured(found) => *time = found.time,
                Outcome::Failed(_) => {}
                Outcome::Over => break,
            }
        }
        times.sort_by_key(|(time, ..)| *time);
        Ok(times.into_iter().map(|(_, number, _)| number).collect())
    }
}

/// Every combination of an engine's knobs, the defaults first.
fn combinations(candidate: &super::Candidate) -> Vec<Configuration> {
    let mut all = vec![Configuration::of(candidate.engine)];
    for tunable in &candidate.knobs {
        let others: Vec<_> = tunable.values.iter().filter(|value| **value != tunable.knob.default).collect();
        let more: Vec<_> = all
            .iter()
            .flat_map(|begun| others.iter().map(|value| begun.with(tunable, value)))
            .take(MOST.saturating_sub(all.len()))
            .collect();
        all.extend(more);
    }
    all
}
