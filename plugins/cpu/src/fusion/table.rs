//! Functions of a byte: element-wise nodes between two tensors of bytes become a table of 256 results, made
//! while planning.

use std::collections::BTreeSet;

use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation, Tensor};

use crate::fusion::delayed;
use crate::fusion::dequantized::are_bytes;
use crate::fusion::exact::compute_of;
use crate::fusion::state::is_chainable;
use crate::fusion::uses::Uses;
use crate::kernel::Part;
use crate::pointwise;
use crate::pointwise::lookup::{ENTRIES, Lookup, Table};
use crate::prepare::{CheckedNode, Prepared};
use crate::problem::{Problem, pointers};
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::threading::partition::Threads;

/// The most nodes to examine after a byte.
const MOST: usize = 64;

/// The fewest nodes worth a table: one node is as fast as a lookup.
const LEAST: usize = 2;

/// Nodes that a table replaces.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) members: Vec<usize>,
    /// The bytes that the last one writes.
    pub(crate) result: i64,
    pub(crate) table: Table,
}

impl Function {
    /// The longest run of nodes from one tensor of bytes to another that are functions of its elements alone.
    /// `is_inner` means that nothing else may read the tensor.
    pub(crate) fn of(
        prepared: &Prepared,
        uses: &Uses<'_>,
        taken: &[bool],
        from: i64,
        (isa, is_inner): (Isa, bool),
    ) -> Option<Self> {
        let tensor = uses.tensors.get(&from)?;
        let found = reached(prepared, uses, taken, from);
        for (end, last) in found.iter().enumerate().rev() {
            let result = result_of(prepared, *last)?;
            if !uses.tensors.get(&result).is_some_and(|tensor| are_bytes(tensor.data_type)) {
                continue;
            }
            let members = needed(prepared, found.get(..=end)?);
            let is_read_inside = |uid: i64| uses.readers(uid).iter().all(|reader| members.contains(reader));
            let are_hidden = members.iter().filter(|member| *member != last).all(|member| {
                result_of(prepared, *member).is_some_and(|uid| {
                    is_read_inside(uid) && uses.tensors.get(&uid).is_some_and(|tensor| tensor.is_virtual)
                })
            });
            if members.len() >= LEAST && are_hidden && (!is_inner || is_read_inside(from)) {
                let members: Vec<usize> = members.into_iter().collect();
                let entries = entries(prepared, uses, &members, [from, result], isa)?;
                return Some(Self { members, result, table: Table { from: tensor.data_type, entries } });
            }
        }
        None
    }
}

/// Finds the parts of a graph that are tables and marks their nodes as taken.
pub(crate) fn parts(
    prepared: &Prepared,
    uses: &Uses<'_>,
    taken: &mut [bool],
    (isa, settings): (Isa, Settings),
) -> Vec<Part> {
    let mut parts = Vec::new();
    for node in prepared.nodes() {
        for from in node.node.operation.inputs() {
            let is_free = taken.get(node.place) == Some(&false);
            let is_of_bytes = uses.tensors.get(&from).is_some_and(|tensor| are_bytes(tensor.data_type));
            let part = (is_free && is_of_bytes)
                .then(|| part(prepared, uses, taken, from, (isa, settings)))
                .flatten();
            if let Some(part) = part {
                part.members.iter().for_each(|member| taken[*member] = true);
                parts.push(part);
            }
        }
    }
    parts
}

fn part(
    prepared: &Prepared,
    uses: &Uses<'_>,
    taken: &[bool],
    from: i64,
    (isa, settings): (Isa, Settings),
) -> Option<Part> {
    let Function { members, result, table } = Function::of(prepared, uses, taken, from, (isa, false))
        .filter(|function| !delayed::reads(prepared, uses, &function.members))?;
    let kernel =
        Lookup::plan(table, uses.operand(from, 0)?, uses.operand(result, 1)?, settings.threads).ok()?;
    let (node, tensors) = (*members.last()?, vec![from, result]);
    Some(Part { node, members, tensors, kernel: Box::new(kernel), writes_early: false })
}

/// The tensor that a node of a function writes.
fn result_of(prepared: &Prepared, index: usize) -> Option<i64> {
    match &prepared.graph.nodes.get(index)?.operation {
        Operation::Pointwise(pointwise) => Some(pointwise.out_0),
        _ => None,
    }
}

/// The nodes, in graph order, whose results are functions of a tensor's elements.
fn reached(prepared: &Prepared, uses: &Uses<'_>, taken: &[bool], from: i64) -> Vec<usize> {
    let Some(dims) = uses.tensors.get(&from).map(|tensor| &tensor.dims) else { return Vec::new() };
    let mut values = BTreeSet::from([from]);
    let mut candidates: BTreeSet<usize> = uses.readers(from).iter().copied().collect();
    let mut found = Vec::new();
    while let Some(index) = candidates.pop_first() {
        let Some(checked) = prepared.node(index).filter(|_| taken.get(index) == Some(&false)) else {
            continue;
        };
        let operation = &checked.node.operation;
        let is_known = |uid: &i64| {
            let tensor = uses.tensors.get(uid);
            let is_number = |tensor: &Tensor| tensor.value.is_some() && tensor.data_type == DataType::Float;
            values.contains(uid) || tensor.is_some_and(|tensor| is_number(tensor))
        };
        let result = result_of(prepared, index).and_then(|uid| Some((uid, uses.tensors.get(&uid)?)));
        let Some((uid, tensor)) = result else { continue };
        let is_of_type = tensor.data_type == DataType::Float || are_bytes(tensor.data_type);
        let is_float = checked.node.compute_type == DataType::Float && is_chainable(operation);
        if is_of_type && is_float && tensor.dims == *dims && operation.inputs().iter().all(is_known) {
            values.insert(uid);
            found.push(index);
            candidates.extend(uses.readers(uid));
        }
        if found.len() == MOST {
            break;
        }
    }
    found
}

/// Those of the nodes that the last one needs, and the last one.
fn needed(prepared: &Prepared, found: &[usize]) -> BTreeSet<usize> {
    let mut members = BTreeSet::new();
    let mut wanted: BTreeSet<i64> =
        found.last().and_then(|last| result_of(prepared, *last)).into_iter().collect();
    for index in found.iter().rev() {
        let is_wanted = result_of(prepared, *index).is_some_and(|uid| wanted.contains(&uid));
        if let Some(node) = prepared.graph.nodes.get(*index).filter(|_| is_wanted) {
            members.insert(*index);
            wanted.extend(node.operation.inputs());
        }
    }
    members
}

/// The results for every byte, indexed by its bits, computed by the nodes' own kernels.
fn entries(
    prepared: &Prepared,
    uses: &Uses<'_>,
    members: &[usize],
    [from, to]: [i64; 2],
    isa: Isa,
) -> Option<[u8; ENTRIES]> {
    let nodes = members.iter().map(|index| prepared.graph.nodes.get(*index)).collect::<Option<Vec<_>>>()?;
    let uids: BTreeSet<i64> = nodes.iter().flat_map(|node| node.operation.tensors()).collect();
    let uids: Vec<i64> = uids.into_iter().collect();
    let place = |uid: i64| uids.binary_search(&uid).ok();
    let mut tensors = Vec::with_capacity(uids.len());
    // One word per element; bytes are at the start of their tensor's words.
    let mut memory = vec![0_u32; uids.len() * ENTRIES];
    for (uid, words) in uids.iter().zip(memory.chunks_exact_mut(ENTRIES)) {
        let tensor = uses.tensors.get(uid)?;
        if let Some(value) = &tensor.value {
            words.fill((value.as_f64()? as f32).to_bits());
        }
        if *uid == from {
            for (word, first) in words.iter_mut().zip((0..=u8::MAX).step_by(4)) {
                *word = u32::from_ne_bytes([0, 1, 2, 3].map(|at| first + at));
            }
        }
        let count = if tensor.value.is_some() { 1 } else { ENTRIES as i64 };
        tensors.push(Tensor::new(*uid, tensor.data_type, &[count], &[1]));
    }
    let graph = Graph { tensors, ..Graph::default() };
    let first = memory.as_mut_ptr();
    for node in nodes {
        let problem = Problem::of(&graph, &node.operation).ok()?;
        let Problem::Pointwise(of) = &problem else { return None };
        let compute = compute_of(&CheckedNode { place: 0, node, problem: &problem }).ok()?;
        let kernel = pointwise::plan(of, compute, isa, Threads { most: 1, ..Threads::default() }).ok()?;
        let own = pointers(&graph, &node.operation).into_iter().map(place).collect::<Option<Vec<_>>>()?;
        let own: Vec<*mut u8> = own.into_iter().map(|at| first.wrapping_add(at * ENTRIES).cast()).collect();
        let mut scratch = vec![0_u64; kernel.scratch_size().div_ceil(8) + 8];
        let aligned = scratch.as_mut_ptr().cast::<u8>();
        // SAFETY: every tensor has its own memory for 256 elements of at most four bytes, and the scratch
        // memory has an extra cache line.
        unsafe { kernel.run(&own, aligned.wrapping_add(aligned.align_offset(64))) };
    }
    let words = memory.chunks_exact(ENTRIES).nth(place(to)?)?;
    let mut entries = [0; ENTRIES];
    for (four, word) in entries.chunks_exact_mut(4).zip(words) {
        four.copy_from_slice(&word.to_ne_bytes());
    }
    Some(entries)
}
