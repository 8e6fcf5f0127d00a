use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::operation::{ConvolutionBackwardFilter, Matmul, Reduction, Sdpa, SdpaBackward};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType};
use hipdnn_plugin_sdk::payload::Request;
use hipdnn_plugin_sdk::wire::EngineConfig;

use super::*;
use crate::plan::compiled::Compiled;
use crate::plan::planner::planner;
use crate::testing::{Random, packed};

fn graph(tensors: Vec<Tensor>, operations: Vec<Operation>) -> Graph {
    let node = |operation| Node { name: "n".to_owned(), compute_type: DataType::Float, operation };
    Graph { tensors, nodes: operations.into_iter().map(node).collect(), ..Graph::default() }
}

fn float(uid: i64, dims: &[i64]) -> Tensor {
    packed(uid, DataType::Float, dims)
}

/// Reduces tensor 1 to tensor 2.
fn reduction(mode: ReductionMode, from: &[i64], to: &[i64]) -> Graph {
    let operation = Reduction { in_: 1, out: 2, mode, is_deterministic: false };
    graph(vec![float(1, from), float(2, to)], vec![operation.into()])
}

fn compiled(graph: &Graph, engine: usize) -> Compiled {
    let prepared = prepare(graph).unwrap();
    let request = Request { graph: graph.clone(), config: EngineConfig::default() };
    Compiled::new(request, &prepared, planner(engine)).unwrap()
}

/// Runs a graph of floats on both engines, with `values` in each tensor and null bound to the empty ones, and
/// returns tensor `uid`.
fn run(graph: &Graph, uid: i64, values: impl Fn(i64, usize) -> f32) -> Vec<f32> {
    let mut results: Vec<Vec<f32>> = Vec::new();
    for engine in 0..2 {
        let plan = compiled(graph, engine);
        let count = |tensor: &Tensor| tensor.dims.iter().product::<i64>() as usize;
        let bound = graph.tensors.iter().filter(|tensor| !is_empty(tensor) && !tensor.is_virtual);
        let mut memory: Vec<(i64, Vec<f32>)> = bound
            .map(|tensor| (tensor.uid, (0..count(tensor)).map(|at| values(tensor.uid, at)).collect()))
            .collect();
        let mut buffers: Vec<_> = memory
            .iter_mut()
            .map(|(uid, values)| hipdnnPluginDeviceBuffer_t { uid: *uid, ptr: values.as_mut_ptr().cast() })
            .collect();
        let empty = graph.tensors.iter().filter(|tensor| is_empty(tensor));
        let nothing =
            |tensor: &Tensor| hipdnnPluginDeviceBuffer_t { uid: tensor.uid, ptr: std::ptr::null_mut() };
        buffers.extend(empty.map(nothing));
        // SAFETY: each buffer has as many floats as its packed tensor; without a workspace the plan has its own.
        unsafe { plan.execute(&buffers, std::ptr::null_mut(), std::ptr::null_mut()) }.unwrap();
        results.push(memory.into_iter().find(|(of, _)| *of == uid).unwrap().1);
    }
    assert_eq!(results[0], results[1]);
    results.swap_remove(0)
}

#[test]
fn empty_sums_are_written() {
    let product = graph(
        vec![float(1, &[2, 3, 0]), float(2, &[2, 0, 4]), float(3, &[2, 3, 4])],
        vec![Matmul { a: 1, b: 2, c: 3 }.into()],
    );
    assert_eq!(run(&product, 3, |_, _| -1.0), [0.0; 24]);
    for (mode, expected) in [
        (ReductionMode::Add, 0.0),
        (ReductionMode::Norm1, 0.0),
        (ReductionMode::Norm2, 0.0),
        (ReductionMode::Amax, 0.0),
        (ReductionMode::Mul, 1.0),
        (ReductionMode::MulNoZeros, 1.0),
    ] {
        assert_eq!(run(&reduction(mode, &[3, 0], &[3, 1]), 2, |_, _| -1.0), [expected; 3], "{mode:?}");
    }
    let gradient = ConvolutionBackwardFilter {
        x: 1,
        dy: 2,
        dw: 3,
        pre_padding: vec![0, 0],
        post_padding: vec![0, 0],
        stride: vec![1, 1],
        dilation: vec![1, 1],
        conv_mode: ConvMode::CrossCorrelation,
    };
    let tensors = vec![float(1, &[0, 2, 3, 3]), float(2, &[0, 4, 3, 3]), float(3, &[4, 2, 1, 1])];
    assert_eq!(run(&graph(tensors, vec![gradient.into()]), 3, |_, _| -1.0), [0.0; 8]);
}

#[test]
fn minimum_maximum_and_mean_of_empty_tensors_are_refused() {
    for (mode, name) in
        [(ReductionMode::Min, "min"), (ReductionMode::Max, "max"), (ReductionMode::Avg, "avg")]
    {
        let expected = format!(
            "node 0 \"n\" (Reduction): in: tensor 1 has no elements, and those of out, tensor 2, are not defined then, as the {name} of none \
             is not"
        );
        assert_eq!(prepare(&reduction(mode, &[3, 0], &[3, 1])).unwrap_err(), expected);
        // There is nothing to compute.
        let prepared = prepare(&reduction(mode, &[0, 3], &[0, 1])).unwrap();
        assert!(prepared.graph.nodes.is_empty());
    }
}

#[test]
fn products_of_any_size_with_an_epilogue() {
    let mut random = Random::new(1);
    let mut empty = 0;
    for _ in 0..60 {
        let [m, k, n] = [0; 3].map(|_| random.within(0, 3) as i64);
        let mut tensors = vec![
            float(1, &[1, m, k]),
            float(2, &[1, k, n]),
            float(3, &[1, m, n]),
            float(4, &[1, 1, n]),
            float(5, &[1, m, n]),
            float(6, &[1, 1, 1]),
        ];
        tensors[2].is_virtual = true;
        // Strides of empty tensors are arbitrary.
        for tensor in tensors.iter_mut().filter(|tensor| is_empty(tensor)) {
            tensor.strides = vec![-7, i64::MAX, 0];
        }
        let operations: Vec<Operation> = vec![
            Matmul { a: 1, b: 2, c: 3 }.into(),
            Pointwise::new(PointwiseMode::Add, 3, Some(4), 5).into(),
            Reduction { in_: 5, out: 6, mode: ReductionMode::Add, is_deterministic: false }.into(),
        ];
        if (m, n) == (1, 1) {
            continue;
        }
        let value = |uid: i64, at: usize| (uid * 3 + at as i64) as f32;
        let sum = |i: i64, j: i64| {
            (0..k).map(|l| value(1, (i * k + l) as usize) * value(2, (l * n + j) as usize)).sum::<f32>()
                + value(4, j as usize)
        };
        let expected: f32 = (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| sum(i, j)).sum();
        let graph = graph(tensors, operations);
        assert_eq!(run(&graph, 6, value), [expected], "{m} {k} {n}");
        empty += i32::from(m * k * n == 0);
    }
    assert!(empty > 20, "{empty}");
}

#[test]
fn attention_without_keys_is_zero_and_with_empty_heads_is_refused() {
    let attention = |keys, size| {
        let operation = Sdpa { stats: Some(5), generate_stats: Some(true), ..Sdpa::new(1, 2, 3, 4) };
        let tensors = vec![
            float(1, &[1, 2, 3, size]),
            float(2, &[1, 2, keys, size]),
            float(3, &[1, 2, keys, 4]),
            float(4, &[1, 2, 3, 4]),
            float(5, &[1, 2, 3, 1]),
        ];
        graph(tensors, vec![operation.into()])
    };
    assert_eq!(run(&attention(0, 8), 4, |_, _| -1.0), [0.0; 24]);
    assert_eq!(run(&attention(0, 8), 5, |_, _| -1.0), [f32::NEG_INFINITY; 6]);
    let refusal = prepare(&attention(5, 0)).unwrap_err();
    assert!(
        refusal.contains("q: tensor 1 has no elements, and those of o, tensor 4, are not defined"),
        "{refusal}"
    );
    let (query, keys, rows) = ([1, 2, 3, 8], [1, 2, 0, 8], [1, 2, 3, 1]);
    let dims: [&[i64]; 9] = [&query, &keys, &keys, &query, &query, &rows, &query, &keys, &keys];
    let tensors = (1..).zip(dims).map(|(uid, dims)| float(uid, dims)).collect();
    let gradients = graph(tensors, vec![SdpaBackward::new([1, 2, 3, 4, 5, 6], [7, 8, 9]).into()]);
    assert_eq!(run(&gradients, 7, |_, _| -1.0), [0.0; 48]);
}

#[test]
fn shapes_of_empty_tensors_are_checked() {
    let product = |a: &[i64], b: &[i64], c: &[i64]| {
        prepare(&graph(vec![float(1, a), float(2, b), float(3, c)], vec![Matmul { a: 1, b: 2, c: 3 }.into()]))
    };
    assert!(product(&[0, 3], &[3, 4], &[0, 4]).is_ok());
    for (a, b, c) in [
        ([0, 3], [5, 4], [0, 4]),
        ([0, 3], [3, 4], [2, 4]),
        ([2, 0], [1, 4], [2, 4]),
        ([2, 0], [2, 4], [2, 4]),
        ([2, -1], [-1, 4], [2, 4]),
    ] {
        assert!(product(&a, &b, &c).is_err(), "{a:?} {b:?} {c:?}");
    }
    let mut value = reduction(ReductionMode::Add, &[0, 3], &[0, 1]);
    value.tensors[0].value = Some(TensorValue::Float32(1.0));
    assert!(prepare(&value).is_err());
    value.tensors[0].value = None;
    value.tensors[0].strides.pop();
    assert!(prepare(&value).is_err());
}

#[test]
fn steps_name_the_nodes_of_the_original_graph() {
    // The first node has no output elements, the second sums nothing.
    let tensors = vec![float(1, &[0, 3]), float(2, &[0, 3]), float(3, &[1, 3]), float(4, &[1, 3])];
    let operations = vec![
        Pointwise::new(PointwiseMode::Neg, 1, None, 2).into(),
        Reduction { in_: 2, out: 3, mode: ReductionMode::Add, is_deterministic: false }.into(),
        Pointwise::new(PointwiseMode::Exp, 3, None, 4).into(),
    ];
    let graph = graph(tensors, operations);
    assert_eq!(run(&graph, 4, |_, _| -1.0), [1.0; 3]);
    let nodes: Vec<_> = compiled(&graph, 1).steps().unwrap().into_iter().map(|step| step.nodes).collect();
    assert_eq!(nodes, [[1], [2]]);
}
