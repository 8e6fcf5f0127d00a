//! `hipdnn plan`

use std::path::Path;

use serde::Serialize;

use super::run::run_plan;
use super::{Outcome, chosen, json, read, read_graph, write};
use crate::cli::{Plan, PlanInfo, PlanLoad, PlanSave};
use crate::computation::{Loaded, choose_engines, first_that_works, hexadecimal, plan as make_plan};
use crate::failure::{Failure, Result};
use crate::graph::Graph;
use crate::table::Table;
use crate::views::Views;
use hipdnn::{Backend, Contents, EngineInfo, ExecutionPlan, Handle, OperationGraph, ahead};

/// Saves, loads or describes a plan.
pub fn plan(backend: &Backend, command: &Plan) -> Result<Outcome> {
    match command {
        Plan::Save(arguments) => save(backend, arguments),
        Plan::Load(arguments) => load(backend, arguments),
        Plan::Info(arguments) => info(backend, arguments),
    }
}

fn save(backend: &Backend, arguments: &PlanSave) -> Result<Outcome> {
    let operations = read_graph(backend, &arguments.graph)?;
    let handle = arguments.on.handle(backend)?;
    let loaded = Loaded::new(&handle, operations, &arguments.graph)?;
    let (engine, knobs) = chosen(&handle, &loaded, &arguments.choice)?;
    let engines = choose_engines(&handle, &loaded, engine.as_deref(), arguments.on.device)?;
    let ((engine, bytes), told) = first_that_works(&engines, |engine| {
        let plan = make_plan(&loaded.operations, engine, &knobs)?;
        let bytes = if arguments.without_graph { plan.bytes() } else { plan.bytes_with(&loaded.operations) }?;
        Ok((engine.clone(), bytes))
    })?;
    write(&arguments.plan, &bytes)?;
    Ok(Outcome::from(format!(
        "{told}saved the plan of {} into {}, {} bytes\n",
        engine.name,
        arguments.plan.display(),
        bytes.len()
    )))
}

/// The plan in a file, and its graph if the file has it.
fn open(handle: &Handle, path: &Path) -> Result<(ExecutionPlan, Option<OperationGraph>, usize)> {
    let of_file = |error: hipdnn::Error| Failure::from(error).of_file(path);
    let bytes = read(path)?;
    if bytes.is_empty() {
        return Err(Failure::input("the file is empty, expected a saved plan").of_file(path));
    }
    let contents = Contents::of(handle.backend(), &bytes).map_err(of_file)?;
    let plan = ExecutionPlan::from_bytes(handle, &bytes).map_err(of_file)?;
    // Only a container has a plan with a graph; a plan alone is reported as a graph, since it has no mark.
    let graph = match contents {
        Contents { graph: true, plan: true } => {
            Some(OperationGraph::from_bytes(handle.backend(), &bytes).map_err(of_file)?)
        }
        _ => None,
    };
    Ok((plan, graph, bytes.len()))
}

/// The engine of a plan among the loaded ones.
fn engine_of(handle: &Handle, plan: &ExecutionPlan) -> Result<EngineInfo> {
    let id = plan.engine_id()?;
    handle
        .engines()?
        .into_iter()
        .find(|engine| engine.id == id)
        .ok_or_else(|| Failure::work(format!("the engine of the plan, {}, is not loaded", hexadecimal(id))))
}

fn load(backend: &Backend, arguments: &PlanLoad) -> Result<Outcome> {
    let handle = arguments.data.common.on.handle(backend)?;
    let bytes = read(&arguments.plan)?;
    if ahead::is_package(&bytes) {
        return load_ahead(&handle, &bytes, arguments);
    }
    let (plan, inside, _) = open(&handle, &arguments.plan)?;
    let (operations, path) = match (&arguments.graph, inside) {
        (Some(path), _) => (read_graph(backend, path)?, path),
        (None, Some(operations)) => (operations, &arguments.plan),
        (None, None) => {
            return Err(Failure::input(format!(
                "{}: the plan was saved without its graph, which --graph has to give",
                arguments.plan.display()
            )));
        }
    };
    let loaded = Loaded::new(&handle, operations, path)?;
    // With another graph, the plan would access wrong memory, so at least their uids must match.
    let of_plan = plan.tensor_uids()?;
    if let Some(uid) = of_plan.iter().find(|uid| loaded.graph.tensor(**uid).is_none()) {
        return Err(Failure::input(format!(
            "{}: the plan's tensor {uid} is not in the graph",
            path.display()
        )));
    }
    if let Some(tensor) = loaded.graph.tensors.iter().find(|tensor| !of_plan.contains(&tensor.uid)) {
        return Err(Failure::input(format!(
            "{}: the graph's tensor {} is not in the plan",
            path.display(),
            tensor.uid
        )));
    }
    let engine = engine_of(&handle, &plan)?;
    run_plan(&handle, &loaded, &engine, plan, &arguments.data)
}

/// Runs the plan for a present device from a file compiled ahead of time, or a new plan if none fits.
fn load_ahead(handle: &Handle, bytes: &[u8], arguments: &PlanLoad) -> Result<Outcome> {
    let name = arguments.graph.as_ref().map(|name| name.to_string_lossy().into_owned());
    let found = ahead::load(handle, bytes, name.as_deref())
        .map_err(|error| Failure::from(error).of_file(&arguments.plan))?;
    let graph = Graph::from_json(&found.graph.json()?)?;
    let loaded = Loaded { operations: found.graph, graph, views: Views::default() };
    let engine = engine_of(handle, &found.plan)?;
    let outcome = run_plan(handle, &loaded, &engine, found.plan, &arguments.data)?;
    let told = found.reason.map(|reason| format!("planned anew: {reason}\n")).unwrap_or_default();
    Ok(Outcome { text: told + &outcome.text, ..outcome })
}

/// Lists the plans in a file compiled ahead of time.
fn info_ahead(bytes: &[u8], arguments: &PlanInfo) -> Result<Outcome> {
    let entries = ahead::read(bytes).map_err(|error| Failure::from(error).of_file(&arguments.plan))?;
    if arguments.json {
        let about: Vec<_> = entries.iter().map(|entry| &entry.about).collect();
        return json(&about);
    }
    let mut table = Table::new(&["GRAPH", "DEVICE", "ENGINE", "PLUGIN", "KNOBS", "BYTES"]);
    for ahead::Entry { about, container } in entries {
        let plugin = format!("{} {}", about.plugin, about.plugin_version);
        let bytes = container.len().to_string();
        table.row([about.graph, about.device, about.engine, plugin, about.knobs.join(" "), bytes]);
    }
    Ok(Outcome::from(table.text()))
}

/// The description of a saved plan.
#[derive(Serialize)]
struct Answer {
    file_bytes: usize,
    engine: String,
    engine_id: i64,
    plugin: String,
    plugin_version: String,
    workspace_bytes: usize,
    tensor_uids: Vec<i64>,
    takes_other_shapes: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    graph: Option<String>,
}

fn info(backend: &Backend, arguments: &PlanInfo) -> Result<Outcome> {
    let bytes = read(&arguments.plan)?;
    if ahead::is_package(&bytes) {
        return info_ahead(&bytes, arguments);
    }
    let handle = arguments.on.handle(backend)?;
    let (plan, inside, file_bytes) = open(&handle, &arguments.plan)?;
    let graph = inside.map(|operations| Loaded::new(&handle, operations, &arguments.plan)).transpose()?;
    let engine = engine_of(&handle, &plan)?;
    let answer = Answer {
        file_bytes,
        engine: engine.name,
        engine_id: engine.id,
        plugin: engine.plugin,
        plugin_version: engine.version,
        workspace_bytes: plan.workspace_size()?,
        tensor_uids: plan.tensor_uids()?,
        takes_other_shapes: plan.takes_other_shapes()?,
        graph: graph.map(|loaded| loaded.graph.name),
    };
    if arguments.json {
        return json(&answer);
    }
    let uids: Vec<_> = answer.tensor_uids.iter().map(i64::to_string).collect();
    Ok(Outcome::from(format!(
        "file          {} bytes\ngraph         {}\nengine        {} ({})\nplugin        {} {}\nworkspace     {} \
         bytes\ntensors       {}\nother shapes  {}\n",
        answer.file_bytes,
        answer.graph.as_deref().map_or_else(|| "not saved with it".to_owned(), |name| format!("{name:?}")),
        answer.engine,
        hexadecimal(answer.engine_id),
        answer.plugin,
        answer.plugin_version,
        answer.workspace_bytes,
        uids.join(", "),
        if answer.takes_other_shapes { "yes" } else { "no" }
    )))
}
