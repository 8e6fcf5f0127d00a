//! The side that measures: runs in turn with the best so far, early ends, and the last word of the default choice.

use std::time::{Duration, Instant};

use super::problem::{Configuration, Measure, Measurement, Outcome, Problem, Strategy};
use super::times::median;

/// How many prepared configurations are kept, besides the default choice and the best.
const KEPT: usize = 8;

/// Executions in a row take at least so long, so that the clock does not matter.
const ROW: Duration = Duration::from_micros(100);

/// The most executions in a row.
const MOST_IN_ROW: u32 = 64;

/// A configuration whose first two runs take so many times as long as the best is stopped.
const SLOW: f64 = 1.5;

/// One whose first execution takes so many times as long is not executed again.
const HOPELESS: f64 = 8.0;

/// A run that was interrupted says nothing about the machine: times are corrected by at most so much.
const MOST_DRIFT: f64 = 4.0;

/// The part of the budget that is kept for the last comparison.
const LAST_PART: f64 = 0.1;

/// Runs of each engine as it is, before the search.
const FEW_RUNS: u32 = 3;

/// Rounds of the last comparison.
const ROUNDS: (usize, usize) = (7, 40);

/// What is faster than the default choice by less than this part is not worth another choice.
const WORTH: f64 = 0.01;

/// The part of the rounds in which it has to be faster.
const CLEAR: f64 = 0.7;

/// Something that can plan and execute the graph.
pub trait Target {
    /// A configuration that is ready to be executed.
    type Ready;

    /// Plans a configuration, executes it once and checks its results. Answers how long the execution took, too.
    ///
    /// # Errors
    /// What failed, or which result is wrong.
    fn prepare(&mut self, configuration: &Configuration) -> Result<(Self::Ready, Duration), String>;

    /// Executes so many times in a row, and answers how long that took, with the work on a device.
    ///
    /// # Errors
    /// What failed.
    fn execute(&mut self, ready: &mut Self::Ready, count: u32) -> Result<Duration, String>;
}

/// A configuration that was tried.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The configuration.
    pub configuration: Configuration,
    /// How long each run took, corrected by what the best took meanwhile; empty where it failed.
    pub runs: Vec<Duration>,
    /// Why it failed.
    pub failure: Option<String>,
    /// When it was measured first, since the search began.
    pub at: Duration,
}

impl Trial {
    /// What an execution takes.
    pub fn time(&self) -> Option<Duration> {
        median(&self.runs).filter(|_| self.failure.is_none())
    }
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// All that was tried, in this order.
    pub trials: Vec<Trial>,
    /// The places of those that were measured, best first.
    pub ranking: Vec<usize>,
    /// The place of the library's default choice.
    pub default: usize,
    /// How many times as fast the first of the ranking is, from the last comparison; 1 where it is the default choice.
    pub gain: f64,
    /// Why the strategy has no ranking of its own; the times rank then.
    pub failure: Option<String>,
    /// How long it all took.
    pub took: Duration,
}

impl Tuned {
    /// What is best.
    pub fn best(&self) -> Option<&Trial> {
        self.trials.get(*self.ranking.first()?)
    }

    /// The engines as the library should offer them, best first: by what they take with their knobs as they are, since the library plans with
    /// these; engines that failed or are wrong come last.
    pub fn engines(&self, problem: &Problem) -> Vec<i64> {
        let mut engines: Vec<i64> = problem.candidates.iter().map(|candidate| candidate.engine).collect();
        let time = |engine: &i64| {
            let own = Configuration::of(*engine);
            let trial = self.trials.iter().find(|trial| trial.configuration == own);
            match trial {
                Some(trial) => trial.time().map_or((2, Duration::ZERO), |time| (0, time)),
                None => (1, Duration::ZERO),
            }
        };
        engines.sort_by_key(time);
        engines
    }
}

struct Host<'t, T: Target> {
    target: &'t mut T,
    trials: Vec<Trial>,
    /// Configurations that are ready, by their places, the one that was used last at the end.
    ready: Vec<(usize, T::Ready)>,
    best: Option<usize>,
    started: Instant,
    /// When the budget is spent; none until the search begins.
    end: Option<Instant>,
    progress: &'t mut dyn FnMut(Duration, &[Trial]),
}

impl<T: Target> Host<'_, T> {
    /// The place of a configuration among the trials, which is made for a new one.
    fn place(&mut self, configuration: &Configuration) -> usize {
        let known = self.trials.iter().position(|trial| trial.configuration == *configuration);
        known.unwrap_or_else(|| {
            self.trials.push(Trial {
                configuration: configuration.clone(),
                runs: Vec::new(),
                failure: None,
                at: self.started.elapsed(),
            });
            self.trials.len() - 1
        })
    }

    /// What is ready of a trial, made where it is not; none where its first execution says that no other is worth the time.
    fn ready(&mut self, place: usize, usual: Option<Duration>) -> Result<Option<T::Ready>, String> {
        if let Some(at) = self.ready.iter().position(|(known, _)| *known == place) {
            return Ok(Some(self.ready.remove(at).1));
        }
        let trial = self.trials.get_mut(place).ok_or("there is no such trial")?;
        let (mut ready, first) = self.target.prepare(&trial.configuration)?;
        if usual.is_some_and(|usual| first > usual.mul_f64(HOPELESS)) {
            trial.runs.push(first);
            return Ok(None);
        }
        // What only the first executions do is not measured.
        self.target.execute(&mut ready, 1)?;
        Ok(Some(ready))
    }

    /// Runs a trial once: executions in a row, so many that the clock does not matter. None where it is not worth the time.
    fn run(&mut self, place: usize, usual: Option<Duration>) -> Result<Option<Duration>, String> {
        let Some(mut ready) = self.ready(place, usual)? else { return Ok(None) };
        let known = self.trials.get(place).and_then(Trial::time);
        let count = match known {
            Some(time) => row(time),
            None => row(self.target.execute(&mut ready, 1)?),
        };
        let taken = self.target.execute(&mut ready, count)? / count;
        self.ready.push((place, ready));
        while self.ready.len() > KEPT + 2 {
            let oldest = self.ready.iter().position(|(place, _)| *place != 0 && Some(*place) != self.best);
            let Some(oldest) = oldest else { break };
            self.ready.remove(oldest);
        }
        Ok(Some(taken))
    }

    /// Runs a configuration in turn with the best.
    fn measure_at(&mut self, place: usize, runs: u32) -> Result<(), String> {
        // The best one itself runs beside the next.
        let time = |place: &usize| self.trials.get(*place).and_then(Trial::time);
        let others = (0..self.trials.len()).filter(|other| *other != place && time(other).is_some());
        let beside = others.min_by_key(time);
        let usual = beside.and_then(|best| self.trials.get(best)).and_then(Trial::time);
        let (mut runs_now, mut least) = (Vec::new(), Duration::MAX);
        for run in 0..runs.max(1) {
            let Some(own) = self.run(place, usual)? else { break };
            least = least.min(own);
            // The machine may be slower or faster than when the best was measured: its run just now says by how much.
            let now = beside.map(|best| self.run(best, None)).transpose()?.flatten();
            let drift = now.zip(usual).map_or(1.0, |(now, usual)| drift(usual, now));
            runs_now.push(own.mul_f64(drift));
            let is_slow = run >= 1 && usual.is_some_and(|usual| least > usual.mul_f64(SLOW / drift.min(1.0)));
            if is_slow || self.remaining().is_zero() {
                break;
            }
        }
        if let Some(trial) = self.trials.get_mut(place) {
            trial.runs.append(&mut runs_now);
        }
        let time = |place: usize| self.trials.get(place).and_then(Trial::time);
        if self.best.and_then(time).is_none_or(|best| time(place).is_some_and(|own| own < best)) {
            self.best = Some(place);
        }
        Ok(())
    }
}

/// By how much the machine is faster than when the best was measured, of which a run takes `now` what usually takes `usual`.
fn drift(usual: Duration, now: Duration) -> f64 {
    if now.is_zero() {
        return 1.0;
    }
    (usual.as_secs_f64() / now.as_secs_f64()).clamp(1.0 / MOST_DRIFT, MOST_DRIFT)
}

fn row(time: Duration) -> u32 {
    let count = ROW.as_nanos() / time.as_nanos().max(1);
    u32::try_from(count).unwrap_or(MOST_IN_ROW).clamp(1, MOST_IN_ROW)
}

impl<T: Target> Measure for Host<'_, T> {
    fn measure(&mut self, configuration: &Configuration, runs: u32) -> Outcome {
        if self.remaining().is_zero() {
            return Outcome::Over;
        }
        let place = self.place(configuration);
        if let Some(why) = self.trials.get(place).and_then(|trial| trial.failure.clone()) {
            return Outcome::Failed(why);
        }
        let time = |place: usize| self.trials.get(place).and_then(Trial::time);
        let best = self.best.and_then(time);
        let is_hopeless = time(place).zip(best).is_some_and(|(own, best)| own > best.mul_f64(HOPELESS));
        let measured = if is_hopeless { Ok(()) } else { self.measure_at(place, runs) };
        if let (Err(why), Some(trial)) = (&measured, self.trials.get_mut(place)) {
            trial.failure = Some(why.clone());
            if self.best == Some(place) {
                self.best = None;
            }
        }
        (self.progress)(self.started.elapsed(), &self.trials);
        let trial = self.trials.get(place);
        match (measured, trial.and_then(Trial::time)) {
            (Ok(()), Some(time)) => Outcome::Measured(Measurement {
                configuration: place,
                time,
                runs: trial.map_or(0, |trial| u32::try_from(trial.runs.len()).unwrap_or(u32::MAX)),
            }),
            (Ok(()), None) => Outcome::Failed("nothing was measured".to_owned()),
            (Err(why), _) => Outcome::Failed(why),
        }
    }

    fn remaining(&self) -> Duration {
        self.end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
    }
}

/// Has a strategy search, and compares what it ranks first with the library's default choice. `progress` is told how long it has taken and
/// what was tried.
///
/// # Errors
/// Where there is no candidate, or none can be measured: why the first one cannot.
pub fn tune<T: Target>(
    target: &mut T,
    problem: &Problem,
    strategy: &dyn Strategy,
    progress: &mut dyn FnMut(Duration, &[Trial]),
) -> Result<Tuned, String> {
    if problem.candidates.is_empty() {
        return Err("there is no engine to tune".to_owned());
    }
    let started = Instant::now();
    let mut host =
        Host { target, trials: Vec::new(), ready: Vec::new(), best: None, started, end: None, progress };
    // Each engine as it is comes first, whatever the strategy does and however short the budget is: the library plans so, and its rankings
    // need all of them.
    for (at, candidate) in problem.candidates.iter().enumerate() {
        let place = host.place(&Configuration::of(candidate.engine));
        let measured = host.measure_at(place, if at == 0 { ROUNDS.0 as u32 } else { FEW_RUNS });
        if let (Err(why), Some(trial)) = (measured, host.trials.get_mut(place)) {
            trial.failure = Some(why);
        }
        (host.progress)(started.elapsed(), &host.trials);
    }
    host.end = Instant::now().checked_add(problem.budget.mul_f64(1.0 - LAST_PART));
    let (order, failure) = match strategy.search(problem, &mut host) {
        Ok(order) => (order, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let mut ranking = ranked(&host.trials, &order);
    if ranking.is_empty() {
        let why = host.trials.iter().find_map(|trial| trial.failure.clone());
        return Err(why.unwrap_or_else(|| "no configuration was measured".to_owned()));
    }
    let gain = last_comparison(&mut host, &mut ranking, problem.budget.mul_f64(LAST_PART));
    Ok(Tuned { trials: host.trials, ranking, default: 0, gain, failure, took: started.elapsed() })
}

/// The strategy's order, each place once and only what was measured, and behind it the rest by their times.
fn ranked(trials: &[Trial], order: &[usize]) -> Vec<usize> {
    let time = |place: &usize| trials.get(*place).and_then(Trial::time);
    let mut ranking: Vec<usize> = Vec::new();
    for place in order {
        if time(place).is_some() && !ranking.contains(place) {
            ranking.push(*place);
        }
    }
    let mut rest: Vec<usize> = (0..trials.len()).filter(|place| !ranking.contains(place)).collect();
    rest.retain(|place| time(place).is_some());
    rest.sort_by_key(time);
    ranking.extend(rest);
    ranking
}

/// Runs the first two of the ranking and the default choice in turn. Only what is clearly faster than the default choice stays in front of it.
/// Answers how many times as fast the first is.
fn last_comparison<T: Target>(host: &mut Host<'_, T>, ranking: &mut Vec<usize>, most: Duration) -> f64 {
    let default = 0;
    let is_right = host.trials.first().is_some_and(|trial| trial.failure.is_none());
    let rivals: Vec<usize> = ranking.iter().copied().filter(|place| *place != default).take(2).collect();
    if !is_right || rivals.is_empty() || ranking.first() == Some(&default) {
        return 1.0;
    }
    let started = Instant::now();
    let mut rounds: Vec<(f64, Vec<f64>)> = Vec::new();
    while rounds.len() < ROUNDS.0 || rounds.len() < ROUNDS.1 && started.elapsed() < most {
        let Ok(Some(usual)) = host.run(default, None) else { return 1.0 };
        let mut run = |rival: &usize| host.run(*rival, None).ok().flatten();
        let runs: Vec<f64> =
            rivals.iter().map(|rival| run(rival).map_or(f64::INFINITY, |time| time.as_secs_f64())).collect();
        rounds.push((usual.as_secs_f64(), runs));
    }
    let middle = |mut numbers: Vec<f64>| {
        numbers.sort_by(f64::total_cmp);
        numbers.get(numbers.len() / 2).copied().unwrap_or(f64::INFINITY)
    };
    // The ratio of each round: both ran on the same machine then.
    let ratios_of = |at: usize| -> Vec<f64> {
        rounds.iter().map(|(usual, runs)| runs.get(at).map_or(f64::INFINITY, |run| run / usual)).collect()
    };
    let mut ratios: Vec<(f64, f64, usize)> = Vec::new();
    for (at, place) in rivals.into_iter().enumerate() {
        let of_rounds = ratios_of(at);
        let wins = of_rounds.iter().filter(|ratio| **ratio < 1.0).count() as f64 / of_rounds.len() as f64;
        ratios.push((middle(of_rounds), wins, place));
    }
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let clear: Vec<(f64, usize)> = ratios
        .into_iter()
        .filter(|(ratio, wins, _)| *ratio < 1.0 - WORTH && *wins >= CLEAR)
        .map(|(ratio, _, place)| (ratio, place))
        .collect();
    let front: Vec<usize> = match clear.is_empty() {
        true => vec![default],
        false => clear.iter().map(|(_, place)| *place).collect(),
    };
    ranking.retain(|place| !front.contains(place));
    ranking.splice(0..0, front);
    clear.first().map_or(1.0, |(ratio, _)| 1.0 / ratio)
}

#[cfg(test)]
mod tests;
