//! KNOB_CHOICE: a knob and its chosen value.

use std::ffi::c_int;
use std::sync::Arc;

use hipdnn_plugin_sdk::wire::{KnobSetting, KnobValue};

use super::attribute::{Incoming, Outgoing, unknown};
use super::knob_info::{get_value, knob_id, value};
use super::{Descriptor, Draft, Lifecycle};
use crate::ffi::hipdnnBackendAttributeName_t as Name;
use crate::status::{Error, Result};

const KIND: &str = "knob choice";

const ID: c_int = Name::HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE as c_int;
const VALUE: c_int = Name::HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE as c_int;

/// An open choice. Finalizing the engine configuration checks whether the engine has the knob.
#[derive(Default)]
pub struct ChoiceDraft {
    id: Option<String>,
    value: Option<KnobValue>,
}

impl Draft for ChoiceDraft {
    type Frozen = Arc<KnobSetting>;

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        match incoming.name() {
            ID => self.id = Some(knob_id(incoming)?),
            VALUE => self.value = Some(value(incoming)?),
            other => return Err(unknown(KIND, other, "set")),
        }
        Ok(())
    }

    fn finalize(&mut self) -> Result<Self::Frozen> {
        match (&self.id, &self.value) {
            (Some(id), Some(value)) => {
                Ok(Arc::new(KnobSetting { knob_id: id.clone(), value: value.clone() }))
            }
            (None, _) => {
                Err(Error::bad_param("HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE of the knob choice is not set"))
            }
            (_, None) => {
                Err(Error::bad_param("HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE of the knob choice is not set"))
            }
        }
    }

    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        match outgoing.name() {
            ID => outgoing.text(&frozen.knob_id),
            VALUE => get_value(&frozen.value, outgoing),
            other => Err(unknown(KIND, other, "read")),
        }
    }
}

impl Descriptor {
    /// A finalized descriptor of a setting.
    pub(super) fn of_knob_choice(setting: KnobSetting) -> Self {
        Self::KnobChoice(Lifecycle::finalized(ChoiceDraft::default(), Arc::new(setting)))
    }
}
