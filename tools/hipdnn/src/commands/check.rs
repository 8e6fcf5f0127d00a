//! `hipdnn check`

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use hipdnn::{Backend, EngineInfo, Handle, OperationGraph};
use serde::Serialize;

use super::{Outcome, json};
use crate::bundle::{Bundle, Claims, Found, Level, Machine, Settings, find};
use crate::cli::{self, Against};
use crate::comparison::{Changes, judge};
use crate::computation::{
    Arrays, Computation, Loaded, REFERENCE, find_engine, inputs as random, place_of, plan, reference,
    require_memory,
};
use crate::failure::{Failure, Result};
use crate::graph::Tensor;
use crate::rounding::Limits;
use crate::table::Table;

/// What became of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// Its results are within the tolerance.
    Right,
    /// It has a plan, and is checked no further.
    Built,
    /// The engine accepts it, and it is checked no further.
    Accepted,
    /// The engine does not accept it, as nothing claims.
    Declined,
    /// It is for other machines, or there is nothing to compare with.
    Skipped,
    /// Its results are wrong.
    Wrong,
    /// It was not read, planned or executed.
    Failed,
    /// The engine does not accept it, against its claims.
    Broken,
}

impl Verdict {
    fn is_failure(self) -> bool {
        matches!(self, Self::Wrong | Self::Failed | Self::Broken)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Built => "built",
            Self::Accepted => "accepted",
            Self::Declined => "declined",
            Self::Skipped => "skipped",
            Self::Wrong => "WRONG",
            Self::Failed => "FAILED",
            Self::Broken => "BROKEN CLAIM",
        }
    }
}

/// A result beside the expected one.
#[derive(Serialize)]
struct OfTensor {
    uid: i64,
    name: String,
    elements: usize,
    beyond: usize,
    largest_difference: f64,
    tolerance_used: f64,
    is_wrong: bool,
}

/// A bundle with an engine.
#[derive(Serialize)]
struct Row {
    bundle: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    case: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
    level: &'static str,
    /// What results were compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<&'static str>,
    verdict: Verdict,
    results: Vec<OfTensor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The answer in JSON.
#[derive(Serialize)]
struct Answer {
    rows: Vec<Row>,
    counts: BTreeMap<Verdict, usize>,
}

/// What one bundle came to, without its name.
struct Came {
    verdict: Verdict,
    against: Option<&'static str>,
    results: Vec<OfTensor>,
    reason: Option<String>,
}

impl Came {
    fn to(verdict: Verdict, reason: Option<String>) -> Self {
        Self { verdict, against: None, results: Vec::new(), reason }
    }
}

/// The claims in files, each read once.
#[derive(Default)]
struct Sidecars(HashMap<PathBuf, Result<Option<Claims>>>);

impl Sidecars {
    fn of(&mut self, found: &Found, all: &[Found]) -> Result<Option<Claims>> {
        let read = || {
            let of_file = all.iter().filter(|other| other.path == found.path);
            let cases: BTreeSet<&str> = of_file.map(|other| other.case.as_str()).collect();
            Claims::read(&found.claims, (!found.case.is_empty()).then_some(&cases))
        };
        self.0.entry(found.claims.clone()).or_insert_with(read).clone()
    }
}

/// Runs bundles and compares their results.
pub fn check(backend: &Backend, arguments: &cli::Check) -> Result<Outcome> {
    let handle = Handle::new(backend)?;
    let engines = handle.engines()?;
    let asked =
        arguments.engines.iter().map(|name| find_engine(&engines, name)).collect::<Result<Vec<_>>>()?;
    let all = find(&arguments.bundles)?;
    let machine = Machine::here()?;
    let settings = arguments.test_config.as_deref().map(Settings::read).transpose()?.unwrap_or_default();
    let checks = Checks { handle: &handle, engines: &engines, asked, machine, settings, arguments };
    let mut sidecars = Sidecars::default();
    let rows: Vec<Row> = all.iter().flat_map(|found| checks.of(found, sidecars.of(found, &all))).collect();
    let failure = failure(&rows);
    let mut counts = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(row.verdict).or_insert(0) += 1);
    let text = if arguments.json { json(&Answer { rows, counts })?.text } else { text(&rows, &counts) };
    Ok(Outcome { text, failure })
}

/// What fails the command: bundles that fail, and that none passes.
fn failure(rows: &[Row]) -> Option<Failure> {
    let failed: Vec<&Row> = rows.iter().filter(|row| row.verdict.is_failure()).collect();
    let is_passed = |row: &Row| matches!(row.verdict, Verdict::Right | Verdict::Built | Verdict::Accepted);
    match failed.first() {
        Some(first) => Some(Failure::work(format!(
            "{} of {} checks failed, first {}: {}",
            failed.len(),
            rows.len(),
            label(first),
            first.verdict.word()
        ))),
        None if !rows.iter().any(is_passed) => Some(Failure::work("nothing was checked")),
        None => None,
    }
}

fn label(row: &Row) -> String {
    if row.case.is_empty() { row.bundle.clone() } else { format!("{}#{}", row.bundle, row.case) }
}

fn text(rows: &[Row], counts: &BTreeMap<Verdict, usize>) -> String {
    let mut table = Table::new(&["BUNDLE", "ENGINE", "LEVEL", "AGAINST", "OF TOLERANCE", "VERDICT"]);
    let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
    for row in rows {
        let used = row.results.iter().map(|result| result.tolerance_used).reduce(f64::max);
        table.row([
            label(row),
            or_none(row.engine.as_deref()),
            row.level.to_owned(),
            or_none(row.against),
            used.map_or_else(|| "-".to_owned(), |used| format!("{used:.3}")),
            row.verdict.word().to_owned(),
        ]);
    }
    let mut text = table.text() + "\n";
    for row in rows {
        if let Some(reason) = &row.reason {
            text.push_str(&format!(
                "{}: {}: {reason}\n",
                label(row),
                row.engine.as_deref().unwrap_or("no engine")
            ));
        }
    }
    let counts: Vec<_> =
        counts.iter().map(|(verdict, count)| format!("{count} {}", verdict.word())).collect();
    text + &counts.join(", ") + "\n"
}

/// What all checks share.
struct Checks<'a> {
    handle: &'a Handle,
    engines: &'a [EngineInfo],
    asked: Vec<&'a EngineInfo>,
    machine: Machine,
    settings: Settings,
    arguments: &'a cli::Check,
}

impl Checks<'_> {
    /// The rows of a bundle: those of the engines that were asked for, or of the first one that is offered.
    fn of(&self, found: &Found, claims: Result<Option<Claims>>) -> Vec<Row> {
        let level = found.bundle.as_ref().map_or(Level::Full, |bundle| bundle.metadata.level);
        let row = |engine: Option<&EngineInfo>, came: Came| Row {
            bundle: found.path.display().to_string(),
            case: found.case.clone(),
            engine: engine.map(|engine| engine.name.clone()),
            level: level.word(),
            against: came.against,
            verdict: came.verdict,
            results: came.results,
            reason: came.reason,
        };
        let failed =
            |failure: &Failure| vec![row(None, Came::to(Verdict::Failed, Some(failure.to_string())))];
        let bundle = match &found.bundle {
            Ok(bundle) => bundle,
            Err(failure) => return failed(failure),
        };
        let prepared = claims.and_then(|claims| {
            let loaded = load(self.handle, bundle, &found.path)?;
            let offer = loaded.operations.offer()?;
            Ok((claims.unwrap_or_default(), loaded, offer))
        });
        let (claims, loaded, offer) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return failed(&failure),
        };
        let is_offered = |engine: &EngineInfo| offer.engines.contains(&engine.id);
        let is_claimed = |engine: &EngineInfo| {
            self.machine.cell(engine).is_some_and(|cell| claims.has(&engine.name, &found.case, cell))
        };
        let first = || self.engines.iter().find(|engine| offer.engines.first() == Some(&engine.id));
        let run: Vec<&EngineInfo> =
            if self.asked.is_empty() { first().into_iter().collect() } else { self.asked.clone() };
        // Without a choice, the claims of every engine that is loaded are checked.
        let is_run = |engine: &EngineInfo| run.iter().any(|other| other.id == engine.id);
        let others = self.engines.iter().filter(|engine| self.asked.is_empty() && !is_run(engine));
        let broken = others.filter(|engine| is_claimed(engine) && !is_offered(engine));
        let mut rows: Vec<Row> = run
            .iter()
            .map(|engine| {
                let came = match (self.skip(found, engine), is_offered(engine), is_claimed(engine)) {
                    (Some(reason), ..) => Came::to(Verdict::Skipped, Some(reason)),
                    (None, true, _) => self.run(found, bundle, &loaded, engine),
                    (None, false, is_claimed) => {
                        let reason = loaded.operations.reason(engine, &offer.reasons);
                        Came::to(if is_claimed { Verdict::Broken } else { Verdict::Declined }, Some(reason))
                    }
                };
                row(Some(engine), came)
            })
            .collect();
        rows.extend(broken.map(|engine| {
            let reason = loaded.operations.reason(engine, &offer.reasons);
            row(Some(engine), Came::to(Verdict::Broken, Some(reason)))
        }));
        if rows.is_empty() {
            let reasons = (!offer.reasons.is_empty()).then(|| hipdnn::one_line(&offer.reasons));
            rows.push(row(None, Came::to(Verdict::Declined, reasons)));
        }
        rows
    }

    /// Why the settings leave a bundle out.
    fn skip(&self, found: &Found, engine: &EngineInfo) -> Option<String> {
        let (architecture, platform) = self.machine.cell(engine)?;
        self.settings.skip(&found.test(), architecture, platform)
    }

    /// Checks a bundle whose graph an engine accepts.
    fn run(&self, found: &Found, bundle: &Bundle, loaded: &Loaded, engine: &EngineInfo) -> Came {
        if let Some(reason) = self.of_other_machines(bundle, engine) {
            return Came::to(Verdict::Skipped, Some(reason));
        }
        if bundle.metadata.level == Level::Applicability {
            return Came::to(Verdict::Accepted, None);
        }
        let came = plan(&loaded.operations, engine, &[]).and_then(|plan| match bundle.metadata.level {
            Level::Full => self.compare(found, bundle, loaded, engine, plan),
            _ => Ok(Came::to(Verdict::Built, None)),
        });
        came.unwrap_or_else(|failure| Came::to(Verdict::Failed, Some(failure.to_string())))
    }

    /// Why a bundle is not for the device of an engine.
    fn of_other_machines(&self, bundle: &Bundle, engine: &EngineInfo) -> Option<String> {
        let own = self.machine.cell(engine).map_or("no device", |(architecture, _)| architecture);
        let wanted = bundle.metadata.architecture.as_deref().and_then(|name| name.split(':').next());
        if let Some(wanted) = wanted.filter(|wanted| *wanted != own) {
            return Some(format!("its values are those of {wanted}, this is {own}"));
        }
        let (wanted, has) = (bundle.metadata.memory_mib?, self.machine.memory_mib(engine)?);
        (has < wanted).then(|| format!("it needs a device with {wanted} MiB, this one has {has}"))
    }

    /// Executes a bundle and compares its results.
    fn compare(
        &self,
        found: &Found,
        bundle: &Bundle,
        loaded: &Loaded,
        engine: &EngineInfo,
        plan: hipdnn::ExecutionPlan,
    ) -> Result<Came> {
        let (graph, common) = (&loaded.graph, &self.arguments.common);
        require_memory(graph)?;
        let given = bundle.values.inputs(graph)?;
        let golden = bundle.values.results(graph)?.filter(|_| self.arguments.against != Against::Reference);
        let has_inputs = graph.bound().any(|tensor| graph.producer(tensor.uid).is_none());
        if golden.is_some() && given.is_none() && has_inputs {
            return Err(Failure::input("there are golden results, but no file with the inputs"));
        }
        if golden.is_none() && self.arguments.against == Against::Golden {
            let there = bundle.values.pointer();
            let how =
                there.map_or_else(String::new, |path| format!("; fetch them: dvc pull {}", path.display()));
            return Err(Failure::input(format!("there are no golden results{how}")));
        }
        let inputs = match given {
            Some(inputs) => inputs,
            None => random(graph, &[], bundle.metadata.seed.unwrap_or(common.seed))?,
        };
        let place = place_of(engine, common.memory);
        let mut computation = Computation::new(self.handle, graph, plan, &inputs, place)?;
        computation.execute(self.handle)?;
        let outputs = computation.outputs(graph)?;
        let (against, expected, own): (_, Arrays, _) = match golden {
            Some(golden) => ("golden", golden, None),
            None => match reference(self.handle, &loaded.operations, graph, &inputs) {
                Ok(own) => (REFERENCE, own.clone(), Some(own)),
                Err(failure) => return Ok(Came::to(Verdict::Skipped, Some(failure.to_string()))),
            },
        };
        let mut judged = judge(
            self.handle,
            loaded,
            (&inputs, &outputs),
            (&expected, own.as_ref(), &Changes::new()),
            Limits { steps: computation.steps().as_deref(), factor: common.tolerance },
        )?;
        // Limits that the settings state replace the derived ones.
        for of in &mut judged {
            let limit = self.settings.limit(&found.test(), &label_of(of.tensor));
            let [result, expected] = [&outputs, &expected]
                .map(|arrays| arrays.iter().find(|(uid, _)| *uid == of.tensor.uid).map(|(_, array)| array));
            if let (Some(limit), Some(result), Some(expected)) = (limit, result, expected) {
                of.comparison = limit.compare(result, expected);
                of.is_wrong = of.comparison.beyond > 0;
            }
        }
        let results: Vec<OfTensor> = judged
            .iter()
            .map(|of| OfTensor {
                uid: of.tensor.uid,
                name: of.tensor.name.clone(),
                elements: of.comparison.count,
                beyond: of.comparison.beyond,
                largest_difference: of.comparison.largest,
                // JSON has no infinity.
                tolerance_used: of.comparison.used.min(f64::MAX),
                is_wrong: of.is_wrong,
            })
            .collect();
        let wrong: Vec<String> = judged
            .iter()
            .filter(|of| of.is_wrong)
            .map(|of| format!("{}: {}", of.tensor.label(), super::run::verdict(&of.comparison)))
            .collect();
        let verdict = if wrong.is_empty() { Verdict::Right } else { Verdict::Wrong };
        let reason = (!wrong.is_empty()).then(|| wrong.join("; "));
        Ok(Came { verdict, against: Some(against), results, reason })
    }
}

/// What the settings name a tensor by.
fn label_of(tensor: &Tensor) -> String {
    if tensor.name.is_empty() { format!("uid={}", tensor.uid) } else { tensor.name.clone() }
}

/// A bundle's graph, ready to be planned.
pub fn load(handle: &Handle, bundle: &Bundle, path: &Path) -> Result<Loaded> {
    let text = bundle.graph.to_string();
    // The library takes a word that it does not know as not given, which would be another graph.
    if let Ok((_, remarks)) = hipdnn_plugin_sdk::json::read_with_remarks(text.as_bytes())
        && let Some(remark) = remarks.first()
    {
        return Err(Failure::input(remark.clone()).of_file(path));
    }
    let operations = OperationGraph::from_json(handle.backend(), text.as_bytes())
        .map_err(|error| Failure::from(error).of_file(path))?;
    Loaded::new(handle, operations, path)
}
