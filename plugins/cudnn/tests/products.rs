//! Products of 8-bit floats, planned with stand-ins for the CUDA driver and cuBLASLt. `amd-test` runs them, on stand-ins and on GPUs.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod standin;

use std::sync::Once;

use hipdnn_cudnn_plugin::plugin::{CudnnPlugin, LT};
use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::{EnginePlugin, PluginError};

const BATCH: usize = 2;
const ROWS: usize = 16;
const COLUMNS: usize = 32;
const TERMS: usize = 48;

/// a · b · first · second + bias, no less than 0, with rows of a and columns of b side by side.
fn graph(a: DataType, b: DataType) -> Graph {
    let [batch, rows, columns, terms] = [BATCH, ROWS, COLUMNS, TERMS].map(|size| size as i64);
    let dims = [batch, rows, columns];
    let of_c = |uid| Tensor::new(uid, DataType::Float, &dims, &[rows * columns, columns, 1]);
    let between = |uid| Tensor { is_virtual: true, ..of_c(uid) };
    let scale = |uid| Tensor { alignment: 4, ..Tensor::new(uid, DataType::Float, &[1, 1, 1], &[1, 1, 1]) };
    let operations: [Operation; 5] = [
        Matmul { a: 1, b: 2, c: 6 }.into(),
        Pointwise::new(PointwiseMode::Mul, 6, Some(3), 7).into(),
        Pointwise::new(PointwiseMode::Mul, 4, Some(7), 8).into(),
        Pointwise::new(PointwiseMode::Add, 8, Some(5), 9).into(),
        Pointwise::new(PointwiseMode::ReluFwd, 9, None, 10).into(),
    ];
    let nodes = operations.into_iter().map(|operation| Node {
        name: String::new(),
        compute_type: DataType::Float,
        operation,
    });
    Graph {
        tensors: vec![
            Tensor::new(1, a, &[batch, rows, terms], &[rows * terms, terms, 1]),
            Tensor::new(2, b, &[batch, terms, columns], &[terms * columns, 1, terms]),
            scale(3),
            scale(4),
            Tensor::new(5, DataType::Bfloat16, &[1, 1, columns], &[columns, columns, 1]),
            between(6),
            between(7),
            between(8),
            between(9),
            of_c(10),
        ],
        nodes: nodes.collect(),
        ..Graph::default()
    }
}

type Handle = <CudnnPlugin as EnginePlugin>::Handle;
type Plan = <CudnnPlugin as EnginePlugin>::Plan;

fn planned(handle: &Handle, graph: &Graph) -> Result<Plan, PluginError> {
    static STANDIN: Once = Once::new();
    let beside = |name: &str| format!("../../c_tests/beside/standin_{name}.c");
    STANDIN.call_once(|| {
        standin::open(&[(&beside("cuda"), "libcuda.so.1"), (&beside("cublaslt"), "libcublasLt.so.13")]);
    });
    CudnnPlugin::plan(handle, LT, graph, &[])
}

#[test]
fn scales_bias_and_activation_go_with_the_product() {
    let handle = CudnnPlugin::create_handle().unwrap();
    let plan = planned(&handle, &graph(DataType::Fp8E4m3, DataType::Fp8E5m2)).unwrap();
    let steps = CudnnPlugin::describe(&plan).unwrap();
    assert_eq!(steps.iter().map(|step| step.nodes.as_slice()).collect::<Vec<_>>(), [[0, 1, 2, 3, 4]]);
    let bytes = CudnnPlugin::serialize(&handle, &plan).unwrap();
    let loaded = CudnnPlugin::deserialize(&handle, &bytes).unwrap();
    assert_eq!(CudnnPlugin::describe(&loaded).unwrap(), steps);
}

#[test]
fn what_tensor_cores_do_not_multiply_is_refused_with_what_they_do() {
    let handle = CudnnPlugin::create_handle().unwrap();
    let refusal = |graph: &Graph| planned(&handle, graph).err().unwrap().to_string();
    let words = "node 0 \"\" (Matmul): cuBLASLt finds no algorithm for it; of 8-bit floats it multiplies rows of a with columns of b";
    let both = refusal(&graph(DataType::Fp8E5m2, DataType::Fp8E5m2));
    assert!(both.starts_with(words), "{both}");
    let mut by_rows = graph(DataType::Fp8E4m3, DataType::Fp8E4m3);
    by_rows.tensors[1].strides = vec![(TERMS * COLUMNS) as i64, COLUMNS as i64, 1];
    assert!(refusal(&by_rows).starts_with(words));
    let mut bias = graph(DataType::Fp8E4m3, DataType::Fp8E4m3);
    bias.tensors[4].data_type = DataType::Half;
    let refused = refusal(&bias);
    assert!(
        refused.contains("the bias: data type is half, expected bfloat16 for these factors"),
        "{refused}"
    );
}
