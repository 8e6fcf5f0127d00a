//! Graphs and nodes with memory, and their run times.

use crate::*;
use hipdnn_cpu_plugin::fusion::node::plan_node;
use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, Tensor};
use std::time::{Duration, Instant};

pub(crate) fn strides(dims: &[i64; 4], channels_last: bool) -> [i64; 4] {
    let [_, c, h, w] = *dims;
    if channels_last { [c * h * w, 1, w * c, c] } else { [c * h * w, h * w, w, 1] }
}

/// Elements with values of both signs.
pub(crate) fn bytes(data_type: DataType, elements: usize) -> Vec<u8> {
    let number = |i: usize| (i % 17) as f32 / 8.0 - 1.0;
    let numbers = (0..elements).map(number);
    match data_type {
        DataType::Double => numbers.flat_map(|n| f64::from(n).to_ne_bytes()).collect(),
        DataType::Half => numbers.flat_map(|n| half::f16::from_f32(n).to_ne_bytes()).collect(),
        DataType::Bfloat16 => numbers.flat_map(|n| half::bf16::from_f32(n).to_ne_bytes()).collect(),
        _ => numbers.flat_map(f32::to_ne_bytes).collect(),
    }
}

/// Seconds of the best run of an operation.
pub(crate) fn time(tensors: Vec<Tensor>, operation: Operation) -> f64 {
    let order = operation.tensors();
    let double = tensors.iter().any(|tensor| tensor.data_type == DataType::Double);
    let compute_type = if double { DataType::Double } else { DataType::Float };
    let mut memory: Vec<(i64, Vec<u8>)> = tensors
        .iter()
        .map(|t| (t.uid, bytes(t.data_type, t.dims.iter().product::<i64>() as usize)))
        .collect();
    let graph = Graph { tensors, ..Graph::default() };
    let node = Node { name: String::new(), compute_type, operation };
    let kernel = plan_node(&graph, &node).unwrap();
    let pointers: Vec<*mut u8> = order
        .iter()
        .map(|uid| memory.iter_mut().find(|(own, _)| own == uid).unwrap().1.as_mut_ptr())
        .collect();
    let mut scratch = vec![0_u8; kernel.scratch_size() + 64];
    let aligned = scratch.as_ptr().align_offset(64);
    let mut best = Duration::MAX;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let start = Instant::now();
        // SAFETY: every tensor has its memory, and the scratch memory is as large as the kernel asked for.
        unsafe { kernel.run(&pointers, scratch.as_mut_ptr().add(aligned)) };
        best = best.min(start.elapsed());
    }
    best.as_secs_f64()
}

/// Seconds of the best run of a whole graph, all of whose tensors but virtual ones are bound.
pub(crate) fn time_graph(tensors: Vec<Tensor>, operations: Vec<Operation>, engine: usize) -> f64 {
    let mut memory: Vec<(i64, Vec<u8>)> = tensors
        .iter()
        .filter(|tensor| !tensor.is_virtual)
        .map(|t| (t.uid, bytes(t.data_type, t.dims.iter().product::<i64>() as usize)))
        .collect();
    let double = tensors.iter().any(|tensor| tensor.data_type == DataType::Double);
    let compute_type = if double { DataType::Double } else { DataType::Float };
    let nodes = operations.into_iter().map(|operation| Node { name: String::new(), compute_type, operation });
    let graph = Graph { tensors, nodes: nodes.collect(), ..Graph::default() };
    let plan = planner(engine).plan(&graph).unwrap();
    let buffers: Vec<hipdnnPluginDeviceBuffer_t> = memory
        .iter_mut()
        .map(|(uid, bytes)| hipdnnPluginDeviceBuffer_t { uid: *uid, ptr: bytes.as_mut_ptr().cast() })
        .collect();
    let mut workspace = vec![0_u8; plan.workspace_size()];
    let mut best = Duration::MAX;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let start = Instant::now();
        // SAFETY: every tensor has its memory, and the workspace is as large as the plan asked for.
        unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap();
        best = best.min(start.elapsed());
    }
    best.as_secs_f64()
}
