//! The plugin with two engines that share their steps; one of them asks for deterministic kernels.

use std::ffi::c_void;

use hipdnn_plugin_planner::plan::Found;
use hipdnn_plugin_planner::shapes::AnyShape;
use hipdnn_plugin_sdk::engine_plugin::{EXTERNAL_LIBRARY, RUNTIME_COMPILATION, SUPPORTS_SERIALIZATION};
use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::numerics::{NoteKnob, note};
use hipdnn_plugin_sdk::payload::Request;
use hipdnn_plugin_sdk::wire::{EngineDetails, KnobSetting};
use hipdnn_plugin_sdk::{EngineNumerics, EnginePlugin, PluginError, Refusal, Step};

use crate::handle::{Handle, Ready, Runtime};
use crate::inside::Inside;
use crate::knob::{BENCHMARKING, DETERMINISTIC, Options, knobs};
use crate::plan::{self, PAYLOAD, Plan, check};

/// The engines of this library.
///
/// They work on the device that was current when a handle first planned or executed, on the handle's stream,
/// and return when the work is queued. Tensors are in device memory.
pub struct MiopenPlugin;

/// The engine that uses the kernels that MIOpen prefers.
pub const MIOPEN_ENGINE: &str = "MIOPEN_ENGINE";
/// The engine that only uses kernels with reproducible results.
pub const MIOPEN_ENGINE_DETERMINISTIC: &str = "MIOPEN_ENGINE_DETERMINISTIC";

/// The engines' behavior notes.
const NOTES: [i32; 3] = [RUNTIME_COMPILATION, EXTERNAL_LIBRARY, SUPPORTS_SERIALIZATION];

impl EnginePlugin for MiopenPlugin {
    const NAME: &'static str = "MIOpen";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ENGINES: &'static [&'static str] = &[MIOPEN_ENGINE, MIOPEN_ENGINE_DETERMINISTIC];
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
        let _inside = Inside::enter()?;
        let runtime = Runtime::get()?;
        let refusal = |error: PluginError| Refusal::new(error.message().to_owned());
        if check(graph, Some(runtime.miopen))? {
            // Planning later reuses the solutions that are found here.
            make(handle, engine, Self::request(engine, graph, &[]), &Found::default()).map_err(refusal)?;
        } else {
            // Fails if the device is lost or full.
            Ready::new(handle).map_err(refusal)?;
        }
        Ok(())
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
        let _inside = Inside::enter()?;
        make(handle, engine, Self::request(engine, graph, knobs), &Found::default())?.with_memory()
    }

    fn workspace_size(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<usize, PluginError> {
        let _inside = Inside::enter()?;
        let plan = make(handle, engine, Self::request(engine, graph, knobs), &Found::default())?;
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
        let _inside = Inside::enter()?;
        // SAFETY: the host passes what the caller promised of the buffers and the workspace.
        unsafe { plan::execute(plan, &Ready::new(handle)?, buffers, workspace) }
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
        let _inside = Inside::enter()?;
        let plan = make(handle, engine, Self::request(engine, graph, knobs), &Found::default())?;
        let knobs = vec![
            NoteKnob::removes(note::NONDETERMINISTIC, DETERMINISTIC, 1),
            NoteKnob::removes(note::NONDETERMINISTIC, BENCHMARKING, 0),
        ];
        Ok(plan.numerics().map(|numerics| EngineNumerics { numerics, knobs }))
    }

    fn serialize(_: &Handle, plan: &Plan) -> Result<Vec<u8>, PluginError> {
        plan::save(plan)
    }

    fn deserialize(handle: &Handle, bytes: &[u8]) -> Result<Plan, PluginError> {
        let _inside = Inside::enter()?;
        let (engine, request, found) = Self::saved_request(&PAYLOAD, bytes, &knobs())?;
        make(handle, engine, request, &Found::read(found)?)?.with_memory()
    }
}

fn make(handle: &Handle, engine: usize, request: Request, saved: &Found) -> Result<Plan, PluginError> {
    let deterministic = MiopenPlugin::ENGINES.get(engine) == Some(&MIOPEN_ENGINE_DETERMINISTIC);
    let options = Options::of(deterministic, &request.config.knobs);
    plan::plan(&Ready::new(handle)?, request, &options, saved)
}

hipdnn_plugin_sdk::export_engine_plugin!(
    AnyShape<MiopenPlugin>,
    overrides,
    serialization,
    description,
    numerics,
    steps
);

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::engine_id;
    use hipdnn_plugin_sdk::graph::operation::{ConvolutionForward, Matmul};
    use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Node, Operation, Tensor};

    use super::*;

    fn graph(data_type: DataType, conv_mode: ConvMode, post_padding: i64) -> Graph {
        let output = 3 + post_padding;
        let tensor = |uid, dims: [i64; 4]| {
            Tensor::new(uid, data_type, &dims, &[dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1])
        };
        let operation = ConvolutionForward {
            x: 1,
            w: 2,
            y: 3,
            pre_padding: vec![0, 0],
            post_padding: vec![0, post_padding],
            stride: vec![1, 1],
            dilation: vec![1, 1],
            conv_mode,
        };
        Graph {
            compute_type: DataType::Float,
            tensors: vec![tensor(1, [1, 2, 5, 5]), tensor(2, [4, 2, 3, 3]), tensor(3, [1, 4, 3, output])],
            nodes: vec![Node {
                name: "c".to_owned(),
                compute_type: DataType::Float,
                operation: operation.into(),
            }],
            ..Graph::default()
        }
    }

    #[test]
    fn engine_ids_are_those_of_amds_own_plugin() {
        let ids: Vec<i64> = MiopenPlugin::ENGINES.iter().map(|name| engine_id(name)).collect();
        assert_eq!(ids, [0x15b4_6865_c717_a122, 0xa258_541a_6daa_1de3_u64.cast_signed()]);
    }

    #[test]
    fn without_libraries_or_device_the_reason_says_so() {
        let refusal = MiopenPlugin::supports(
            &Handle::default(),
            0,
            &graph(DataType::Float, ConvMode::CrossCorrelation, 0),
        );
        match (Runtime::get(), refusal) {
            (Ok(_), result) => assert_eq!(result, Ok(())),
            (Err(missing), result) => {
                assert_eq!(result, Err(missing.clone()));
                let missing = missing.to_string();
                assert!(
                    ["libamdhip64.so", "libMIOpen.so.1", "no device", "hipGetDeviceCount"]
                        .iter()
                        .any(|word| missing.contains(word)),
                    "{missing}"
                );
                // Planning has the same prerequisites.
                let error = Ready::new(&Handle::default()).map(drop).unwrap_err();
                assert_eq!(error.message(), missing);
            }
        }
    }

    #[test]
    fn the_first_unsupported_feature_is_named() {
        assert_eq!(check(&graph(DataType::Half, ConvMode::CrossCorrelation, 0), None), Ok(false));
        // A knob decides whether this is refused.
        assert_eq!(check(&graph(DataType::Half, ConvMode::CrossCorrelation, 1), None), Ok(false));
        let mut matmul = graph(DataType::Float, ConvMode::CrossCorrelation, 0);
        matmul.tensors = (1..=3).map(|uid| Tensor::new(uid, DataType::Float, &[2, 2], &[2, 1])).collect();
        matmul.nodes[0].operation = Operation::from(Matmul { a: 1, b: 2, c: 3 });
        for (graph, expected) in [
            (graph(DataType::Double, ConvMode::CrossCorrelation, 0), "data type is double"),
            (graph(DataType::Bfloat16, ConvMode::CrossCorrelation, 1), "x: data type is bfloat16"),
            (graph(DataType::Float, ConvMode::CrossCorrelation, 1 << 30), "x: dims [1, 2, 5, 1073741829]"),
            (graph(DataType::Float, ConvMode::Convolution, 0), "conv_mode: is CONVOLUTION"),
            (matmul, "Matmul"),
        ] {
            let refusal = check(&graph, None).unwrap_err().to_string();
            assert!(refusal.starts_with("node 0 \"c\"") && refusal.contains(expected), "{refusal}");
        }
    }
}
