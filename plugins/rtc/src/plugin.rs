//! The plugin of engines with generated kernels: one for AMD GPUs, one for NVIDIA GPUs.

use std::ffi::c_void;

use hipdnn_plugin_planner::shapes::AnyShape;
use hipdnn_plugin_sdk::engine_plugin::{
    EXTERNAL_LIBRARY, RUNTIME_COMPILATION, SUPPORTS_GRAPH_CAPTURE, SUPPORTS_SERIALIZATION,
};
use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::{EngineDetails, KnobSetting};
use hipdnn_plugin_sdk::{EngineNumerics, EnginePlugin, PluginError, Refusal, Step};

use crate::handle::{Handle, Platform, enter};
use crate::knob::{knobs, options};
use crate::plan::{PAYLOAD, Plan, engine_numerics};
use crate::source::{generate, generate_with};

/// The engines of this library.
///
/// They work on the handle's stream and return when the work is queued. Tensors are in device memory. With
/// HIP the device is the one that was current when the handle first planned or executed; with CUDA it is that
/// of the stream, or else of the thread's context, or else the first.
pub struct RtcPlugin;

/// The engine for AMD GPUs.
pub const HIPRTC_ENGINE: &str = "HIPRTC_ENGINE";
/// The engine for NVIDIA GPUs.
pub const NVRTC_ENGINE: &str = "NVRTC_ENGINE";

/// The engines' platforms, in the order of the engines.
const PLATFORMS: [Platform; 2] = [Platform::Hip, Platform::Cuda];

fn platform(engine: usize) -> Result<Platform, PluginError> {
    PLATFORMS
        .get(engine)
        .copied()
        .ok_or_else(|| PluginError::internal(format!("there is no engine {engine}")))
}

/// The architecture that kernels are written for.
fn architecture(handle: &Handle, platform: Platform) -> Result<String, PluginError> {
    match platform.target()? {
        Some(architecture) => Ok(architecture),
        None => Ok(enter(handle, platform)?.device.own.architecture.clone()),
    }
}

/// The engines' behavior notes. Executions can be captured: they only launch kernels, which were loaded with
/// the plan.
const NOTES: [i32; 4] =
    [RUNTIME_COMPILATION, SUPPORTS_GRAPH_CAPTURE, EXTERNAL_LIBRARY, SUPPORTS_SERIALIZATION];

impl EnginePlugin for RtcPlugin {
    const NAME: &'static str = "RTC";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ENGINES: &'static [&'static str] = &[HIPRTC_ENGINE, NVRTC_ENGINE];
    /// Any alignment is supported, and scalars may be passed at execution.
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
        let refusal = |error: PluginError| Refusal::new(error.message().to_owned());
        let platform = platform(engine).map_err(refusal)?;
        if platform.target()?.is_some() {
            platform.compiler()?;
            return Ok(generate(graph).map(drop)?);
        }
        platform.check()?;
        generate(graph)?;
        // Fails if the device is lost or full.
        enter(handle, platform).map(drop).map_err(refusal)
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
        let platform = platform(engine)?;
        let request = Self::request(engine, graph, knobs);
        match platform.target()? {
            Some(architecture) => Plan::ahead(platform, architecture, request, &[]),
            None => Plan::new(platform, &enter(handle, platform)?, request, &[]),
        }
    }

    fn workspace_size(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<usize, PluginError> {
        let architecture = architecture(handle, platform(engine)?)?;
        let chosen = options(knobs).on(&architecture);
        Ok(generate_with(graph, chosen).map_err(Refusal::new)?.placed.workspace(0)?.asked())
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
        unsafe { plan.execute(handle, buffers, workspace) }
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
        let architecture = architecture(handle, platform(engine)?)?;
        Ok(Some(engine_numerics(&Self::request(engine, graph, knobs), &architecture)?))
    }

    fn serialize(_: &Handle, plan: &Plan) -> Result<Vec<u8>, PluginError> {
        plan.save()
    }

    fn deserialize(handle: &Handle, bytes: &[u8]) -> Result<Plan, PluginError> {
        let (engine, request, code) = Self::saved_request(&PAYLOAD, bytes, &knobs())?;
        let platform = platform(engine)?;
        match platform.target()? {
            Some(architecture) => Plan::ahead(platform, architecture, request, code),
            None => Plan::new(platform, &enter(handle, platform)?, request, code),
        }
    }
}

hipdnn_plugin_sdk::export_engine_plugin!(
    AnyShape<RtcPlugin>,
    overrides,
    serialization,
    description,
    numerics,
    steps
);

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::engine_id;
    use hipdnn_plugin_sdk::graph::operation::Reduction;
    use hipdnn_plugin_sdk::graph::{DataType, Node, Operation, ReductionMode, Tensor};
    use hipdnn_plugin_sdk::wire::{self, EngineConfig, Layout};

    use super::*;

    fn graph() -> Graph {
        let operation =
            Operation::from(Reduction { in_: 1, out: 2, mode: ReductionMode::Add, is_deterministic: false });
        Graph {
            tensors: vec![
                Tensor::new(1, DataType::Float, &[2, 3], &[3, 1]),
                Tensor::new(2, DataType::Float, &[2, 1], &[1, 1]),
            ],
            nodes: vec![Node { name: "n".to_owned(), compute_type: DataType::Float, operation }],
            ..Graph::default()
        }
    }

    #[test]
    fn without_libraries_or_device_the_reason_says_so() {
        let looked_for = [
            ["libamdhip64.so", "no device", "hipGetDeviceCount", "libhiprtc.so"],
            ["libcuda.so.1", "no device", "cuInit", "libnvrtc.so"],
        ];
        for (engine, words) in looked_for.iter().enumerate() {
            let refusal = RtcPlugin::supports(&Handle::default(), engine, &graph());
            let Err(missing) = PLATFORMS[engine].check() else {
                assert_eq!(refusal, Ok(()));
                continue;
            };
            assert_eq!(refusal, Err(missing.clone()));
            let missing = missing.to_string();
            assert!(words.iter().any(|word| missing.contains(word)), "{missing}");
            // Planning has the same prerequisites.
            let error = RtcPlugin::plan(&Handle::default(), engine, &graph(), &[]).unwrap_err();
            assert_eq!(error.message(), missing);
        }
    }

    #[test]
    fn saved_plans_are_checked_before_they_are_used() {
        const PLANS: hipdnn_plugin_sdk::payload::Payload =
            hipdnn_plugin_sdk::payload::Payload { mark: *b"HRTP", version: 1, owner: "the test" };
        let config = |engine_id| wire::write_engine_config(&EngineConfig { engine_id, knobs: Vec::new() });
        let graph = wire::write(&graph(), Layout::G2).unwrap();
        let load = |bytes: &[u8]| RtcPlugin::deserialize(&Handle::default(), bytes).unwrap_err().to_string();
        assert!(load(b"").contains("ends after 0 bytes"));
        assert!(load(b"something else").contains("not a saved plan of an engine of generated kernels"));
        assert!(load(&PLANS.write(&[&config(5), b"", &graph]).unwrap()).contains("of engine 5"));
        let own = config(engine_id(HIPRTC_ENGINE));
        assert!(!load(&PLANS.write(&[&own, b"", b"no graph"]).unwrap()).is_empty());
        // Invalid code counts as missing, so the error is the same as for a new plan.
        if let Err(missing) = PLATFORMS[0].check() {
            let bytes = PLANS.write(&[&own, b"no code", &graph]).unwrap();
            assert_eq!(load(&bytes), missing.to_string());
        }
    }
}
