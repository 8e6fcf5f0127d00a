//! ENGINE: one engine of one plugin, for one graph.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use hipdnn_plugin_sdk::ffi::hipdnnPluginConstData_t as ConstData;
use hipdnn_plugin_sdk::wire;

use super::attribute::{Incoming, Outgoing, unknown};
use super::heuristic::session_of;
use super::{Descriptor, Draft, Lifecycle};
use crate::ffi::{hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type};
use crate::graph::FrozenGraph;
use crate::log;
use crate::plugin::{EngineRef, Session, ask, check};
use crate::status::{Error, Result};

const KIND: &str = "engine";

const OPERATION_GRAPH: c_int = Name::HIPDNN_ATTR_ENGINE_OPERATION_GRAPH as c_int;
const GLOBAL_INDEX: c_int = Name::HIPDNN_ATTR_ENGINE_GLOBAL_INDEX as c_int;
const NAME: c_int = Name::HIPDNN_ATTR_ENGINE_NAME_EXT as c_int;

/// Callers compare this text, so it never changes.
const NOT_AN_ENGINE: &str =
    "EngineDescriptor::finalize() failed: Engine id is not in a valid range of engine IDs";

/// An engine that is being set up.
#[derive(Default)]
pub struct EngineDraft {
    graph: Option<Arc<FrozenGraph>>,
    id: Option<i64>,
}

/// A finalized engine. Only references, so that whoever needs one has its own.
#[derive(Clone)]
pub struct FrozenEngine {
    /// The plugins as the graph's handle had them.
    pub session: Arc<Session>,
    /// The graph.
    pub graph: Arc<FrozenGraph>,
    /// The engine among the session's.
    pub engine: EngineRef,
    /// The engine's id.
    pub id: i64,
}

impl FrozenEngine {
    /// An engine that was found to apply to the graph. Its details are fetched, and must be in order.
    pub fn new(session: Arc<Session>, graph: Arc<FrozenGraph>, engine: EngineRef) -> Result<Self> {
        let id = session.engine(engine)?.id;
        check_details(&session, &graph, engine, id)?;
        Ok(Self { session, graph, engine, id })
    }
}

impl Draft for EngineDraft {
    type Frozen = FrozenEngine;

    const ASKS_PLUGINS: bool = true;

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        match incoming.name() {
            OPERATION_GRAPH => self.graph = Some(incoming.descriptor(Descriptor::graph)?),
            GLOBAL_INDEX => self.id = Some(incoming.one(Type::HIPDNN_TYPE_INT64)?),
            other => return Err(unknown(KIND, other, "set")),
        }
        Ok(())
    }

    fn finalize(&mut self) -> Result<Self::Frozen> {
        let graph = self
            .graph
            .as_ref()
            .ok_or_else(|| Error::bad_param("HIPDNN_ATTR_ENGINE_OPERATION_GRAPH of the engine is not set"))?;
        let id = self
            .id
            .ok_or_else(|| Error::bad_param("HIPDNN_ATTR_ENGINE_GLOBAL_INDEX of the engine is not set"))?;
        let session = session_of(graph)?;
        let engine = session.find_engine(id).ok_or_else(|| Error::bad_param(NOT_AN_ENGINE))?;
        let mut said = String::new();
        if !log::capture(&mut said, || ask::is_applicable(&session, engine, graph))? {
            log::warn(|| format!("engine {id} does not run this graph: {}", said.trim_end()));
            return Err(Error::bad_param(NOT_AN_ENGINE));
        }
        FrozenEngine::new(session, Arc::clone(graph), engine)
    }

    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        match outgoing.name() {
            OPERATION_GRAPH => {
                outgoing.exactly_one_descriptor(|| Descriptor::of_graph(Arc::clone(&frozen.graph)))
            }
            GLOBAL_INDEX => outgoing.exactly_one(Type::HIPDNN_TYPE_INT64, frozen.id),
            NAME => outgoing.text(&frozen.session.engine(frozen.engine)?.display_name()),
            other => Err(unknown(KIND, other, "read")),
        }
    }
}

impl Descriptor {
    /// A finalized engine descriptor that shares an engine.
    pub(super) fn of_engine(engine: FrozenEngine) -> Self {
        Self::Engine(Lifecycle::finalized(EngineDraft::default(), engine))
    }
}

/// Asks the plugin for an engine's details, which must be readable, and gives them back to it.
fn check_details(session: &Session, graph: &FrozenGraph, engine: EngineRef, id: i64) -> Result<()> {
    let plugin = session.plugin(engine.plugin)?;
    let handle = session.plugin_handle(engine.plugin)?;
    let bytes = graph.bytes(plugin.layout)?;
    let graph = ConstData { ptr: bytes.as_ptr().cast(), size: bytes.len() };
    let mut data = ConstData { ptr: ptr::null(), size: 0 };
    // SAFETY: the handle is the plugin's own and the bytes outlive the call, which writes one struct.
    let status = unsafe { plugin.api.get_engine_details(handle, id, &raw const graph, &raw mut data) };
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
        // SAFETY: the plugin vouches for the bytes until they are given back below.
        let bytes = unsafe { std::slice::from_raw_parts(data.ptr.cast::<u8>(), data.size) };
        wire::read_engine_details(bytes).map(|details| details.engine_id).map_err(|error| {
            // The status is the one that callers know; the fault is the plugin's.
            Error::bad_param(format!(
                "plugin {} is defective: its details of engine {id} cannot be read: {error}",
                plugin.name
            ))
        })
    };
    // SAFETY: the details are the plugin's own and nothing refers to them any more.
    let status = unsafe { plugin.api.destroy_engine_details(handle, &raw mut data) };
    if status != 0 {
        log::error(|| plugin.api.failure("destroy engine details", status));
    }
    let told = told?;
    if told != id {
        log::warn(|| {
            format!("plugin {} gave details of engine {told} when asked for engine {id}", plugin.name)
        });
    }
    Ok(())
}
