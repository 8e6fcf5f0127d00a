//! Mixtures of experts: a kernel finds the row and the expert of each output row, a second one multiplies. The gradient of the matrices walks
//! each expert's groups.

use std::rc::Rc;

use hipdnn_kernels::form::{Memory, Pointer};
use hipdnn_kernels::{Builder, Scalar, Value};
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::attention::shape::Integers;
use hipdnn_plugin_planner::problem::mixture::{Mixture, MixtureGradient, Routing, Rows};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Tensor};

use crate::Options;
use crate::group::{Domain, Group};
use crate::node::real;
use crate::spelling::unused;

/// The kernels of a mixture of experts or of its gradient, in order; none for other nodes. What is between them is added to the graph.
///
/// # Errors
/// What is not supported.
pub(crate) fn groups(
    graph: &mut Graph,
    node: &Node,
    problem: &Problem,
    options: Options,
) -> Option<Result<Vec<Group>, Refusal>> {
    match problem {
        Problem::Mixture(own) => Some(product(graph, node, own, options)),
        Problem::MixtureGradient(own) => Some(gradient(graph, node, own, options).map(|group| vec![group])),
        _ => None,
    }
}

/// What an output row is computed from: a row of the input, or −1, and an expert.
const ROUTE: usize = 2;

/// An integer of a list.
fn integer(b: &mut Builder, list: Pointer, at: Value, integers: &Integers) -> Value {
    let place = b.mul(at, integers.strides[0]);
    b.load(Memory::Global(list), place)
}

/// The first row of a group, within the rows.
fn first_of(b: &mut Builder, list: Pointer, group: Value, first: &Integers, rows: usize) -> Value {
    let own = integer(b, list, group, first);
    let own = b.max(own, 0);
    b.min(own, rows)
}

fn load(b: &mut Builder, pointer: Pointer, at: &[(Value, usize)], real: Scalar) -> Value {
    let mut place = b.number(0);
    for (index, stride) in at {
        let along = b.mul(*index, *stride);
        place = b.add(place, along);
    }
    let own = b.load(Memory::Global(pointer), place);
    b.convert(own, real)
}

/// The stride of a dimension, which may be any for a single element.
fn stride(dim: usize, stride: usize) -> usize {
    if dim == 1 { 0 } else { stride }
}

fn uid(node: &Node, slot: usize) -> i64 {
    node.operation.tensors().get(slot).copied().unwrap_or_default()
}

/// The routes of all output rows, as a tensor between kernels.
fn routes(graph: &mut Graph, node: &Node, p: &Mixture) -> Result<(Group, i64), Refusal> {
    let [results, _] = p.output.dims;
    let route = unused(graph);
    let dims = [results as i64, ROUTE as i64];
    let tensor = Tensor::new(route, DataType::Int32, &dims, &[ROUTE as i64, 1]);
    graph.tensors.push(Tensor { is_virtual: true, ..tensor });
    let mut group = Group::new(Domain { dims: vec![results, ROUTE], reduced: None });
    let mut uids = vec![uid(node, p.first.slot)];
    match p.routing {
        Routing::None => {}
        Routing::Gather(index) => uids.push(uid(node, index.slot)),
        Routing::Scatter { index, ks, .. } => uids.extend([index, ks].map(|own| uid(node, own.slot))),
    }
    let p = *p;
    let value = group.gather(
        graph,
        Scalar::I32,
        &uids,
        Rc::new(move |b, tensors, indices| {
            let (&[first, ..], &[result, part, ..]) = (tensors, indices) else {
                return b.number(0);
            };
            let row = b.local(Scalar::I32, -1);
            match (&p.routing, tensors) {
                (Routing::Scatter { index, ks, top_k }, [_, of_token, of_ks]) => {
                    // The last row that yields it.
                    b.for_range(0, p.rows, 1, |b, candidate| {
                        let token = integer(b, *of_token, candidate, index);
                        let k = integer(b, *of_ks, candidate, ks);
                        let token = b.mul(token, *top_k);
                        let target = b.add(token, k);
                        let is_own = b.equal(target, result);
                        b.when(is_own, |b| b.set(row, candidate));
                    });
                }
                _ => b.set(row, result),
            }
            let row = b.get(row);
            // The last group that begins at the row or before it.
            let group = b.local(Scalar::I32, -1);
            b.for_range(0, p.first.dims[0], 1, |b, candidate| {
                let begin = first_of(b, first, candidate, &p.first, p.rows);
                let is_own = b.less_equal(begin, row);
                b.when(is_own, |b| b.set(group, candidate));
            });
            let group = b.get(group);
            let is_expert = b.equal(part, 1);
            let chosen = b.max(group, 0);
            let (_, expert) = b.div_rem(chosen, p.weight.dims[0]);
            let from = match (&p.routing, tensors) {
                (Routing::Gather(index), [_, of_token]) => {
                    let own = integer(b, *of_token, row, index);
                    let own = b.max(own, 0);
                    b.min(own, p.token.dims[0] - 1)
                }
                _ => row,
            };
            let is_none = b.less(group, 0);
            let from = b.select(is_none, -1, from);
            b.select(is_expert, expert, from)
        }),
    )?;
    group.write(graph, route, &[ROUTE, 1], value)?;
    Ok((group, route))
}

fn product(graph: &mut Graph, node: &Node, p: &Mixture, options: Options) -> Result<Vec<Group>, Refusal> {
    let real = real(node.compute_type, options)?;
    let (first, route) = routes(graph, node, p)?;
    let uids = [uid(node, p.token.operand.slot), uid(node, p.weight.operand.slot), route];
    let output = p.output;
    let mut group = Group::new(domain(&output));
    let p = *p;
    let value = group.gather(
        graph,
        real,
        &uids,
        Rc::new(move |b, tensors, indices| {
            let (&[token, weight, route], &[.., row, column]) = (tensors, indices) else {
                return b.float(0.0, real);
            };
            let at = b.mul(row, ROUTE);
            let next = b.add(at, 1);
            let from = b.load(Memory::Global(route), at);
            let expert = b.load(Memory::Global(route), next);
            let sum = b.local(real, 0.0);
            let [experts, depth, columns] = p.weight.dims;
            let [expert_step, k_step, column_step] = p.weight.strides;
            let is_there = b.greater_equal(from, 0);
            b.when(is_there, |b| {
                b.for_range(0, depth, 1, |b, k| {
                    let [row_step, depth_step] = p.token.strides;
                    let x = [(from, stride(p.token.dims[0], row_step)), (k, stride(depth, depth_step))];
                    let x = load(b, token, &x, real);
                    let w = [
                        (expert, stride(experts, expert_step)),
                        (k, stride(depth, k_step)),
                        (column, stride(columns, column_step)),
                    ];
                    let w = load(b, weight, &w, real);
                    let so_far = b.get(sum);
                    let next = b.fma(x, w, so_far);
                    b.set(sum, next);
                });
            });
            b.get(sum)
        }),
    )?;
    write(graph, node, &mut group, &output, value)?;
    Ok(vec![first, group])
}

/// The dimensions of a matrix's tensor.
fn domain(rows: &Rows) -> Domain {
    Domain { dims: rows.operand.layout.dims().to_vec(), reduced: None }
}

fn write(graph: &Graph, node: &Node, group: &mut Group, rows: &Rows, value: usize) -> Result<(), Refusal> {
    let strides = crate::adding::spread(&rows.operand);
    group.write(graph, uid(node, rows.operand.slot), &strides, value)
}

fn gradient(graph: &Graph, node: &Node, p: &MixtureGradient, options: Options) -> Result<Group, Refusal> {
    let real = real(node.compute_type, options)?;
    let slots = [p.token.operand.slot, p.d_output.operand.slot, p.first.slot];
    let uids = slots.map(|slot| uid(node, slot));
    let [experts, ..] = p.d_weight.dims;
    let mut group = Group::new(Domain { dims: p.d_weight.dims.to_vec(), reduced: None });
    let p = *p;
    let value = group.gather(
        graph,
        real,
        &uids,
        Rc::new(move |b, tensors, indices| {
            let (&[token, d_output, first], &[expert, i, j]) = (tensors, indices) else {
                return b.float(0.0, real);
            };
            let sum = b.local(real, 0.0);
            let (rows, count) = (p.token.dims[0], p.first.dims[0]);
            b.for_range(0, count / experts, 1, |b, turn| {
                let before = b.mul(turn, experts);
                let group = b.add(before, expert);
                let begin = first_of(b, first, group, &p.first, rows);
                let next = b.add(group, 1);
                let is_last = b.equal(next, count);
                let next = b.min(next, count - 1);
                let end = first_of(b, first, next, &p.first, rows);
                let end = b.select(is_last, rows, end);
                b.for_range(begin, end, 1, |b, row| {
                    let of = |own: &Rows, column: Value| {
                        let [row_step, column_step] = own.strides;
                        [(row, stride(rows, row_step)), (column, stride(own.dims[1], column_step))]
                    };
                    let x = load(b, token, &of(&p.token, i), real);
                    let dy = load(b, d_output, &of(&p.d_output, j), real);
                    let so_far = b.get(sum);
                    let next = b.fma(x, dy, so_far);
                    b.set(sum, next);
                });
            });
            b.get(sum)
        }),
    )?;
    let strides = crate::adding::spread(&p.d_weight.operand);
    group.write(graph, uid(node, p.d_weight.operand.slot), &strides, value)?;
    Ok(group)
}
