//! `hipdnn tune`

use std::path::{Path, PathBuf};
use std::time::Duration;

use hipdnn::tuning::{
    Candidate, Configuration, Problem, Store, Strategy, Target, Trial, Tuned, Tuning, candidates, device,
    plugin, tune as search,
};
use hipdnn::{Backend, Engine, EngineInfo, Handle};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::bench::{engines, outcome_text};
use super::{Outcome, json, read_graph, write};
use crate::cli;
use crate::comparison::{Changes, judge};
use crate::computation::{Arrays, Computation, Loaded, inputs, place_of, plan_with, reference};
use crate::failure::{Failure, Result};
use crate::rounding::Limits;
use crate::table::Table;
use crate::trials;

/// The result for one graph.
#[derive(Serialize)]
struct Row {
    file: PathBuf,
    graph: String,
    engine: String,
    knobs: String,
    ms: f64,
    default_engine: String,
    default_ms: Option<f64>,
    gain: f64,
    tried: usize,
    failed: usize,
    seconds: f64,
    ranking: Vec<String>,
    ranking_outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy_failed: Option<String>,
}

/// Searches for the fastest configuration of each graph.
pub fn tune(backend: &Backend, arguments: &cli::Tune) -> Result<Outcome> {
    let found = plugin::load(backend);
    let strategies = plugin::strategies(&found);
    let strategy = strategies.iter().find(|(name, _)| *name == arguments.strategy).ok_or_else(|| {
        let known: Vec<&str> = strategies.iter().map(|(name, _)| name.as_str()).collect();
        let refused = found.refused.iter();
        let refused: String = refused.map(|(path, why)| format!("; {}: {why}", path.display())).collect();
        Failure::input(format!(
            "there is no strategy {:?}; there are {}{refused}",
            arguments.strategy,
            known.join(", ")
        ))
    })?;
    let handle = arguments.common.on.handle(backend)?;
    let device = device();
    let mut rows = Vec::new();
    for path in &arguments.graphs {
        rows.push(
            tune_one(&handle, path, &*strategy.1, &device, arguments)
                .map_err(|f| f.during(path.display().to_string()))?,
        );
    }
    if arguments.json {
        return json(&rows);
    }
    Ok(Outcome::from(text(&rows)))
}

/// Plans and executes a graph during a search.
struct Runs<'a> {
    handle: &'a Handle,
    loaded: &'a Loaded,
    engines: &'a [EngineInfo],
    inputs: Arrays,
    reference: Option<Arrays>,
    changes: Changes,
    common: &'a cli::Common,
}

impl Runs<'_> {
    fn computation(&self, configuration: &Configuration) -> Result<(Computation, Duration)> {
        let graph = &self.loaded.graph;
        let engine = self.engines.iter().find(|engine| engine.id == configuration.engine);
        let engine = engine.ok_or_else(|| Failure::work("the engine is not a candidate"))?;
        let plan = plan_with(&Engine::new(&self.loaded.operations, engine.id)?, &configuration.knobs)?;
        let place = place_of(engine, self.common.memory);
        let mut computation = Computation::new(self.handle, graph, plan, &self.inputs, place)?;
        let took = computation.execute(self.handle)?;
        let Some(reference) = &self.reference else { return Ok((computation, took)) };
        let outputs = computation.outputs(graph)?;
        let judged = judge(
            self.handle,
            self.loaded,
            (&self.inputs, &outputs),
            (reference, Some(reference), &self.changes),
            Limits { steps: computation.steps().as_deref(), factor: self.common.tolerance },
        )?;
        match judged.iter().find(|of| of.is_wrong) {
            None => Ok((computation, took)),
            Some(of) => {
                let (label, used) = (of.tensor.label(), of.comparison.used);
                Err(Failure::work(format!("{label} is wrong: {used:.3} of the tolerance")))
            }
        }
    }
}

impl Target for Runs<'_> {
    type Ready = Computation;

    fn prepare(
        &mut self,
        configuration: &Configuration,
    ) -> std::result::Result<(Computation, Duration), String> {
        self.computation(configuration).map_err(|failure| failure.to_string())
    }

    fn execute(&mut self, ready: &mut Computation, count: u32) -> std::result::Result<Duration, String> {
        ready.execute_in_row(self.handle, count).map_err(|failure| failure.to_string())
    }
}

fn tune_one(
    handle: &Handle,
    path: &Path,
    strategy: &dyn Strategy,
    device: &[u8],
    arguments: &cli::Tune,
) -> Result<Row> {
    let operations = read_graph(handle.backend(), path)?;
    let loaded = Loaded::new(handle, operations, path)?;
    let engines = engines(handle, &loaded, &arguments.engines, arguments.common.on)?;
    let ids: Vec<i64> = engines.iter().map(|engine| engine.id).collect();
    let plain = loaded.operations.graph()?;
    let store = Store::of_device(device);
    let id_of = |name: &str| engines.iter().find(|engine| engine.name == name).map(|engine| engine.id);
    let similar = store.as_ref().map(|store| store.similar(&plain)).unwrap_or_default();
    let problem = Problem {
        graph: loaded.operations.bytes()?,
        device: device.to_vec(),
        candidates: candidates(handle, &loaded.operations, &ids, arguments.values, arguments.promises)?,
        similar: similar.iter().filter_map(|found| found.configuration(id_of)).collect(),
        budget: arguments.budget,
    };
    let inputs = inputs(&loaded.graph, &[], arguments.common.seed)?;
    let reference = reference(handle, &loaded.operations, &loaded.graph, &inputs).ok();
    let bar = progress(arguments.budget, &loaded.graph.name);
    let mut runs = Runs {
        handle,
        loaded: &loaded,
        engines: &engines,
        inputs,
        reference,
        changes: Changes::new(),
        common: &arguments.common,
    };
    let tuned = search(&mut runs, &problem, strategy, &mut |took, trials| {
        bar.set_position(took.as_millis() as u64);
        let best = trials.iter().filter_map(Trial::time).min();
        let best = best.map_or_else(String::new, |best| format!(", best {:.4} ms", best.as_secs_f64() * 1e3));
        bar.set_message(format!("{}: {} tried{best}", loaded.graph.name, trials.len()));
    });
    bar.finish_and_clear();
    let tuned = tuned.map_err(Failure::work)?;
    if let Some(file) = &arguments.svg {
        let file = picture_file(file, path, arguments.graphs.len() > 1);
        write(&file, trials::draw(&loaded.graph.name, &tuned, &problem.candidates).as_bytes())?;
    }
    let row = row(path, &loaded, &tuned, &problem.candidates)?;
    let is_kept =
        !arguments.no_ranking && arguments.engines.is_empty() && arguments.common.on.device.is_none();
    if !is_kept {
        return Ok(row);
    }
    let ranking = tuned.engines(&problem);
    let outcome = match handle.write_times(&loaded.operations, &ranking) {
        Ok(outcome) => outcome_text(outcome),
        Err(failure) => format!("not handed over: {failure}"),
    };
    let kept = match (&store, tuned.best()) {
        (Some(store), Some(best)) => {
            let default_ms = row.default_ms.unwrap_or(row.ms);
            let found = Tuning::new(&plain, &row.engine, &best.configuration, row.ms, default_ms);
            store.keep(&found).map_err(|error| format!("; the knobs are not kept: {error}"))
        }
        _ => Ok(()),
    };
    Ok(Row { ranking_outcome: outcome + &kept.err().unwrap_or_default(), ..row })
}

fn row(path: &Path, loaded: &Loaded, tuned: &Tuned, candidates: &[Candidate]) -> Result<Row> {
    let name = |id: i64| {
        let found = candidates.iter().find(|candidate| candidate.engine == id);
        found.map_or_else(String::new, |candidate| candidate.name.clone())
    };
    let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    let best = tuned.best().ok_or_else(|| Failure::work("no configuration could be measured"))?;
    let default = tuned.trials.get(tuned.default);
    let mut ranking: Vec<String> = Vec::new();
    for trial in tuned.ranking.iter().filter_map(|place| tuned.trials.get(*place)) {
        let engine = name(trial.configuration.engine);
        if !ranking.contains(&engine) {
            ranking.push(engine);
        }
    }
    Ok(Row {
        file: path.to_owned(),
        graph: loaded.graph.name.clone(),
        engine: name(best.configuration.engine),
        knobs: best.configuration.to_string(),
        ms: ms(tuned.best_time()).unwrap_or_default(),
        default_engine: default.map(|trial| name(trial.configuration.engine)).unwrap_or_default(),
        default_ms: ms(tuned.default_time()),
        gain: tuned.gain,
        tried: tuned.trials.len(),
        failed: tuned.trials.iter().filter(|trial| trial.failure.is_some()).count(),
        seconds: tuned.took.as_secs_f64(),
        ranking,
        ranking_outcome: "not handed over".to_owned(),
        strategy_failed: tuned.failure.clone(),
    })
}

/// The file of a graph's picture.
fn picture_file(file: &Path, graph: &Path, is_one_of_many: bool) -> PathBuf {
    if !is_one_of_many {
        return file.to_owned();
    }
    let part =
        |of: Option<&std::ffi::OsStr>| of.map(|of| of.to_string_lossy().into_owned()).unwrap_or_default();
    let ending = part(file.extension());
    file.with_file_name(format!("{}-{}.{ending}", part(file.file_stem()), part(graph.file_stem())))
}

fn progress(budget: Duration, graph: &str) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(budget.as_millis()).unwrap_or(u64::MAX).max(1));
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} % {elapsed} {wide_msg}") {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar.set_message(graph.to_owned());
    bar
}

fn text(rows: &[Row]) -> String {
    let mut table =
        Table::new(&["GRAPH", "DEFAULT MS", "BEST MS", "GAIN", "TRIED", "SECONDS", "ENGINE", "KNOBS"]);
    for row in rows {
        table.row([
            row.graph.clone(),
            row.default_ms.map_or_else(|| "failed".to_owned(), |ms| format!("{ms:.4}")),
            format!("{:.4}", row.ms),
            format!("{:.2}", row.gain),
            row.tried.to_string(),
            format!("{:.1}", row.seconds),
            row.engine.clone(),
            if row.knobs.is_empty() { "as they are".to_owned() } else { row.knobs.clone() },
        ]);
    }
    let mut text = table.text();
    for row in rows {
        text.push_str(&format!("\n{}: {} ({})", row.graph, row.ranking.join(", "), row.ranking_outcome));
        if let Some(why) = &row.strategy_failed {
            text.push_str(&format!("\n{}: ranked by times, as the strategy failed: {why}", row.graph));
        }
    }
    text + "\n"
}
