//! What a strategy is given, and what it answers.

use std::fmt;
use std::time::Duration;

use crate::{Knob, KnobSetting, KnobValue};

/// A knob that is worth turning.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunable {
    /// The knob.
    pub knob: Knob,
    /// The values that are worth trying, the default first.
    pub values: Vec<KnobValue>,
}

/// An engine that can run the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The engine's id.
    pub engine: i64,
    /// The engine's name.
    pub name: String,
    /// Its knobs; empty where none matters.
    pub knobs: Vec<Tunable>,
}

/// An engine with its knobs set; those that are not named keep their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// The engine's id.
    pub engine: i64,
    /// The settings.
    pub knobs: Vec<KnobSetting>,
}

impl Configuration {
    /// An engine as it is.
    pub fn of(engine: i64) -> Self {
        Self { engine, knobs: Vec::new() }
    }

    /// The same with one knob set to a value; its default is no setting.
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

/// The settings, with blanks between.
impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, setting) in self.knobs.iter().enumerate() {
            write!(f, "{}{setting}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// What is to be tuned.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The graph, in the layout of 2026.
    pub graph: Vec<u8>,
    /// The device: the bytes of a DeviceProperties table.
    pub device: Vec<u8>,
    /// The engines that can run it, the library's choice first.
    pub candidates: Vec<Candidate>,
    /// What was best for similar graphs, the most similar first.
    pub similar: Vec<Configuration>,
    /// How long the search may take, once each engine was measured as it is.
    pub budget: Duration,
}

/// What was measured of a configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// The number of the configuration, by which a ranking names it.
    pub configuration: usize,
    /// What an execution takes, by the median of all runs so far. It is corrected by what the best configuration took meanwhile, so that
    /// measurements of different times can be compared.
    pub time: Duration,
    /// How many runs there were so far.
    pub runs: u32,
}

/// How a measurement went.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was measured.
    Measured(Measurement),
    /// It could not be planned or executed, or its results are wrong.
    Failed(String),
    /// The budget is spent, and nothing was measured.
    Over,
}

/// Measures for a strategy.
pub trait Measure {
    /// Runs a configuration so many times, in turn with the best one so far. A configuration that turns out to be much slower is stopped
    /// early. Asked again for the same one, it adds runs.
    fn measure(&mut self, configuration: &Configuration, runs: u32) -> Outcome;

    /// What is left of the budget.
    fn remaining(&self) -> Duration;
}

/// Searches for the fastest configuration.
pub trait Strategy {
    /// Has configurations measured, and answers the numbers of the best, best first.
    ///
    /// # Errors
    /// Why there is no ranking. What was measured until then is ranked by its times.
    fn search(&self, problem: &Problem, measure: &mut dyn Measure) -> Result<Vec<usize>, String>;
}
