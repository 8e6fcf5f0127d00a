use std::cell::Cell;

use super::*;
use crate::tuning::{Candidate, Exhaustive, Halving, Tunable};
use crate::{Knob, KnobRange, KnobSetting, KnobValue};

/// An engine whose time is a function of its knobs, on a simulated clock.
struct Clocked<F> {
    time: F,
    executed: Cell<u32>,
}

impl<F: Fn(&Configuration, u32) -> Result<u64, String>> Target for Clocked<F> {
    type Ready = Configuration;

    fn prepare(&mut self, configuration: &Configuration) -> Result<(Configuration, Duration), String> {
        let time = (self.time)(configuration, self.executed.get())?;
        self.executed.set(self.executed.get() + 1);
        Ok((configuration.clone(), Duration::from_micros(time)))
    }

    fn execute(&mut self, ready: &mut Configuration, count: u32) -> Result<Duration, String> {
        self.executed.set(self.executed.get() + count);
        Ok(Duration::from_micros((self.time)(ready, self.executed.get())?) * count)
    }
}

fn clocked<F: Fn(&Configuration, u32) -> Result<u64, String>>(time: F) -> Clocked<F> {
    Clocked { time, executed: Cell::new(0) }
}

fn tunable(id: &str, values: std::ops::Range<i64>) -> Tunable {
    let knob = Knob {
        id: id.to_owned(),
        description: String::new(),
        default: KnobValue::Int(values.start),
        range: KnobRange::Int { values: values.clone().collect(), bounds: None },
        longest: 0,
        deprecated: false,
    };
    Tunable { knob, values: values.map(KnobValue::Int).collect() }
}

fn problem(candidates: Vec<Candidate>) -> Problem {
    let budget = Duration::from_secs(60);
    Problem { graph: Vec::new(), device: Vec::new(), candidates, similar: Vec::new(), budget }
}

fn candidate(engine: i64, knobs: Vec<Tunable>) -> Candidate {
    Candidate { engine, name: format!("ENGINE_{engine}"), knobs }
}

/// The value of a knob; all default to 0.
fn of(configuration: &Configuration, id: &str) -> i64 {
    let found = configuration.knobs.iter().find(|setting| setting.id == id);
    match found.map(|setting| &setting.value) {
        Some(KnobValue::Int(value)) => *value,
        _ => 0,
    }
}

fn search<F: Fn(&Configuration, u32) -> Result<u64, String>>(
    strategy: &dyn Strategy,
    target: &mut Clocked<F>,
    problem: &Problem,
) -> Tuned {
    tune(target, problem, strategy, &mut |_, _| {}).unwrap()
}

/// Three interacting knobs of six values; the fastest is at 4, 2, 5.
fn valley(configuration: &Configuration, _: u32) -> Result<u64, String> {
    let far = |id, at: i64| (of(configuration, id) - at).unsigned_abs();
    let engine = if configuration.engine == 1 { 0 } else { 4_000 };
    Ok(engine + 400 + 40 * far("a", 4) + 30 * far("b", 2) + 20 * far("c", 5) + 5 * far("a", 4) * far("b", 2))
}

fn wide() -> Problem {
    let knobs = || ["a", "b", "c"].map(|id| tunable(id, 0..6)).to_vec();
    problem(vec![candidate(1, knobs()), candidate(2, knobs())])
}

#[test]
fn both_strategies_find_the_valley_and_halving_with_a_fraction_of_the_executions() {
    let mut executed = Vec::new();
    for strategy in [&Exhaustive as &dyn Strategy, &Halving] {
        let mut target = clocked(valley);
        let tuned = search(strategy, &mut target, &wide());
        let best = tuned.best().unwrap();
        assert_eq!((best.configuration.engine, best.configuration.to_string().as_str()), (1, "a=4 b=2 c=5"));
        let gain = valley(&Configuration::of(1), 0).unwrap() as f64 / 400.0;
        assert!((tuned.gain - gain).abs() < 0.01, "{} is not {gain}", tuned.gain);
        assert_gain_is_that_of_the_times(&tuned);
        assert_eq!(ids(&tuned.engines(&wide())), [1, 2]);
        executed.push(target.executed.get());
    }
    assert!(executed[1] * 3 < executed[0], "{executed:?}");
}

/// The times that are shown beside a gain are those that it comes from.
fn assert_gain_is_that_of_the_times(tuned: &Tuned) {
    let [default, best] = [tuned.default_time(), tuned.best_time()].map(|time| time.unwrap().as_secs_f64());
    assert!((default / best - tuned.gain).abs() < 0.01, "{} is not {default} / {best}", tuned.gain);
}

#[test]
fn the_times_are_those_of_the_last_comparison() {
    // A machine that gets four times as fast once the default choice is measured.
    let warm = std::cell::Cell::new(0);
    let warming = |configuration: &Configuration, _: u32| {
        warm.set(warm.get() + 1);
        let own = if configuration.knobs.is_empty() { 110_000 } else { 100_000 };
        Ok(if warm.get() < 400 { 4 * own } else { own })
    };
    let one = problem(vec![candidate(1, vec![tunable("a", 0..2)])]);
    assert_gain_is_that_of_the_times(&search(&Exhaustive, &mut clocked(warming), &one));
}

#[test]
fn halving_begins_where_similar_graphs_ended() {
    let mut wide = wide();
    let setting = |id: &str, value| KnobSetting { id: id.to_owned(), value: KnobValue::Int(value) };
    let known = Configuration { engine: 1, knobs: vec![setting("a", 4), setting("b", 2), setting("c", 5)] };
    wide.similar = vec![known.clone()];
    let mut target = clocked(valley);
    let tuned = search(&Halving, &mut target, &wide);
    // The engines with default knobs come first.
    assert!(tuned.trials[..3].iter().any(|trial| trial.configuration == known));
    assert_eq!(tuned.best().unwrap().configuration, known);
}

#[test]
fn the_default_choice_stays_where_nothing_is_clearly_faster() {
    // Other settings gain less than an execution varies.
    let noisy = |configuration: &Configuration, run: u32| {
        let gain = if configuration.knobs.is_empty() { 0 } else { 3 };
        let mixed = (u64::from(run) ^ 0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Ok(1000 - gain + ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 58))
    };
    for strategy in [&Exhaustive as &dyn Strategy, &Halving] {
        let tuned =
            search(strategy, &mut clocked(noisy), &problem(vec![candidate(1, vec![tunable("a", 0..4)])]));
        assert_eq!((tuned.best().unwrap().configuration.to_string().as_str(), tuned.gain), ("", 1.0));
    }
}

#[test]
fn a_slower_machine_does_not_make_a_configuration_slower() {
    // From the hundredth execution on, everything takes twice as long.
    let drifting = |configuration: &Configuration, run: u32| {
        let own = 1000 - 100 * of(configuration, "a").unsigned_abs();
        Ok(if run > 100 { 2 * own } else { own })
    };
    let tuned =
        search(&Exhaustive, &mut clocked(drifting), &problem(vec![candidate(1, vec![tunable("a", 0..8)])]));
    assert_eq!(tuned.best().unwrap().configuration.to_string(), "a=7");
    let time = |place: usize| tuned.trials[place].time().unwrap().as_micros();
    assert!(tuned.ranking.windows(2).all(|pair| time(pair[0]) <= time(pair[1])), "{:?}", tuned.ranking);
}

#[test]
fn a_run_that_was_interrupted_says_little_of_the_machine() {
    let micros = Duration::from_micros;
    assert_eq!(drift(micros(100), micros(50)), 2.0);
    assert_eq!(drift(micros(100), micros(100_000)), 0.25);
    assert_eq!(drift(micros(100_000), micros(100)), 4.0);
    assert_eq!(drift(micros(100), Duration::ZERO), 1.0);
}

#[test]
fn what_fails_is_told_and_does_not_end_the_search() {
    let failing = |configuration: &Configuration, _: u32| match configuration.engine {
        1 => Err("y differs from the reference".to_owned()),
        _ => Ok(100),
    };
    let two = problem(vec![candidate(1, vec![]), candidate(2, vec![])]);
    for strategy in [&Exhaustive as &dyn Strategy, &Halving] {
        let tuned = search(strategy, &mut clocked(failing), &two);
        assert_eq!(tuned.best().unwrap().configuration.engine, 2);
        assert_eq!(tuned.trials[tuned.default].failure.as_deref(), Some("y differs from the reference"));
        assert_eq!(ids(&tuned.engines(&two)), [2, 1]);
    }
    let one = problem(vec![candidate(1, vec![])]);
    let error = tune(&mut clocked(failing), &one, &Halving, &mut |_, _| {}).unwrap_err();
    assert_eq!(error, "y differs from the reference");
    let error = tune(&mut clocked(failing), &problem(vec![]), &Halving, &mut |_, _| {}).unwrap_err();
    assert_eq!(error, "there is no engine to tune");
}

#[test]
fn a_budget_that_is_spent_leaves_the_default_choice() {
    let mut wide = wide();
    wide.budget = Duration::ZERO;
    for strategy in [&Exhaustive as &dyn Strategy, &Halving] {
        let tuned = search(strategy, &mut clocked(valley), &wide);
        assert_eq!((tuned.ranking, tuned.trials.len()), (vec![0, 1], 2));
    }
}

#[test]
fn a_ranking_with_numbers_that_are_none_is_put_right() {
    struct Careless(Result<Vec<usize>, String>);
    impl Strategy for Careless {
        fn search(&self, problem: &Problem, measure: &mut dyn Measure) -> Result<Vec<usize>, String> {
            for value in 1..4 {
                let tunable = &problem.candidates[0].knobs[0];
                measure.measure(&Configuration::of(1).with(tunable, &KnobValue::Int(value)), 3);
            }
            self.0.clone()
        }
    }
    let time = |configuration: &Configuration, _: u32| Ok(1000 - of(configuration, "a").unsigned_abs() * 100);
    let one = problem(vec![candidate(1, vec![tunable("a", 0..4)])]);
    for (answer, failure) in
        [(Ok(vec![2, 2, 77, 3]), None), (Ok(vec![]), None), (Err("lost".to_owned()), Some("lost".to_owned()))]
    {
        let tuned = search(&Careless(answer), &mut clocked(time), &one);
        assert_eq!((&tuned.ranking, tuned.failure), (&vec![3, 2, 1, 0], failure));
    }
}

#[test]
fn an_engine_that_is_far_too_slow_is_executed_once() {
    let time =
        |configuration: &Configuration, _: u32| Ok(if configuration.engine == 1 { 1_000 } else { 100_000 });
    let two = problem(vec![candidate(1, vec![]), candidate(2, vec![tunable("a", 0..8)])]);
    let tuned = search(&Halving, &mut clocked(time), &two);
    let slow = tuned.trials.iter().find(|trial| trial.configuration.engine == 2).unwrap();
    assert_eq!((slow.runs.len(), slow.time(), tuned.trials.len()), (1, Some(Duration::from_millis(100)), 2));
    assert_eq!(ids(&tuned.engines(&two)), [1, 2]);
}

fn ids(engines: &[(i64, Option<Duration>)]) -> Vec<i64> {
    engines.iter().map(|(engine, _)| *engine).collect()
}
