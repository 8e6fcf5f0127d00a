//! The plugin with one engine.

use std::ffi::c_void;

use hipdnn_plugin_planner::shapes::AnyShape;
use hipdnn_plugin_sdk::engine_plugin::{EXTERNAL_LIBRARY, RUNTIME_COMPILATION, SUPPORTS_SERIALIZATION};
use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::fork;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::{EngineDetails, Knob, KnobSetting};
use hipdnn_plugin_sdk::{EngineNumerics, EnginePlugin, PluginError, Refusal, Step};

use crate::handle::Handle;
use crate::instance;
use crate::plan::{BATCH_INVARIANT, MATRICES, MOST_TILES, PAYLOAD, Plan, TILES};

/// The engine of this library.
///
/// It computes on the device that was preferred when a handle first planned or executed, in the order of executions. Tensors are in
/// memory of that device, or in the host's; with host memory an execution returns when the results are there.
pub struct VulkanPlugin;

/// The name of the engine.
pub const VULKAN_ENGINE: &str = "VULKAN_ENGINE";

/// The engine's behavior notes.
const NOTES: [i32; 3] = [RUNTIME_COMPILATION, EXTERNAL_LIBRARY, SUPPORTS_SERIALIZATION];

fn knobs() -> Vec<Knob> {
    let tiles: Vec<i64> = (0..=MOST_TILES).collect();
    vec![
        Knob::one_of_ints(
            TILES,
            "tiles of products and convolutions: 0 the best by a model of the device, 1 the next, to the last",
            0,
            &tiles,
        ),
        Knob::flag(MATRICES, "multiplies with the device's matrix units, if they pass their test", true),
        Knob::flag(BATCH_INVARIANT, "the same bits for an item of the batch whatever the others are", false),
    ]
}

impl EnginePlugin for VulkanPlugin {
    const NAME: &'static str = "Vulkan";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ENGINES: &'static [&'static str] = &[VULKAN_ENGINE];
    /// Any alignment is supported, and scalars may be passed at execution.
    const API_VERSION: &'static str = "1.3.0";
    const LOCKS: &'static fork::List = &fork::List { locks: &[instance::LOCK], in_child: &[] };
    type Handle = Handle;
    type Plan = Plan;

    fn create_handle() -> Result<Handle, PluginError> {
        Ok(Handle::default())
    }

    /// Work goes to the device's own queue, in order; streams of other libraries are not waited for.
    fn set_stream(_: &Handle, _: hipStream_t) -> Result<(), PluginError> {
        Ok(())
    }

    fn supports(handle: &Handle, _: usize, graph: &Graph) -> Result<(), Refusal> {
        let gpu = handle.gpu().map_err(|error| Refusal::new(error.message().to_owned()))?;
        Plan::check(gpu, graph)
    }

    fn details(_: &Handle, _: usize, _: &Graph) -> Result<EngineDetails, PluginError> {
        Ok(EngineDetails { behavior_notes: NOTES.to_vec(), knobs: knobs(), ..EngineDetails::default() })
    }

    fn plan(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Plan, PluginError> {
        Plan::new(handle.gpu()?, Self::request(engine, graph, knobs), &[])
    }

    /// Plans have memory of their own.
    fn workspace_size(_: &Handle, _: usize, _: &Graph, _: &[KnobSetting]) -> Result<usize, PluginError> {
        Ok(0)
    }

    fn plan_workspace_size(_: &Plan) -> usize {
        0
    }

    unsafe fn execute(
        handle: &Handle,
        plan: &Plan,
        _: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError> {
        // SAFETY: the host passes what the caller promised of the buffers.
        unsafe { plan.execute(handle.gpu()?, buffers) }
    }

    fn describe(plan: &Plan) -> Option<Vec<Step>> {
        plan.describe()
    }

    fn numerics(
        handle: &Handle,
        _: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Option<EngineNumerics>, PluginError> {
        Ok(Some(Plan::numerics(handle.gpu()?, graph, knobs)?))
    }

    fn serialize(_: &Handle, plan: &Plan) -> Result<Vec<u8>, PluginError> {
        plan.save()
    }

    fn deserialize(handle: &Handle, bytes: &[u8]) -> Result<Plan, PluginError> {
        let (_, request, saved) = Self::saved_request(&PAYLOAD, bytes, &knobs())?;
        Plan::new(handle.gpu()?, request, saved)
    }
}

hipdnn_plugin_sdk::export_engine_plugin!(
    AnyShape<VulkanPlugin>,
    overrides,
    serialization,
    description,
    numerics,
    steps
);

#[cfg(test)]
mod tests;
