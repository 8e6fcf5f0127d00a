//! A plugin's details of an engine for a graph.

use std::collections::HashSet;
use std::ptr;
use std::sync::Arc;

use hipdnn_plugin_sdk::cancel;
use hipdnn_plugin_sdk::ffi::hipdnnPluginConstData_t as ConstData;
use hipdnn_plugin_sdk::graph::GraphError;
use hipdnn_plugin_sdk::wire::{self, Knob};

use super::asking::Asking;
use super::{EngineRef, Session, check};
use crate::graph::FrozenGraph;
use crate::lock::OnceLock;
use crate::log;
use crate::status::{Error, Result};
use crate::trace;

/// Knobs and behavior notes of an engine, at least one of them.
#[derive(Clone)]
pub struct EngineDetails {
    knobs: Vec<Knob>,
    behavior_notes: Vec<i32>,
    /// Each knob serialized, made on first use.
    serialized: OnceLock<Vec<Vec<u8>>>,
}

impl EngineDetails {
    /// Asks the plugin. None if the details are empty, as with plugins of November 2025.
    ///
    /// # Errors
    /// BAD_PARAM when the details are invalid, PLUGIN_ERROR when the plugin returns none.
    #[inline]
    pub fn fetch(
        session: &Session,
        graph: &FrozenGraph,
        engine: EngineRef,
        id: i64,
    ) -> Result<Option<Arc<Self>>> {
        let _phase = trace::phase("ask for an engine's details", || format!("engine {id}"));
        let (told, details) = fetch(session, graph, engine, id)?;
        if told != id {
            let plugin = &session.plugin(engine.plugin)?.name;
            log::warn(|| format!("plugin {plugin} gave details of engine {told} when asked for engine {id}"));
        }
        Ok(details)
    }

    /// Parses details. Returns the engine's id and the details.
    fn read(bytes: &[u8]) -> std::result::Result<(i64, Option<Arc<Self>>), String> {
        match wire::read_bare_engine_details(bytes) {
            Ok(Some(engine)) => Ok((engine, None)),
            Ok(None) => {
                let details = wire::read_engine_details(bytes).map_err(unreadable)?;
                verify(&details).map_err(|fault| format!(": {fault}"))?;
                let wire::EngineDetails { engine_id, knobs, behavior_notes, .. } = details;
                let serialized = OnceLock::new();
                Ok((engine_id, Some(Arc::new(Self { knobs, behavior_notes, serialized }))))
            }
            Err(error) => Err(unreadable(error)),
        }
    }

    /// The knobs, in the plugin's order.
    pub fn knobs(&self) -> &[Knob] {
        &self.knobs
    }

    /// The behavior notes, in the plugin's order.
    pub fn behavior_notes(&self) -> &[i32] {
        &self.behavior_notes
    }

    /// Each knob, serialized as a root table.
    pub fn serialized_knobs(&self) -> &[Vec<u8>] {
        self.serialized.get_or_init(|| self.knobs.iter().map(wire::write_knob).collect())
    }
}

#[cold]
fn unreadable(error: GraphError) -> String {
    format!(" cannot be read: {error}")
}

/// Fails on invalid notes and knobs.
fn verify(details: &wire::EngineDetails) -> std::result::Result<(), String> {
    if let Some(note) = details.behavior_notes.iter().find(|note| **note < 0) {
        return Err(format!("behavior note {note}, expected 0 or more"));
    }
    let mut seen = HashSet::with_capacity(details.knobs.len());
    for knob in &details.knobs {
        knob.verify().map_err(|error| error.0)?;
        if !seen.insert(knob.knob_id.as_str()) {
            return Err(format!("knob {} is there twice, expected once", knob.quoted_id()));
        }
    }
    Ok(())
}

/// Fetches an engine's details, parses them, and releases the plugin's buffer.
fn fetch(
    session: &Session,
    graph: &FrozenGraph,
    engine: EngineRef,
    id: i64,
) -> Result<(i64, Option<Arc<EngineDetails>>)> {
    // Once for both calls of the plugin.
    let off = cancel::disable();
    let plugin = session.plugin(engine.plugin)?;
    let handle = session.plugin_handle(engine.plugin)?;
    let bytes = graph.bytes(plugin.generation.layout)?;
    let graph = ConstData { ptr: bytes.as_ptr().cast(), size: bytes.len() };
    let mut data = ConstData { ptr: ptr::null(), size: 0 };
    let _asking = Asking::begin();
    // SAFETY: the handle is the plugin's own and the bytes outlive the call, which writes one struct.
    let status = unsafe { plugin.api.get_engine_details(&off, handle, id, &raw const graph, &raw mut data) };
    check(&plugin.api, "get engine details", status)?;
    if data.ptr.is_null() {
        return Err(Error::plugin(format!("plugin {} gave null details for engine {id}", plugin.name)));
    }
    let told = if data.size == 0 || isize::try_from(data.size).is_err() {
        Err(Error::plugin(format!(
            "plugin {} gave {} bytes of details for engine {id}",
            plugin.name, data.size
        )))
    } else {
        // SAFETY: a plugin that succeeds gives as many bytes as it says, and keeps them until they are released below; the size is at
        // most a slice's.
        let bytes = unsafe { std::slice::from_raw_parts(data.ptr.cast::<u8>(), data.size) };
        EngineDetails::read(bytes).map_err(|fault| {
            // Callers expect this status, although the mistake is the plugin's.
            let name = &plugin.name;
            Error::bad_param(format!("plugin {name} is defective: its details of engine {id}{fault}"))
        })
    };
    // SAFETY: the details are the plugin's own and no longer referenced.
    let status = unsafe { plugin.api.destroy_engine_details(&off, handle, &raw mut data) };
    if status != 0 {
        log::error(|| plugin.api.failure("destroy engine details", status));
    }
    told
}
