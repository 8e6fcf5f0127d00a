//! The engine plugin: two engines over the same plans, which differ in how they choose kernels.

use std::ffi::c_void;

use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::{EngineDetails, KnobSetting};
use hipdnn_plugin_sdk::{EnginePlugin, PluginError, Refusal};

use crate::plan::{Chooser, Plan};
use crate::reference;

/// The engines of this library.
///
/// Both compute in the caller's host memory and are done when an execution returns. The stream of a handle is accepted and
/// has no effect: work that is queued on it is neither waited for nor ordered against an execution, so a caller whose
/// tensors are filled on a stream synchronizes it first. Memory that only a device can reach must not be bound.
pub struct CpuPlugin;

/// The name of the engine that is fast where it has a fast kernel, and plain elsewhere.
pub const CPU_ENGINE: &str = "CPU_ENGINE";
/// The name of the engine that does what the formulas say.
pub const CPU_REFERENCE_ENGINE: &str = "CPU_REFERENCE_ENGINE";

/// The way an engine, by its place in `EnginePlugin::ENGINES`, plans a node.
pub fn chooser(engine: usize) -> Chooser {
    let _ = engine;
    reference::plan_node
}

impl EnginePlugin for CpuPlugin {
    const NAME: &'static str = "CPU";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ENGINES: &'static [&'static str] = &[CPU_ENGINE, CPU_REFERENCE_ENGINE];
    type Handle = ();
    type Plan = Plan;

    fn create_handle() -> Result<(), PluginError> {
        Ok(())
    }

    fn set_stream(_: &(), _: hipStream_t) -> Result<(), PluginError> {
        Ok(())
    }

    fn supports(_: &(), _: usize, graph: &Graph) -> Result<(), Refusal> {
        // The reference computes whatever either engine does, and its plans cost next to nothing.
        Plan::new(graph, reference::plan_node)?;
        Ok(())
    }

    fn details(_: &(), _: usize, _: &Graph) -> Result<EngineDetails, PluginError> {
        // Nothing is compiled at run time, saved, captured or asked of another library, so there is no note to give.
        Ok(EngineDetails::default())
    }

    fn plan(_: &(), engine: usize, graph: &Graph, knobs: &[KnobSetting]) -> Result<Plan, PluginError> {
        if let Some(knob) = knobs.first() {
            return Err(PluginError::invalid_value(format!(
                "knob \"{}\" is set, expected none as the engine has no knobs",
                knob.knob_id
            )));
        }
        Plan::new(graph, chooser(engine)).map_err(|refusal| Refusal::new(refusal).into())
    }

    fn plan_workspace_size(plan: &Plan) -> usize {
        plan.workspace_size()
    }

    unsafe fn execute(
        _: &(),
        plan: &Plan,
        workspace: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError> {
        // SAFETY: the host passes what the caller promised of the buffers and the workspace.
        unsafe { plan.execute(buffers, workspace.cast()) }
            .map_err(|error| PluginError::invalid_value(error.0))
    }
}

hipdnn_plugin_sdk::export_engine_plugin!(CpuPlugin);
