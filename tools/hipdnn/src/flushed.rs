//! What the reference computes where subnormal numbers count as zeros: of given tensors, and of what each node writes.

use std::collections::HashMap;

use crate::computation::{Arrays, reference};
use crate::double;
use crate::failure::{Failure, Result};
use crate::graph::Graph;
use crate::rounding::normal;
use crate::tensor::Array;
use hipdnn::{Handle, OperationGraph};
use serde_json::Value;

/// What is computed with subnormal numbers, and with zeros for them.
pub struct Results {
    /// With them.
    pub exact: Arrays,
    /// With zeros.
    pub flushed: Arrays,
}

impl Results {
    /// An array of expected values that takes the flushed result where that differs from the exact one and is nearer to `own`.
    pub fn nearer(&self, uid: i64, own: &Array, expected: &Array) -> Option<Array> {
        let [exact, flushed] = [&self.exact, &self.flushed]
            .map(|arrays| arrays.iter().find(|(other, _)| *other == uid).map(|(_, array)| &array.values));
        let pairs = exact?.iter().zip(flushed?).zip(&own.values);
        let is_same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
        let mut nearer = expected.clone();
        for (value, ((exact, flushed), own)) in nearer.values.iter_mut().zip(pairs) {
            let is_nearer = is_same(*own, *flushed) || (own - flushed).abs() < (own - *value).abs();
            if !is_same(*exact, *flushed) && is_nearer {
                *value = *flushed;
            }
        }
        Some(nearer)
    }
}

/// The reference's results, node by node; none if there are no subnormal numbers.
pub fn results(
    handle: &Handle,
    operations: &OperationGraph,
    graph: &Graph,
    inputs: &Arrays,
) -> Result<Option<Results>> {
    let text = double::text(operations)?;
    let mut is_flushed = false;
    let flush = |uid: i64, array: &mut Array| {
        let normal = graph.tensor(uid).map_or(0.0, |tensor| normal(tensor.data_type));
        for value in array.values.iter_mut().filter(|value| **value != 0.0 && value.abs() < normal) {
            *value = 0.0_f64.copysign(*value);
            is_flushed = true;
        }
    };
    let flushed = node_by_node(handle, (graph, &text), inputs, flush)?;
    if !is_flushed {
        return Ok(None);
    }
    // Both are computed in the same way, so that they differ by the zeros alone.
    let exact = node_by_node(handle, (graph, &text), inputs, |_, _| {})?;
    Ok(Some(Results { exact, flushed }))
}

/// The reference's results of each node by itself, from given tensors and others that `change` was called for.
fn node_by_node(
    handle: &Handle,
    (graph, text): (&Graph, &Value),
    inputs: &Arrays,
    mut change: impl FnMut(i64, &mut Array),
) -> Result<Arrays> {
    let mut values: HashMap<i64, Array> = inputs.iter().cloned().collect();
    values.iter_mut().for_each(|(uid, array)| change(*uid, array));
    for place in 0..graph.nodes.len() {
        let part = double::part(graph, text, place..place + 1)
            .ok_or_else(|| Failure::work("a node of the graph is missing in its JSON"))?;
        let (operations, part) = double::load(handle, &part)?;
        let read = part.bound().filter(|tensor| part.producer(tensor.uid).is_none());
        let read = read.filter_map(|tensor| Some((tensor.uid, values.get(&tensor.uid)?.clone()))).collect();
        for (uid, mut array) in reference(handle, &operations, &part, &read)? {
            change(uid, &mut array);
            values.insert(uid, array);
        }
    }
    let written = graph.bound().filter(|tensor| graph.producer(tensor.uid).is_some());
    Ok(written.filter_map(|tensor| Some((tensor.uid, values.remove(&tensor.uid)?))).collect())
}
