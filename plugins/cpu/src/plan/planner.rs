//! The engines with their knobs: from the knobs that a caller set to a plan of a graph.

use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::{Knob, KnobSetting};
use hipdnn_plugin_sdk::{PluginError, wire};

use crate::plan::steps::Plan;
use crate::reference;
use crate::settings::{Algorithm, Settings};
use crate::threading::partition::Threads;

/// How many threads at a time a plan of the fast engine may use.
pub(crate) const THREADS: &str = "threads";

/// Whether a plan of the fast engine gives the same bits for any number of threads.
pub(crate) const DETERMINISTIC: &str = "deterministic";

/// Whether weights stay the same from one execution of a plan to the next.
pub(crate) const CONSTANT_WEIGHTS: &str = "constant_weights";

/// The form of convolutions: one of [`ALGORITHMS`].
pub(crate) const CONVOLUTION: &str = "convolution";

/// What the numbers of the knob mean.
pub(crate) const ALGORITHMS: [Algorithm; 7] = [
    Algorithm::Automatic,
    Algorithm::ImplicitGemm,
    Algorithm::Unrolled,
    Algorithm::Direct,
    Algorithm::Winograd,
    Algorithm::Winograd4,
    Algorithm::Im2col,
];

/// The most threads that can be asked for.
pub(crate) const MAX_THREADS: i64 = 256;

/// An engine with its knobs set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planner {
    /// `CPU_ENGINE`.
    Fast(Settings),
    /// `CPU_REFERENCE_ENGINE`.
    Reference,
}

impl Planner {
    /// The engine at a place in `EnginePlugin::ENGINES` with these settings, which were checked to be settings of its knobs.
    ///
    /// # Errors
    /// When the number of threads is negative.
    pub fn new(engine: usize, knobs: &[KnobSetting]) -> Result<Self, PluginError> {
        if engine != 0 {
            return Ok(Self::Reference);
        }
        let most = usize::try_from(wire::int_setting(knobs, THREADS).unwrap_or(0))
            .map_err(|_| PluginError::invalid_value("knob \"threads\" is negative, expected 0 or more"))?;
        let deterministic = wire::int_setting(knobs, DETERMINISTIC).unwrap_or(0) != 0;
        let constant_weights = wire::int_setting(knobs, CONSTANT_WEIGHTS).unwrap_or(0) != 0;
        let convolution =
            wire::int_setting(knobs, CONVOLUTION).and_then(|number| usize::try_from(number).ok());
        let convolution = convolution.and_then(|number| ALGORITHMS.get(number).copied()).unwrap_or_default();
        let threads = Threads { most, deterministic };
        Ok(Self::Fast(Settings { threads, constant_weights, convolution }))
    }

    /// Plans a graph.
    pub fn plan(self, graph: &Graph) -> Result<Plan, crate::kernel::Refusal> {
        match self {
            Self::Fast(settings) => {
                Plan::in_parts(graph, |graph| crate::fusion::graph::parts(graph, settings))
            }
            Self::Reference => Plan::new(graph, reference::plan_node),
        }
    }
}

/// The engine at a place in `EnginePlugin::ENGINES` with its knobs left alone.
pub fn planner(engine: usize) -> Planner {
    match engine {
        0 => Planner::Fast(Settings::default()),
        _ => Planner::Reference,
    }
}

/// What the fast engine lets its user choose.
pub(crate) fn fast_knobs() -> Vec<Knob> {
    vec![
        Knob::int(
            THREADS,
            "The most threads that an execution uses at a time, the calling one included. 0: as many as \
             HIPDNN_CPU_THREADS says, or else one for each processor.",
            0,
            0,
            MAX_THREADS,
        ),
        Knob::flag(
            DETERMINISTIC,
            "1: the same bits for any number of threads, on one processor. 0: some sums are divided among the \
             threads.",
            false,
        ),
        Knob::flag(
            CONSTANT_WEIGHTS,
            "1: a promise that filters, and right factors of matrix products, stay the same as long as the plan lives. \
             They are packed once, by the first execution. 0: they may change.",
            false,
        ),
        Knob::int(
            CONVOLUTION,
            "The form of convolutions. 0: the one that is guessed to be the fastest, 4 and 5 among them in single precision. 1: the \
             input is read in place, or in a copy that all elements of the window share. 2: the input is copied for each \
             element of the window. 3: computed by vectors of channels instead of vectors of elements, where there is such \
             a form. 4: Winograd's algorithm for windows of 3 x 3 with step 1, and forward with step 2, whose results are \
             farther from the exact ones than those of 1, 2 and 3; else as 0. 5: Winograd's algorithm with larger tiles for \
             windows of 3 x 3 with step 1, whose results are farther from the exact ones than those of 4; else as 0.",
            0,
            0,
            ALGORITHMS.len() as i64 - 1,
        ),
    ]
}
