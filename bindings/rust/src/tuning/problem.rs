//! The input and output of a strategy.

use std::fmt;
use std::time::Duration;

use crate::{Knob, KnobSetting, KnobValue};

/// A knob worth tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunable {
    /// The knob.
    pub knob: Knob,
    /// The values worth trying, the default first.
    pub values: Vec<KnobValue>,
}

/// An engine that can run the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The engine's id.
    pub engine: i64,
    /// The engine's name.
    pub name: String,
    /// Its knobs; empty if none matters.
    pub knobs: Vec<Tunable>,
}

/// An engine with its knob settings; other knobs keep their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// The engine's id.
    pub engine: i64,
    /// The settings.
    pub knobs: Vec<KnobSetting>,
}

impl Configuration {
    /// An engine with default knobs.
    pub fn of(engine: i64) -> Self {
        Self { engine, knobs: Vec::new() }
    }

    /// The same with one knob set to a value; setting its default removes the setting.
    #[must_use]
    pub fn with(&self, tunable: &Tunable, value: &KnobValue) -> Self {
        let mut knobs = self.knobs.clone();
        knobs.retain(|setting| setting.id != tunable.knob.id);
        if *value != tunable.knob.default {
            knobs.push(KnobSetting { id: tunable.knob.id.clone(), value: value.clone() });
            knobs.sort_by(|a, b| a.id.cmp(&b.id));
        }
        Self { engine: self.engine, knobs }
    }
}

/// The settings, separated by spaces.
impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, setting) in self.knobs.iter().enumerate() {
            write!(f, "{}{setting}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// A tuning problem.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The graph, in the layout of 2026.
    pub graph: Vec<u8>,
    /// The device, as the bytes of a DeviceProperties table.
    pub device: Vec<u8>,
    /// The engines that can run it, the library's choice first.
    pub candidates: Vec<Candidate>,
    /// The best configurations of similar graphs, the most similar first.
    pub similar: Vec<Configuration>,
    /// The most time that the search may take, after each engine was measured with default knobs.
    pub budget: Duration,
}

/// The measurement of a configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// The number of the configuration, which identifies it in a ranking.
    pub configuration: usize,
    /// The time of an execution: the median of all runs so far, corrected by the best configuration's runs meanwhile, so that
    /// measurements at different times are comparable.
    pub time: Duration,
    /// The number of runs so far.
    pub runs: u32,
}

/// The outcome of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was measured.
    Measured(Measurement),
    /// It could not be planned or executed, or its results are wrong.
    Failed(String),
    /// The budget is spent, and nothing was measured.
    Over,
}

/// Measures configurations for a strategy.
pub trait Measure {
    /// Runs a configuration this many times, alternating with the best so far. A configuration that turns out to be much slower is stopped
    /// early. Measuring the same one again adds runs.
    fn measure(&mut self, configuration: &Configuration, runs: u32) -> Outcome;

    /// What is left of the budget.
    fn remaining(&self) -> Duration;
}

/// A search for the fastest configuration.
pub trait Strategy {
    /// Measures configurations, and returns the numbers of the best, best first.
    ///
    /// # Errors
    /// Why it has no ranking. What was measured until then is ranked by time.
    fn search(&self, problem: &Problem, measure: &mut dyn Measure) -> Result<Vec<usize>, String>;
}
