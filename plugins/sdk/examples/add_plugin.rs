#![doc = "An engine plugin with one engine, which adds two tensors of floats in the memory of the CPU."]

use std::ffi::c_void;

use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation, PointwiseMode};
use hipdnn_plugin_sdk::wire::KnobSetting;
use hipdnn_plugin_sdk::{EnginePlugin, PluginError, Refusal, buffer};

struct AddPlugin;

/// What an execution needs to know: the tensors by their uids, and how many elements each has.
struct Sum {
    operands: [i64; 2],
    result: i64,
    length: usize,
}

impl Sum {
    fn of(graph: &Graph) -> Result<Self, Refusal> {
        let [node] = graph.nodes.as_slice() else {
            return Err(format!("the graph has {} nodes, expected 1", graph.nodes.len()).into());
        };
        let Operation::Pointwise(node) = &node.operation else {
            return Err(format!("{} is not a pointwise operation", node.operation.spec().name).into());
        };
        let (PointwiseMode::Add, Some(in_1)) = (node.operation, node.in_1) else {
            return Err(format!("pointwise mode {} is not add", node.operation.name()).into());
        };
        let result = graph.tensor(node.out_0).ok_or("the result is not a tensor of the graph")?;
        for uid in [node.in_0, in_1, node.out_0] {
            let tensor = graph.tensor(uid).ok_or_else(|| format!("tensor {uid} is not there"))?;
            if tensor.data_type != DataType::Float || tensor.is_virtual || tensor.value.is_some() {
                return Err(format!("tensor {uid} is not floats in the caller's memory").into());
            }
            if tensor.dims != result.dims || tensor.strides != result.strides {
                return Err(format!("tensor {uid} is not laid out like the result").into());
            }
        }
        // Without gaps, the product of the sizes is also how far the elements reach.
        let packed = (0..result.dims.len()).all(|i| {
            let inner = result.dims.iter().skip(i + 1).try_fold(1_i64, |n, d| n.checked_mul(*d));
            inner == result.strides.get(i).copied()
        });
        let length = result.dims.iter().try_fold(1_usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?));
        let length = length.filter(|_| packed).ok_or("the tensors are not packed")?;
        Ok(Self { operands: [node.in_0, in_1], result: node.out_0, length })
    }
}

impl EnginePlugin for AddPlugin {
    const NAME: &'static str = "Add";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ENGINES: &'static [&'static str] = &["EXAMPLE_ADD_ENGINE"];
    type Handle = ();
    type Plan = Sum;

    fn create_handle() -> Result<(), PluginError> {
        Ok(())
    }

    fn set_stream(_: &(), _: hipStream_t) -> Result<(), PluginError> {
        Ok(())
    }

    fn supports(_: &(), _: usize, graph: &Graph) -> Result<(), Refusal> {
        Sum::of(graph).map(|_| ())
    }

    fn plan(_: &(), _: usize, graph: &Graph, _: &[KnobSetting]) -> Result<Sum, PluginError> {
        Ok(Sum::of(graph)?)
    }

    fn plan_workspace_size(_: &Sum) -> usize {
        0
    }

    unsafe fn execute(
        _: &(),
        plan: &Sum,
        _: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError> {
        let [a, b] = plan.operands;
        let (a, b) = (buffer(buffers, a)?.cast::<f32>(), buffer(buffers, b)?.cast::<f32>());
        let sum = buffer(buffers, plan.result)?.cast::<f32>();
        for i in 0..plan.length {
            // SAFETY: the host promises memory for every element of each tensor; all have the same number.
            unsafe { *sum.add(i) = *a.add(i) + *b.add(i) };
        }
        Ok(())
    }
}

hipdnn_plugin_sdk::export_engine_plugin!(AddPlugin);
