//! The knobs of the engine.

use hipdnn_plugin_sdk::wire::{Knob, KnobSetting, WORKSPACE_SIZE_LIMIT, positive_setting};

/// The library to use: 0 for the first that can compute the chain, 1 for hipBLASLt, 2 for rocBLAS.
pub const LIBRARY: &str = "hipblaslt.library";
/// The index in hipBLASLt's list of algorithms, best first.
pub const ALGORITHM: &str = "hipblaslt.algorithm";

/// Default limit of hipBLASLt's workspace, as in AMD's own programs.
const DEFAULT_LIMIT: usize = 32 << 20;

/// Number of algorithms requested.
pub const ALGORITHMS: usize = 16;

/// A library that computes matmuls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Library {
    /// hipBLASLt.
    HipblasLt,
    /// rocBLAS.
    Rocblas,
}

/// The options of one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The only library to use, if one was chosen.
    pub library: Option<Library>,
    /// The index of hipBLASLt's algorithm.
    pub algorithm: usize,
    /// The workspace limit of a call in bytes.
    pub workspace_size_limit: usize,
}

/// The knobs that the engine publishes.
pub fn knobs() -> Vec<Knob> {
    vec![
        Knob::int(
            WORKSPACE_SIZE_LIMIT,
            "the most bytes of workspace of one product; 0 for 32 MiB",
            0,
            0,
            i64::MAX,
        ),
        Knob::one_of_ints(
            LIBRARY,
            "what computes: 0 the first that can, 1 hipBLASLt, 2 rocBLAS",
            0,
            &[0, 1, 2],
        ),
        Knob::int(
            ALGORITHM,
            "the place in hipBLASLt's list of algorithms, the best first",
            0,
            0,
            ALGORITHMS as i64 - 1,
        ),
    ]
}

impl Options {
    /// The options selected by knob settings.
    pub fn of(settings: &[KnobSetting]) -> Self {
        Self {
            library: match positive_setting(settings, LIBRARY) {
                Some(1_i64) => Some(Library::HipblasLt),
                Some(2) => Some(Library::Rocblas),
                _ => None,
            },
            algorithm: positive_setting(settings, ALGORITHM).unwrap_or(0),
            workspace_size_limit: positive_setting(settings, WORKSPACE_SIZE_LIMIT).unwrap_or(DEFAULT_LIMIT),
        }
    }

    /// Whether a library may be used.
    pub fn allows(&self, library: Library) -> bool {
        self.library.is_none_or(|only| only == library)
    }
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
        let default = Options::of(&[]);
        assert_eq!((default.algorithm, default.workspace_size_limit), (0, 32 << 20));
        assert!(default.allows(Library::HipblasLt) && default.allows(Library::Rocblas));
        let chosen =
            Options::of(&[setting(LIBRARY, 2), setting(ALGORITHM, 3), setting(WORKSPACE_SIZE_LIMIT, 4096)]);
        assert_eq!((chosen.algorithm, chosen.workspace_size_limit), (3, 4096));
        assert!(!chosen.allows(Library::HipblasLt) && chosen.allows(Library::Rocblas));
    }

    #[test]
    fn the_knobs_are_valid_and_know_their_values() {
        let knobs = knobs();
        for knob in &knobs {
            knob.verify().unwrap();
        }
        for (id, value) in [(LIBRARY, 3), (ALGORITHM, 16), (WORKSPACE_SIZE_LIMIT, -1), ("hipblaslt.other", 0)]
        {
            assert!(check_settings(&knobs, &[setting(id, value)]).is_err(), "{id}");
        }
    }
}
