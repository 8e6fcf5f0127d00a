//! What the reference computes where subnormal numbers count as zeros: of given tensors, and of what each node writes.

use std::collections::HashMap;

use crate::computation::{Arrays, reference};
use crate::double;
use crate::failure::{Failure, Result};
use crate::graph::Graph;
use crate::rounding::normal;
use crate::tensor::Array;
use hipdnn::{Handle, OperationGraph};

/// The reference's results, node by node, with zeros for subnormal numbers; none if there are no such numbers.
pub fn results(
    handle: &Handle,
    operations: &OperationGraph,
    graph: &Graph,
    inputs: &Arrays,
) -> Result<Option<Arrays>> {
    let text = double::text(operations)?;
    let mut values: HashMap<i64, Array> = inputs.iter().cloned().collect();
    let mut is_flushed = false;
    let mut flush = |uid: i64, array: &mut Array| {
        let normal = graph.tensor(uid).map_or(0.0, |tensor| normal(tensor.data_type));
        for value in array.values.iter_mut().filter(|value| **value != 0.0 && value.abs() < normal) {
            *value = 0.0_f64.copysign(*value);
            is_flushed = true;
        }
    };
    values.iter_mut().for_each(|(uid, array)| flush(*uid, array));
    for place in 0..graph.nodes.len() {
        let part = double::part(graph, &text, place..place + 1)
            .ok_or_else(|| Failure::work("a node of the graph is missing in its JSON"))?;
        let (operations, part) = double::load(handle, &part)?;
        let read = part.bound().filter(|tensor| part.producer(tensor.uid).is_none());
        let read = read.filter_map(|tensor| Some((tensor.uid, values.get(&tensor.uid)?.clone()))).collect();
        for (uid, mut array) in reference(handle, &operations, &part, &read)? {
            flush(uid, &mut array);
            values.insert(uid, array);
        }
    }
    let written = graph.bound().filter(|tensor| graph.producer(tensor.uid).is_some());
    let results = written.filter_map(|tensor| Some((tensor.uid, values.remove(&tensor.uid)?)));
    let results: Arrays = results.collect();
    Ok(is_flushed.then_some(results))
}
