//! The types of the tuning plugin interface.

use std::ffi::c_void;

use hipdnn_plugin_sdk::ffi::{hipdnnPluginConstData_t, hipdnnPluginStatus_t};

/// What hipdnnPluginGetType answers: a library with strategies.
pub const HIPDNN_PLUGIN_TYPE_TUNING: i32 = 3;

/// What is to be tuned. All of it lives during the search.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipdnnTuningProblem_t {
    /// The size of this struct: a host of a later version may add fields at its end.
    pub size: usize,
    /// The graph, in the layout of 2026.
    pub graph: hipdnnPluginConstData_t,
    /// The device: a DeviceProperties table.
    pub device: hipdnnPluginConstData_t,
    /// The engines that can compute the graph, the library's choice first: an EngineDetails table each. Its knobs are those that are worth
    /// turning, and list the values that are worth trying.
    pub candidates: *const hipdnnPluginConstData_t,
    /// How many of them there are, at least one.
    pub num_candidates: usize,
    /// What was best for similar graphs, the most similar first: an EngineConfig table each.
    pub similar: *const hipdnnPluginConstData_t,
    /// How many of them there are.
    pub num_similar: usize,
    /// How long the search may take, in nanoseconds.
    pub budget_ns: u64,
}

/// What was measured of a configuration.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct hipdnnTuningMeasurement_t {
    /// The number of the configuration, by which a ranking names it: the same for equal ones.
    pub configuration: u32,
    /// How many runs there were so far, those of earlier measurements included; 0 where the budget is spent and nothing was measured.
    pub num_runs: u32,
    /// What an execution takes, by the median of all runs so far, in nanoseconds. It is corrected by what the best configuration took
    /// meanwhile, so that measurements of different times can be compared.
    pub time_ns: u64,
    /// What is left of the budget, in nanoseconds.
    pub remaining_ns: u64,
}

/// What the host does for a search. The functions are to be called by the thread that searches, before the search returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipdnnTuningHost_t {
    /// The size of this struct: a host of a later version may add functions at its end.
    pub size: usize,
    /// The host's own, for each function.
    pub context: *mut c_void,
    /// Plans a configuration (an EngineConfig table with the id of a candidate), checks its results and executes it so many times, in turn
    /// with the best one so far. One that is much slower is stopped early. The status is NOT_APPLICABLE where it cannot be planned or
    /// executed or its results are wrong, BAD_PARAM for bytes that hold no configuration of a candidate, and NOT_INITIALIZED outside of a
    /// search.
    pub measure: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            engine_config: *const hipdnnPluginConstData_t,
            num_runs: u32,
            measurement: *mut hipdnnTuningMeasurement_t,
        ) -> hipdnnPluginStatus_t,
    >,
    /// Answers the ranking: numbers of configurations that were measured, best first, each once. The last ranking of a search counts; the
    /// host puts what it lacks behind it. The status is BAD_PARAM for any other number.
    pub rank: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            configurations: *const u32,
            num_configurations: usize,
        ) -> hipdnnPluginStatus_t,
    >,
}
