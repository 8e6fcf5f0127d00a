//! What a caller can choose of a plan.

use std::ffi::c_int;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::wire::{Knob, KnobConstraint, KnobSetting, KnobValue};

/// Whether kernels are timed and tuned when a plan is made.
pub const BENCHMARKING: &str = "global.benchmarking";
/// The most bytes of workspace that a solution may need; 0 for any number.
pub const WORKSPACE_SIZE_LIMIT: &str = "global.workspace_size_limit";
/// How MIOpen looks for solutions, in its own numbers; 0 for MIOpen's default.
pub const FIND_MODE: &str = "miopen.find_mode";

/// MIOpen's find modes: normal, fast, hybrid and dynamic hybrid.
const FIND_MODES: [i64; 5] = [0, 1, 2, 3, 5];

/// The choices for one plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Whether equal inputs have to give equal bits.
    pub deterministic: bool,
    /// Whether kernels are timed and tuned.
    pub benchmarking: bool,
    /// The most bytes of workspace of a step.
    pub workspace_size_limit: Option<usize>,
    /// MIOpen's find mode.
    pub find_mode: Option<c_int>,
}

/// The knobs that the engines publish.
pub fn knobs() -> Vec<Knob> {
    let int = |knob_id: &str, description: &str, min, max, valid: &[i64]| Knob {
        knob_id: knob_id.to_owned(),
        description: description.to_owned(),
        default_value: KnobValue::Int(0),
        constraint: Some(KnobConstraint::Int { min, max, step: 1, valid: valid.to_vec() }),
        deprecated: false,
    };
    vec![
        int(BENCHMARKING, "1 has MIOpen time and tune kernels when the plan is made", 0, 1, &[]),
        int(
            WORKSPACE_SIZE_LIMIT,
            "the most bytes of workspace of one operation; 0 for any number",
            0,
            i64::MAX,
            &[],
        ),
        int(
            FIND_MODE,
            "how MIOpen looks for solutions: 1 normal, 2 fast, 3 hybrid, 5 dynamic hybrid; 0 for its default",
            0,
            5,
            &FIND_MODES,
        ),
    ]
}

impl Options {
    /// The choices that knob settings make. `HIPDNN_FORCE_BENCHMARKING` overrides the knob.
    ///
    /// # Errors
    /// When a knob or its value is unknown.
    pub fn of(deterministic: bool, settings: &[KnobSetting]) -> Result<Self, PluginError> {
        let mut options = Self { deterministic, ..Self::default() };
        for setting in settings {
            let expected = |what: &str| {
                PluginError::invalid_value(format!(
                    "knob \"{}\" is {:?}, expected {what}",
                    setting.knob_id, setting.value
                ))
            };
            let KnobValue::Int(value) = setting.value else { return Err(expected("an integer")) };
            match setting.knob_id.as_str() {
                BENCHMARKING => match value {
                    0 | 1 => options.benchmarking = value == 1,
                    _ => return Err(expected("0 or 1")),
                },
                WORKSPACE_SIZE_LIMIT => {
                    let bytes = usize::try_from(value).map_err(|_| expected("at least 0"))?;
                    options.workspace_size_limit = (bytes > 0).then_some(bytes);
                }
                FIND_MODE if FIND_MODES.contains(&value) => {
                    options.find_mode = c_int::try_from(value).ok().filter(|mode| *mode > 0);
                }
                FIND_MODE => return Err(expected("0, 1, 2, 3 or 5")),
                other => {
                    return Err(PluginError::invalid_value(format!(
                        "knob \"{other}\" is not one of {BENCHMARKING}, {WORKSPACE_SIZE_LIMIT}, {FIND_MODE}"
                    )));
                }
            }
        }
        if let Some(forced) = forced_benchmarking() {
            options.benchmarking = forced;
        }
        Ok(options)
    }
}

/// What the environment says of benchmarking, if anything.
fn forced_benchmarking() -> Option<bool> {
    let value = std::env::var("HIPDNN_FORCE_BENCHMARKING").ok()?;
    let truthy = ["1", "true", "on", "yes", "enable", "enabled"];
    Some(truthy.iter().any(|word| value.eq_ignore_ascii_case(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(knob_id: &str, value: KnobValue) -> KnobSetting {
        KnobSetting { knob_id: knob_id.to_owned(), value }
    }

    #[test]
    fn settings_become_options() {
        let settings = [
            setting(BENCHMARKING, KnobValue::Int(1)),
            setting(WORKSPACE_SIZE_LIMIT, KnobValue::Int(4096)),
            setting(FIND_MODE, KnobValue::Int(2)),
        ];
        let options = Options::of(true, &settings).unwrap();
        let expected = Options {
            deterministic: true,
            benchmarking: true,
            workspace_size_limit: Some(4096),
            find_mode: Some(2),
        };
        assert_eq!(options, expected);
        assert_eq!(Options::of(false, &[]).unwrap(), Options::default());
    }

    #[test]
    fn wrong_settings_are_named() {
        for (knob, value, expected) in [
            (BENCHMARKING, KnobValue::Int(2), "expected 0 or 1"),
            (BENCHMARKING, KnobValue::Float(1.0), "expected an integer"),
            (WORKSPACE_SIZE_LIMIT, KnobValue::Int(-1), "expected at least 0"),
            (FIND_MODE, KnobValue::Int(4), "expected 0, 1, 2, 3 or 5"),
            ("speed", KnobValue::Int(1), "is not one of"),
        ] {
            let message = Options::of(false, &[setting(knob, value)]).unwrap_err().to_string();
            assert!(message.contains(knob) && message.contains(expected), "{message}");
        }
    }
}
