//! What an engine may do to numbers, as its plugin says, and the knob settings for users who select or deselect notes.

use std::ffi::c_int;

use hipdnn_plugin_sdk::ffi::{HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, hipdnnPluginConstData_t as ConstData};
use hipdnn_plugin_sdk::numerics::{NumericalNote, name_of};
use hipdnn_plugin_sdk::wire::{KnobSetting, KnobValue};
use serde_json::Value;

use super::asking::Asking;
use super::context::text_in_two_calls;
use super::raw_context::opened;
use super::{EngineRef, Session};
use crate::ffi::raw::CEnum;
use crate::graph::FrozenGraph;
use crate::status::{Error, Result};

/// What an engine may do to numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineNumerics {
    /// Its notes, in the order of their numbers.
    pub notes: Vec<c_int>,
    /// The knob settings that change them.
    knobs: Vec<NoteKnob>,
}

/// A setting of a knob that adds a note, or takes it away.
#[derive(Clone, Debug, PartialEq)]
struct NoteKnob {
    note: c_int,
    knob: String,
    value: i64,
    adds: bool,
}

/// The notes that a user wants and does not want.
#[derive(Clone, Debug, Default)]
pub struct WantedNotes {
    /// Notes that an engine must have.
    pub selected: Vec<c_int>,
    /// Notes that an engine must not have.
    pub deselected: Vec<c_int>,
}

/// Asks a plugin what its engine may do to the numbers of a graph with a configuration. None if it does not say.
///
/// # Errors
/// PLUGIN_ERROR when the plugin fails or its answer cannot be read.
pub fn ask(
    session: &Session,
    engine: EngineRef,
    graph: &FrozenGraph,
    config: &[u8],
) -> Result<Option<EngineNumerics>> {
    let (plugin, handle) = opened(session, engine)?;
    let graph = graph.bytes(plugin.generation.layout)?;
    let [config, graph] =
        [config, graph].map(|bytes| ConstData { ptr: bytes.as_ptr().cast(), size: bytes.len() });
    let _asking = Asking::begin();
    let text = text_in_two_calls(plugin, "describe numerics", |room, size, json| {
        let (config, graph) = (&raw const config, &raw const graph);
        // SAFETY: the handle is the plugin's own, the bytes outlive the call, and the text has `room` bytes.
        unsafe { plugin.api.describe_numerics(handle, config, graph, room, size, json) }
            .filter(|status| *status != HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE)
    })?;
    let read = |text: String| {
        read(&text).ok_or_else(|| {
            Error::plugin(format!(
                "plugin {} is defective: its description of numerics is {text:?}",
                plugin.name
            ))
        })
    };
    text.map(read).transpose()
}

/// The error that an engine does not say what it does to numbers.
pub fn unsaid(engine: &str) -> Error {
    Error::not_supported(format!("engine {engine} does not say what it does to numbers"))
}

/// Reads a plugin's answer. Notes that this library does not know are ignored, as the plugin may be newer.
fn read(text: &str) -> Option<EngineNumerics> {
    let answer: Value = serde_json::from_str(text).ok()?;
    let list = |value: Option<&Value>| match value {
        None => Some(Vec::new()),
        Some(value) => value.as_array().cloned(),
    };
    let mut notes = Vec::new();
    for note in list(answer.get("numerics")?.get("notes"))? {
        notes.extend(number_of(note.as_str()?));
    }
    notes.sort_unstable();
    notes.dedup();
    let mut knobs = Vec::new();
    for knob in list(answer.get("knobs"))? {
        let Some(note) = number_of(knob.get("note")?.as_str()?) else { continue };
        knobs.push(NoteKnob {
            note,
            knob: knob.get("knob")?.as_str()?.to_owned(),
            value: knob.get("value")?.as_i64()?,
            adds: knob.get("adds")?.as_bool()?,
        });
    }
    Some(EngineNumerics { notes, knobs })
}

fn number_of(name: &str) -> Option<c_int> {
    NumericalNote::all().iter().find(|note| name_of(**note) == name).map(|note| note.raw())
}

/// A note's name in messages.
fn word(note: c_int) -> String {
    NumericalNote::from_raw(note).map_or_else(|| note.to_string(), |note| name_of(note).to_owned())
}

impl WantedNotes {
    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.selected.is_empty() && self.deselected.is_empty()
    }

    /// The notes that an engine lacks or has against the wish, and whether they should be there.
    fn unmet(&self, numerics: &EngineNumerics) -> Vec<(c_int, bool)> {
        let has = |note: &c_int| numerics.notes.contains(note);
        let missing = self.selected.iter().filter(|note| !has(note)).map(|note| (*note, true));
        missing.chain(self.deselected.iter().filter(|note| has(note)).map(|note| (*note, false))).collect()
    }

    /// Adds the knob settings that give an engine the notes. Settings of the user stay as they are.
    ///
    /// # Errors
    /// NOT_SUPPORTED when the engine cannot have these notes, with the reason; what `ask` answers.
    pub fn settle(
        &self,
        engine: &str,
        settings: &mut Vec<KnobSetting>,
        ask: impl Fn(&[KnobSetting]) -> Result<Option<EngineNumerics>>,
    ) -> Result<()> {
        let of_user = settings.len();
        let mut numerics = ask(settings)?.ok_or_else(|| unsaid(engine))?;
        let unmet = self.unmet(&numerics);
        for (note, adds) in &unmet {
            let matching = numerics.knobs.iter().filter(|knob| knob.note == *note && knob.adds == *adds);
            for NoteKnob { knob, value, .. } in matching {
                if !settings.iter().any(|setting| setting.knob_id == *knob) {
                    settings.push(KnobSetting { knob_id: knob.clone(), value: KnobValue::Int(*value) });
                }
            }
        }
        if settings.len() > of_user {
            numerics = ask(settings)?.ok_or_else(|| unsaid(engine))?;
        }
        match self.unmet(&numerics).first() {
            None => Ok(()),
            Some((note, wanted)) => {
                let name = word(*note);
                let fault = match wanted {
                    true => format!("does not have the note {name}, which is selected"),
                    false => format!("has the note {name}, which is deselected"),
                };
                let knob = numerics.knobs.iter().find(|knob| knob.note == *note && knob.adds == *wanted);
                let hint = match knob {
                    Some(NoteKnob { knob, value, .. }) if settings.iter().any(|own| own.knob_id == *knob) => {
                        format!(" (knob {knob:?} = {value} would change that)")
                    }
                    _ => String::new(),
                };
                Err(Error::not_supported(format!("engine {engine} {fault}{hint}")))
            }
        }
    }
}

#[cfg(test)]
impl EngineNumerics {
    /// These notes, which no knob changes.
    pub fn with(notes: Vec<c_int>) -> Self {
        Self { notes, knobs: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINOGRAD: c_int = NumericalNote::HIPDNN_NUMERICAL_NOTE_WINOGRAD as c_int;
    const TENSOR_CORE: c_int = NumericalNote::HIPDNN_NUMERICAL_NOTE_TENSOR_CORE as c_int;
    const FLUSH: c_int = NumericalNote::HIPDNN_NUMERICAL_NOTE_FLUSH_SUBNORMALS_EXT as c_int;

    fn set(knob_id: &str, value: i64) -> KnobSetting {
        KnobSetting { knob_id: knob_id.to_owned(), value: KnobValue::Int(value) }
    }

    /// An engine with Winograd unless a knob is 0, matrix instructions if another is 1, and flushes always.
    fn engine(settings: &[KnobSetting]) -> Result<Option<EngineNumerics>> {
        let mut notes = vec![FLUSH];
        notes.extend((!settings.contains(&set("winograd", 0))).then_some(WINOGRAD));
        notes.extend(settings.contains(&set("tiles", 1)).then_some(TENSOR_CORE));
        let knob = |note, knob: &str, value, adds| NoteKnob { note, knob: knob.to_owned(), value, adds };
        let knobs = vec![knob(WINOGRAD, "winograd", 0, false), knob(TENSOR_CORE, "tiles", 1, true)];
        Ok(Some(EngineNumerics { notes, knobs }))
    }

    fn settle(selected: &[c_int], deselected: &[c_int], own: &[KnobSetting]) -> Result<Vec<KnobSetting>> {
        let wanted = WantedNotes { selected: selected.to_vec(), deselected: deselected.to_vec() };
        let mut settings = own.to_vec();
        wanted.settle("E", &mut settings, engine).map(|()| settings)
    }

    #[test]
    fn knobs_are_set_where_they_are_needed() {
        assert_eq!(settle(&[], &[WINOGRAD], &[]).unwrap(), [set("winograd", 0)]);
        assert_eq!(settle(&[TENSOR_CORE], &[], &[set("x", 2)]).unwrap(), [set("x", 2), set("tiles", 1)]);
        assert_eq!(settle(&[WINOGRAD, FLUSH], &[TENSOR_CORE], &[]).unwrap(), []);
        assert_eq!(settle(&[], &[WINOGRAD], &[set("winograd", 0)]).unwrap(), [set("winograd", 0)]);
    }

    #[test]
    fn an_engine_without_a_knob_is_refused_with_the_note() {
        let fault = |selected: &[c_int], deselected: &[c_int], own: &[KnobSetting]| {
            settle(selected, deselected, own).unwrap_err().message.to_string()
        };
        assert_eq!(fault(&[], &[FLUSH], &[]), "engine E has the note FLUSH_SUBNORMALS, which is deselected");
        assert_eq!(
            fault(&[], &[WINOGRAD], &[set("winograd", 1)]),
            "engine E has the note WINOGRAD, which is deselected (knob \"winograd\" = 0 would change that)"
        );
        assert_eq!(fault(&[3], &[], &[]), "engine E does not have the note FFT, which is selected");
        let unsaid = WantedNotes { selected: vec![], deselected: vec![FLUSH] };
        let error = unsaid.settle("E", &mut Vec::new(), |_| Ok(None)).unwrap_err();
        assert_eq!(error.message, "engine E does not say what it does to numbers");
    }

    #[test]
    fn answers_are_read_and_defective_ones_are_not() {
        let text = r#"{"numerics":{"notes":["WINOGRAD","NEWER","TENSOR_CORE","WINOGRAD"]},
            "knobs":[{"note":"WINOGRAD","knob":"w","value":0,"adds":false},{"note":"NEWER"}]}"#;
        let knobs = vec![NoteKnob { note: WINOGRAD, knob: "w".into(), value: 0, adds: false }];
        assert_eq!(read(text), Some(EngineNumerics { notes: vec![TENSOR_CORE, WINOGRAD], knobs }));
        assert_eq!(read(r#"{"numerics":{}}"#), Some(EngineNumerics::default()));
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"numerics":{"notes":1}}"#,
            r#"{"numerics":{"notes":[5]}}"#,
            r#"{"numerics":{},"knobs":[{"note":"WINOGRAD","knob":"w","value":0.5,"adds":true}]}"#,
            r#"{"numerics":{},"knobs":[{"note":"WINOGRAD","knob":"w","value":1}]}"#,
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
