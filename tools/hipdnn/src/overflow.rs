//! Elements that may be finite, infinite or NaN by the order of sums or by the rounding of a slope.
//!
//! The reference computes each node by itself. An element of a sum is undetermined if the magnitudes of its finite terms add up, in
//! double precision, to more than single precision has: some order then overflows on the way, and others may not, or to the other
//! infinity. An element of an activation's gradient is NaN or infinite where the gradient that comes in is infinite and the slope is 0
//! but for rounding. What is computed from such elements is undetermined, too.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::computation::{Arrays, reference};
use crate::data_type::DataType;
use crate::double::{self, mode};
use crate::failure::{Failure, Result};
use crate::graph::{Graph, Node};
use crate::tensor::Array;
use hipdnn::{Handle, OperationGraph};

/// The slope of an activation, below which roundings of terms of about 1 may have made it 0.
const LEAST_SLOPE: f64 = 1.0 / (1 << 20) as f64;

/// What an element may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MayBe {
    /// What the reference says.
    Itself,
    /// NaN or infinite, if it is so in the reference.
    NotFinite,
    /// Finite or not.
    Anything,
}

/// What the elements of a graph's tensors may be.
pub struct Undetermined(HashMap<i64, Vec<MayBe>>);

impl Undetermined {
    /// Those of a graph for these inputs.
    ///
    /// # Errors
    /// The reference does not compute each node by itself.
    pub fn of(handle: &Handle, operations: &OperationGraph, graph: &Graph, inputs: &Arrays) -> Result<Self> {
        let text = double::text(operations)?;
        let mut values: HashMap<i64, Array> = inputs.iter().cloned().collect();
        let mut found: HashMap<i64, Vec<MayBe>> = HashMap::new();
        for (place, node) in graph.nodes.iter().enumerate() {
            let part = double::part(graph, &text, place..place + 1)
                .ok_or_else(|| Failure::work("a node of the graph is missing in its JSON"))?;
            let (operations, alone) = double::load(handle, &part)?;
            let read = alone.bound().filter(|tensor| alone.producer(tensor.uid).is_none());
            let read: Arrays =
                read.filter_map(|tensor| Some((tensor.uid, values.get(&tensor.uid)?.clone()))).collect();
            let written = reference(handle, &operations, &alone, &read)?;
            let sums = if adds(node) { magnitudes(handle, &part, &read)? } else { Arrays::new() };
            let slopes = if has_slope(node) { slopes(handle, node, &part, &read)? } else { Arrays::new() };
            for (uid, array) in written {
                let of = |arrays: &Arrays| {
                    let own = arrays.iter().find(|(other, _)| *other == uid);
                    own.map_or_else(Vec::new, |(_, array)| array.values.clone())
                };
                let mut own = vec![MayBe::Itself; array.values.len()];
                for (own, sum) in own.iter_mut().zip(of(&sums)) {
                    if sum > f64::from(f32::MAX) {
                        *own = MayBe::Anything;
                    }
                }
                let incoming = node.input("in_0").and_then(|uid| values.get(&uid));
                let incoming = incoming.filter(|incoming| incoming.dims == array.dims);
                let incoming = incoming.map_or(&[][..], |incoming| &incoming.values);
                for ((own, slope), dy) in own.iter_mut().zip(of(&slopes)).zip(incoming) {
                    if slope.abs() < LEAST_SLOPE && dy.is_infinite() {
                        *own = MayBe::NotFinite;
                    }
                }
                for port in &node.inputs {
                    let Some(before) = found.get(&port.uid) else { continue };
                    let is_elementwise = node.operation == "Pointwise"
                        && values.get(&port.uid).is_some_and(|input| input.dims == array.dims);
                    let is_any = before.iter().any(|before| *before != MayBe::Itself);
                    if !is_elementwise && is_any {
                        own.fill(MayBe::Anything);
                    }
                    for (own, before) in own.iter_mut().zip(before).filter(|_| is_elementwise) {
                        if *before != MayBe::Itself {
                            *own = MayBe::Anything;
                        }
                    }
                }
                found.insert(uid, own);
                values.insert(uid, array);
            }
        }
        Ok(Self(found))
    }

    /// Expected values with an engine's own where they may be so.
    pub fn settle(&self, uid: i64, own: &Array, expected: &Array) -> Array {
        let mut settled = expected.clone();
        let found = self.0.get(&uid).map_or(&[][..], Vec::as_slice);
        for ((value, own), may_be) in settled.values.iter_mut().zip(&own.values).zip(found) {
            let finite = [value.is_finite(), own.is_finite()];
            let may = match may_be {
                MayBe::Itself => false,
                MayBe::NotFinite => finite == [false; 2],
                MayBe::Anything => finite != [true; 2],
            };
            if may {
                *value = *own;
            }
        }
        settled
    }
}

/// Whether a node adds terms in single precision, whose magnitudes it would add likewise.
fn adds(node: &Node) -> bool {
    let reduction = || {
        let mode = node.parameter("mode").and_then(Value::as_str).unwrap_or_default();
        ["add", "avg", "norm1"].iter().any(|own| mode.eq_ignore_ascii_case(own))
    };
    let is_sum = match node.operation.as_str() {
        "ConvolutionFwd" | "ConvolutionBwd" | "ConvolutionWrw" | "Matmul" => true,
        "Reduction" => reduction(),
        _ => false,
    };
    is_sum && node.compute_type != DataType::Double
}

/// Whether a node multiplies its first operand by the slope of an activation, which nears 0.
fn has_slope(node: &Node) -> bool {
    mode(node).ends_with("_bwd") && mode(node) != "relu_bwd"
}

/// What a node, alone in a graph, makes of other operands in double precision.
fn exactly(handle: &Handle, part: &Value, read: &Arrays, change: impl Fn(i64, f64) -> f64) -> Result<Arrays> {
    let mut wide = part.clone();
    double::widen(&mut wide, &HashSet::new(), |_| true)?;
    let changed = |(uid, array): &(i64, Array)| {
        let values = array.values.iter().map(|value| change(*uid, *value)).collect();
        (*uid, Array { values, ..array.clone() })
    };
    double::exactly(handle, &wide, &read.iter().map(changed).collect())
}

/// The sums of magnitudes. Terms that are not finite count as 0: what they do to a sum no order changes.
fn magnitudes(handle: &Handle, part: &Value, read: &Arrays) -> Result<Arrays> {
    exactly(handle, part, read, |_, value| if value.is_finite() { value.abs() } else { 0.0 })
}

/// The slopes: gradients of 1.
fn slopes(handle: &Handle, node: &Node, part: &Value, read: &Arrays) -> Result<Arrays> {
    exactly(handle, part, read, |uid, value| if node.input("in_0") == Some(uid) { 1.0 } else { value })
}
