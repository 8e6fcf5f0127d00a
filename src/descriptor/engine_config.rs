//! ENGINECFG: an engine with its knob settings.

use std::ffi::c_int;
use std::sync::Arc;

use hipdnn_plugin_sdk::ffi::hipdnnPluginConstData_t as ConstData;
use hipdnn_plugin_sdk::wire::{self, EngineConfig, KnobSetting, MAX_KNOB_CHOICES};

use super::attribute::{Incoming, Outgoing, unknown};
use super::engine::{FrozenEngine, metric, no_prediction, no_prediction_of, prediction};
use super::{Descriptor, Draft, Lifecycle, take_checked};
use crate::ffi::raw::CEnum;
use crate::ffi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type,
    hipdnnBackendFlatbufferData_t, hipdnnBackendNumericalNote_t,
};
use crate::lock::OnceLock;
use crate::object::Access;
use crate::plugin::asking::Asking;
use crate::plugin::cache::Known;
use crate::plugin::made::Made;
use crate::plugin::numerics::WantedNotes;
use crate::plugin::{check, context, required_knobs, workspace_size};
use crate::policies;
use crate::selection::Metric;
use crate::status::{Error, Result};

const KIND: &str = "engine configuration";

const ENGINE: c_int = Name::HIPDNN_ATTR_ENGINECFG_ENGINE as c_int;
const KNOB_CHOICES: c_int = Name::HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES as c_int;
const WORKSPACE_SIZE: c_int = Name::HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE as c_int;
const PREDICTION: c_int = Name::HIPDNN_ATTR_ENGINECFG_PREDICTION_EXT as c_int;
const RANKING_METRIC: c_int = Name::HIPDNN_ATTR_ENGINECFG_RANKING_METRIC_EXT as c_int;
const SELECTED_NOTES: c_int = Name::HIPDNN_ATTR_ENGINECFG_SELECT_NUMERICAL_NOTES_EXT as c_int;
const DESELECTED_NOTES: c_int = Name::HIPDNN_ATTR_ENGINECFG_DESELECT_NUMERICAL_NOTES_EXT as c_int;
const NUMERICAL_NOTES: c_int = Name::HIPDNN_ATTR_ENGINECFG_NUMERICAL_NOTES_EXT as c_int;
const CHOSEN_KNOBS: c_int = Name::HIPDNN_ATTR_ENGINECFG_CHOSEN_KNOBS_EXT as c_int;
const SERIALIZED_CHOICES: c_int = Name::HIPDNN_ATTR_KNOB_CHOICE_SERIALIZED_VALUE as c_int;

/// An open configuration.
#[derive(Default)]
pub struct ConfigDraft {
    engine: Option<FrozenEngine>,
    /// The knob settings; none while no knob is set, which saves memory.
    chosen: Option<Box<Chosen>>,
    /// The prediction, once it was asked for.
    prediction: OnceLock<Box<[u8]>>,
}

impl ConfigDraft {
    fn metric(&self) -> Metric {
        self.chosen.as_ref().and_then(|chosen| chosen.metric).unwrap_or_default()
    }

    fn has_knobs(&self) -> bool {
        self.chosen
            .as_ref()
            .is_some_and(|chosen| !(chosen.descriptors.is_empty() && chosen.serialized.is_empty()))
    }
}

/// The knob settings, by the attribute that set them.
#[derive(Default)]
struct Chosen {
    descriptors: Vec<Arc<KnobSetting>>,
    serialized: Vec<KnobSetting>,
    /// What engines were ranked by, for the engine's own choices.
    metric: Option<Metric>,
    /// The notes that the engine must and must not have.
    notes: WantedNotes,
}

impl Chosen {
    /// The settings of the program.
    fn settings(&self) -> Vec<KnobSetting> {
        self.descriptors.iter().map(Arc::as_ref).chain(&self.serialized).cloned().collect()
    }

    /// The configuration of an engine with these settings, others, and those that the notes need. The plugin checks whether
    /// settings are valid. None if there is nothing but notes that need no setting.
    fn bytes(
        &self,
        engine: &FrozenEngine,
        others: impl IntoIterator<Item = KnobSetting>,
    ) -> Result<Option<Box<[u8]>>> {
        let mut knobs = self.settings();
        knobs.extend(others);
        if !self.notes.is_empty() {
            let name = engine.session.engine(engine.engine)?.display_name();
            self.notes.settle(&name, &mut knobs, |knobs| {
                let config = EngineConfig { engine_id: engine.id, knobs: knobs.to_vec() };
                engine.numerics(&wire::write_engine_config(&config))
            })?;
            if knobs.is_empty() && self.metric.is_none() {
                return Ok(None);
            }
        }
        if knobs.len() > MAX_KNOB_CHOICES {
            return Err(Error::bad_param(format!(
                "{} knobs of the engine configuration are set, expected at most {MAX_KNOB_CHOICES}",
                knobs.len()
            )));
        }
        let metric = self.metric.map_or("", Metric::name);
        let config = EngineConfig { engine_id: engine.id, knobs };
        Ok(Some(wire::write_ranked_engine_config(&config, metric).into()))
    }
}

/// A finalized configuration.
pub struct FrozenConfig {
    /// The engine.
    pub engine: FrozenEngine,
    /// Bytes of workspace that the plugin expects to need.
    pub workspace_size: i64,
    /// The serialized configuration, if a knob is set.
    bytes: Option<Box<[u8]>>,
    /// The cached answers of the engine with these knobs.
    with_settings: Option<Arc<Known>>,
}

impl FrozenConfig {
    /// The serialized configuration for plugins.
    pub fn bytes(&self) -> Result<&[u8]> {
        bytes(&self.engine, self.bytes.as_deref())
    }

    /// Has the plugin make the context of the configuration, ignoring caches.
    pub(super) fn compile(&self) -> Result<Made> {
        let engine = &self.engine;
        context::compile(&engine.session, engine.engine, &engine.graph, self.bytes()?)
    }

    /// The cache entry for the engine's plan; none if knobs are set and the plugin does not say whether they tie a plan to its
    /// caller, or if the device or the stream has changed.
    pub fn shared_plan(&self) -> Option<&Known> {
        let known = if self.sets_knobs() { &self.with_settings } else { &self.engine.known };
        known.as_deref().filter(|known| known.is_current(self.engine.session.cache()))
    }

    /// Whether a knob is set, even to its default.
    pub fn sets_knobs(&self) -> bool {
        self.bytes.is_some()
    }

    /// The serialized configuration, if a knob is set.
    pub fn settings(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }
}

/// The serialized configuration of an engine: `chosen`, or the default one that its plugin keeps.
fn bytes<'a>(engine: &'a FrozenEngine, chosen: Option<&'a [u8]>) -> Result<&'a [u8]> {
    match chosen {
        Some(bytes) => Ok(bytes),
        None => Ok(&engine.session.engine(engine.engine)?.plain_config),
    }
}

/// The workspace that the plugin expects to need, cached or asked for.
fn expected_workspace_size(
    engine: &FrozenEngine,
    chosen: Option<&[u8]>,
    known: Option<&Known>,
) -> Result<i64> {
    let cache = engine.session.cache();
    let known = known.filter(|known| known.is_current(cache));
    if let Some(size) = known.and_then(Known::workspace_size) {
        return Ok(size);
    }
    let size = ask_workspace_size(engine, chosen)?;
    if let Some(known) = known {
        known.learn_workspace_size(size, cache);
    }
    Ok(size)
}

/// The cached answers of an engine with knob settings, if its plugin says whether their plans may be shared.
#[cold]
fn known_with(engine: &FrozenEngine, chosen: &[u8]) -> Option<Arc<Known>> {
    let known = engine.known.as_ref().filter(|_| context::says_who_shares(&engine.session, engine.engine))?;
    known.with_settings(chosen)
}

/// Asks the plugin how much workspace it expects to need.
fn ask_workspace_size(engine: &FrozenEngine, chosen: Option<&[u8]>) -> Result<i64> {
    let session = &engine.session;
    let plugin = session.plugin(engine.engine.plugin)?;
    let handle = session.plugin_handle(engine.engine.plugin)?;
    let config = bytes(engine, chosen)?;
    let graph = engine.graph.bytes(plugin.generation.layout)?;
    let graph = ConstData { ptr: graph.as_ptr().cast(), size: graph.len() };
    let data = ConstData { ptr: config.as_ptr().cast(), size: config.len() };
    let mut size = 0;
    let _asking = Asking::begin();
    // SAFETY: the handle is the plugin's own and the bytes outlive the call, which writes one number.
    let status =
        unsafe { plugin.api.get_workspace_size(handle, &raw const data, &raw const graph, &raw mut size) };
    check(&plugin.api, "get workspace size", status)?;
    workspace_size(size)
}

impl Draft for ConfigDraft {
    type Frozen = Arc<FrozenConfig>;

    const ASKS_PLUGINS: bool = true;

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        match incoming.name() {
            ENGINE => self.engine = Some(incoming.descriptor(Descriptor::engine)?),
            KNOB_CHOICES => {
                check_count(incoming)?;
                let choices = incoming.descriptors(Descriptor::knob_choice)?;
                self.chosen.get_or_insert_default().descriptors = choices;
            }
            SERIALIZED_CHOICES => {
                check_count(incoming)?;
                let choices = incoming.some(Type::HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT)?;
                let choices = choices.into_iter().map(|data| setting(incoming, data));
                let choices = choices.collect::<Result<_>>()?;
                self.chosen.get_or_insert_default().serialized = choices;
            }
            RANKING_METRIC => self.chosen.get_or_insert_default().metric = Some(metric(incoming)?),
            SELECTED_NOTES => self.chosen.get_or_insert_default().notes.selected = notes(incoming)?,
            DESELECTED_NOTES => self.chosen.get_or_insert_default().notes.deselected = notes(incoming)?,
            other => return Err(unknown(KIND, other, "set")),
        }
        Ok(())
    }

    // Inlined, so that the frozen form is built in place.
    #[inline(always)]
    fn finalize(&mut self) -> Result<Self::Frozen> {
        let missing = || {
            Error::bad_param(
                "HIPDNN_ATTR_ENGINECFG_ENGINE of the engine configuration is not set (a heuristic without results leaves its configurations empty)",
            )
        };
        let mut chosen = self.chosen.as_deref();
        let none = Chosen::default();
        let (engine, (workspace_size, bytes, with_settings)) =
            take_checked(&mut self.engine, missing, |engine| {
                let others = required_knobs::added(engine.knobs(), || {
                    chosen.map(Chosen::settings).unwrap_or_default()
                });
                if !others.is_empty() {
                    chosen = chosen.or(Some(&none));
                }
                let bytes = chosen.map(|chosen| chosen.bytes(engine, others)).transpose()?.flatten();
                let with_settings = bytes.as_deref().and_then(|bytes| known_with(engine, bytes));
                let known = if bytes.is_some() { &with_settings } else { &engine.known };
                let size = expected_workspace_size(engine, bytes.as_deref(), known.as_deref())?;
                Ok((size, bytes, with_settings))
            })?;
        Ok(Arc::new(FrozenConfig { engine, workspace_size, bytes, with_settings }))
    }

    fn get_open(&mut self, outgoing: &Outgoing) -> Result<()> {
        match outgoing.name() {
            // Available while open: it does not depend on the settings.
            PREDICTION => no_prediction(self.engine.as_ref().map_or(0, |engine| engine.id), outgoing),
            _ => Err(Error::not_initialized(
                "the engine configuration is not finalized, and its attributes can be read only then",
            )),
        }
    }

    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        match outgoing.name() {
            ENGINE => outgoing.exactly_one_descriptor(|| Descriptor::of_engine(frozen.engine.clone())),
            WORKSPACE_SIZE => outgoing.exactly_one(Type::HIPDNN_TYPE_INT64, frozen.workspace_size),
            PREDICTION => {
                let engine = &frozen.engine;
                let metric = self.metric();
                let make = || match frozen.sets_knobs() && self.has_knobs() {
                    true => {
                        Ok(no_prediction_of(engine.id, "no model of the engine with these knobs is known"))
                    }
                    false => policies::predict(&engine.session, &engine.graph, engine.engine, 1, metric),
                };
                prediction(&self.prediction, make, outgoing)
            }
            RANKING_METRIC => outgoing.text(self.metric().name()),
            NUMERICAL_NOTES => frozen.engine.numerical_notes(frozen.bytes()?, outgoing),
            CHOSEN_KNOBS => {
                let config =
                    wire::read_engine_config(frozen.bytes()?).map_err(|error| Error::internal(error.0))?;
                let knob = |i: usize| config.knobs.get(i).cloned().map(Descriptor::of_knob_choice);
                outgoing.all_descriptors(config.knobs.len(), knob)
            }
            other => Err(unknown(KIND, other, "read")),
        }
    }
}

/// The notes in an attribute.
fn notes(incoming: &Incoming) -> Result<Vec<c_int>> {
    let notes = incoming.some(Type::HIPDNN_TYPE_NUMERICAL_NOTE)?;
    match notes.iter().find(|note| hipdnnBackendNumericalNote_t::from_raw(**note).is_none()) {
        None => Ok(notes),
        Some(note) => Err(incoming.bad_value(note, "a number of hipdnnBackendNumericalNote_t")),
    }
}

/// Fails when more knobs are set than a configuration may.
fn check_count(incoming: &Incoming) -> Result<()> {
    if incoming.count() > MAX_KNOB_CHOICES as i64 {
        return Err(incoming.wrong_count(&format!("1 to {MAX_KNOB_CHOICES}")));
    }
    Ok(())
}

/// A setting from a caller's serialized bytes, which are copied.
fn setting(incoming: &Incoming, data: hipdnnBackendFlatbufferData_t) -> Result<KnobSetting> {
    if data.ptr.is_null() {
        return Err(incoming.about(Error::null_pointer("the ptr of an element is null")));
    }
    if data.size == 0 || isize::try_from(data.size).is_err() {
        return Err(incoming.about(Error::bad_param(format!(
            "the size of an element is {}, expected the bytes of a KnobSetting",
            data.size
        ))));
    }
    // SAFETY: an element of this type has as many bytes at `ptr` as `size` says, as `Incoming::new` requires of the elements; the size is
    // not 0 and at most a slice's.
    let bytes = unsafe { std::slice::from_raw_parts(data.ptr.cast::<u8>(), data.size) };
    // Checked again, because replacing invalid UTF-8 lengthens the text.
    let setting = wire::read_knob_setting(bytes).and_then(|setting| {
        wire::check_knob_id(&setting.knob_id)?;
        setting.value.check_size()?;
        Ok(setting)
    });
    setting.map_err(|error| incoming.about(Error::bad_param(error.0)))
}

impl Descriptor {
    /// A finalized configuration descriptor that shares a configuration.
    pub(super) fn of_engine_config(config: Arc<FrozenConfig>) -> Self {
        Self::EngineConfig(Lifecycle::finalized(ConfigDraft::default(), config))
    }

    fn open_engine_config(&self) -> Result<&Lifecycle<ConfigDraft>> {
        match self {
            Self::EngineConfig(lifecycle) => Ok(lifecycle),
            other => Err(other.wrong_kind(KIND)),
        }
    }

    /// Fails unless this is an engine configuration that can still be changed.
    pub(super) fn check_open_engine_config(&self) -> Result<()> {
        match self.open_engine_config()?.frozen() {
            None => Ok(()),
            Some(_) => {
                Err(Error::not_initialized("the engine configuration is finalized and cannot be changed"))
            }
        }
    }

    /// Sets the engine of an open engine configuration, and the knobs that a policy wants.
    pub(super) fn set_engine(
        &self,
        access: Access,
        engine: FrozenEngine,
        settings: Option<Vec<KnobSetting>>,
        metric: Option<Metric>,
    ) -> Result<()> {
        self.open_engine_config()?.change(access, |draft| {
            draft.engine = Some(engine);
            if let Some(settings) = settings {
                draft.chosen.get_or_insert_default().serialized = settings;
            }
            if metric.is_some() {
                draft.chosen.get_or_insert_default().metric = metric;
            }
            Ok(())
        })
    }
}
