//! `hipdnn claims`

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use hipdnn::{Backend, EngineInfo, Handle};
use serde::Serialize;

use super::check::load;
use super::{Outcome, json, write};
use crate::bundle::{Claims, Found, Machine, find, stray_claims};
use crate::cli;
use crate::computation::find_engine;
use crate::failure::{Failure, Result};
use crate::table::Table;

/// A claim beside what the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// It is claimed, and accepted.
    Kept,
    /// It is claimed, and not accepted.
    Broken,
    /// It is claimed, and could not be asked.
    Unknown,
    /// It is accepted, and not claimed.
    Unclaimed,
    /// It was accepted, and is claimed now.
    Written,
}

/// An engine for a graph.
#[derive(Serialize)]
struct Row {
    bundle: String,
    engine: String,
    architecture: String,
    platform: &'static str,
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The answer in JSON.
#[derive(Serialize, Default)]
struct Answer {
    rows: Vec<Row>,
    /// Files with claims that were changed.
    written: Vec<String>,
    /// Graphs without a file with claims.
    without: Vec<String>,
    /// What is wrong with files.
    wrong: Vec<String>,
}

/// Checks, or writes, the claims of bundles.
pub fn claims(backend: &Backend, arguments: &cli::Claims) -> Result<Outcome> {
    let handle = Handle::new(backend)?;
    let engines = handle.engines()?;
    let asked =
        arguments.engines.iter().map(|name| find_engine(&engines, name)).collect::<Result<Vec<_>>>()?;
    let all = find(&arguments.bundles)?;
    let machine = Machine::here()?;
    if let Some(engine) = asked.iter().find(|engine| machine.cell(engine).is_none()) {
        return Err(Failure::work(format!(
            "{}: the architecture of its device is not known here",
            engine.name
        )));
    }
    // What is only for comparison is no promise to users, unless it is asked for.
    let usual = engines.iter().filter(|engine| !engine.is_reference());
    let engines: Vec<&EngineInfo> = if asked.is_empty() { usual.collect() } else { asked };
    let mut answer = Answer::default();
    let stray = stray_claims(&arguments.bundles)?;
    let no_graph = |path: PathBuf| format!("{}: there is no graph beside it", path.display());
    answer.wrong.extend(stray.into_iter().map(no_graph));
    let mut files: BTreeMap<&Path, Vec<&Found>> = BTreeMap::new();
    all.iter().for_each(|found| files.entry(&found.claims).or_default().push(found));
    for (path, graphs) in files {
        let file = OfFile { handle: &handle, engines: &engines, machine: &machine, path, graphs: &graphs };
        if let Err(failure) = file.claims(arguments.write, &mut answer) {
            answer.wrong.push(failure.to_string());
        }
    }
    let failure = failure(&answer);
    let text = if arguments.json { json(&answer)?.text } else { text(&answer) };
    Ok(Outcome { text, failure })
}

fn failure(answer: &Answer) -> Option<Failure> {
    let is_broken = |row: &&Row| matches!(row.verdict, Verdict::Broken | Verdict::Unknown);
    let broken = answer.rows.iter().filter(is_broken).count();
    match (broken, answer.wrong.len()) {
        (0, 0) => None,
        (0, wrong) => Some(Failure::work(format!("wrong files: {wrong}"))),
        (broken, _) => Some(Failure::work(format!("broken claims: {broken}"))),
    }
}

fn text(answer: &Answer) -> String {
    let mut text = String::new();
    if !answer.rows.is_empty() {
        let mut table = Table::new(&["BUNDLE", "ENGINE", "ARCHITECTURE", "PLATFORM", "VERDICT"]);
        for row in &answer.rows {
            let verdict = match row.verdict {
                Verdict::Kept => "kept",
                Verdict::Broken => "BROKEN",
                Verdict::Unknown => "UNKNOWN",
                Verdict::Unclaimed => "unclaimed",
                Verdict::Written => "written",
            };
            let cells = [&row.bundle, &row.engine, &row.architecture, row.platform, verdict];
            table.row(cells.map(|cell: &str| cell.to_owned()));
        }
        text = table.text() + "\n";
    }
    for row in &answer.rows {
        if let Some(reason) = &row.reason {
            text.push_str(&format!("{}: {}: {reason}\n", row.bundle, row.engine));
        }
    }
    answer.wrong.iter().for_each(|wrong| text.push_str(&format!("{wrong}\n")));
    answer.written.iter().for_each(|path| text.push_str(&format!("wrote {path}\n")));
    if !answer.without.is_empty() {
        text.push_str(&format!("graphs without a file for claims: {}\n", answer.without.len()));
    }
    if text.is_empty() { "no engine here is claimed, and none accepts a graph\n".to_owned() } else { text }
}

/// A file with claims, and its graphs.
struct OfFile<'a> {
    handle: &'a Handle,
    engines: &'a [&'a EngineInfo],
    machine: &'a Machine,
    path: &'a Path,
    graphs: &'a [&'a Found],
}

impl OfFile<'_> {
    fn is_of_sweep(&self) -> bool {
        self.graphs.iter().any(|found| !found.case.is_empty())
    }

    /// Compares the claims with what the engines accept, or adds what they accept.
    fn claims(&self, is_writing: bool, answer: &mut Answer) -> Result<()> {
        let cases: BTreeSet<&str> = self.graphs.iter().map(|found| found.case.as_str()).collect();
        let read = Claims::read(self.path, self.is_of_sweep().then_some(&cases))?;
        let is_there = read.is_some();
        let before = read.unwrap_or_default();
        let mut after = before.clone();
        for found in self.graphs {
            self.graph(found, (&before, &mut after), is_writing, answer);
            if !is_there && after == before {
                answer.without.push(found.label());
            }
        }
        let text = after.text(self.is_of_sweep());
        let is_same = fs::read(self.path).is_ok_and(|bytes| bytes == text.as_bytes());
        match (is_writing, is_there, is_same) {
            (true, _, false) if is_there || after != before => {
                write(self.path, text.as_bytes())?;
                answer.written.push(self.path.display().to_string());
            }
            (false, true, false) => answer.wrong.push(format!(
                "{}: not in the form that is written: keys, platforms and cases sorted, two spaces; --write mends it",
                self.path.display()
            )),
            _ => {}
        }
        Ok(())
    }

    /// The engines for one graph.
    fn graph(
        &self,
        found: &Found,
        (before, after): (&Claims, &mut Claims),
        is_writing: bool,
        answer: &mut Answer,
    ) {
        let asked = found.bundle.as_ref().map_err(Clone::clone).and_then(|bundle| {
            let loaded = load(self.handle, bundle, &found.path)?;
            let offer = loaded.operations.offer()?;
            Ok((loaded, offer))
        });
        let mut has_claims = false;
        for engine in self.engines {
            let Some(cell) = self.machine.cell(engine) else { continue };
            let is_claimed = before.has(&engine.name, &found.case, cell);
            has_claims |= is_claimed;
            let is_accepted = asked.as_ref().map(|(_, offer)| offer.engines.contains(&engine.id));
            let (verdict, reason) = match (is_claimed, is_accepted) {
                (true, Ok(true)) => (Verdict::Kept, None),
                (true, Ok(false)) => {
                    let reason =
                        asked.as_ref().ok().map(|(of, offer)| of.operations.reason(engine, &offer.reasons));
                    (Verdict::Broken, reason)
                }
                (true, Err(failure)) => (Verdict::Unknown, Some(failure.to_string())),
                (false, Ok(true)) if is_writing => {
                    after.add(&engine.name, &found.case, cell);
                    (Verdict::Written, None)
                }
                (false, Ok(true)) => (Verdict::Unclaimed, None),
                (false, _) => continue,
            };
            let (architecture, platform) = cell;
            answer.rows.push(Row {
                bundle: found.label(),
                engine: engine.name.clone(),
                architecture: architecture.to_owned(),
                platform,
                verdict,
                reason,
            });
        }
        // A graph that nothing is claimed of is wrong all the same if it cannot be read.
        if let (false, Err(failure)) = (has_claims, asked) {
            answer.wrong.push(failure.to_string());
        }
    }
}
