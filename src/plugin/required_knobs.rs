//! Knobs that the environment turns on in every plan.

use std::ffi::c_int;

use hipdnn_plugin_sdk::numerics::NumericalNote;
use hipdnn_plugin_sdk::wire::{Knob, KnobSetting};

use super::numerics::EngineNumerics;
use crate::lock::OnceLock;
use crate::log;
use crate::status::{Error, Result};

/// A knob that a variable turns on.
struct Switch {
    variable: &'static str,
    knob: &'static str,
    /// The note that breaks the variable's promise: an engine that may have it and lacks the knob is left out.
    broken_by: Option<c_int>,
}

const BATCH_DEPENDENT: c_int = NumericalNote::HIPDNN_NUMERICAL_NOTE_BATCH_DEPENDENT_EXT as c_int;

/// The first is a promise about results; an engine without the other's knob computes subnormal numbers exactly.
const SWITCHES: [Switch; 2] = [
    Switch { variable: "HIPDNN_BATCH_INVARIANT", knob: "batch_invariant", broken_by: Some(BATCH_DEPENDENT) },
    Switch { variable: "HIPDNN_FLUSH_SUBNORMALS", knob: "flush_subnormals", broken_by: None },
];

/// The variables that are on. Read once.
fn on() -> &'static [&'static Switch] {
    static ON: OnceLock<Vec<&'static Switch>> = OnceLock::new();
    ON.get_or_init(|| SWITCHES.iter().filter(|switch| is_on(switch.variable)).collect())
}

fn is_on(variable: &str) -> bool {
    match std::env::var_os(variable).unwrap_or_default().to_str().map(str::trim) {
        Some("1") => true,
        Some("" | "0") => false,
        other => {
            log::warn(|| {
                format!("{variable} is {:?}, expected 0 or 1; it counts as 0", other.unwrap_or("not text"))
            });
            false
        }
    }
}

/// Whether an engine can lack a knob that it must have.
pub fn are_required() -> bool {
    on().iter().any(|switch| switch.broken_by.is_some())
}

/// Why an engine with these knobs is left out, if it is. `numerics` asks it what it does to numbers.
pub fn reason_left_out(
    knobs: &[Knob],
    numerics: impl Fn() -> Result<Option<EngineNumerics>>,
) -> Result<Option<String>> {
    first_broken(on(), knobs, numerics)
}

/// Why an engine is left out that fails when it is asked for its knobs, or for what it does to numbers.
pub fn reason_unknown(error: &Error) -> String {
    let asks = on().iter().find(|switch| switch.broken_by.is_some()).map_or("", |switch| switch.variable);
    format!("it does not say whether it keeps the promise of {asks}=1: {}", error.message)
}

fn first_broken(
    on: &[&Switch],
    knobs: &[Knob],
    numerics: impl Fn() -> Result<Option<EngineNumerics>>,
) -> Result<Option<String>> {
    for Switch { variable, knob, broken_by } in on {
        let Some(note) = broken_by.filter(|_| !has(knobs, knob)) else { continue };
        // An engine that does not say what it does may do anything.
        if numerics()?.is_none_or(|numerics| numerics.notes.contains(&note)) {
            return Ok(Some(format!("it has no knob \"{knob}\", which {variable}=1 asks for")));
        }
    }
    Ok(None)
}

/// The settings that the environment adds to those of a program, for an engine with these knobs. The program's own settings of
/// these knobs count.
#[inline]
pub fn added(knobs: &[Knob], chosen: impl FnOnce() -> Vec<KnobSetting>) -> Vec<KnobSetting> {
    match on() {
        [] => Vec::new(),
        on => added_by(on, knobs, &chosen()),
    }
}

#[cold]
fn added_by(on: &[&Switch], knobs: &[Knob], chosen: &[KnobSetting]) -> Vec<KnobSetting> {
    let is_free = |switch: &&&Switch| {
        has(knobs, switch.knob) && !chosen.iter().any(|setting| setting.knob_id == switch.knob)
    };
    let setting = |switch: &&Switch| KnobSetting { knob_id: switch.knob.to_owned(), value: 1_i64.into() };
    on.iter().filter(is_free).map(setting).collect()
}

fn has(knobs: &[Knob], id: &str) -> bool {
    knobs.iter().any(|knob| knob.knob_id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_without_the_knob_is_left_out_unless_it_says_that_it_keeps_the_promise() {
        let on = [&SWITCHES[0], &SWITCHES[1]];
        let reason = |knobs: &[Knob], notes: Option<Vec<c_int>>| {
            let numerics = || Ok(notes.clone().map(EngineNumerics::with));
            first_broken(&on, knobs, numerics).unwrap()
        };
        let knob = [Knob::flag("batch_invariant", "", false)];
        let why = "it has no knob \"batch_invariant\", which HIPDNN_BATCH_INVARIANT=1 asks for";
        assert_eq!(reason(&knob, None), None);
        assert_eq!(reason(&[], None).as_deref(), Some(why));
        assert_eq!(reason(&[], Some(vec![BATCH_DEPENDENT])).as_deref(), Some(why));
        assert_eq!(reason(&[], Some(vec![])), None);
    }

    #[test]
    fn a_programs_own_setting_counts_and_other_engines_get_none() {
        let on = [&SWITCHES[0], &SWITCHES[1]];
        let knobs = [Knob::flag("batch_invariant", "", false), Knob::flag("speed", "", false)];
        let added = |knobs: &[Knob], chosen: &[KnobSetting]| {
            let settings = added_by(&on, knobs, chosen);
            settings.into_iter().map(|setting| setting.knob_id).collect::<Vec<_>>()
        };
        assert_eq!(added(&knobs, &[]), ["batch_invariant"]);
        let own = KnobSetting { knob_id: "batch_invariant".to_owned(), value: 0_i64.into() };
        assert!(added(&knobs, &[own]).is_empty());
        assert!(added(&knobs[1..], &[]).is_empty());
    }
}
