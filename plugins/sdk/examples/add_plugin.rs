#![doc = "An engine plugin with one engine, which adds two rows of floats in the memory of the CPU."]

use std::ffi::c_void;

use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode};
use hipdnn_plugin_sdk::wire::KnobSetting;
use hipdnn_plugin_sdk::{EnginePlugin, PluginError, Refusal, buffer};

struct AddPlugin;

/// What an execution needs: the uids of both operands and the result, and the number of elements.
struct Sum {
    uids: [i64; 3],
    length: usize,
}

impl Sum {
    fn of(graph: &Graph) -> Result<Self, Refusal> {
        let [Node { operation: Operation::Pointwise(node), .. }] = graph.nodes.as_slice() else {
            return Err("the graph is not one pointwise operation".into());
        };
        let (PointwiseMode::Add, Some(in_1)) = (node.operation, node.in_1) else {
            return Err(format!("pointwise mode {} is not add", node.operation.name()).into());
        };
        let uids = [node.in_0, in_1, node.out_0];
        let dims = graph.tensor(node.out_0).map(|result| &result.dims);
        for tensor in uids.map(|uid| graph.tensor(uid)) {
            let tensor = tensor.ok_or("a tensor of the operation is not in the graph")?;
            let is_row = tensor.dims.len() == 1 && tensor.strides == [1] && Some(&tensor.dims) == dims;
            if !is_row || tensor.data_type != DataType::Float || tensor.is_virtual || tensor.value.is_some() {
                return Err(format!("tensor {} is not a row of floats like the result", tensor.uid).into());
            }
        }
        let length = dims.and_then(|dims| usize::try_from(*dims.first()?).ok());
        Ok(Self { uids, length: length.ok_or("the number of elements is negative")? })
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
        let [a, b, sum] = plan.uids.map(|uid| buffer(buffers, uid));
        let (a, b, sum) = (a?.cast::<f32>(), b?.cast::<f32>(), sum?.cast::<f32>());
        for i in 0..plan.length {
            // SAFETY: the host promises memory for every element of each tensor; all have the same number.
            unsafe { *sum.add(i) = *a.add(i) + *b.add(i) };
        }
        Ok(())
    }
}

hipdnn_plugin_sdk::export_engine_plugin!(AddPlugin);
