//! Convolutions and matrix multiplications of bytes with what comes before and behind: from the stored bytes to the next ones in one
//! part.
//!
//! Before: nodes that dequantize ([`crate::fusion::dequantized`]). Behind: a bias, a scale, a residual, clips, and nodes that quantize,
//! in the order of [`crate::int8::epilogue`].

use std::collections::BTreeSet;

use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation};

use crate::fusion::behind::{Behind, Start};
use crate::fusion::dequantized::{Dequantized, Number, are_bytes, dequantized};
use crate::fusion::state::{result, slot_of};
use crate::fusion::uses::Uses;
use crate::int8::epilogue::{Param, Residual, Scaled, Stages};
use crate::int8::{self, problem};
use crate::kernel::{Part, Refusal};
use crate::layout::MAX_RANK;
use crate::prepare::Prepared;
use crate::problem::{Problem, pointers};
use crate::settings::Settings;
use crate::simd::isa::Isa;

/// A part, and the nodes before it whose results it does not read.
struct Found {
    part: Part,
    before: Vec<usize>,
}

/// The parts of a graph, and marks what they take. A node that dequantizes belongs to the first part that does its work, unless
/// something else reads its result. `others` tells how many nodes a chain behind a node would have: a longer one is left to it where
/// the operands are stored bytes.
pub(crate) fn parts(
    prepared: &Prepared,
    uses: &Uses<'_>,
    taken: &mut [bool],
    (isa, settings): (Isa, Settings),
    others: impl Fn(usize, &[bool]) -> usize,
) -> Vec<Part> {
    let mut found: Vec<Found> = Vec::new();
    for node in prepared.nodes() {
        let is_product =
            matches!(node.node.operation, Operation::ConvolutionForward(_) | Operation::Matmul(_));
        let part = is_product.then(|| part(prepared, uses, taken, node.place, (isa, settings))).flatten();
        let is_longest =
            |found: &Found| !found.before.is_empty() || found.part.members.len() >= others(node.place, taken);
        if let Some(part) = part.filter(is_longest) {
            part.part.members.iter().for_each(|member| taken[*member] = true);
            found.push(part);
        }
    }
    let read: BTreeSet<i64> = found.iter().flat_map(|found| found.part.tensors.iter().copied()).collect();
    let before: BTreeSet<usize> = found.iter().flat_map(|found| found.before.iter().copied()).collect();
    // Readers come later, so the last ones are known first.
    for index in before.into_iter().rev() {
        let uid = prepared.graph.nodes.get(index).and_then(|node| result_of(&node.operation));
        let is_free = uid.is_some_and(|uid| {
            !read.contains(&uid) && uses.readers(uid).iter().all(|reader| taken.get(*reader) == Some(&true))
        });
        let owner = found.iter_mut().find(|found| found.before.contains(&index));
        if let Some(owner) = owner.filter(|_| is_free && !taken[index]) {
            owner.part.members.push(index);
            owner.part.members.sort_unstable();
            taken[index] = true;
        }
    }
    found.into_iter().map(|found| found.part).collect()
}

/// The tensor that a node writes.
fn result_of(operation: &Operation) -> Option<i64> {
    match operation {
        Operation::BlockScaleDequantize(dequantize) => Some(dequantize.y),
        other => result(other),
    }
}

/// The operands of a product: image and weights.
fn operands(operation: &Operation) -> Option<[i64; 2]> {
    match operation {
        Operation::ConvolutionForward(convolution) => Some([convolution.x, convolution.w]),
        Operation::Matmul(matmul) => Some([matmul.a, matmul.b]),
        _ => None,
    }
}

/// The product with other operands and another result.
fn with(operation: &Operation, [x, w, y]: [i64; 3]) -> Operation {
    let mut operation = operation.clone();
    match &mut operation {
        Operation::ConvolutionForward(convolution) => {
            (convolution.x, convolution.w, convolution.y) = (x, w, y);
        }
        Operation::Matmul(matmul) => (matmul.a, matmul.b, matmul.c) = (x, w, y),
        _ => {}
    }
    operation
}

/// The dimension of the weights, and of the result, along which columns lie.
fn axes(operation: &Operation, rank: usize) -> [usize; 2] {
    match operation {
        Operation::Matmul(_) => [rank - 1; 2],
        _ => [0, 1],
    }
}

/// The part of a product, where it is more than the product.
fn part(
    prepared: &Prepared,
    uses: &Uses<'_>,
    taken: &[bool],
    index: usize,
    (isa, settings): (Isa, Settings),
) -> Option<Found> {
    let graph = &prepared.graph;
    let node = graph.nodes.get(index)?;
    let [x, w] = operands(&node.operation)?;
    let [x, w] = [x, w].map(|uid| dequantized(prepared, uses, uid, are_bytes));
    let (x, w) = (x?, w?);
    let own = result(&node.operation)?;
    let own_type = uses.tensors.get(&own)?.data_type;
    let has_scales = !x.scales.is_empty() || !w.scales.is_empty();
    // Sums with a scale are numbers, and sums without are whole.
    let is_known = match (node.compute_type, has_scales) {
        (DataType::Float, true) => own_type == DataType::Float,
        (DataType::Float, false) => matches!(own_type, DataType::Float | DataType::Int32),
        (DataType::Int32, false) => own_type == DataType::Int32,
        _ => false,
    };
    if !is_known || taken.get(index) != Some(&false) {
        return None;
    }
    let rank = uses.tensors.get(&own)?.dims.len();
    let [w_axis, axis] = axes(&node.operation, rank);
    let start = if has_scales { Start::Scaled } else { Start::Whole };
    let start = (own_type == DataType::Float).then_some(start);
    let behind = Behind::of(prepared, uses, taken, index, axis, start)?;
    let before: Vec<usize> = [&x.nodes, &w.nodes, &behind.before].into_iter().flatten().copied().collect();
    if behind.members.len() == 1 && before.is_empty() {
        return None;
    }
    // Without instructions for bytes only what single precision cannot do: differences of bytes as integers.
    if !int8::is_fast(isa) && (before.is_empty() || node.compute_type != DataType::Int32) {
        return None;
    }
    let operation = with(&node.operation, [x.uid, w.uid, behind.result]);
    let mut tensors = pointers(graph, &operation);
    let stages = stages(uses, [&x, &w], w_axis, axis, &behind, &mut tensors)?;
    let (name, problem) = described(graph, &operation).ok()?;
    let settings = settings.of(graph, &operation);
    let kernel = int8::with_stages(name, problem, stages, (isa, None), settings).ok()?;
    let last = *behind.members.last()?;
    Some(Found { part: Part { node: last, members: behind.members, tensors, kernel }, before })
}

/// The problem of a product, and the name of what computes it.
fn described(graph: &Graph, operation: &Operation) -> Result<(&'static str, problem::Problem), Refusal> {
    match Problem::of(graph, operation)? {
        Problem::Convolution(convolution) => {
            Ok((int8::CONVOLUTION, problem::Problem::of_convolution(&convolution)?))
        }
        Problem::Matmul(matmul) => Ok((int8::MATMUL, problem::Problem::of_matmul(&matmul)?)),
        _ => Err("it is no product".to_owned()),
    }
}

/// The stages with slots for what they read.
fn stages(
    uses: &Uses<'_>,
    [x, w]: [&Dequantized; 2],
    w_axis: usize,
    axis: usize,
    behind: &Behind,
    tensors: &mut Vec<i64>,
) -> Option<Stages> {
    let one = |number: &Number, axis: Option<usize>, tensors: &mut Vec<i64>| {
        number.param(axis, slot_of(tensors, number.uid))
    };
    let all = |numbers: &[Number], axis: Option<usize>, tensors: &mut Vec<i64>| {
        numbers.iter().map(|number| one(number, axis, tensors)).collect::<Option<Vec<Param>>>()
    };
    let some = |number: &Option<Number>, axis: Option<usize>, tensors: &mut Vec<i64>| match number {
        Some(number) => one(number, axis, tensors).map(Some),
        None => Some(None),
    };
    let x_zero = some(&x.zero, None, tensors)?;
    let w_zero = some(&w.zero, Some(w_axis), tensors)?;
    let bias = some(&behind.bias, Some(axis), tensors)?;
    let mut scaled = None;
    if let Some(numbers) = &behind.scaled {
        let mut scales = all(&x.scales, None, tensors)?;
        scales.extend(all(&w.scales, Some(w_axis), tensors)?);
        scales.extend(all(&numbers.scales, Some(axis), tensors)?);
        let residual = match &numbers.residual {
            None => None,
            Some(residual) => {
                let slot = slot_of(tensors, residual.uid);
                let operand = uses.operand(residual.uid, slot)?;
                let mut strides = [0; MAX_RANK];
                strides.iter_mut().zip(operand.layout.strides()).for_each(|(to, stride)| *to = *stride);
                let scale = residual.scales.first().copied();
                Some(Residual {
                    slot,
                    data_type: residual.data_type,
                    strides,
                    zero: some(&residual.zero, None, tensors)?,
                    scale: some(&scale, None, tensors)?,
                })
            }
        };
        let mut quantize = numbers.quantize;
        if let Some(quantize) = &mut quantize {
            quantize.factor = some(&numbers.factor, None, tensors)?;
            quantize.after = some(&numbers.after, None, tensors)?;
        }
        let shift = all(&numbers.shift, Some(axis), tensors)?;
        scaled = Some(Scaled { scales, shift, residual, clips: numbers.clips, quantize });
    }
    Some(Stages { x_zero, w_zero, bias, scaled })
}
