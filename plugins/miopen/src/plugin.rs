//! The engine plugin: two engines over the same steps, one of which asks for deterministic kernels.

use std::ffi::c_void;

use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::{EngineDetails, KnobSetting};
use hipdnn_plugin_sdk::{EnginePlugin, PluginError, Refusal};

use crate::handle::{Handle, Runtime};
use crate::knob::{Options, knobs};
use crate::plan::{Plan, check};

/// The engines of this library.
///
/// They compute on the device that was current when a handle planned or executed first, on the handle's stream, and return
/// when the work is queued. Tensors are device memory.
pub struct MiopenPlugin;

/// The name of the engine that takes the kernels that MIOpen likes best.
pub const MIOPEN_ENGINE: &str = "MIOPEN_ENGINE";
/// The name of the engine that takes kernels whose results do not change from run to run.
pub const MIOPEN_ENGINE_DETERMINISTIC: &str = "MIOPEN_ENGINE_DETERMINISTIC";

/// Behavior notes, by their numbers in the C API: kernels are compiled at run time, another library is needed.
const NOTES: [i32; 2] = [0, 3];

impl EnginePlugin for MiopenPlugin {
    const NAME: &'static str = "MIOpen";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ENGINES: &'static [&'static str] = &[MIOPEN_ENGINE, MIOPEN_ENGINE_DETERMINISTIC];
    /// Any alignment will do, and scalars may be passed at execution.
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

    fn supports(_: &Handle, _: usize, graph: &Graph) -> Result<(), Refusal> {
        Runtime::get()?;
        check(graph)
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
        let options = Options::of(engine == 1, knobs)?;
        Plan::new(&handle.ready()?, graph, &options)
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
        unsafe { plan.execute(&handle.ready()?, buffers, workspace) }
    }
}

hipdnn_plugin_sdk::export_engine_plugin!(MiopenPlugin);
