//! The services of a host for policies.

use std::ffi::{c_char, c_void};

use super::{hipdnnEnginePredictionKind_t, hipdnnPluginConstData_t, hipdnnPluginStatus_t};

/// What the host does for a policy that is being finalized. Everything is borrowed: it is valid on the finalizing thread until
/// hipdnnHeuristicPolicyFinalizeWithHost returns. Later versions may add fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipdnnHeuristicHostCallbacks_t {
    /// The version of this struct: 2. Version 1 ends before ranking_metric and means "tflops".
    pub version: u32,
    /// The size of this struct.
    pub struct_size: usize,
    /// The host's own, for each function.
    pub context: *mut c_void,
    /// Predicts how well a candidate does, in the metric ranking_metric: the bytes of an EnginePrediction table. Its status is UNAVAILABLE
    /// or INVALID without a value. The call's status is BAD_PARAM for other engines and kinds, and NOT_INITIALIZED outside of finalizing
    /// and on other threads.
    pub get_prediction: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            engine_id: i64,
            kind: hipdnnEnginePredictionKind_t,
            prediction: *mut hipdnnPluginConstData_t,
        ) -> hipdnnPluginStatus_t,
    >,
    /// The metric that engines are ranked by: "time", where less is better, or "tflops". Never null.
    pub ranking_metric: *const c_char,
}
