//! Matmuls of 8-bit floats, planned and run with stand-ins for the CUDA driver and cuBLASLt.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is how a test fails")]

mod standin;

use std::ptr::null_mut;
use std::sync::Once;

use hipdnn_cudnn_plugin::knob::LT;
use hipdnn_cudnn_plugin::plugin::CudnnPlugin;
use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::{EnginePlugin, PluginError};

use standin::device::{Bound, bytes};

const BATCH: usize = 2;
const ROWS: usize = 16;
const COLUMNS: usize = 32;
const TERMS: usize = 48;

/// Values with their bytes as floats with 3 and with 2 mantissa bits.
const NUMBERS: [(f32, u8, u8); 6] = [
    (1.0, 0x38, 0x3c),
    (-2.0, 0xc0, 0xc0),
    (0.5, 0x30, 0x38),
    (3.0, 0x44, 0x42),
    (-0.25, 0xa8, 0xb4),
    (0.0, 0, 0),
];

fn number(place: usize) -> (f32, u8, u8) {
    NUMBERS[(place * 5 + place / 7) % NUMBERS.len()]
}

/// relu(a · b · first · second + bias), with a row-major and b column-major.
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
    let nodes = operations.into_iter().map(Node::single);
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

fn expected(first: f32, second: f32) -> Vec<f32> {
    let mut c = Vec::new();
    for batch in 0..BATCH {
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let term = |k| {
                    let a = number((batch * ROWS + row) * TERMS + k).0;
                    a * number((batch * COLUMNS + column) * TERMS + k + 1).0
                };
                let sum: f32 = (0..TERMS).map(term).sum();
                c.push((sum * first * second + column as f32 - 16.0).max(0.0));
            }
        }
    }
    c
}

type Handle = <CudnnPlugin as EnginePlugin>::Handle;
type Plan = <CudnnPlugin as EnginePlugin>::Plan;

fn run(handle: &Handle, plan: &Plan, scales: [f32; 2]) -> Vec<f32> {
    let a = (0..BATCH * ROWS * TERMS).map(|place| number(place).1).collect();
    let b = (0..BATCH * COLUMNS * TERMS).map(|place| number(place + 1).2).collect();
    // The upper half of a float.
    let half = |column| (((column as f32 - 16.0).to_bits() >> 16) as u16).to_ne_bytes();
    let bias = (0..COLUMNS).flat_map(half).collect();
    let [first, second] = scales.map(|scale| bytes(&[scale]));
    let c = vec![0xff; 4 * BATCH * ROWS * COLUMNS];
    let bound = Bound::new(&[(1, a), (2, b), (3, first), (4, second), (5, bias), (10, c)], 0);
    // SAFETY: each tensor has its memory, which lives until the device is done.
    unsafe { CudnnPlugin::execute(handle, plan, null_mut(), &bound.buffers) }.unwrap();
    bound.result()
}

fn planned(handle: &Handle, graph: &Graph) -> Result<Plan, PluginError> {
    static STANDIN: Once = Once::new();
    let beside = |name: &str| format!("../../c_tests/beside/standin_{name}.c");
    STANDIN.call_once(|| {
        standin::open(&[(&beside("cuda"), "libcuda.so.1"), (&beside("cublaslt"), "libcublasLt.so.13")]);
    });
    CudnnPlugin::plan(handle, LT, graph, &[])
}

#[test]
fn scale_bias_and_activation_are_fused_to_the_matmul() {
    let handle = CudnnPlugin::create_handle().unwrap();
    let plan = planned(&handle, &graph(DataType::Fp8E4m3, DataType::Fp8E5m2)).unwrap();
    let steps = CudnnPlugin::describe(&plan).unwrap();
    assert_eq!(steps.iter().map(|step| step.nodes.as_slice()).collect::<Vec<_>>(), [[0, 1, 2, 3, 4]]);
    // Values and addresses of the scales may change each time.
    for [first, second] in [[0.5, 2.0], [4.0, 0.25], [1.0, 1.0]] {
        assert_eq!(run(&handle, &plan, [first, second]), expected(first, second));
    }
    let bytes = CudnnPlugin::serialize(&handle, &plan).unwrap();
    let loaded = CudnnPlugin::deserialize(&handle, &bytes).unwrap();
    assert_eq!(run(&handle, &loaded, [0.5, 8.0]), expected(0.5, 8.0));
}

#[test]
fn threads_that_share_a_plan_each_get_their_scales() {
    let handle = CudnnPlugin::create_handle().unwrap();
    let plan = planned(&handle, &graph(DataType::Fp8E4m3, DataType::Fp8E5m2)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let plan = &plan;
            scope.spawn(move || {
                let handle = CudnnPlugin::create_handle().unwrap();
                let scales = [f32::from(1 + thread), 0.5];
                let expected = expected(scales[0], scales[1]);
                for _ in 0..100 {
                    assert_eq!(run(&handle, plan, scales), expected);
                }
            });
        }
    });
}

#[test]
fn types_without_tensor_cores_are_refused_with_the_supported_ones() {
    let handle = CudnnPlugin::create_handle().unwrap();
    let refusal = |graph: &Graph| planned(&handle, graph).err().unwrap().to_string();
    let words = "node 0 \"\" (Matmul): cuBLASLt finds no algorithm for it; for 8-bit floats it requires dense rows of a";
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
