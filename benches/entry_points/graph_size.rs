//! What graphs of different sizes cost: made from descriptors, planned, and destroyed.

use std::ffi::c_int;

use crate::{Api, BACKEND_DESCRIPTOR, Handle, INT64, median, time};

const GRAPH: c_int = 10;
const TENSOR: c_int = 14;
const POINTWISE: c_int = 18;

const DATA_TYPE: c_int = 1;
const BOOLEAN: c_int = 2;
const POINTWISE_MODE: c_int = 25;

const FLOAT: c_int = 0;
const RELU: c_int = 34;

/// Makes a chain of so many activations, plans it, and destroys everything.
fn chain(api: &Api, handle: Handle, nodes: usize) {
    let tensors: Vec<_> = (0..=nodes)
        .map(|uid| {
            let tensor = api.descriptor(TENSOR);
            api.set(tensor, 1300, INT64, &[uid as i64 + 1]);
            api.set(tensor, 1302, DATA_TYPE, &[FLOAT]);
            api.set(tensor, 1303, INT64, &[2_i64, 3, 4, 5]);
            api.set(tensor, 1304, INT64, &[60_i64, 20, 5, 1]);
            api.set(tensor, 1305, BOOLEAN, &[uid > 0 && uid < nodes]);
            api.finalize(tensor);
            tensor
        })
        .collect();
    let operations: Vec<_> = tensors
        .array_windows()
        .map(|[x, y]| {
            let operation = api.descriptor(POINTWISE);
            api.set(operation, 2200, BACKEND_DESCRIPTOR, &[*x]);
            api.set(operation, 2201, BACKEND_DESCRIPTOR, &[*y]);
            api.set(operation, 2300, POINTWISE_MODE, &[RELU]);
            api.set(operation, 2307, DATA_TYPE, &[FLOAT]);
            api.finalize(operation);
            operation
        })
        .collect();
    let graph = api.descriptor(GRAPH);
    api.set(graph, 601, BACKEND_DESCRIPTOR, &operations);
    let planned = api.plan_graph(handle, graph);
    for descriptor in planned.into_iter().chain(operations).chain(tensors) {
        api.drop(descriptor);
    }
}

/// Prints what 50 nodes cost in graphs of one node, and 500 in graphs of 50.
pub fn print(api: &Api, handle: Handle) {
    let mut ratios = [Vec::new(), Vec::new()];
    for _ in 0..15 {
        let [one, fifty, many] =
            [(1, 4000), (50, 100), (500, 10)].map(|(nodes, count)| time(count, || chain(api, handle, nodes)));
        ratios[0].push(fifty / one);
        ratios[1].push(many / fifty);
    }
    let rows = ["graph of 50 nodes, times one node", "graph of 500 nodes, times 50 nodes"];
    for ((name, ratios), goal) in rows.into_iter().zip(ratios).zip([40.0, 10.0]) {
        let ratio = median(ratios);
        let mark = if ratio <= goal { "" } else { "  missed" };
        println!("{name:<50} {ratio:>8.1} {goal:>8.1}{:>15}{mark}", "");
    }
}
