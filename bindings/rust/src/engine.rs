//! An engine for a graph, and its configuration.

use hipdnn_abi::raw::CEnum;
pub use hipdnn_plugin_sdk::numerics::NumericalNote;

use crate::constants::{
    BEHAVIOR_NOTES, HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX,
    HIPDNN_ATTR_ENGINE_KNOB_INFO, HIPDNN_ATTR_ENGINE_NAME_EXT, HIPDNN_ATTR_ENGINE_NUMERICAL_NOTE,
    HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, HIPDNN_ATTR_ENGINECFG_DESELECT_NUMERICAL_NOTES_EXT,
    HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES,
    HIPDNN_ATTR_ENGINECFG_SELECT_NUMERICAL_NOTES_EXT, HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
    HIPDNN_BACKEND_ENGINE_DESCRIPTOR, HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR, HIPDNN_TYPE_BEHAVIOR_NOTE,
    HIPDNN_TYPE_NUMERICAL_NOTE,
};
use crate::error::{Error, Result, Status};
use crate::{Descriptor, Knob, KnobSetting, OperationGraph};

/// The operation named in errors about missing or unsupported engines.
const CHOOSING: &str = "choosing the engine";

/// One engine, for one graph.
pub struct Engine {
    descriptor: Descriptor,
}

// SAFETY: an engine is finalized when it is made, and immutable afterwards.
unsafe impl Sync for Engine {}

impl Engine {
    /// The engine with an id, if it can run the graph. Otherwise the error names those that can.
    pub fn new(graph: &OperationGraph, id: i64) -> Result<Self> {
        Self::find(graph, id).map_err(|error| match error {
            Error::Status { during, status, text } if during == CHOOSING => {
                // The library's message is the same for every id.
                let known = candidates(graph);
                let text = format!("{text}{}{known}", if text.is_empty() { "" } else { ": " });
                let during = format!("{during} {id}");
                Error::Status { during, status, text }
            }
            other => other,
        })
    }

    /// The same, with only the library's message in errors.
    pub(crate) fn find(graph: &OperationGraph, id: i64) -> Result<Self> {
        let descriptor = Descriptor::new(graph.descriptor().backend(), HIPDNN_BACKEND_ENGINE_DESCRIPTOR)?;
        descriptor.set_descriptors(HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, &[graph.descriptor()])?;
        descriptor.set_i64s(HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, &[id])?;
        descriptor.finalize(CHOOSING)?;
        Ok(Self { descriptor })
    }

    /// Its name, if the library tells.
    fn name(&self) -> Result<String> {
        self.descriptor.text(HIPDNN_ATTR_ENGINE_NAME_EXT)
    }

    /// Its tunable knobs.
    pub fn knobs(&self) -> Result<Vec<Knob>> {
        let infos = self.descriptor.descriptors(HIPDNN_ATTR_ENGINE_KNOB_INFO)?;
        infos.iter().map(Knob::read).collect()
    }

    /// Its behavior notes.
    pub fn behavior_notes(&self) -> Result<Vec<String>> {
        // SAFETY: BEHAVIOR_NOTE elements are 32-bit enums.
        let notes: Vec<i32> =
            unsafe { self.descriptor.get_all(HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_TYPE_BEHAVIOR_NOTE) }?;
        let name = |note: &i32| usize::try_from(*note).ok().and_then(|note| BEHAVIOR_NOTES.get(note));
        Ok(notes
            .iter()
            .map(|note| name(note).map_or_else(|| format!("note {note}"), |name| (*name).to_owned()))
            .collect())
    }

    /// What it may do to numbers with default knobs, if it says so.
    pub fn numerical_notes(&self) -> Result<Option<Vec<NumericalNote>>> {
        let attribute = HIPDNN_ATTR_ENGINE_NUMERICAL_NOTE;
        // SAFETY: NUMERICAL_NOTE elements are 32-bit enums.
        match unsafe { self.descriptor.get_all::<i32>(attribute, HIPDNN_TYPE_NUMERICAL_NOTE) } {
            Ok(notes) => Ok(Some(notes.into_iter().filter_map(NumericalNote::from_raw).collect())),
            Err(Error::Status { status: Status::NotSupported, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The numerical notes that an engine must and must not have. Knobs are set for that where the engine has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedNotes {
    /// Notes that it must have.
    pub selected: Vec<NumericalNote>,
    /// Notes that it must not have.
    pub deselected: Vec<NumericalNote>,
}

/// Describes the engines that can run a graph.
fn candidates(graph: &OperationGraph) -> String {
    let Ok(offer) = graph.offer() else { return "which engines can run the graph is not known".to_owned() };
    let named = |id: &i64| match Engine::find(graph, *id).and_then(|engine| engine.name()) {
        Ok(name) => format!("{name} ({id})"),
        Err(_) => id.to_string(),
    };
    match offer.engines.as_slice() {
        [] => "no engine can run the graph".to_owned(),
        ids => format!("the graph can be run by {}", ids.iter().map(named).collect::<Vec<_>>().join(", ")),
    }
}

/// An engine with its knob settings.
pub struct EngineConfig {
    descriptor: Descriptor,
}

// SAFETY: a configuration is finalized when it is made, and immutable afterwards.
unsafe impl Sync for EngineConfig {}

impl EngineConfig {
    /// Sets knobs of an engine; the others keep their defaults.
    pub fn new(engine: &Engine, settings: &[KnobSetting]) -> Result<Self> {
        Self::with_notes(engine, settings, &WantedNotes::default())
    }

    /// The same, and other knobs so that the engine has the notes.
    ///
    /// # Errors
    /// When the engine cannot have them, with the note.
    pub fn with_notes(engine: &Engine, settings: &[KnobSetting], notes: &WantedNotes) -> Result<Self> {
        let backend = engine.descriptor.backend();
        let descriptor = Descriptor::new(backend, HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR)?;
        descriptor.set_descriptors(HIPDNN_ATTR_ENGINECFG_ENGINE, &[&engine.descriptor])?;
        if !settings.is_empty() {
            let choices =
                settings.iter().map(|setting| setting.choice(backend)).collect::<Result<Vec<_>>>()?;
            let choices: Vec<&Descriptor> = choices.iter().collect();
            descriptor.set_descriptors(HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, &choices)?;
        }
        for (attribute, notes) in [
            (HIPDNN_ATTR_ENGINECFG_SELECT_NUMERICAL_NOTES_EXT, &notes.selected),
            (HIPDNN_ATTR_ENGINECFG_DESELECT_NUMERICAL_NOTES_EXT, &notes.deselected),
        ] {
            if !notes.is_empty() {
                let numbers: Vec<i32> = notes.iter().map(|note| note.raw()).collect();
                // SAFETY: NUMERICAL_NOTE elements are 32-bit enums.
                unsafe { descriptor.set_array(attribute, HIPDNN_TYPE_NUMERICAL_NOTE, &numbers) }?;
            }
        }
        descriptor.finalize("configuring the engine")?;
        Ok(Self { descriptor })
    }

    /// The descriptor.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The workspace size in bytes that the engine expects its plan to need, at most.
    pub fn workspace_size(&self) -> Result<i64> {
        self.descriptor.i64(HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE)
    }
}
