//! Fuses int8 convolutions and matmuls with the nodes around them, from stored bytes to stored bytes.
//!
//! Before: nodes that dequantize ([`crate::fusion::dequantized`]). After: a bias, a scale, a residual, clips,
//! and nodes that quantize, in the order of [`crate::int8::epilogue`].

use std::collections::BTreeSet;

use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation};

use crate::depthwise::bytes::Depthwise;
use crate::depthwise::bytes_last::ChannelsLast;
use crate::fusion::byte_epilogue::{ByteEpilogue, FusedPostOp, Requantization, Start};
use crate::fusion::delayed;
use crate::fusion::dequantized::{Dequantized, Number, are_bytes, dequantized};
use crate::fusion::state::{result, slot_of};
use crate::fusion::uses::Uses;
use crate::int8::epilogue::{MAX_POST_OPS, Param, PostOp, Residual, Scaled, Stages};
use crate::int8::{self, problem};
use crate::kernel::{Kernel, MAX_TENSORS, Part, Refusal, boxed};
use crate::layout::MAX_RANK;
use crate::prepare::Prepared;
use crate::problem::{Problem, pointers};
use crate::settings::Settings;
use crate::simd::isa::Isa;

/// A part, and the dequantizing nodes that it makes unnecessary.
struct Found {
    part: Part,
    before: Vec<usize>,
}

/// Finds the int8 parts of a graph and marks their nodes as taken. A dequantizing node belongs to the first
/// part that does its work, unless something else reads its result. `others` gives the length of a chain
/// after a node, which wins if it is longer and the operands are stored bytes.
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
    // In reverse: readers come later in the graph.
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

/// The operands of a product: input and weights.
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

/// The dimension of the columns, in the weights and in the result.
fn axes(operation: &Operation, rank: usize) -> [usize; 2] {
    match operation {
        Operation::Matmul(_) => [rank - 1; 2],
        _ => [0, 1],
    }
}

/// The part of a product with an epilogue, if it has one: stages after bytes only if they read little.
fn part(
    prepared: &Prepared,
    uses: &Uses<'_>,
    taken: &[bool],
    index: usize,
    at: (Isa, Settings),
) -> Option<Found> {
    let part = |most| part_of(prepared, uses, taken, (index, most), at);
    part(MAX_POST_OPS).or_else(|| part(0))
}

fn part_of(
    prepared: &Prepared,
    uses: &Uses<'_>,
    taken: &[bool],
    (index, most): (usize, usize),
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
    // Scaled sums are floats, unscaled ones integers.
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
    let epilogue = ByteEpilogue::of(prepared, uses, taken, (index, axis), start, (isa, most))?;
    let before: Vec<usize> = [&x.nodes, &w.nodes, &epilogue.before].into_iter().flatten().copied().collect();
    let nodes: Vec<usize> = epilogue.members.iter().chain(&before).copied().collect();
    if nodes.len() == 1 || delayed::reads(prepared, uses, &nodes) {
        return None;
    }
    // Without int8 instructions, only what single precision cannot do: differences of bytes as integers.
    if !int8::is_fast(isa) && (before.is_empty() || node.compute_type != DataType::Int32) {
        return None;
    }
    let operation = with(&node.operation, [x.uid, w.uid, epilogue.result]);
    let mut tensors = pointers(graph, &operation);
    let stages = stages(uses, [&x, &w], w_axis, axis, &epilogue, &mut tensors)?;
    if tensors.len() > MAX_TENSORS {
        return None;
    }
    let kernel = planned(graph, &operation, stages, isa, settings.of(graph, &operation)).ok()?;
    let last = *epilogue.members.last()?;
    let part = Part { node: last, members: epilogue.members, tensors, kernel, writes_early: false };
    Some(Found { part, before })
}

/// The kernel of a product.
fn planned(
    graph: &Graph,
    operation: &Operation,
    stages: Stages,
    isa: Isa,
    settings: Settings,
) -> Result<Box<dyn Kernel>, Refusal> {
    match Problem::of(graph, operation)? {
        Problem::Convolution(convolution) if convolution.in_channels == 1 && convolution.groups > 1 => {
            let last = boxed(|| ChannelsLast::plan(&convolution, stages.clone(), isa, settings));
            last.or_else(|_| boxed(|| Depthwise::plan(&convolution, stages, isa, settings)))
        }
        Problem::Convolution(convolution) => {
            let problem = problem::Problem::of_convolution(&convolution)?;
            int8::with_stages(int8::CONVOLUTION, problem, stages, (isa, None), settings)
        }
        Problem::Matmul(matmul) => {
            let problem = problem::Problem::of_matmul(&matmul)?;
            int8::with_stages(int8::MATMUL, problem, stages, (isa, None), settings)
        }
        _ => Err("the node is not a matmul or convolution".to_owned()),
    }
}

/// The epilogue's stages, with slots for what they read.
fn stages(
    uses: &Uses<'_>,
    [x, w]: [&Dequantized; 2],
    w_axis: usize,
    axis: usize,
    epilogue: &ByteEpilogue,
    tensors: &mut Vec<i64>,
) -> Option<Stages> {
    let mut params = Params { uses, axis, tensors };
    let x_zero = params.some(&x.zero, None)?;
    let w_zero = params.some(&w.zero, Some(w_axis))?;
    let bias = params.some(&epilogue.bias, Some(axis))?;
    let mut scaled = None;
    if let Some(numbers) = &epilogue.scaled {
        let mut scales = params.all(&x.scales, None)?;
        scales.extend(params.all(&w.scales, Some(w_axis))?);
        scaled = Some(params.scaled(numbers, scales)?);
    }
    let mut post_ops = Vec::with_capacity(epilogue.post_ops.len());
    for post_op in &epilogue.post_ops {
        post_ops.push(match post_op {
            FusedPostOp::Table(table, to) => PostOp::Table(Box::new(table.by_value(*to)), table.from),
            FusedPostOp::Round(numbers) => {
                let zero = params.some(&numbers.zero, None)?;
                let scaled = Box::new(params.scaled(numbers, Vec::new())?);
                PostOp::Round { zero, scaled, output: numbers.output }
            }
        });
    }
    let inner = epilogue.scaled.as_ref().filter(|_| !post_ops.is_empty()).map(|numbers| numbers.output);
    Some(Stages { x_zero, w_zero, bias, scaled, inner, post_ops })
}

/// The parameters of a part, whose tensors are added to `tensors`.
struct Params<'a, 'b> {
    uses: &'a Uses<'b>,
    /// The dimension of the result that has the columns.
    axis: usize,
    tensors: &'a mut Vec<i64>,
}

impl Params<'_, '_> {
    fn all(&mut self, numbers: &[Number], axis: Option<usize>) -> Option<Vec<Param>> {
        numbers.iter().map(|number| number.param(self.uses, axis, self.tensors)).collect()
    }

    fn some(&mut self, number: &Option<Number>, axis: Option<usize>) -> Option<Option<Param>> {
        match number {
            Some(number) => number.param(self.uses, axis, self.tensors).map(Some),
            None => Some(None),
        }
    }

    /// Single-precision stages after sums that already have some scales.
    fn scaled(&mut self, numbers: &Requantization, mut scales: Vec<Param>) -> Option<Scaled> {
        let axis = Some(self.axis);
        scales.extend(self.all(&numbers.scales, axis)?);
        let residual = match &numbers.residual {
            None => None,
            Some(residual) => {
                let slot = slot_of(self.tensors, residual.uid);
                let operand = self.uses.operand(residual.uid, slot)?;
                let mut strides = [0; MAX_RANK];
                strides.iter_mut().zip(operand.layout.strides()).for_each(|(to, stride)| *to = *stride);
                let scale = residual.scales.first().copied();
                Some(Residual {
                    slot,
                    data_type: residual.data_type,
                    strides,
                    zero: self.some(&residual.zero, None)?,
                    scale: self.some(&scale, None)?,
                })
            }
        };
        let mut quantize = numbers.quantize;
        if let Some(quantize) = &mut quantize {
            quantize.factor = self.some(&numbers.factor, None)?;
            quantize.after = self.some(&numbers.after, None)?;
        }
        let shift = self.all(&numbers.shift, axis)?;
        let second = self.some(&numbers.second, axis)?;
        Some(Scaled { scales, second, shift, residual, clips: numbers.clips, quantize })
    }
}
