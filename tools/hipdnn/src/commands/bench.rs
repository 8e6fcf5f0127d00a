//! `hipdnn bench`

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::settings::configurations;
use super::{Outcome, json, read_graph};
use crate::cli;
use crate::comparison::{Changes, judge};
use crate::computation::{
    Arrays, Computation, Loaded, REFERENCE, find_engine, inputs, on_device, place_of, plan_with, reference,
};
use crate::failure::{Failure, Result, one_line};
use crate::rounding::Limits;
use crate::table::Table;
use hipdnn::tuning::{Times, candidates};
use hipdnn::{Backend, Engine, EngineInfo, Handle, KnobSetting, RankingOutcome};

/// The fewest executions with a time limit.
const FEWEST_RUNS: usize = 3;

/// The measurement of a configuration.
#[derive(Serialize)]
struct Row {
    engine: String,
    engine_id: i64,
    knobs: Vec<KnobSetting>,
    #[serde(flatten)]
    found: Found,
}

/// The result of a measurement.
#[derive(Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Found {
    /// It was measured.
    Measured {
        #[serde(flatten)]
        times: Times,
        workspace_bytes: usize,
        /// The fraction of the tolerance used; none without a reference.
        tolerance_used: Option<f64>,
        is_right: bool,
    },
    /// It failed.
    Failed { why: String },
}

#[derive(Serialize)]
struct Answer {
    graph: String,
    configurations: Vec<Row>,
    ranking: Vec<String>,
    ranking_outcome: String,
}

/// Measures every engine that can run a graph.
pub fn bench(backend: &Backend, arguments: &cli::Bench) -> Result<Outcome> {
    let operations = read_graph(backend, &arguments.graph)?;
    let on = arguments.common.on;
    let handle = on.handle(backend)?;
    let loaded = Loaded::new(&handle, operations, &arguments.graph)?;
    let engines = engines(&handle, &loaded, &arguments.engines, on)?;
    let inputs = inputs(&loaded.graph, &[], arguments.common.seed)?;
    let reference = reference(&handle, &loaded.operations, &loaded.graph, &inputs);
    let ids: Vec<i64> = engines.iter().map(|engine| engine.id).collect();
    let candidates = candidates(&handle, &loaded.operations, &ids, arguments.values, true)?;
    let configurations = configurations(&candidates);
    let bar = progress(configurations.len(), arguments);
    let measurement = Measurement {
        handle: &handle,
        loaded: &loaded,
        inputs: &inputs,
        reference: reference.as_ref().ok(),
        changes: &Changes::new(),
        arguments,
        bar: &bar,
    };
    let rows: Vec<Row> = configurations
        .into_iter()
        .filter_map(|of| {
            let engine = engines.iter().find(|engine| engine.id == of.engine)?.clone();
            let settings = of.knobs;
            bar.set_message(name(&engine.name, &settings));
            let expected = bar.position() + u64::from(arguments.runs + arguments.warmup);
            let found = measurement
                .of(&engine, &settings)
                .unwrap_or_else(|failure| Found::Failed { why: failure.to_string() });
            bar.set_position(expected);
            Some(Row { engine: engine.name, engine_id: engine.id, knobs: settings, found })
        })
        .collect();
    bar.finish_and_clear();
    let ranking = rank(&rows);
    let ranking_outcome = if arguments.no_ranking || !arguments.engines.is_empty() || on.device.is_some() {
        "not handed over".to_owned()
    } else {
        let timed: Vec<_> = ranking.iter().map(|(_, id)| (*id, default_time(&rows, *id))).collect();
        match handle.write_times(&loaded.operations, &timed) {
            Ok(outcome) => outcome_text(outcome),
            Err(failure) => format!("not handed over: {failure}"),
        }
    };
    let failure = failure(&rows);
    let answer = Answer {
        graph: loaded.graph.name.clone(),
        configurations: rows,
        ranking: ranking.into_iter().map(|(name, _)| name).collect(),
        ranking_outcome,
    };
    let text = if arguments.json {
        json(&answer)?.text
    } else {
        let unchecked =
            reference.err().map(|failure| format!("\nnot checked: {failure}\n")).unwrap_or_default();
        text(&answer) + &unchecked
    };
    Ok(Outcome { text, failure })
}

/// The engines to measure: the named ones, or else all, in the library's order.
pub(super) fn engines(
    handle: &Handle,
    loaded: &Loaded,
    named: &[String],
    on: cli::On,
) -> Result<Vec<EngineInfo>> {
    let all = handle.engines()?;
    if !named.is_empty() {
        let found = named.iter().map(|name| find_engine(&all, name).cloned()).collect::<Result<_>>()?;
        return on_device(found, handle, &loaded.operations, (on.device, true));
    }
    let offer = loaded.operations.offer()?;
    if offer.engines.is_empty() {
        return Err(Failure::work(one_line(&offer.reasons)).during("nothing to measure"));
    }
    let find = |id: &i64| all.iter().find(|engine| engine.id == *id).cloned();
    let offered = offer.engines.iter().filter_map(find).collect();
    on_device(offered, handle, &loaded.operations, (on.device, false))
}

fn progress(configurations: usize, arguments: &cli::Bench) -> ProgressBar {
    let bar = ProgressBar::new(configurations as u64 * u64::from(arguments.runs + arguments.warmup));
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} % {elapsed} {wide_msg}");
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar
}

/// The common parts of a graph's measurements.
struct Measurement<'m> {
    handle: &'m Handle,
    loaded: &'m Loaded,
    inputs: &'m Arrays,
    reference: Option<&'m Arrays>,
    changes: &'m Changes,
    arguments: &'m cli::Bench,
    bar: &'m ProgressBar,
}

impl Measurement<'_> {
    /// The times of an engine with some settings.
    fn of(&self, engine: &EngineInfo, settings: &[KnobSetting]) -> Result<Found> {
        let Self { handle, loaded, inputs, reference, changes, arguments, bar } = *self;
        let graph = &loaded.graph;
        let plan = plan_with(&Engine::new(&loaded.operations, engine.id)?, settings)?;
        let place = place_of(engine, arguments.common.memory);
        let mut computation = Computation::new(handle, graph, plan, inputs, place)?;
        // The first execution is checked and counts as a warm-up.
        computation.execute(handle)?;
        let outputs = computation.outputs(graph)?;
        let (used, is_right) = match reference {
            Some(reference) => {
                let held_to = (reference, Some(reference), changes);
                let steps = computation.steps();
                let limits = Limits { steps: steps.as_deref(), factor: arguments.common.tolerance };
                let judged = judge(handle, loaded, (inputs, &outputs), held_to, limits)?;
                let used = judged.iter().map(|of| of.comparison.used).fold(0.0, f64::max);
                (Some(used), judged.iter().all(|of| !of.is_wrong))
            }
            None => (None, true),
        };
        let started = Instant::now();
        let is_over = || started.elapsed().as_secs_f64() > arguments.seconds;
        for _ in 1..arguments.warmup {
            if is_over() {
                break;
            }
            computation.execute(handle)?;
            bar.inc(1);
        }
        let mut durations = Vec::new();
        for _ in 0..arguments.runs {
            durations.push(computation.execute(handle)?);
            bar.inc(1);
            if durations.len() >= FEWEST_RUNS && is_over() {
                break;
            }
        }
        Ok(Found::Measured {
            times: Times::of(durations),
            workspace_bytes: computation.workspace_size(),
            tolerance_used: used,
            is_right,
        })
    }
}

/// Every engine once, the fastest correct one first; then the wrong ones, then those that failed.
fn rank(rows: &[Row]) -> Vec<(String, i64)> {
    let key = |row: &Row| match &row.found {
        Found::Measured { times, is_right: true, .. } => (0, times.median_ms),
        Found::Measured { times, is_right: false, .. } => (1, times.median_ms),
        Found::Failed { .. } => (2, 0.0),
    };
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let mut ranking: Vec<(String, i64)> = Vec::new();
    for row in sorted {
        if !ranking.iter().any(|(_, id)| *id == row.engine_id) {
            ranking.push((row.engine.clone(), row.engine_id));
        }
    }
    ranking
}

/// The time of an engine with its default knobs, if it was measured and right.
fn default_time(rows: &[Row], engine_id: i64) -> Option<Duration> {
    rows.iter().filter(|row| row.engine_id == engine_id && row.knobs.is_empty()).find_map(|row| {
        match &row.found {
            Found::Measured { times, is_right: true, .. } => {
                Duration::try_from_secs_f64(times.median_ms / 1e3).ok()
            }
            _ => None,
        }
    })
}

fn failure(rows: &[Row]) -> Option<Failure> {
    let wrong: Vec<String> = rows
        .iter()
        .filter(|row| matches!(row.found, Found::Measured { is_right: false, .. }))
        .map(|row| name(&row.engine, &row.knobs))
        .collect();
    if !wrong.is_empty() {
        return Some(Failure::work(format!("{} differs from {REFERENCE}", wrong.join(", "))));
    }
    let measured = rows.iter().any(|row| matches!(row.found, Found::Measured { .. }));
    (!measured).then(|| Failure::work("no configuration could be measured"))
}

fn name(engine: &str, settings: &[KnobSetting]) -> String {
    std::iter::once(engine.to_owned())
        .chain(settings.iter().map(KnobSetting::to_string))
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) fn outcome_text(outcome: RankingOutcome) -> String {
    match outcome {
        RankingOutcome::Written => "written to the cache".to_owned(),
        RankingOutcome::Unchanged => "in the cache already".to_owned(),
        RankingOutcome::Disabled => "not written: the cache is switched off".to_owned(),
        RankingOutcome::Unkeyable => "not written: the graph cannot be recognized again".to_owned(),
        RankingOutcome::NoEngines => "not written: it has no engines".to_owned(),
        RankingOutcome::Unknown(number) => format!("answered with the unknown outcome {number}"),
    }
}

fn text(answer: &Answer) -> String {
    let mut table =
        Table::new(&["ENGINE", "KNOBS", "MEDIAN MS", "QUARTILES MS", "LEAST MS", "RUNS", "CHECK"]);
    let mut rows: Vec<&Row> = answer.configurations.iter().collect();
    let median = |row: &Row| match &row.found {
        Found::Measured { times, .. } => times.median_ms,
        Found::Failed { .. } => f64::INFINITY,
    };
    rows.sort_by(|a, b| median(a).total_cmp(&median(b)));
    for row in rows {
        let knobs: Vec<_> = row.knobs.iter().map(KnobSetting::to_string).collect();
        let mut cells = vec![row.engine.clone(), knobs.join(" ")];
        match &row.found {
            Found::Measured { times, tolerance_used, is_right, .. } => cells.extend([
                format!("{:.4}", times.median_ms),
                format!("{:.4}-{:.4}", times.lower_quartile_ms, times.upper_quartile_ms),
                format!("{:.4}", times.least_ms),
                times.runs.to_string(),
                match (tolerance_used, is_right) {
                    (None, _) => "not checked".to_owned(),
                    (Some(used), true) if *used > 1.0 => "ok, ill-conditioned".to_owned(),
                    (Some(_), true) => "ok".to_owned(),
                    (Some(used), false) => format!("WRONG: {used:.3} of the tolerance"),
                },
            ]),
            Found::Failed { why } => {
                cells.extend(["-", "-", "-", "-"].map(str::to_owned).into_iter().chain([why.clone()]))
            }
        }
        table.row(cells);
    }
    format!("{}\nranking: {} ({})\n", table.text(), answer.ranking.join(", "), answer.ranking_outcome)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn wrong_and_failed_engines_come_last() {
        let row =
            |engine: &str, id, found| Row { engine: engine.to_owned(), engine_id: id, knobs: vec![], found };
        let measured = |median, is_right| Found::Measured {
            times: Times::of(vec![Duration::from_millis(median)]),
            workspace_bytes: 0,
            tolerance_used: Some(0.0),
            is_right,
        };
        let rows = [
            row("failed", 1, Found::Failed { why: "why".to_owned() }),
            row("wrong", 2, measured(1, false)),
            row("slow", 3, measured(9, true)),
            row("fast", 4, measured(5, true)),
            row("slow", 3, measured(7, true)),
        ];
        let ids: Vec<i64> = rank(&rows).into_iter().map(|(_, id)| id).collect();
        assert_eq!(ids, [4, 3, 2, 1]);
        assert!(failure(&rows).unwrap().to_string().starts_with("wrong differs"));
    }
}
