//! Knob settings, and their validation against an engine's knobs.

use std::collections::HashSet;

use crate::graph::GraphError;
use crate::wire::knob::{Knob, KnobSetting, KnobValue, MAX_KNOB_CHOICES, Quoted, SHOWN, check_knob_id};

/// Fails if a knob is set twice, or there are too many settings.
fn check_different(settings: &[KnobSetting]) -> Result<(), GraphError> {
    if settings.len() > MAX_KNOB_CHOICES {
        return Err(GraphError(format!(
            "{} knobs are set, expected at most {MAX_KNOB_CHOICES}",
            settings.len()
        )));
    }
    let mut seen = HashSet::with_capacity(settings.len());
    match settings.iter().find(|setting| !seen.insert(setting.knob_id.as_str())) {
        Some(twice) => {
            Err(GraphError(format!("knob {} is set twice, expected once", Quoted(&twice.knob_id))))
        }
        None => Ok(()),
    }
}

/// Fails if no engine could have these settings: a knob is set twice, or an id or a value has an impossible size.
pub(crate) fn check_possible(settings: &[KnobSetting]) -> Result<(), GraphError> {
    check_different(settings)?;
    settings.iter().try_for_each(|setting| {
        check_knob_id(&setting.knob_id)?;
        let about = |error: GraphError| GraphError(format!("knob {}: {error}", Quoted(&setting.knob_id)));
        setting.value.check_size().map_err(about)
    })
}

/// Fails if a setting is of none of these knobs, is outside the knob's limits, or is duplicated.
///
/// # Errors
/// The knob, its value, and what was expected.
pub fn check_settings(knobs: &[Knob], settings: &[KnobSetting]) -> Result<(), GraphError> {
    check_different(settings)?;
    settings.iter().try_for_each(|setting| match knob_of(setting, knobs) {
        Some(knob) => knob.check(&setting.value),
        None => Err(unknown_knob(setting, knobs)),
    })
}

/// Removes the settings of unknown knobs, and returns an error for each.
pub fn take_unknown(knobs: &[Knob], settings: &mut Vec<KnobSetting>) -> Vec<GraphError> {
    let unknown = settings.extract_if(.., |setting| knob_of(setting, knobs).is_none());
    unknown.map(|setting| unknown_knob(&setting, knobs)).collect()
}

fn knob_of<'a>(setting: &KnobSetting, knobs: &'a [Knob]) -> Option<&'a Knob> {
    knobs.iter().find(|knob| knob.knob_id == setting.knob_id)
}

/// The error for a setting of a knob that is not among these.
fn unknown_knob(setting: &KnobSetting, knobs: &[Knob]) -> GraphError {
    let mut known: Vec<String> =
        knobs.iter().take(SHOWN).map(|knob| Quoted(&knob.knob_id).to_string()).collect();
    if knobs.len() > SHOWN {
        known.push("...".to_owned());
    }
    let expected = match known.len() {
        0 => "none, as the engine has no knobs".to_owned(),
        1 => known.concat(),
        _ => format!("one of {}", known.join(", ")),
    };
    let id = Quoted(&setting.knob_id);
    GraphError(format!("knob {id} is set to {}, expected {expected}", setting.value))
}

/// The value that a knob is set to, if any.
pub fn setting<'a>(settings: &'a [KnobSetting], id: &str) -> Option<&'a KnobValue> {
    settings.iter().find(|setting| setting.knob_id == id).map(|setting| &setting.value)
}

/// The value that a knob is set to, if it is an integer.
pub fn int_setting(settings: &[KnobSetting], id: &str) -> Option<i64> {
    match setting(settings, id) {
        Some(KnobValue::Int(value)) => Some(*value),
        _ => None,
    }
}

/// The common knob that limits the bytes of workspace that one step may use; with 0 the engine decides.
pub const WORKSPACE_SIZE_LIMIT: &str = "global.workspace_size_limit";

/// The value that a knob is set to, if it is a positive integer.
pub fn positive_setting<T: TryFrom<i64>>(settings: &[KnobSetting], id: &str) -> Option<T> {
    int_setting(settings, id).filter(|value| *value > 0).and_then(|value| T::try_from(value).ok())
}
