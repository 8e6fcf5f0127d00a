//! The plugin with one engine for two libraries.

use std::ffi::c_void;

use hipdnn_plugin_planner::chain;
use hipdnn_plugin_planner::plan::Found;
use hipdnn_plugin_planner::shapes::AnyShape;
use hipdnn_plugin_sdk::engine_plugin::{EXTERNAL_LIBRARY, SUPPORTS_SERIALIZATION};
use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::payload::Request;
use hipdnn_plugin_sdk::wire::{EngineDetails, KnobSetting};
use hipdnn_plugin_sdk::{EngineNumerics, EnginePlugin, PluginError, Refusal, Step};

use crate::handle::{Handle, Ready, runtime};
use crate::knob::{Options, knobs};
use crate::plan::{self, PAYLOAD, Plan};

/// The engine of this library.
///
/// It works on the device that was current when a handle was first asked about a graph, on the handle's
/// stream, and returns when the work is queued. Tensors are in device memory.
pub struct HipblasLtPlugin;

/// The name of the engine.
pub const HIPBLASLT_ENGINE: &str = "HIPBLASLT_ENGINE";

/// The engine's behavior notes.
const NOTES: [i32; 2] = [EXTERNAL_LIBRARY, SUPPORTS_SERIALIZATION];

impl EnginePlugin for HipblasLtPlugin {
    const NAME: &'static str = "hipBLASLt";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ENGINES: &'static [&'static str] = &[HIPBLASLT_ENGINE];
    /// Any alignment is supported; scalars passed at execution are refused.
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

    fn supports(handle: &Handle, engine: usize, graph: &Graph) -> Result<(), Refusal> {
        runtime()?;
        chain::check(graph)?;
        // Only the libraries know which kernels they have.
        plan(handle, Self::request(engine, graph, &[]), &Found::default())
            .map(drop)
            .map_err(|error| Refusal::new(error.message().to_owned()))
    }

    fn details(_: &Handle, _: usize, _: &Graph) -> Result<EngineDetails, PluginError> {
        Ok(EngineDetails { knobs: knobs(), behavior_notes: NOTES.to_vec(), ..EngineDetails::default() })
    }

    fn plan(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Plan, PluginError> {
        plan(handle, Self::request(engine, graph, knobs), &Found::default())?.with_memory()
    }

    fn workspace_size(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<usize, PluginError> {
        let plan = plan(handle, Self::request(engine, graph, knobs), &Found::default())?;
        Ok(plan.workspace_size())
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
        unsafe { plan::execute(plan, &mut Ready::new(handle)?, buffers, workspace) }
    }

    fn describe(plan: &Plan) -> Option<Vec<Step>> {
        plan.describe()
    }

    fn numerics(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Option<EngineNumerics>, PluginError> {
        let numerics = plan(handle, Self::request(engine, graph, knobs), &Found::default())?.numerics();
        Ok(numerics.map(|numerics| EngineNumerics { numerics, knobs: Vec::new() }))
    }

    fn serialize(_: &Handle, plan: &Plan) -> Result<Vec<u8>, PluginError> {
        plan::save(plan)
    }

    fn deserialize(handle: &Handle, bytes: &[u8]) -> Result<Plan, PluginError> {
        let (_, request, found) = Self::saved_request(&PAYLOAD, bytes, &knobs())?;
        plan(handle, request, &Found::read(found)?)?.with_memory()
    }
}

fn plan(handle: &Handle, request: Request, saved: &Found) -> Result<Plan, PluginError> {
    let options = Options::of(&request.config.knobs);
    plan::plan(&mut Ready::new(handle)?, request, &options, saved)
}

hipdnn_plugin_sdk::export_engine_plugin!(
    AnyShape<HipblasLtPlugin>,
    overrides,
    serialization,
    description,
    numerics,
    steps
);

#[cfg(test)]
mod tests;
