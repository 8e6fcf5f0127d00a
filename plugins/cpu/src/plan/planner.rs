//! The engines and their knobs: makes a plan from a graph and knob settings.

use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::wire::{Knob, KnobSetting};
use hipdnn_plugin_sdk::{PluginError, wire};

use crate::fusion::graph::parts;
use crate::kernel::Refusal;
use crate::plan::empty::prepare;
use crate::plan::steps::Plan;
use crate::prepare::Prepared;
use crate::reference;
use crate::settings::{Algorithm, Settings};
use crate::threading::partition::Threads;

/// The most threads that a plan of the fast engine uses at a time.
pub(crate) const THREADS: &str = "threads";

/// Whether a plan of the fast engine gives the same bits with any number of threads.
pub(crate) const DETERMINISTIC: &str = "deterministic";

/// Whether a plan of the fast engine gives an item of the batch the same bits whatever the others are.
pub(crate) const BATCH_INVARIANT: &str = "batch_invariant";

/// Whether a plan of the fast engine reads and writes subnormal numbers as zeros.
pub(crate) const FLUSH_SUBNORMALS: &str = "flush_subnormals";

/// Whether weights stay the same between executions of a plan.
pub(crate) const CONSTANT_WEIGHTS: &str = "constant_weights";

/// The algorithm of convolutions: an index into [`Algorithm::VALUES`].
pub(crate) const CONVOLUTION: &str = "convolution";

/// Whether convolutions may be transformed by Winograd.
pub(crate) const WINOGRAD: &str = "winograd";

/// The largest number of threads that the knob accepts.
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
    /// The engine with this index in `EnginePlugin::ENGINES`, with settings that its knobs allow.
    ///
    /// # Errors
    /// When the number of threads is negative.
    pub fn new(engine: usize, knobs: &[KnobSetting]) -> Result<Self, PluginError> {
        if engine != 0 {
            return Ok(Self::Reference);
        }
        let most = usize::try_from(wire::int_setting(knobs, THREADS).unwrap_or(0))
            .map_err(|_| PluginError::invalid_value("knob \"threads\" is negative, expected 0 or more"))?;
        let is_set = |knob| wire::int_setting(knobs, knob).unwrap_or(0) != 0;
        let constant_weights = is_set(CONSTANT_WEIGHTS);
        let convolution =
            wire::int_setting(knobs, CONVOLUTION).and_then(|number| usize::try_from(number).ok());
        let convolution =
            convolution.and_then(|number| Algorithm::VALUES.get(number).copied()).unwrap_or_default();
        let threads = Threads {
            most,
            deterministic: is_set(DETERMINISTIC),
            batch_invariant: is_set(BATCH_INVARIANT),
            flush_subnormals: is_set(FLUSH_SUBNORMALS),
        };
        let avoids_winograd = wire::int_setting(knobs, WINOGRAD) == Some(0);
        let shares_weights = false;
        Ok(Self::Fast(Settings { threads, constant_weights, shares_weights, convolution, avoids_winograd }))
    }

    /// The same engine, whose plans share packed weights in the store that their thread has set.
    pub(crate) fn sharing(self) -> Self {
        match self {
            Self::Fast(settings) => Self::Fast(Settings { shares_weights: true, ..settings }),
            Self::Reference => self,
        }
    }

    /// The settings of `CPU_ENGINE`.
    pub(crate) fn settings(self) -> Option<Settings> {
        match self {
            Self::Fast(settings) => Some(settings),
            Self::Reference => None,
        }
    }

    /// Whether plans keep the weights of the first execution.
    pub(crate) fn keeps_weights(self) -> bool {
        matches!(self, Self::Fast(settings) if settings.constant_weights)
    }

    /// Prepares and plans a graph.
    pub fn plan(self, graph: &Graph) -> Result<Plan, Refusal> {
        self.plan_prepared(&prepare(graph)?)
    }

    /// Plans a graph.
    pub fn plan_prepared(self, prepared: &Prepared) -> Result<Plan, Refusal> {
        match self {
            Self::Fast(settings) => {
                let plan = Plan::in_parts(prepared, |prepared| parts(prepared, settings))?;
                Ok(plan.flushing(settings.threads.flush_subnormals))
            }
            Self::Reference => Plan::new(prepared, reference::plan_node),
        }
    }
}

/// The engine with this index in `EnginePlugin::ENGINES`, with default knobs.
pub fn planner(engine: usize) -> Planner {
    match engine {
        0 => Planner::Fast(Settings::default()),
        _ => Planner::Reference,
    }
}

/// The knobs of the fast engine.
pub(crate) fn fast_knobs() -> &'static [Knob] {
    static KNOBS: OnceLock<Vec<Knob>> = OnceLock::new();
    KNOBS.get_or_init(make_fast_knobs)
}

fn make_fast_knobs() -> Vec<Knob> {
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
            "1: a promise that weights of convolutions, and operand B of matrix multiplications, never change while \
             the plan lives. The first execution packs them once. 0: they may change.",
            false,
        ),
        Knob::flag(
            BATCH_INVARIANT,
            "1: the bits of an item of the batch (a row of a matrix multiplication, an image, a sequence) depend on its \
             own operands only: not on the other items, their number, or the number of threads. 0: algorithms may \
             follow from the batch.",
            false,
        ),
        Knob::flag(
            FLUSH_SUBNORMALS,
            "1: subnormal numbers count as zeros, as operands and as results, because processors compute with them up \
             to a hundred times slower. 0: they are computed exactly.",
            false,
        ),
        Knob::int(CONVOLUTION, &algorithms(), 0, 0, Algorithm::VALUES.len() as i64 - 1),
        Knob::flag(
            WINOGRAD,
            "1: convolutions of 3 x 3 may be transformed by Winograd, where that is faster or the knob convolution asks \
             for it. 0: never, which is more exact.",
            true,
        ),
    ]
}

/// The description of the knob for convolutions.
fn algorithms() -> String {
    let text =
        |(number, value): (usize, Algorithm)| format!(" {number} {}: {}.", value.name(), value.about());
    let values: String = Algorithm::VALUES.into_iter().enumerate().map(text).collect();
    format!("The algorithm of convolutions.{values}")
}
