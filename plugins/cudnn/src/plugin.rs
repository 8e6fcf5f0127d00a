//! The engine plugin: two engines over two libraries.

use std::ffi::c_void;

use hipdnn_plugin_planner::chain;
use hipdnn_plugin_sdk::engine_plugin::SUPPORTS_SERIALIZATION;
use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::{EngineConfig, EngineDetails, KnobSetting, check_settings};
use hipdnn_plugin_sdk::{EnginePlugin, PluginError, Refusal, Step, engine_id};

use crate::handle::{Handle, check_cudnn, check_lt};
use crate::knob::{Options, cudnn_knobs, lt_knobs};
use crate::lowering::lower;
use crate::lt;
use crate::plan;

/// The engines of this library.
///
/// They compute on the handle's stream and return when the work is queued. Tensors are device memory. The device is that of the
/// stream, or else of the thread's context, or else the first.
pub struct CudnnPlugin;

/// The engine that hands whole graphs to cuDNN.
pub const CUDNN_ENGINE: &str = "CUDNN_ENGINE";
/// The engine that computes products of matrices with cuBLASLt.
pub const CUBLASLT_ENGINE: &str = "CUBLASLT_ENGINE";

/// The place of [`CUBLASLT_ENGINE`] among the engines.
const LT: usize = 1;

/// Behavior notes, by their numbers in the C API: kernels may be compiled at run time, executions can be captured, another library is
/// needed, and plans can be saved.
const CUDNN_NOTES: [i32; 4] = [0, 2, 3, SUPPORTS_SERIALIZATION];
/// The same but for compiling.
const LT_NOTES: [i32; 3] = [2, 3, SUPPORTS_SERIALIZATION];

/// A plan of either engine.
pub enum Plan {
    /// cuDNN's.
    Cudnn(Box<plan::Plan>),
    /// Calls of cuBLASLt.
    Lt(Box<lt::plan::Plan>),
}

impl EnginePlugin for CudnnPlugin {
    const NAME: &'static str = "cuDNN";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ENGINES: &'static [&'static str] = &[CUDNN_ENGINE, CUBLASLT_ENGINE];
    /// Any alignment will do, and scalars may be passed at execution; ragged tensors are refused.
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
        // What can be said without a device comes first.
        if engine == LT {
            check_lt()?;
            chain::check(graph)?;
        } else {
            check_cudnn()?;
            lower(graph)?;
        }
        // Only the libraries know what they have kernels for. What is found here need not be looked for again.
        make(handle, engine, graph, &[], &[], false)
            .map(drop)
            .map_err(|error| Refusal::new(error.message().to_owned()))
    }

    fn details(_: &Handle, engine: usize, _: &Graph) -> Result<EngineDetails, PluginError> {
        let (knobs, notes) = match engine {
            LT => (lt_knobs(), LT_NOTES.to_vec()),
            _ => (cudnn_knobs(), CUDNN_NOTES.to_vec()),
        };
        Ok(EngineDetails { knobs, behavior_notes: notes, ..EngineDetails::default() })
    }

    fn plan(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Plan, PluginError> {
        make(handle, engine, graph, knobs, &[], true)
    }

    fn workspace_size(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<usize, PluginError> {
        make(handle, engine, graph, knobs, &[], false).map(|plan| Self::plan_workspace_size(&plan))
    }

    fn plan_workspace_size(plan: &Plan) -> usize {
        match plan {
            Plan::Cudnn(plan) => plan.workspace_size(),
            Plan::Lt(plan) => plan.workspace_size(),
        }
    }

    unsafe fn execute(
        handle: &Handle,
        plan: &Plan,
        workspace: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError> {
        let mut entered = handle.enter()?;
        // SAFETY: the host passes what the caller promised of the buffers and the workspace.
        unsafe {
            match plan {
                Plan::Cudnn(plan) => plan.execute(&mut entered, buffers, workspace),
                Plan::Lt(plan) => plan.execute(&entered, buffers, workspace),
            }
        }
    }

    fn describe(plan: &Plan) -> Option<Vec<Step>> {
        match plan {
            Plan::Cudnn(plan) => plan.describe(),
            Plan::Lt(plan) => plan.describe(),
        }
    }

    fn serialize(_: &Handle, plan: &Plan) -> Result<Vec<u8>, PluginError> {
        match plan {
            Plan::Cudnn(plan) => plan.save(),
            Plan::Lt(plan) => plan.save(),
        }
    }

    fn deserialize(handle: &Handle, bytes: &[u8]) -> Result<Plan, PluginError> {
        let of_cudnn = plan::Plan::is_of(bytes);
        let read = if of_cudnn { plan::Plan::read(bytes) } else { lt::plan::Plan::read(bytes) };
        let (graph, config, saved) = read?;
        let engine = Self::engine_of_saved_plan(config.engine_id)?;
        check_settings(&if engine == LT { lt_knobs() } else { cudnn_knobs() }, &config.knobs)?;
        make(handle, engine, &graph, &config.knobs, &saved, true)
    }
}

impl Plan {
    fn with_memory(self) -> Result<Self, PluginError> {
        Ok(match self {
            Self::Cudnn(plan) => Self::Cudnn(Box::new(plan.with_memory()?)),
            Self::Lt(plan) => Self::Lt(Box::new(plan.with_memory()?)),
        })
    }
}

/// A plan of an engine; `saved` is what a saved plan has of its decisions. One that `runs` has its memory, made while the device is the
/// thread's.
fn make(
    handle: &Handle,
    engine: usize,
    graph: &Graph,
    knobs: &[KnobSetting],
    saved: &[u8],
    runs: bool,
) -> Result<Plan, PluginError> {
    let name = CudnnPlugin::ENGINES.get(engine).copied().unwrap_or_default();
    let config = EngineConfig { engine_id: engine_id(name), knobs: knobs.to_vec() };
    let mut entered = handle.enter()?;
    let plan = if engine == LT {
        let options = Options::of_lt(knobs);
        Plan::Lt(Box::new(lt::plan::Plan::new(&entered, graph, config, &options, saved)?))
    } else {
        let options = Options::of_cudnn(knobs);
        Plan::Cudnn(Box::new(plan::Plan::new(&mut entered, graph, config, &options, saved)?))
    };
    if runs { plan.with_memory() } else { Ok(plan) }
}

hipdnn_plugin_sdk::export_engine_plugin!(CudnnPlugin, serialization, description);

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::Matmul;
    use hipdnn_plugin_sdk::graph::{DataType, Node, Tensor};
    use hipdnn_plugin_sdk::payload::Payload;
    use hipdnn_plugin_sdk::wire::{self, Layout};

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
        const PLANS: Payload = Payload { mark: *b"CUDN", version: 1, owner: "the test" };
        let load =
            |bytes: &[u8]| CudnnPlugin::deserialize(&Handle::default(), bytes).err().unwrap().to_string();
        let config = |engine_id| wire::write_engine_config(&EngineConfig { engine_id, knobs: Vec::new() });
        let graph = wire::write(&graph(), Layout::G2).unwrap();
        assert!(load(b"").contains("ends after 0 bytes"));
        assert!(load(b"something else").contains("not a saved plan of CUBLASLT_ENGINE"));
        assert!(load(&PLANS.write(&[&config(5), b"", &graph]).unwrap()).contains("of engine 5"));
        assert!(
            !load(&PLANS.write(&[&config(engine_id(CUDNN_ENGINE)), b"", b"no graph"]).unwrap()).is_empty()
        );
    }
}
