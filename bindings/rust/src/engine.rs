//! An engine for a graph, and its configuration.

use crate::constants::{
    BEHAVIOR_NOTES, HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX,
    HIPDNN_ATTR_ENGINE_KNOB_INFO, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, HIPDNN_ATTR_ENGINECFG_ENGINE,
    HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_BACKEND_ENGINE_DESCRIPTOR,
    HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR, HIPDNN_TYPE_BEHAVIOR_NOTE,
};
use crate::error::Result;
use crate::{Descriptor, Knob, KnobSetting, OperationGraph};

/// One engine, for one graph.
pub struct Engine {
    descriptor: Descriptor,
}

// SAFETY: an engine is finalized when it is made, and what is finalized does not change any more.
unsafe impl Sync for Engine {}

impl Engine {
    /// The engine with an id, if it can run the graph.
    pub fn new(graph: &OperationGraph, id: i64) -> Result<Self> {
        let descriptor = Descriptor::new(graph.descriptor().backend(), HIPDNN_BACKEND_ENGINE_DESCRIPTOR)?;
        descriptor.set_descriptors(HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, &[graph.descriptor()])?;
        descriptor.set_i64s(HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, &[id])?;
        descriptor.finalize("choosing the engine")?;
        Ok(Self { descriptor })
    }

    /// What can be tuned.
    pub fn knobs(&self) -> Result<Vec<Knob>> {
        let infos = self.descriptor.descriptors(HIPDNN_ATTR_ENGINE_KNOB_INFO)?;
        infos.iter().map(Knob::read).collect()
    }

    /// What is to be known of its behavior.
    pub fn behavior_notes(&self) -> Result<Vec<String>> {
        // SAFETY: BEHAVIOR_NOTE elements are enums of 32 bits.
        let notes: Vec<i32> =
            unsafe { self.descriptor.get_all(HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_TYPE_BEHAVIOR_NOTE) }?;
        let name = |note: &i32| usize::try_from(*note).ok().and_then(|note| BEHAVIOR_NOTES.get(note));
        Ok(notes
            .iter()
            .map(|note| name(note).map_or_else(|| format!("note {note}"), |name| (*name).to_owned()))
            .collect())
    }
}

/// An engine with its knobs set.
pub struct EngineConfig {
    descriptor: Descriptor,
}

// SAFETY: as for the engine.
unsafe impl Sync for EngineConfig {}

impl EngineConfig {
    /// Sets the knobs of an engine; those that are not set keep their defaults.
    pub fn new(engine: &Engine, settings: &[KnobSetting]) -> Result<Self> {
        let backend = engine.descriptor.backend();
        let descriptor = Descriptor::new(backend, HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR)?;
        descriptor.set_descriptors(HIPDNN_ATTR_ENGINECFG_ENGINE, &[&engine.descriptor])?;
        if !settings.is_empty() {
            let choices =
                settings.iter().map(|setting| setting.choice(backend)).collect::<Result<Vec<_>>>()?;
            let choices: Vec<&Descriptor> = choices.iter().collect();
            descriptor.set_descriptors(HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, &choices)?;
        }
        descriptor.finalize("configuring the engine")?;
        Ok(Self { descriptor })
    }

    /// The descriptor.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }
}
