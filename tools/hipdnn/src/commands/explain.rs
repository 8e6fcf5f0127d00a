//! `hipdnn explain`

use serde::Serialize;

use super::{Outcome, json, read_graph};
use crate::backend::{Backend, Engine, EngineInfo, Handle, Knob, OperationGraph, listen};
use crate::cli::Explain;
use crate::failure::{Failure, Result, one_line};

/// What is to be said of an engine.
#[derive(Serialize)]
struct Answer {
    engine: String,
    id: i64,
    plugin: String,
    applies: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    knobs: Vec<KnobAnswer>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    behavior_notes: Vec<String>,
}

/// A knob of an engine that applies.
#[derive(Serialize)]
struct KnobAnswer {
    id: String,
    description: String,
    default: String,
    choices: String,
    deprecated: bool,
}

/// Says of each engine whether it can run a graph, or why not.
pub fn explain(backend: &Backend, arguments: &Explain) -> Result<Outcome> {
    let graph = read_graph(backend, &arguments.graph)?;
    let handle = Handle::new(backend)?;
    let engines = handle.engines()?;
    graph.finalize(&handle).map_err(|failure| failure.of_file(&arguments.graph))?;
    let offer = graph.offer()?;
    let rank =
        |engine: &EngineInfo| offer.engines.iter().position(|id| *id == engine.id).map(|rank| rank + 1);
    let mut answers: Vec<Answer> = engines
        .iter()
        .map(|engine| Answer {
            engine: engine.name.clone(),
            id: engine.id,
            plugin: engine.plugin.clone(),
            applies: rank(engine).is_some(),
            rank: rank(engine),
            reason: rank(engine).is_none().then(|| reason(&graph, engine, &offer.reasons)),
            knobs: Vec::new(),
            behavior_notes: Vec::new(),
        })
        .collect();
    for answer in answers.iter_mut().filter(|answer| answer.applies) {
        // A library that knows no knobs or notes has nothing to say of them.
        let Ok(engine) = Engine::new(&graph, answer.id) else { continue };
        answer.knobs = engine.knobs().unwrap_or_default().iter().map(KnobAnswer::new).collect();
        answer.behavior_notes = engine.behavior_notes().unwrap_or_default();
    }
    // The library's order among those that apply, its list's order among the rest.
    answers.sort_by_key(|answer| answer.rank.unwrap_or(usize::MAX));
    let failure = offer.engines.is_empty().then(|| {
        Failure::work(match answers.is_empty() {
            true => one_line(&offer.reasons),
            false => "no engine can run this graph".to_owned(),
        })
    });
    let text = if arguments.json { json(&answers)?.text } else { answers.iter().map(text).collect() };
    Ok(Outcome { text, failure })
}

impl KnobAnswer {
    fn new(knob: &Knob) -> Self {
        Self {
            id: knob.id.clone(),
            description: knob.description.clone(),
            default: knob.default.to_string(),
            choices: knob.choices(),
            deprecated: knob.deprecated,
        }
    }
}

/// A line for an engine, and one for each of its knobs and notes.
fn text(answer: &Answer) -> String {
    let mut text = match &answer.reason {
        None => format!("{} ({}): applies\n", answer.engine, answer.plugin),
        Some(reason) => format!("{} ({}): does not apply: {reason}\n", answer.engine, answer.plugin),
    };
    for knob in &answer.knobs {
        let KnobAnswer { id, description, default, choices, deprecated } = knob;
        let deprecated = if *deprecated { ", deprecated" } else { "" };
        text.push_str(&format!(
            "  knob {id} = {default} ({choices}{deprecated}): {}\n",
            one_line(description)
        ));
    }
    for note in &answer.behavior_notes {
        text.push_str(&format!("  {note}\n"));
    }
    text
}

/// Why an engine cannot run a graph, in the words of its plugin or else of the library.
pub fn reason(graph: &OperationGraph, engine: &EngineInfo, told: &str) -> String {
    // Where no engine applies the library has told everything: a line with the name of each.
    let heading = format!("{} ({}):", engine.name, engine.plugin);
    if let Some(reason) = told.lines().find_map(|line| line.trim().strip_prefix(&heading)) {
        return one_line(reason.trim());
    }
    // Else the engine is asked for, and its plugin logs why that is refused.
    let (asked, lines) = listen(graph.descriptor().backend(), || Engine::new(graph, engine.id));
    let own = format!("{}:", engine.name);
    let logged = lines.iter().flat_map(|text| text.lines()).find_map(|line| line.trim().strip_prefix(&own));
    match (logged, asked) {
        (Some(reason), _) => one_line(reason.trim()),
        (None, Err(failure)) => failure.to_string(),
        (None, Ok(_)) => "the heuristic left it out".to_owned(),
    }
}
