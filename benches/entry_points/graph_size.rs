//! The cost of graphs of different sizes: built from descriptors, planned, and destroyed.

use std::ffi::c_int;

use hipdnn_abi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type,
    hipdnnBackendDescriptorType_t as Kind, hipdnnDataType_t, hipdnnPointwiseMode_t,
};

use crate::api::{Api, BACKEND_DESCRIPTOR, Handle, INT64};
use crate::subject::{median, time};

const GRAPH: c_int = Kind::HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR as c_int;
const TENSOR: c_int = Kind::HIPDNN_BACKEND_TENSOR_DESCRIPTOR as c_int;
const POINTWISE: c_int = Kind::HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR as c_int;

const DATA_TYPE: c_int = Type::HIPDNN_TYPE_DATA_TYPE as c_int;
const BOOLEAN: c_int = Type::HIPDNN_TYPE_BOOLEAN as c_int;
const POINTWISE_MODE: c_int = Type::HIPDNN_TYPE_POINTWISE_MODE as c_int;

const FLOAT: i32 = hipdnnDataType_t::HIPDNN_DATA_FLOAT as i32;
const RELU: i32 = hipdnnPointwiseMode_t::HIPDNN_POINTWISE_RELU_FWD as i32;

/// Makes a chain of so many activations, plans it, and destroys everything.
fn chain(api: &Api, handle: Handle, nodes: usize) {
    let tensors: Vec<_> = (0..=nodes)
        .map(|uid| {
            let tensor = api.descriptor(TENSOR);
            api.set(tensor, Name::HIPDNN_ATTR_TENSOR_UNIQUE_ID, INT64, &[uid as i64 + 1]);
            api.set(tensor, Name::HIPDNN_ATTR_TENSOR_DATA_TYPE, DATA_TYPE, &[FLOAT]);
            api.set(tensor, Name::HIPDNN_ATTR_TENSOR_DIMENSIONS, INT64, &[2_i64, 3, 4, 5]);
            api.set(tensor, Name::HIPDNN_ATTR_TENSOR_STRIDES, INT64, &[60_i64, 20, 5, 1]);
            api.set(tensor, Name::HIPDNN_ATTR_TENSOR_IS_VIRTUAL, BOOLEAN, &[uid > 0 && uid < nodes]);
            api.finalize(tensor);
            tensor
        })
        .collect();
    let operations: Vec<_> = tensors
        .array_windows()
        .map(|[x, y]| {
            let operation = api.descriptor(POINTWISE);
            api.set(operation, Name::HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, BACKEND_DESCRIPTOR, &[*x]);
            api.set(operation, Name::HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT, BACKEND_DESCRIPTOR, &[*y]);
            api.set(operation, Name::HIPDNN_ATTR_POINTWISE_MODE, POINTWISE_MODE, &[RELU]);
            api.set(operation, Name::HIPDNN_ATTR_POINTWISE_MATH_PREC, DATA_TYPE, &[FLOAT]);
            api.finalize(operation);
            operation
        })
        .collect();
    let graph = api.descriptor(GRAPH);
    api.set(graph, Name::HIPDNN_ATTR_OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, &operations);
    let planned = api.plan_graph(handle, graph);
    for descriptor in planned.into_iter().chain(operations).chain(tensors) {
        api.drop(descriptor);
    }
}

/// Prints the cost of 50 nodes relative to graphs of one node, and of 500 relative to graphs of 50.
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
