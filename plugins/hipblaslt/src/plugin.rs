//! The engine plugin: one engine over two libraries.

use std::ffi::c_void;

use hipdnn_plugin_sdk::engine_plugin::SUPPORTS_SERIALIZATION;
use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::{EngineConfig, EngineDetails, KnobSetting, check_settings};
use hipdnn_plugin_sdk::{EnginePlugin, PluginError, Refusal, engine_id};

use crate::handle::{Handle, Runtime};
use crate::knob::{Options, knobs};
use crate::plan::{Plan, Saved, check};

/// The engine of this library.
///
/// It computes on the device that was current when a handle was first asked about a graph, on the handle's stream, and
/// returns when the work is queued. Tensors are device memory.
pub struct HipblasLtPlugin;

/// The name of the engine.
pub const HIPBLASLT_ENGINE: &str = "HIPBLASLT_ENGINE";

/// Behavior notes, by their numbers in the C API: another library is needed, and plans can be saved.
const NOTES: [i32; 2] = [3, SUPPORTS_SERIALIZATION];

impl EnginePlugin for HipblasLtPlugin {
    const NAME: &'static str = "hipBLASLt";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ENGINES: &'static [&'static str] = &[HIPBLASLT_ENGINE];
    /// Any alignment will do; scalars that are passed at execution are refused.
    const API_VERSION: &'static str = "1.3.0";
    type Handle = Handle;
    type Plan = Plan;

    fn create_handle() -> Result<Handle, PluginError> {
        Ok(Handle::default())
    }

    fn set_stream(handle: &Handle, stream: hipStream_t) -> Result<(), PluginError> {
        handle.set_stream(stream);
        Ok(())
    }

    fn supports(handle: &Handle, _: usize, graph: &Graph) -> Result<(), Refusal> {
        Runtime::get()?;
        check(graph)?;
        // Only the libraries know which products they have kernels for.
        plan(handle, graph, &[], &Saved::default())
            .map(drop)
            .map_err(|error| Refusal::new(error.message().to_owned()))
    }

    fn details(_: &Handle, _: usize, _: &Graph) -> Result<EngineDetails, PluginError> {
        Ok(EngineDetails { knobs: knobs(), behavior_notes: NOTES.to_vec(), ..EngineDetails::default() })
    }

    fn plan(handle: &Handle, _: usize, graph: &Graph, knobs: &[KnobSetting]) -> Result<Plan, PluginError> {
        plan(handle, graph, knobs, &Saved::default())?.with_memory()
    }

    fn workspace_size(
        handle: &Handle,
        _: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<usize, PluginError> {
        plan(handle, graph, knobs, &Saved::default()).map(|plan| plan.workspace_size())
    }

    fn plan_workspace_size(plan: &Plan) -> usize {
        plan.workspace_size()
    }

    unsafe fn execute(
        handle: &Handle,
        plan: &Plan,
        workspace: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError> {
        // SAFETY: the host passes what the caller promised of the buffers and the workspace.
        unsafe { plan.execute(&mut handle.ready()?, buffers, workspace) }
    }

    fn serialize(_: &Handle, plan: &Plan) -> Result<Vec<u8>, PluginError> {
        plan.save()
    }

    fn deserialize(handle: &Handle, bytes: &[u8]) -> Result<Plan, PluginError> {
        let (graph, config, saved) = Saved::read(bytes)?;
        Self::engine_of_saved_plan(config.engine_id)?;
        check_settings(&knobs(), &config.knobs)?;
        plan(handle, &graph, &config.knobs, &saved)?.with_memory()
    }
}

fn plan(handle: &Handle, graph: &Graph, knobs: &[KnobSetting], saved: &Saved) -> Result<Plan, PluginError> {
    let config = EngineConfig { engine_id: engine_id(HIPBLASLT_ENGINE), knobs: knobs.to_vec() };
    Plan::new(&mut handle.ready()?, graph, config, &Options::of(knobs), saved)
}

hipdnn_plugin_sdk::export_engine_plugin!(HipblasLtPlugin, serialization);

#[cfg(test)]
mod tests;
