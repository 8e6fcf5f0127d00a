//! The functions that a tuning plugin exports besides those of every plugin.
//!
//! A tuning plugin has strategies. A strategy searches for the fastest way to compute a graph: it is told which engines can compute it and what
//! their knobs take, has the host measure configurations of its choice until its budget is spent, and answers a ranking of what was measured.
//! The id of a strategy is the 64-bit FNV-1a hash of its name, taken as a signed number, like that of an engine.
//!
//! hipdnnPluginGetType answers HIPDNN_PLUGIN_TYPE_TUNING, and hipdnnPluginGetApiVersion a version whose major number is that of this header. Of
//! the functions that every plugin has all are required but hipdnnPluginSetLogLevel. A host may run several searches at once, on several threads.

use std::ffi::c_char;

use hipdnn_plugin_sdk::ffi::hipdnnPluginStatus_t;

use super::types::{hipdnnTuningHost_t, hipdnnTuningProblem_t};

unsafe extern "C" {
    /// Required. The ids of the plugin's strategies: their number, and as many of them as there is room for. With max_strategies 0
    /// the array may be null.
    pub fn hipdnnTuningPluginGetAllStrategyIds(
        strategy_ids: *mut i64,
        max_strategies: u32,
        num_strategies: *mut u32,
    ) -> hipdnnPluginStatus_t;

    /// Required. The name of a strategy: NUL terminated UTF-8 that lives as long as the library is loaded. It is not empty and
    /// hashes to the id.
    pub fn hipdnnTuningPluginGetStrategyName(
        strategy_id: i64,
        name: *mut *const c_char,
    ) -> hipdnnPluginStatus_t;

    /// Required. Searches: has the host measure, and answers a ranking with host->rank before it returns. It returns soon after the budget
    /// is spent; the host goes on without one that takes longer than its longest measurement for that. Where it fails or answers no
    /// ranking, the host ranks what was measured by its times.
    pub fn hipdnnTuningPluginSearch(
        strategy_id: i64,
        problem: *const hipdnnTuningProblem_t,
        host: *const hipdnnTuningHost_t,
    ) -> hipdnnPluginStatus_t;
}
