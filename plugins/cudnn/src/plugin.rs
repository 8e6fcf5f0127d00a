//! The plugin with two engines for two libraries.

use std::ffi::c_void;

use hipdnn_plugin_planner::ahead::target;
use hipdnn_plugin_planner::plan::Found;
use hipdnn_plugin_planner::shapes::AnyShape;
use hipdnn_plugin_sdk::engine_plugin::{
    EXTERNAL_LIBRARY, RUNTIME_COMPILATION, SUPPORTS_GRAPH_CAPTURE, SUPPORTS_SERIALIZATION,
};
use hipdnn_plugin_sdk::ffi::{HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::payload::Request;
use hipdnn_plugin_sdk::wire::{EngineDetails, Knob, KnobSetting};
use hipdnn_plugin_sdk::{EngineNumerics, EnginePlugin, PluginError, Refusal, Step};

use crate::handle::{Handle, check_cudnn, check_lt, enter};
use crate::knob::{CUBLASLT_ENGINE, CUDNN, CUDNN_ENGINE, LT, cudnn_knobs, lt_knobs, note_knobs};
use crate::plan::{self, CUDNN_PLANS, LT_PLANS, Plan, plan};

/// The engines of this library.
///
/// They work on the handle's stream and return when the work is queued. Tensors are in device memory. The
/// device is that of the stream, or else of the thread's context, or else the first.
pub struct CudnnPlugin;

/// The engines' behavior notes. Executions can be captured.
const NOTES: [i32; 3] = [SUPPORTS_GRAPH_CAPTURE, EXTERNAL_LIBRARY, SUPPORTS_SERIALIZATION];

fn knobs(engine: usize) -> Vec<Knob> {
    if engine == LT { lt_knobs() } else { cudnn_knobs() }
}

impl EnginePlugin for CudnnPlugin {
    const NAME: &'static str = "cuDNN";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ENGINES: &'static [&'static str] = &[CUDNN_ENGINE, CUBLASLT_ENGINE];
    /// Any alignment is supported, scalars may be passed at execution, and ragged tensors are supported in
    /// attention.
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
        // First report missing libraries; planning ahead of time needs no device.
        if target("sm_")?.is_none() {
            if engine == LT { check_lt()? } else { check_cudnn()? }
        }
        // Only the libraries know which kernels they have. Planning later reuses what is found here.
        plan(handle, engine, Self::request(engine, graph, &[]), &Found::default())
            .map(drop)
            .map_err(|error| Refusal::new(error.message().to_owned()))
    }

    fn details(handle: &Handle, engine: usize, graph: &Graph) -> Result<EngineDetails, PluginError> {
        let mut behavior_notes = NOTES.to_vec();
        if engine == CUDNN && compiles(handle, graph)? {
            behavior_notes.insert(0, RUNTIME_COMPILATION);
        }
        Ok(EngineDetails { knobs: knobs(engine), behavior_notes, ..EngineDetails::default() })
    }

    fn plan(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Plan, PluginError> {
        runnable(handle, engine, Self::request(engine, graph, knobs), &Found::default())
    }

    fn workspace_size(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<usize, PluginError> {
        let plan = plan(handle, engine, Self::request(engine, graph, knobs), &Found::default())?;
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
        unsafe { plan::execute(plan, handle, buffers, workspace) }
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
        let plan = plan(handle, engine, Self::request(engine, graph, knobs), &Found::default())?;
        let knobs = note_knobs(engine);
        Ok(plan.numerics().map(|numerics| EngineNumerics { numerics, knobs }))
    }

    fn serialize(_: &Handle, plan: &Plan) -> Result<Vec<u8>, PluginError> {
        plan::save(plan)
    }

    fn deserialize(handle: &Handle, bytes: &[u8]) -> Result<Plan, PluginError> {
        let (form, expected) =
            if bytes.starts_with(&LT_PLANS.mark) { (LT_PLANS, LT) } else { (CUDNN_PLANS, CUDNN) };
        let (engine, request, found) = Self::saved_request(&form, bytes, &knobs(expected))?;
        if engine != expected {
            return Err(PluginError::invalid_value(format!(
                "the saved plan is of engine {}, expected {} by its mark",
                request.config.engine_id, form.owner
            )));
        }
        runnable(handle, engine, request, &Found::read(found)?)
    }
}

/// Whether cuDNN says that it compiles kernels for a graph. The plan is cached from the support query. A
/// graph that is refused with default knobs counts as compiled at run time: cuDNN may compile kernels for it
/// with other knobs.
fn compiles(handle: &Handle, graph: &Graph) -> Result<bool, PluginError> {
    match plan(handle, CUDNN, CudnnPlugin::request(CUDNN, graph, &[]), &Found::default()) {
        Ok(plan) => Ok(plan::is_runtime_compiled(&plan)),
        Err(error) if error.status() == HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE => Ok(true),
        Err(error) => Err(error),
    }
}

/// A plan with its memory, allocated while the device is current.
fn runnable(handle: &Handle, engine: usize, request: Request, saved: &Found) -> Result<Plan, PluginError> {
    let _entered = target("sm_")?.is_none().then(|| enter(handle)).transpose()?;
    plan(handle, engine, request, saved)?.with_memory()
}

hipdnn_plugin_sdk::export_engine_plugin!(
    AnyShape<CudnnPlugin>,
    overrides,
    serialization,
    description,
    numerics,
    steps
);

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::engine_id;
    use hipdnn_plugin_sdk::graph::operation::Matmul;
    use hipdnn_plugin_sdk::graph::{DataType, Node, Tensor};
    use hipdnn_plugin_sdk::payload::Payload;
    use hipdnn_plugin_sdk::wire::{self, EngineConfig, Layout};

    use super::*;

    fn graph() -> Graph {
        let tensor = |uid, dims: &[i64]| {
            let columns = dims.last().copied().unwrap_or(1);
            Tensor::new(uid, DataType::Half, dims, &[columns, 1])
        };
        Graph {
            tensors: vec![tensor(1, &[16, 32]), tensor(2, &[32, 8]), tensor(3, &[16, 8])],
            nodes: vec![Node {
                name: "n".to_owned(),
                compute_type: DataType::Float,
                operation: Matmul { a: 1, b: 2, c: 3 }.into(),
            }],
            ..Graph::default()
        }
    }

    #[test]
    fn without_libraries_or_device_the_reason_says_so() {
        for (engine, missing) in [(0, check_cudnn()), (LT, check_lt())] {
            let refusal = CudnnPlugin::supports(&Handle::default(), engine, &graph());
            let Err(missing) = missing else {
                assert_eq!(refusal, Ok(()));
                continue;
            };
            assert_eq!(refusal, Err(missing.clone()));
            let words = missing.to_string();
            let known = ["libcuda.so.1", "no device", "cuInit", "libcudnn.so.9", "libcublasLt.so.13"];
            assert!(known.iter().any(|word| words.contains(word)), "{words}");
            assert!(CudnnPlugin::plan(&Handle::default(), engine, &graph(), &[]).is_err());
        }
    }

    #[test]
    fn saved_plans_are_checked_before_they_are_used() {
        let load =
            |bytes: &[u8]| CudnnPlugin::deserialize(&Handle::default(), bytes).err().unwrap().to_string();
        let config = |engine_id| wire::write_engine_config(&EngineConfig { engine_id, knobs: Vec::new() });
        let graph = wire::write(&graph(), Layout::G2).unwrap();
        assert!(load(b"").contains("ends after 0 bytes"));
        assert!(load(b"something else").contains("not a saved plan of CUDNN_ENGINE"));
        for (form, engine) in [CUDNN_PLANS, LT_PLANS].iter().zip(CudnnPlugin::ENGINES) {
            let own = config(engine_id(engine));
            assert!(load(&form.write(&[&config(5), b"", &graph]).unwrap()).contains("of engine 5"));
            assert!(!load(&form.write(&[&own, b"", b"no graph"]).unwrap()).is_empty());
            let older = Payload { version: 1, ..*form };
            let refusal = load(&older.write(&[&own, b"", &graph]).unwrap());
            assert_eq!(refusal, format!("the saved plan is of version 1, {engine} read version 2"));
        }
        let id = engine_id(CUBLASLT_ENGINE);
        let of_lt = CUDNN_PLANS.write(&[&config(id), b"", &graph]).unwrap();
        assert_eq!(
            load(&of_lt),
            format!("the saved plan is of engine {id}, expected CUDNN_ENGINE by its mark")
        );
    }
}
