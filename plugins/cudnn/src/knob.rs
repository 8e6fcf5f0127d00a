//! The knobs of the engines.

use hipdnn_plugin_sdk::numerics::{NoteKnob, note};
use hipdnn_plugin_sdk::wire::{Knob, KnobSetting, WORKSPACE_SIZE_LIMIT, positive_setting};

/// The engine that passes graphs to cuDNN, whole if possible.
pub const CUDNN_ENGINE: &str = "CUDNN_ENGINE";
/// The engine that computes matmuls with cuBLASLt.
pub const CUBLASLT_ENGINE: &str = "CUBLASLT_ENGINE";

/// The index of [`CUDNN_ENGINE`] among the engines.
pub const CUDNN: usize = 0;
/// The index of [`CUBLASLT_ENGINE`] among the engines.
pub const LT: usize = 1;

/// Whether algorithms are timed when a plan is made.
pub const BENCHMARKING: &str = "global.benchmarking";
/// The index in cuDNN's list of usable configurations, best first.
pub const CUDNN_ENGINE_CHOICE: &str = "cudnn.engine";
/// Whether cuDNN may round floats to TF32 in matmuls and convolutions.
pub const CUDNN_TF32: &str = "cudnn.tf32";
/// Whether results must be equal from run to run.
pub const CUDNN_DETERMINISTIC: &str = "cudnn.deterministic";
/// The index in cuBLASLt's list of algorithms, best first.
pub const LT_ALGORITHM: &str = "cublaslt.algorithm";
/// Whether cuBLASLt may round floats to TF32.
pub const LT_TF32: &str = "cublaslt.tf32";

/// Default limit of cuBLASLt's workspace, as NVIDIA recommends for recent devices.
const LT_LIMIT: usize = 32 << 20;

/// Number of algorithms requested from cuBLASLt.
pub const ALGORITHMS: usize = 16;

/// Maximum number of cuDNN plans that are timed.
pub const TIMED_PLANS: usize = 10;

/// The options of one plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// The index of the configuration or algorithm.
    pub engine: usize,
    /// The limit for workspace in bytes, if any.
    pub workspace_size_limit: Option<usize>,
    /// Whether floats may be rounded to TF32.
    pub tf32: bool,
    /// Whether equal inputs must yield equal bits.
    pub deterministic: bool,
    /// Whether algorithms are timed.
    pub benchmarking: bool,
}

fn limit(description: &'static str) -> Knob {
    Knob::int(WORKSPACE_SIZE_LIMIT, description, 0, 0, i64::MAX)
}

/// The knobs of the cuDNN engine.
pub fn cudnn_knobs() -> Vec<Knob> {
    vec![
        limit("the most bytes of workspace of cuDNN's plan; 0 for any number"),
        Knob::flag(BENCHMARKING, "times cuDNN's plans when the plan is made", false),
        Knob::int(CUDNN_ENGINE_CHOICE, "the place in cuDNN's list of plans, the best first", 0, 0, 255),
        Knob::flag(CUDNN_TF32, "lets cuDNN round floats to TF32 in products and convolutions", false),
        Knob::flag(CUDNN_DETERMINISTIC, "takes engines whose results do not change from run to run", false),
    ]
}

/// The knobs of the cuBLASLt engine.
pub fn lt_knobs() -> Vec<Knob> {
    vec![
        limit("the most bytes of workspace of one product; 0 for 32 MiB"),
        Knob::flag(BENCHMARKING, "times the algorithms when the plan is made", false),
        Knob::int(
            LT_ALGORITHM,
            "the place in cuBLASLt's list of algorithms, the best first",
            0,
            0,
            ALGORITHMS as i64 - 1,
        ),
        Knob::flag(LT_TF32, "lets cuBLASLt round floats to TF32", false),
    ]
}

/// The settings of an engine's knobs that add numerical notes or take them away.
pub fn note_knobs(engine: usize) -> Vec<NoteKnob> {
    let tf32 = if engine == LT { LT_TF32 } else { CUDNN_TF32 };
    let mut knobs = vec![NoteKnob::removes(note::NONDETERMINISTIC, BENCHMARKING, 0)];
    if engine != LT {
        knobs.insert(0, NoteKnob::removes(note::NONDETERMINISTIC, CUDNN_DETERMINISTIC, 1));
    }
    for note in [note::DOWN_CONVERT_INPUTS, note::TENSOR_CORE] {
        knobs.extend([NoteKnob::adds(note, tf32, 1), NoteKnob::removes(note, tf32, 0)]);
    }
    knobs
}

impl Options {
    /// The options selected by knob settings.
    pub fn of_cudnn(settings: &[KnobSetting]) -> Self {
        Self {
            engine: positive_setting(settings, CUDNN_ENGINE_CHOICE).unwrap_or(0),
            workspace_size_limit: positive_setting(settings, WORKSPACE_SIZE_LIMIT),
            tf32: is_set(settings, CUDNN_TF32),
            deterministic: is_set(settings, CUDNN_DETERMINISTIC),
            benchmarking: is_set(settings, BENCHMARKING),
        }
    }

    /// The options selected by knob settings.
    pub fn of_lt(settings: &[KnobSetting]) -> Self {
        Self {
            engine: positive_setting(settings, LT_ALGORITHM).unwrap_or(0),
            workspace_size_limit: Some(positive_setting(settings, WORKSPACE_SIZE_LIMIT).unwrap_or(LT_LIMIT)),
            tf32: is_set(settings, LT_TF32),
            deterministic: false,
            benchmarking: is_set(settings, BENCHMARKING),
        }
    }
}

fn is_set(settings: &[KnobSetting], id: &str) -> bool {
    positive_setting::<i64>(settings, id).is_some()
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::wire::{KnobValue, check_settings};

    use super::*;

    fn setting(knob_id: &str, value: i64) -> KnobSetting {
        KnobSetting { knob_id: knob_id.to_owned(), value: KnobValue::Int(value) }
    }

    #[test]
    fn settings_become_options() {
        assert_eq!(Options::of_cudnn(&[]), Options::default());
        let chosen = Options::of_cudnn(&[
            setting(CUDNN_ENGINE_CHOICE, 3),
            setting(CUDNN_TF32, 1),
            setting(BENCHMARKING, 1),
            setting(WORKSPACE_SIZE_LIMIT, 9),
        ]);
        assert_eq!((chosen.engine, chosen.tf32, chosen.workspace_size_limit), (3, true, Some(9)));
        assert!(chosen.benchmarking);
        assert_eq!(Options::of_lt(&[]).workspace_size_limit, Some(32 << 20));
        assert!(Options::of_lt(&[setting(BENCHMARKING, 1)]).benchmarking);
    }

    #[test]
    fn the_knobs_are_valid_and_know_their_values() {
        for knobs in [cudnn_knobs(), lt_knobs()] {
            for knob in &knobs {
                knob.verify().unwrap();
            }
            assert!(check_settings(&knobs, &[setting(WORKSPACE_SIZE_LIMIT, -1)]).is_err());
        }
        assert!(check_settings(&lt_knobs(), &[setting(LT_ALGORITHM, 16)]).is_err());
        assert!(check_settings(&cudnn_knobs(), &[setting(CUDNN_TF32, 2)]).is_err());
    }
}
