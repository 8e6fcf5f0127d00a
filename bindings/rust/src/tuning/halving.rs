//! A search that spends its time on promising configurations.
//!
//! It starts with each engine's defaults, the best configurations of similar graphs, and each knob changed alone. Half of these are dropped
//! after a few runs, half of the rest after twice as many, until few are left. Then the knobs of the best are varied again, one at a time,
//! on top of the changes so far, until nothing gets faster.

use std::time::Duration;

use super::problem::{Candidate, Configuration, Measure, Outcome, Problem, Strategy};

/// Its name for users.
pub const NAME: &str = "halving";

/// The runs of the first round.
const FIRST_RUNS: u32 = 2;

/// The number of configurations left when halving ends.
const FINALISTS: usize = 3;

/// The runs of a finalist.
const LAST_RUNS: u32 = 12;

/// Engines slower than the best by this factor are dropped: no knob makes up for that.
const HOPELESS: f64 = 3.0;

/// A setting that alone slows an engine by this factor is not combined with others.
const UNLIKELY: f64 = 1.3;

/// A smaller relative gain may be chance.
const CHANCE: f64 = 0.01;

/// How often all knobs are varied.
const SWEEPS: usize = 2;

/// Successive halving over knobs, then one knob at a time.
pub struct Halving;

/// A configuration with the number and the time that the host has for it.
#[derive(Clone)]
struct Entry {
    configuration: Configuration,
    number: usize,
    time: Duration,
}

/// The measured configurations, sorted best first.
struct Field<'m> {
    measure: &'m mut dyn Measure,
    seen: Vec<Configuration>,
    entries: Vec<Entry>,
    is_over: bool,
}

impl Field<'_> {
    /// Measures a configuration, unless it was measured or the budget is spent.
    fn add(&mut self, configuration: Configuration, runs: u32) {
        if self.is_over || self.seen.contains(&configuration) {
            return;
        }
        self.seen.push(configuration.clone());
        match self.measure.measure(&configuration, runs) {
            Outcome::Measured(found) => {
                let entry = Entry { configuration, number: found.configuration, time: found.time };
                let at = self.entries.partition_point(|other| other.time <= entry.time);
                self.entries.insert(at, entry);
            }
            Outcome::Failed(_) => {}
            Outcome::Over => self.is_over = true,
        }
    }

    /// Measures the first `most` again, with more runs.
    fn refine(&mut self, most: usize, runs: u32) {
        let closer: Vec<_> = self.entries.iter().take(most).cloned().collect();
        for entry in closer {
            if self.is_over {
                break;
            }
            match self.measure.measure(&entry.configuration, runs) {
                Outcome::Measured(found) => {
                    if let Some(old) = self.entries.iter_mut().find(|old| old.number == entry.number) {
                        old.time = found.time;
                    }
                }
                Outcome::Failed(_) => self.entries.retain(|old| old.number != entry.number),
                Outcome::Over => self.is_over = true,
            }
        }
        // The others stay behind those, since their times are less certain.
        let split = most.min(self.entries.len());
        if let Some(closer) = self.entries.get_mut(..split) {
            closer.sort_by_key(|entry| entry.time);
        }
    }

    fn time(&self, configuration: &Configuration) -> Option<Duration> {
        let entry = self.entries.iter().find(|entry| entry.configuration == *configuration);
        entry.map(|entry| entry.time)
    }

    fn best(&self) -> Option<&Entry> {
        self.entries.first()
    }
}

impl Strategy for Halving {
    fn search(&self, problem: &Problem, measure: &mut dyn Measure) -> Result<Vec<usize>, String> {
        let mut field = Field { measure, seen: Vec::new(), entries: Vec::new(), is_over: false };
        for candidate in &problem.candidates {
            field.add(Configuration::of(candidate.engine), FIRST_RUNS);
        }
        let limit = field.best().map(|best| best.time.mul_f64(HOPELESS));
        let is_hopeful = |candidate: &&Candidate| {
            let own = Configuration::of(candidate.engine);
            field.entries.iter().any(|entry| entry.configuration == own && Some(entry.time) <= limit)
        };
        let hopeful: Vec<&Candidate> = problem.candidates.iter().filter(is_hopeful).collect();
        let of_hopeful = |of: &&Configuration| hopeful.iter().any(|candidate| candidate.engine == of.engine);
        for configuration in problem.similar.iter().filter(of_hopeful) {
            field.add(configuration.clone(), FIRST_RUNS);
        }
        for candidate in &hopeful {
            let own = Configuration::of(candidate.engine);
            for tunable in &candidate.knobs {
                for value in &tunable.values {
                    field.add(own.with(tunable, value), FIRST_RUNS);
                }
            }
        }
        halve(&mut field);
        for _ in 0..SWEEPS {
            if !sweep(&mut field, &hopeful) {
                break;
            }
        }
        field.refine(FINALISTS, LAST_RUNS);
        Ok(field.entries.iter().map(|entry| entry.number).collect())
    }
}

/// Drops half in each round, and doubles the runs of the others.
fn halve(field: &mut Field<'_>) {
    let (mut left, mut runs) = (field.entries.len(), FIRST_RUNS);
    while left > FINALISTS && !field.is_over {
        left = (left / 2).max(FINALISTS);
        runs = (runs * 2).min(LAST_RUNS);
        field.refine(left, runs);
    }
}

/// Varies each knob of the best on top of its other settings; returns whether something got faster.
fn sweep(field: &mut Field<'_>, candidates: &[&Candidate]) -> bool {
    let Some(start) = field.best().cloned() else { return false };
    let of_best = candidates.iter().find(|candidate| candidate.engine == start.configuration.engine);
    let mut is_faster = false;
    for tunable in of_best.into_iter().flat_map(|candidate| &candidate.knobs) {
        let Some(before) = field.best().cloned() else { return false };
        let own = Configuration::of(before.configuration.engine);
        let usual = field.time(&own);
        for value in &tunable.values {
            let alone = field.time(&own.with(tunable, value));
            if alone.zip(usual).is_none_or(|(alone, usual)| alone <= usual.mul_f64(UNLIKELY)) {
                field.add(before.configuration.with(tunable, value), FIRST_RUNS * 2);
            }
        }
        if field.best().is_some_and(|best| best.number != before.number) {
            field.refine(2, LAST_RUNS / 2);
            let time = field.best().map_or(before.time, |best| best.time);
            is_faster |= time < before.time.mul_f64(1.0 - CHANCE);
        }
    }
    is_faster
}
