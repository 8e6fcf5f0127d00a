//! Knobs that the environment turns on in every plan.

use hipdnn_plugin_sdk::wire::{Knob, KnobSetting};

use crate::lock::OnceLock;
use crate::log;

/// A knob that a variable turns on.
struct Switch {
    variable: &'static str,
    knob: &'static str,
    /// Whether engines without the knob are left out.
    is_promise: bool,
}

/// A promise about results needs the knob; an engine without the other one computes subnormal numbers exactly.
const SWITCHES: [Switch; 2] = [
    Switch { variable: "HIPDNN_BATCH_INVARIANT", knob: "batch_invariant", is_promise: true },
    Switch { variable: "HIPDNN_FLUSH_SUBNORMALS", knob: "flush_subnormals", is_promise: false },
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
    on().iter().any(|switch| switch.is_promise)
}

/// Why an engine with these knobs is left out, if it is.
pub fn reason_left_out(knobs: &[Knob]) -> Option<String> {
    let lacks = |switch: &&&Switch| switch.is_promise && !has(knobs, switch.knob);
    let Switch { variable, knob, .. } = on().iter().find(lacks)?;
    Some(format!("it has no knob \"{knob}\", which {variable}=1 asks for"))
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
