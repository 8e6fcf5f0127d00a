//! ENGINE: one engine of one plugin, for one graph.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;

use hipdnn_plugin_sdk::wire::{self, Knob};

use super::attribute::{Incoming, Outgoing, unknown};
use super::{Descriptor, Draft, Lifecycle};
use crate::ffi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type, hipdnnBackendFlatbufferData_t,
};
use crate::graph::FrozenGraph;
use crate::handle;
use crate::lock::{Mutex, OnceLock};
use crate::log;
use crate::plugin::cache::{Entry, Known};
use crate::plugin::numerics::{self, EngineNumerics};
use crate::plugin::{EngineDetails, EngineRef, Session, ask};
use crate::policies;
use crate::selection::Metric;
use crate::status::{Error, Result};

const KIND: &str = "engine";

const OPERATION_GRAPH: c_int = Name::HIPDNN_ATTR_ENGINE_OPERATION_GRAPH as c_int;
const GLOBAL_INDEX: c_int = Name::HIPDNN_ATTR_ENGINE_GLOBAL_INDEX as c_int;
const KNOB_INFO: c_int = Name::HIPDNN_ATTR_ENGINE_KNOB_INFO as c_int;
const BEHAVIOR_NOTE: c_int = Name::HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE as c_int;
const NUMERICAL_NOTE: c_int = Name::HIPDNN_ATTR_ENGINE_NUMERICAL_NOTE as c_int;
const NAME: c_int = Name::HIPDNN_ATTR_ENGINE_NAME_EXT as c_int;
const PREDICTION: c_int = Name::HIPDNN_ATTR_ENGINE_PREDICTION_EXT as c_int;
const PREDICTION_METRIC: c_int = Name::HIPDNN_ATTR_ENGINE_PREDICTION_METRIC_EXT as c_int;
const SERIALIZED_KNOBS: c_int = Name::HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE as c_int;

/// Callers compare this text, so it never changes.
const NOT_AN_ENGINE: &str =
    "EngineDescriptor::finalize() failed: Engine id is not in a valid range of engine IDs";

/// An open engine descriptor.
#[derive(Default)]
pub struct EngineDraft {
    graph: Option<FrozenGraph>,
    id: Option<i64>,
    /// The metric of the prediction.
    metric: Option<Metric>,
    /// The prediction, once it was asked for.
    prediction: OnceLock<Box<[u8]>>,
}

/// A finalized engine. Holds only references, so it is cheap to clone.
#[derive(Clone)]
pub struct FrozenEngine {
    /// The engine's cached answers for the graph, if cached. Dropped before the session.
    pub known: Option<Arc<Known>>,
    /// The session of the graph's handle.
    pub session: Arc<Session>,
    /// The graph.
    pub graph: FrozenGraph,
    /// The engine within the session.
    pub engine: EngineRef,
    /// The engine's id.
    pub id: i64,
    /// The plugin's details of the engine; none if it has none.
    pub details: Option<Arc<EngineDetails>>,
}

impl FrozenEngine {
    /// An engine that applies to the graph. Fetches its details, which must be valid.
    pub fn new(
        session: Arc<Session>,
        graph: FrozenGraph,
        engine: EngineRef,
        entry: Option<&Entry>,
    ) -> Result<Self> {
        let id = session.engine(engine)?.id;
        let known = entry.map(|entry| entry.engine(engine));
        let details = known.as_ref().and_then(|known| known.details());
        let details = match details {
            Some(details) => details.clone(),
            None => {
                let details = EngineDetails::fetch(&session, &graph, engine, id)?;
                if let Some(known) = &known {
                    known.learn_details(&details, session.cache());
                }
                details
            }
        };
        Ok(Self { known, session, graph, engine, id, details })
    }

    /// The knobs that the plugin published.
    pub fn knobs(&self) -> &[Knob] {
        self.details.as_ref().map_or(&[], |details| details.knobs())
    }

    /// Asks the plugin what the engine may do to numbers with a serialized configuration.
    pub fn numerics(&self, config: &[u8]) -> Result<Option<EngineNumerics>> {
        numerics::ask(&self.session, self.engine, &self.graph, config)
    }

    /// Answers the notes of that.
    pub(super) fn numerical_notes(&self, config: &[u8], outgoing: &Outgoing) -> Result<()> {
        let numerics = self.numerics(config)?;
        let numerics = numerics.ok_or_else(|| match self.session.engine(self.engine) {
            Ok(engine) => outgoing.about(numerics::unsaid(&engine.display_name())),
            Err(error) => error,
        })?;
        outgoing.all(Type::HIPDNN_TYPE_NUMERICAL_NOTE, &numerics.notes)
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
            PREDICTION_METRIC => self.metric = Some(metric(incoming)?),
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
        let engine = session.find_engine(id).ok_or_else(|| {
            // Callers compare the text of the error, so the details go to the log.
            log::warn(|| format!("no engine has the id {id}; there are {}", session.list_engines()));
            Error::bad_param(NOT_AN_ENGINE)
        })?;
        let mut said = String::new();
        let entry = session.entry(graph);
        let is_known = entry.as_ref().is_some_and(|entry| entry.has(engine));
        if !is_known && !log::capture(&mut said, || ask::is_applicable(&session, engine, graph))? {
            log::warn(|| format!("engine {id} does not run this graph: {}", said.trim_end()));
            return Err(Error::bad_param(NOT_AN_ENGINE));
        }
        FrozenEngine::new(session, graph.clone(), engine, entry.as_deref())
    }

    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        match outgoing.name() {
            OPERATION_GRAPH => outgoing.exactly_one_descriptor(|| Descriptor::of_graph(frozen.graph.clone())),
            GLOBAL_INDEX => outgoing.exactly_one(Type::HIPDNN_TYPE_INT64, frozen.id),
            NAME => outgoing.text(&frozen.session.engine(frozen.engine)?.display_name()),
            KNOB_INFO => {
                let knobs = frozen.knobs();
                outgoing.all_descriptors(knobs.len(), |i| knobs.get(i).map(Descriptor::of_knob))
            }
            SERIALIZED_KNOBS => {
                let knobs = frozen.details.as_ref().map_or(&[][..], |details| details.serialized_knobs());
                let knobs: Vec<_> = knobs.iter().map(|bytes| flatbuffer(bytes)).collect();
                outgoing.many(Type::HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, &knobs)
            }
            BEHAVIOR_NOTE => {
                let notes = frozen.details.as_ref().map_or(&[][..], |details| details.behavior_notes());
                outgoing.all(Type::HIPDNN_TYPE_BEHAVIOR_NOTE, notes)
            }
            NUMERICAL_NOTE => {
                frozen.numerical_notes(&frozen.session.engine(frozen.engine)?.plain_config, outgoing)
            }
            PREDICTION => {
                let metric = self.metric.unwrap_or_default();
                prediction(
                    &self.prediction,
                    || policies::predict(&frozen.session, &frozen.graph, frozen.engine, 0, metric),
                    outgoing,
                )
            }
            PREDICTION_METRIC => outgoing.text(self.metric.unwrap_or_default().name()),
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

/// Bytes that a descriptor owns, as an attribute element.
fn flatbuffer(bytes: &[u8]) -> hipdnnBackendFlatbufferData_t {
    hipdnnBackendFlatbufferData_t { ptr: bytes.as_ptr().cast(), size: bytes.len() }
}

/// The session of a graph's handle.
pub(super) fn session_of(graph: &FrozenGraph) -> Result<Arc<Session>> {
    handle::session(graph.handle()).map_err(|error| {
        Error::bad_param(format!("the handle that the operation graph was finalized with: {}", error.message))
    })
}

/// The metric that an attribute names.
pub(super) fn metric(incoming: &Incoming) -> Result<Metric> {
    let name = incoming.text()?;
    Metric::named(&name).ok_or_else(|| {
        incoming.about(Error::bad_param(format!("the metric is {name:?}, expected tflops or time")))
    })
}

/// A prediction without a value.
pub(super) fn no_prediction_of(engine_id: i64, reason: &str) -> Vec<u8> {
    wire::write_prediction(&wire::Prediction { engine_id, reason, ..Default::default() })
}

/// Returns a finalized descriptor's prediction, which is made when it is first asked for and lives as long as the descriptor.
pub(super) fn prediction(
    made: &OnceLock<Box<[u8]>>,
    make: impl FnOnce() -> Result<Vec<u8>>,
    outgoing: &Outgoing,
) -> Result<()> {
    outgoing.require_type(Type::HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT)?;
    let bytes = match made.get() {
        Some(bytes) => bytes,
        None => {
            let bytes = make()?.into();
            made.get_or_init(|| bytes)
        }
    };
    outgoing.one(Type::HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, flatbuffer(bytes))
}

/// The serialized predictions, by engine.
pub static MADE: Mutex<BTreeMap<i64, &'static [u8]>> = Mutex::new(BTreeMap::new());

/// The prediction of an open configuration: unavailable.
///
/// The bytes are made once for each engine and never freed, because callers may keep them as long as the descriptor,
/// whatever is set in it later.
pub(super) fn no_prediction(engine: i64, outgoing: &Outgoing) -> Result<()> {
    outgoing.require_type(Type::HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT)?;
    let make = || {
        const REASON: &str = "the engine configuration is not finalized";
        &*no_prediction_of(engine, REASON).leak()
    };
    let bytes = *MADE.lock().entry(engine).or_insert_with(make);
    outgoing.one(Type::HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, flatbuffer(bytes))
}
