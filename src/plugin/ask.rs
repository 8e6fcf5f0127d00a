//! Asks the plugins of a session which of their engines can run a graph, and why others cannot.

use std::ffi::c_int;

use hipdnn_plugin_sdk::cancel::{self, Disabled};
use hipdnn_plugin_sdk::ffi::{hipdnnEnginePluginHandle_t, hipdnnPluginConstData_t as ConstData};
use hipdnn_plugin_sdk::wire::{self, EngineConfig};
use smallvec::SmallVec;

use super::admission::first_duplicate;
use super::asking::Asking;
use super::{EngineDetails, EngineRef, Plugin, Session, check, gate, numerics, required_knobs};
use crate::ffi::hipdnnSeverity_t as Severity;
use crate::graph::FrozenGraph;
use crate::status::{Error, Result, Status};
use crate::{device, log, trace};

/// The engines that can run a graph, in the order of the plugins and of each plugin's answer.
pub type Engines = SmallVec<[EngineRef; 4]>;

/// Which engines can run a graph, and why the others cannot.
pub struct Answer {
    /// The engines that can.
    pub engines: Engines,
    /// A line for each engine, for people; filled only if no engine can run the graph.
    pub refusals: String,
    /// The first failure of a plugin.
    pub failure: Option<Error>,
    /// Whether every plugin was asked, and none failed.
    pub is_whole: bool,
}

/// Asks every plugin, or with `find_first` up to the first that has an engine. After a plugin fails, the others are still
/// asked.
pub fn applicable(session: &Session, graph: &FrozenGraph, find_first: bool) -> Answer {
    let mut answer =
        Answer { engines: Engines::new(), refusals: String::new(), failure: None, is_whole: true };
    let mut told = Vec::new();
    // Once for all plugins.
    let off = cancel::disable();
    for (place, plugin, handle) in session.opened() {
        let _phase = trace::phase("ask which engines apply", || plugin.name.clone());
        let mut said = String::new();
        let result = log::capture(&mut said, || {
            ask(&off, session, (place, plugin, handle), graph, &mut answer.engines)
        });
        answer.is_whole &= *result.as_ref().unwrap_or(&false);
        if let Err(error) = result {
            log::warn(|| format!("plugin {}: {error}", plugin.name));
            said = error.message.to_string();
            // A plugin's error status or exception is a failure; a graph that it cannot read is a refusal.
            if error.status != Status::HIPDNN_STATUS_NOT_SUPPORTED {
                answer.failure.get_or_insert(error);
            }
        }
        if answer.engines.is_empty() {
            told.push((place, said));
        } else if find_first {
            break;
        }
    }
    if answer.engines.is_empty() {
        answer.refusals = explain(session, &told);
    }
    answer
}

/// Asks the plugin of one engine whether the engine can run a graph.
pub fn is_applicable(session: &Session, engine: EngineRef, graph: &FrozenGraph) -> Result<bool> {
    let plugin = session.plugin(engine.plugin)?;
    let handle = session.plugin_handle(engine.plugin)?;
    let mut engines = Engines::new();
    ask(&cancel::disable(), session, (engine.plugin, plugin, handle), graph, &mut engines)?;
    Ok(engines.contains(&engine))
}

/// Adds the engines that can. Returns whether each said what it was asked.
fn ask(
    off: &Disabled,
    session: &Session,
    (place, plugin, handle): (u32, &Plugin, hipdnnEnginePluginHandle_t),
    graph: &FrozenGraph,
    to: &mut Engines,
) -> Result<bool> {
    let _visit = gate::visit("engines cannot be asked")?;
    let _asking = Asking::begin();
    let required = graph.required_api_version();
    if plugin.api_version < required {
        return Err(Error::not_supported(format!(
            "the graph needs plugin API {required}, the plugin speaks {}",
            plugin.api_version
        )));
    }
    if graph.summary().is_override_shape_enabled && !plugin.api.has_overrides() {
        return Err(Error::not_supported(
            "the graph lets shapes be overridden, the plugin has no hipdnnEnginePluginExecuteOpGraphWithOverrides",
        ));
    }
    let generation = &plugin.generation;
    let bytes = graph
        .bytes(generation.layout)
        .map_err(|error| Error::not_supported(format!("{} ({generation})", error.message)))?;
    let data = ConstData { ptr: bytes.as_ptr().cast(), size: bytes.len() };
    // Resized: `from_elem` would move the array.
    let mut ids = SmallVec::<[i64; 16]>::new();
    ids.resize(plugin.declared.len(), 0);
    let room = plugin.declared.len() as u32;
    let mut count = 0;
    // SAFETY: the handle is the plugin's own, the bytes outlive the call, and the array has room for `room` ids.
    let status = unsafe {
        plugin.api.get_applicable_engine_ids(
            off,
            handle,
            &raw const data,
            ids.as_mut_ptr(),
            room,
            &raw mut count,
        )
    };
    check(&plugin.api, "get applicable engine IDs", status)?;
    device::look_for_gpu_once(&plugin.has_answered);
    let Some(ids) = ids.get(..count as usize) else {
        return Err(Error::plugin(format!("More applicable engines than expected: {count} of {room}")));
    };
    if ids.len() > 1
        && let Some(id) = first_duplicate(ids)
    {
        return Err(Error::plugin(format!("Duplicate engine IDs found: {id}")));
    }
    if let Some(id) = ids.iter().find(|id| !plugin.declared.contains(id)) {
        return Err(Error::plugin(format!("Engine ID not found in the plugin's known IDs: {id}")));
    }
    // The answer includes engines that were dropped at admission; skip them.
    let known = |id: &i64| plugin.engines.iter().position(|engine| engine.id == *id);
    let known = ids.iter().filter_map(known).map(|engine| EngineRef { plugin: place, engine: engine as u32 });
    if !required_knobs::are_required() {
        known.for_each(|engine| to.push(engine));
        return Ok(true);
    }
    let mut is_whole = true;
    for engine in known {
        match has_required_knobs(session, engine, graph)? {
            Some(true) => to.push(engine),
            Some(false) => {}
            None => is_whole = false,
        }
    }
    Ok(is_whole)
}

/// Whether an engine has the knobs that the environment asks for, or needs none; tells why it is left out, as plugins do.
/// An engine that fails when it is asked does not say, which leaves the plugin's other engines as they are.
#[cold]
fn has_required_knobs(session: &Session, engine: EngineRef, graph: &FrozenGraph) -> Result<Option<bool>> {
    let described = session.engine(engine)?;
    let (severity, reason, told) = match reason_left_out(session, (engine, described.id), graph) {
        Ok(None) => return Ok(Some(true)),
        Ok(Some(reason)) => (Severity::HIPDNN_SEV_INFO, reason, Some(false)),
        Err(error) => (Severity::HIPDNN_SEV_WARN, required_knobs::reason_unknown(&error), None),
    };
    log::component_line(severity as c_int, &format!("{}: {reason}", described.display_name()));
    Ok(told)
}

fn reason_left_out(
    session: &Session,
    (engine, id): (EngineRef, i64),
    graph: &FrozenGraph,
) -> Result<Option<String>> {
    let details = EngineDetails::fetch(session, graph, engine, id)?;
    let numerics = || {
        let config = EngineConfig { engine_id: id, knobs: Vec::new() };
        numerics::ask(session, engine, graph, &wire::write_engine_config(&config))
    };
    required_knobs::reason_left_out(details.as_ref().map_or(&[][..], |details| details.knobs()), numerics)
}

/// One line for each engine, with its plugin's reason. `told` has the index and the log lines of each plugin that was asked.
fn explain(session: &Session, told: &[(u32, String)]) -> String {
    let set = session.set();
    let mut text = String::from("No engine can run this graph:");
    if set.plugins.is_empty() {
        text.push_str(" no engine plugin is loaded; looked in ");
        text.push_str(&set.places);
    }
    let mut engines: Vec<(u32, String, &str)> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    for (place, plugin) in (0..).zip(&set.plugins) {
        if let Some(reason) = session.reason_left_out(place) {
            lines.push(format!("plugin {} is left out of this handle: {reason}", plugin.name));
            continue;
        }
        let said = told.iter().find(|(asked, _)| *asked == place).map_or("", |(_, said)| said);
        for engine in &plugin.engines {
            let name = engine.display_name();
            let reason = reason(said, &name, plugin).unwrap_or("the plugin gave no reason");
            engines.push((place, format!("{name} ({})", plugin.name), reason));
        }
        if plugin.engines.is_empty() {
            lines.push(format!("plugin {} has no engine that could be admitted", plugin.name));
        }
        lines.extend(plugin.dropped.iter().map(|reason| format!("plugin {}: {reason}", plugin.name)));
    }
    let lines = merge(&engines).into_iter().chain(lines);
    // Plugins that were not loaded come last: if the text is cut, the engines' reasons matter more.
    for line in lines.chain(set.refused.iter().map(|reason| format!("not loaded: {reason}"))) {
        text.push_str("\n  ");
        text.push_str(&line);
    }
    text
}

/// A line for each engine; engines of several plugins with the same reason, usually a missing library, share a line.
/// Each engine is given as its plugin's index, its name and its reason.
fn merge(engines: &[(u32, String, &str)]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (index, (place, name, reason)) in engines.iter().enumerate() {
        let same = || engines.iter().enumerate().filter(|(_, (_, _, other))| other == reason);
        let is_shared = same().any(|(_, (other, ..))| other != place);
        let names: Vec<&str> = match is_shared {
            true if same().next().is_some_and(|(first, _)| first != index) => continue,
            true => same().map(|(_, (_, name, _))| name.as_str()).collect(),
            false => vec![name],
        };
        lines.push(format!("{}: {reason}", names.join(", ")));
    }
    lines
}

/// A plugin's reason for an engine: the line that begins with the engine's name and a colon, or else the last line that is not
/// about another engine.
fn reason<'a>(said: &'a str, name: &str, plugin: &Plugin) -> Option<&'a str> {
    let own = said.lines().find_map(|line| about(line, name));
    let other =
        |line: &str| plugin.engines.iter().any(|engine| about(line, &engine.display_name()).is_some());
    own.or_else(|| said.lines().rfind(|line| !other(line))).filter(|reason| !reason.is_empty())
}

/// The rest of a line that begins with the engine's name.
fn about<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix(name)?.strip_prefix(':').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_of_several_plugins_share_a_line_and_those_of_one_do_not() {
        let engine = |place: u32, name: &str, reason: &'static str| (place, name.to_owned(), reason);
        let lines = merge(&[
            engine(0, "A (a)", "too large"),
            engine(0, "B (a)", "too large"),
            engine(1, "C (b)", "no HIP"),
            engine(1, "D (b)", "no HIP"),
            engine(2, "E (c)", "too small"),
            engine(2, "F (c)", "no HIP"),
        ]);
        let expected =
            ["A (a): too large", "B (a): too large", "C (b), D (b), F (c): no HIP", "E (c): too small"];
        assert_eq!(lines, expected);
    }
}
