//! The measuring side: runs alternating with the best so far, early stops, and the final comparison with the default choice.

use std::time::{Duration, Instant};

use super::problem::{Configuration, Measure, Measurement, Outcome, Problem, Strategy};
use super::times::median;

/// The number of prepared configurations that are kept, besides the default choice and the best.
const KEPT: usize = 8;

/// The least duration of a batch of executions, so that the clock's resolution does not matter.
const ROW: Duration = Duration::from_micros(100);

/// The most executions in a batch.
const MOST_IN_ROW: u32 = 64;

/// A configuration whose first two runs are slower than the best by this factor is stopped.
const SLOW: f64 = 1.5;

/// One whose first execution is slower by this factor is not executed again.
const HOPELESS: f64 = 8.0;

/// The largest correction of times: a run that was interrupted says nothing about the machine.
const MOST_DRIFT: f64 = 4.0;

/// The part of the budget reserved for the final comparison.
const LAST_PART: f64 = 0.1;

/// Runs of each engine with default knobs, before the search.
const FEW_RUNS: u32 = 3;

/// The least and most rounds of the final comparison.
const ROUNDS: (usize, usize) = (7, 40);

/// The least relative gain over the default choice that is worth another choice.
const WORTH: f64 = 0.01;

/// The part of the rounds in which it must be faster.
const CLEAR: f64 = 0.7;

/// Something that can plan and execute the graph.
pub trait Target {
    /// A prepared configuration.
    type Ready;

    /// Plans a configuration, executes it once and checks its results. Also returns how long the execution took.
    ///
    /// # Errors
    /// What failed, or which result is wrong.
    fn prepare(&mut self, configuration: &Configuration) -> Result<(Self::Ready, Duration), String>;

    /// Executes this many times in a row, and returns how long that took, including work on a device.
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
    /// How long each run took, corrected by the best's runs meanwhile; empty if it failed.
    pub runs: Vec<Duration>,
    /// Why it failed.
    pub failure: Option<String>,
    /// When it was first measured, since the search began.
    pub at: Duration,
}

impl Trial {
    /// The time of an execution.
    pub fn time(&self) -> Option<Duration> {
        median(&self.runs).filter(|_| self.failure.is_none())
    }
}

/// The result of tuning.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// All trials, in order.
    pub trials: Vec<Trial>,
    /// The indices of measured trials, best first.
    pub ranking: Vec<usize>,
    /// The index of the library's default choice.
    pub default: usize,
    /// The speedup of the first in the ranking, from the final comparison; 1 if it is the default choice.
    pub gain: f64,
    /// The times of the default choice and of the best in the final comparison; none if there was none.
    compared: Option<(Duration, Duration)>,
    /// Why the strategy returned no ranking; the ranking is then by times.
    pub failure: Option<String>,
    /// How long tuning took.
    pub took: Duration,
}

impl Tuned {
    /// The best trial.
    pub fn best(&self) -> Option<&Trial> {
        self.trials.get(*self.ranking.first()?)
    }

    /// The time of the best trial: beside the default choice's if they were compared, since the machine may have changed since the
    /// trials.
    pub fn best_time(&self) -> Option<Duration> {
        self.compared.map(|(_, best)| best).or_else(|| self.best()?.time())
    }

    /// The time of the default choice, beside the best trial's if they were compared; none if it failed.
    pub fn default_time(&self) -> Option<Duration> {
        self.compared.map(|(default, _)| default).or_else(|| self.trials.get(self.default)?.time())
    }

    /// The engines as the library should offer them, best first, with their times: with default knobs, which the library plans
    /// with; engines that failed or are wrong come last.
    pub fn engines(&self, problem: &Problem) -> Vec<(i64, Option<Duration>)> {
        let trial = |engine: i64| {
            let own = Configuration::of(engine);
            self.trials.iter().find(|trial| trial.configuration == own).map(Trial::time)
        };
        let mut engines: Vec<_> =
            problem.candidates.iter().map(|candidate| (candidate.engine, trial(candidate.engine))).collect();
        engines.sort_by_key(|(_, tried)| match tried {
            Some(Some(time)) => (0, *time),
            None => (1, Duration::ZERO),
            Some(None) => (2, Duration::ZERO),
        });
        engines.into_iter().map(|(engine, tried)| (engine, tried.flatten())).collect()
    }
}

struct Host<'t, T: Target> {
    target: &'t mut T,
    trials: Vec<Trial>,
    /// Prepared configurations, by trial index, the most recently used last.
    ready: Vec<(usize, T::Ready)>,
    best: Option<usize>,
    started: Instant,
    /// The end of the budget; none until the search begins.
    end: Option<Instant>,
    progress: &'t mut dyn FnMut(Duration, &[Trial]),
}

impl<T: Target> Host<'_, T> {
    /// The index of a configuration among the trials; adds a new trial if necessary.
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

    /// Prepares a trial unless it is prepared; none if its first execution shows that another is not worth the time.
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
        // The first executions do work that later ones do not: leave them out.
        self.target.execute(&mut ready, 1)?;
        Ok(Some(ready))
    }

    /// Runs a trial once: a batch of executions, so large that the clock does not matter. None if it is not worth the time.
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

    /// Runs a configuration, alternating with the best.
    fn measure_at(&mut self, place: usize, runs: u32) -> Result<(), String> {
        // The best itself alternates with the next best.
        let time = |place: &usize| self.trials.get(*place).and_then(Trial::time);
        let others = (0..self.trials.len()).filter(|other| *other != place && time(other).is_some());
        let beside = others.min_by_key(time);
        let usual = beside.and_then(|best| self.trials.get(best)).and_then(Trial::time);
        let (mut runs_now, mut least) = (Vec::new(), Duration::MAX);
        for run in 0..runs.max(1) {
            let Some(own) = self.run(place, usual)? else { break };
            least = least.min(own);
            // The machine may be slower or faster than when the best was measured: the best's run just now tells by how much.
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

/// The machine's speed relative to when the best was measured: a run of it takes `now` instead of `usual`.
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

/// Runs a strategy's search, and compares its best with the library's default choice. `progress` gets the time so far and
/// the trials.
///
/// # Errors
/// If there is no candidate, or none can be measured: why the first one cannot.
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
    // Each engine's defaults come first, whatever the strategy and however short the budget: the library plans with them, and its rankings
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
    let (gain, compared) = match last_comparison(&mut host, &mut ranking, problem.budget.mul_f64(LAST_PART)) {
        Some((ratio, default)) => (1.0 / ratio, Some((default, default.mul_f64(ratio)))),
        None => (1.0, None),
    };
    Ok(Tuned { trials: host.trials, ranking, default: 0, gain, compared, failure, took: started.elapsed() })
}

/// The strategy's order, with each measured trial once, followed by the rest by their times.
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

/// Runs the first two of the ranking alternating with the default choice. Only clearly faster ones stay in front of it.
/// Returns the time of the first relative to the default choice's, and the latter; none if they were not compared.
fn last_comparison<T: Target>(
    host: &mut Host<'_, T>,
    ranking: &mut Vec<usize>,
    most: Duration,
) -> Option<(f64, Duration)> {
    let default = 0;
    let is_right = host.trials.first().is_some_and(|trial| trial.failure.is_none());
    let rivals: Vec<usize> = ranking.iter().copied().filter(|place| *place != default).take(2).collect();
    if !is_right || rivals.is_empty() || ranking.first() == Some(&default) {
        return None;
    }
    let started = Instant::now();
    let mut rounds: Vec<(f64, Vec<f64>)> = Vec::new();
    while rounds.len() < ROUNDS.0 || rounds.len() < ROUNDS.1 && started.elapsed() < most {
        let Ok(Some(usual)) = host.run(default, None) else { return None };
        let mut run = |rival: &usize| host.run(*rival, None).ok().flatten();
        let runs: Vec<f64> =
            rivals.iter().map(|rival| run(rival).map_or(f64::INFINITY, |time| time.as_secs_f64())).collect();
        rounds.push((usual.as_secs_f64(), runs));
    }
    let middle = |mut numbers: Vec<f64>| {
        numbers.sort_by(f64::total_cmp);
        numbers.get(numbers.len() / 2).copied().unwrap_or(f64::INFINITY)
    };
    // Ratios within a round, in which the machine was the same for both.
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
    let usual = middle(rounds.iter().map(|(usual, _)| *usual).collect());
    Some((clear.first().map_or(1.0, |(ratio, _)| *ratio), Duration::from_secs_f64(usual)))
}

#[cfg(test)]
mod tests;
