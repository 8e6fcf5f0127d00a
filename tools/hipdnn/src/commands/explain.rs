//! `hipdnn explain`

use serde::Serialize;

use super::{Outcome, json, read_graph};
use crate::cli::Explain;
use crate::computation::plan_with;
use crate::failure::{Failure, Result, one_line};
use crate::graph::Graph;
use crate::steps::{self, Step};
use hipdnn_plugin_sdk::numerics::name_of;

use hipdnn::{Backend, Engine, Knob, listen};

/// The explanation of an engine.
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
    /// What the policy that ranked the engines says of this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    /// The steps of a plan with default settings, if one could be made and the plugin describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<Step>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_plan: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    knobs: Vec<KnobAnswer>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    behavior_notes: Vec<String>,
    /// What the engine may do to numbers with default knobs, if it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    numerical_notes: Option<Vec<&'static str>>,
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

/// Shows for each engine whether it can run a graph, or why not.
pub fn explain(backend: &Backend, arguments: &Explain) -> Result<Outcome> {
    let graph = read_graph(backend, &arguments.graph)?;
    let handle = arguments.on.handle(backend)?;
    graph.finalize(&handle).map_err(|error| Failure::from(error).of_file(&arguments.graph))?;
    // The library logs what policies say of engines.
    let (offer, lines) = listen(backend, || graph.offer());
    let offer = offer?;
    let mut answers: Vec<Answer> = graph
        .explain_offer(&handle, &offer)?
        .into_iter()
        .map(|verdict| Answer {
            engine: verdict.engine.name,
            id: verdict.engine.id,
            plugin: verdict.engine.plugin,
            applies: verdict.rank.is_some(),
            rank: verdict.rank,
            reason: verdict.reason,
            policy: None,
            steps: None,
            no_plan: None,
            knobs: Vec::new(),
            behavior_notes: Vec::new(),
            numerical_notes: None,
        })
        .collect();
    for answer in answers.iter_mut().filter(|answer| answer.applies) {
        answer.policy = lines.iter().find_map(|line| said_by_policy(line, &answer.engine));
        // Libraries without knobs and notes report none.
        let Ok(engine) = Engine::new(&graph, answer.id) else { continue };
        answer.knobs = engine.knobs().unwrap_or_default().iter().map(KnobAnswer::new).collect();
        answer.behavior_notes = engine.behavior_notes().unwrap_or_default();
        let numerical = engine.numerical_notes().unwrap_or_default();
        answer.numerical_notes = numerical.map(|notes| notes.into_iter().map(name_of).collect());
        match plan_with(&engine, &[]).and_then(|plan| steps::of(&plan)) {
            Ok(steps) => answer.steps = steps,
            Err(failure) => answer.no_plan = Some(one_line(&failure.to_string())),
        }
    }
    let described = Graph::from_json(&graph.json()?)?;
    let failure = offer.engines.is_empty().then(|| {
        Failure::work(match answers.is_empty() {
            true => one_line(&offer.reasons),
            false => "no engine can run this graph".to_owned(),
        })
    });
    let text = if arguments.json {
        json(&answers)?.text
    } else {
        one_reason_once(&answers).map(|(answer, engines)| text(answer, &engines, &described)).collect()
    };
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

/// Each answer with the names of its engines; engines refused for the same reason share one.
fn one_reason_once(answers: &[Answer]) -> impl Iterator<Item = (&Answer, Vec<String>)> {
    let mut groups: Vec<(&Answer, Vec<String>)> = Vec::new();
    for answer in answers {
        let name = format!("{} ({})", answer.engine, answer.plugin);
        let same =
            groups.iter_mut().find(|(first, _)| first.reason.is_some() && first.reason == answer.reason);
        match same {
            Some((_, engines)) => engines.push(name),
            None => groups.push((answer, vec![name])),
        }
    }
    groups.into_iter()
}

/// What a line of the log says of an engine for a policy: the policy's name, and its trace.
fn said_by_policy(line: &str, engine: &str) -> Option<String> {
    let (_, said) = line.split_once("policy ")?;
    let (policy, trace) = said.split_once(&format!(" of {engine}: {{"))?;
    Some(format!("{policy}: {{{}", trace.trim_end()))
}

/// A line for engines, and one for each of the first one's steps, knobs and notes.
fn text(answer: &Answer, engines: &[String], graph: &Graph) -> String {
    let does = if engines.len() > 1 { "do" } else { "does" };
    let engines = engines.join(", ");
    let mut text = match &answer.reason {
        None => format!("{engines}: applies\n"),
        Some(reason) => format!("{engines}: {does} not apply: {reason}\n"),
    };
    if let Some(policy) = &answer.policy {
        text.push_str(&format!("  policy {policy}\n"));
    }
    for step in answer.steps.iter().flatten() {
        text.push_str(&format!("  {}\n", step.line(graph)));
        let numerics = step.numerics.line();
        if !numerics.is_empty() {
            text.push_str(&format!("    {numerics}\n"));
        }
        for reason in &step.passed_over {
            text.push_str(&format!("    not {}\n", one_line(reason)));
        }
    }
    if let Some(reason) = &answer.no_plan {
        text.push_str(&format!("  no plan: {reason}\n"));
    }
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
    if let Some(notes) = answer.numerical_notes.as_ref().filter(|notes| !notes.is_empty()) {
        text.push_str(&format!("  numerical notes: {}\n", notes.join(", ")));
    }
    text
}
