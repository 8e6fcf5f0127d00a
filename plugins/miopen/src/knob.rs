//! The knobs of the engines.

use std::ffi::c_int;

use hipdnn_plugin_sdk::wire::{Knob, KnobSetting, WORKSPACE_SIZE_LIMIT, int_setting, positive_setting};

/// Whether kernels are timed and tuned when a plan is made.
pub const BENCHMARKING: &str = "global.benchmarking";
/// How MIOpen searches for solutions, by MIOpen's numbers; 0 for its default.
pub const FIND_MODE: &str = "miopen.find_mode";
/// Whether only kernels with reproducible results are used.
pub const DETERMINISTIC: &str = "miopen.deterministic";
/// Whether images are padded in the workspace if MIOpen cannot pad them.
pub const PAD_IN_WORKSPACE: &str = "miopen.pad_in_workspace";

/// MIOpen's find modes: normal, fast, hybrid and dynamic hybrid.
const FIND_MODES: [i64; 5] = [0, 1, 2, 3, 5];

/// The options of one plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Whether equal inputs must yield equal bits.
    pub deterministic: bool,
    /// Whether kernels are timed and tuned.
    pub benchmarking: bool,
    /// The workspace limit of a step in bytes.
    pub workspace_size_limit: Option<usize>,
    /// MIOpen's find mode.
    pub find_mode: Option<c_int>,
    /// Whether convolutions that MIOpen cannot pad are refused.
    pub keeps_padding: bool,
}

/// The knobs that the engines publish.
pub fn knobs() -> Vec<Knob> {
    vec![
        Knob::flag(BENCHMARKING, "has MIOpen time and tune kernels when the plan is made", false),
        Knob::int(
            WORKSPACE_SIZE_LIMIT,
            "the most bytes of workspace of one operation; 0 for any number",
            0,
            0,
            i64::MAX,
        ),
        Knob::one_of_ints(
            FIND_MODE,
            "how MIOpen looks for solutions: 1 normal, 2 fast, 3 hybrid, 5 dynamic hybrid; 0 for its default",
            0,
            &FIND_MODES,
        ),
        Knob::flag(
            DETERMINISTIC,
            "takes kernels whose results do not change from run to run, as MIOPEN_ENGINE_DETERMINISTIC always does",
            false,
        ),
        Knob::flag(
            PAD_IN_WORKSPACE,
            "pads images in the workspace for convolutions with asymmetric padding; 0 refuses these",
            true,
        ),
    ]
}

impl Options {
    /// The options selected by knob settings, for an engine that is always deterministic or not.
    /// `HIPDNN_FORCE_BENCHMARKING` overrides the knob.
    pub fn of(deterministic: bool, settings: &[KnobSetting]) -> Self {
        let forbidden = |id| int_setting(settings, id) == Some(0);
        let is_set = |id| positive_setting::<i64>(settings, id).is_some();
        Self {
            deterministic: deterministic || is_set(DETERMINISTIC),
            benchmarking: forced_benchmarking().unwrap_or_else(|| is_set(BENCHMARKING)),
            workspace_size_limit: positive_setting(settings, WORKSPACE_SIZE_LIMIT),
            find_mode: positive_setting(settings, FIND_MODE),
            keeps_padding: forbidden(PAD_IN_WORKSPACE),
        }
    }
}

/// Whether the environment turns benchmarking on or off, if at all.
fn forced_benchmarking() -> Option<bool> {
    let value = std::env::var("HIPDNN_FORCE_BENCHMARKING").ok()?;
    let truthy = ["1", "true", "on", "yes", "enable", "enabled"];
    Some(truthy.iter().any(|word| value.eq_ignore_ascii_case(word)))
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::wire::{KnobValue, check_settings};

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
            setting(PAD_IN_WORKSPACE, KnobValue::Int(0)),
        ];
        let expected = Options {
            deterministic: true,
            benchmarking: true,
            workspace_size_limit: Some(4096),
            find_mode: Some(2),
            keeps_padding: true,
        };
        assert_eq!(Options::of(true, &settings), expected);
        assert_eq!(Options::of(false, &[]), Options::default());
        let deterministic =
            |engine, knob| Options::of(engine, &[setting(DETERMINISTIC, KnobValue::Int(knob))]).deterministic;
        assert!(deterministic(false, 1) && deterministic(true, 0) && !deterministic(false, 0));
    }

    #[test]
    fn the_knobs_are_valid_and_know_their_values() {
        let knobs = knobs();
        for knob in &knobs {
            knob.verify().unwrap();
        }
        let wrong = [
            (BENCHMARKING, 2),
            (WORKSPACE_SIZE_LIMIT, -1),
            (FIND_MODE, 4),
            (DETERMINISTIC, 2),
            ("miopen.no_such_knob", 0),
        ];
        for (id, value) in wrong {
            assert!(check_settings(&knobs, &[setting(id, KnobValue::Int(value))]).is_err(), "{id}");
        }
    }
}
