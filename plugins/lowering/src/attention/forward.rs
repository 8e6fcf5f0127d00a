//! Attention as kernels.

use std::ops::Range;

use hipdnn_kernels::attention::{self, Attention, Tensor, parts};
use hipdnn_kernels::domain::{Access, Join, Origin, Program, Store};
use hipdnn_kernels::form::Parameter;
use hipdnn_kernels::{Scalar, Target};
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::attention as planned;
use hipdnn_plugin_planner::problem::attention::options;
use hipdnn_plugin_sdk::graph::{Graph, Node};

use super::{Uids, Whole, absent, between, check_compute_type, launch, named};
use crate::Argument;
use crate::way::Way;

/// The tensor of one element that receives the largest of all rows.
struct Largest {
    name: &'static str,
    uid: i64,
    scalar: Scalar,
}

/// The kernels of an attention, in order.
///
/// # Errors
/// What is not supported.
pub(super) fn forward(
    graph: &mut Graph,
    node: &Node,
    problem: &planned::Attention,
    way: Way<'_>,
) -> Result<Vec<Whole>, Refusal> {
    let Way { target, name, .. } = way;
    check_compute_type(node, &problem.q)?;
    let (shape, options, factors) = (&problem.shape, &problem.options, &problem.factors);
    absent("rng_dump", problem.rng_dump.is_some())?;
    // The largest score of a row with a sink need not be its largest power.
    absent("amax_s with sink_token", problem.amax_s.is_some() && problem.sink.is_some())?;
    let mut uids = Uids::new(graph, node);
    let q = uids.sequences("q", &problem.q)?;
    let k = uids.sequences("k", &problem.k)?;
    let v = uids.sequences("v", &problem.v)?;
    let at_o = uids.used.len();
    let o = uids.sequences("o", &problem.o)?;
    let mut attention = uids.attention(shape, options, [q, k, v, o], way)?;
    if let Some(mask) = problem.block_mask {
        uids.elements("block_mask", mask.slot)?;
        attention.block_mask = Some(mask.strides);
    }
    let [of_q, of_k, of_v] = &mut attention.factors;
    *of_q = uids.factor("descale_q", &factors.descale_q)?;
    *of_k = uids.factor("descale_k", &factors.descale_k)?;
    attention.sink = match problem.sink {
        Some(sink) => {
            uids.elements("sink_token", sink.slot)?;
            Some((named("sink_token", sink.data_type)?, sink.stride))
        }
        None => None,
    };
    let at_statistics = uids.used.len();
    let of_rows = [("stats", &problem.stats), ("max", &problem.max), ("sum_exp", &problem.sum_exp)];
    for (to, (name, from)) in attention.statistics.iter_mut().zip(of_rows) {
        if let Some(from) = from {
            *to = Some(uids.sequences(name, from)?);
        }
    }
    let behind_statistics = uids.used.len();
    *of_v = uids.factor("descale_v", &factors.descale_v)?;
    let scales =
        [("descale_s", factors.descale_s), ("scale_s", factors.scale_s), ("scale_o", factors.scale_o)];
    for (to, (name, from)) in attention.scales.iter_mut().zip(scales) {
        if let Some(from) = from {
            *to = Some(uids.scale(name, &options::Scale::Tensor(from))?);
        }
    }
    let mut largest = Vec::new();
    let wanted = [("amax_s", problem.amax_s), ("amax_o", problem.amax_o)];
    for (to, (name, from)) in attention.largest.iter_mut().zip(wanted) {
        let Some(from) = from else { continue };
        *to = true;
        let uid = uids.all.get(from.slot).copied().unwrap_or_default();
        largest.push(Largest { name, uid, scalar: named(name, from.data_type)? });
    }
    let mut arguments = uids.used;
    let parts = parts::count(&attention, target);
    if parts > 1 {
        return in_parts(graph, &attention, way, parts, (arguments, at_o, at_statistics..behind_statistics));
    }
    let written = attention::write(&attention, target, name)?;
    let mut behind = Vec::new();
    for own in largest {
        let dims = [shape.batch, shape.heads, shape.queries, 1];
        let (uid, rows) = between(graph, Scalar::F32, dims);
        arguments.push(Argument::Memory(uid));
        behind.push(of_all(&attention, &rows, uid, &own, target, &format!("{name}_{}", own.name))?);
    }
    let mut kernels = vec![Whole { launch: written, arguments }];
    kernels.append(&mut behind);
    Ok(kernels)
}

/// The kernels of an attention whose keys so many workgroups share, from the arguments of the kernel without that, and where the output
/// and the statistics are among them.
fn in_parts(
    graph: &mut Graph,
    attention: &Attention,
    way: Way<'_>,
    parts: usize,
    (mut arguments, at_o, at_statistics): (Vec<Argument>, usize, Range<usize>),
) -> Result<Vec<Whole>, Refusal> {
    let parts::Shared { first, second } = parts::write(attention, way.target, way.name, parts)?;
    let real = if attention.operand() == Scalar::F64 { Scalar::F64 } else { Scalar::F32 };
    let [o, maxima, sums] = attention
        .between(parts, real)
        .map(|(tensor, dims)| Argument::Memory(between(graph, tensor.scalar, dims).0));
    let of_rows: Vec<Argument> = arguments.splice(at_statistics, [maxima, sums]).collect();
    let result = arguments.get_mut(at_o).map(|own| std::mem::replace(own, o));
    let combined = [o, maxima, sums].into_iter().chain(result).chain(of_rows).collect();
    Ok(vec![Whole { launch: first, arguments }, Whole { launch: second, arguments: combined }])
}

/// The kernel that finds the largest number of all rows.
fn of_all(
    attention: &Attention,
    rows: &Tensor,
    uid: i64,
    largest: &Largest,
    target: &Target,
    name: &str,
) -> Result<Whole, Refusal> {
    let mut program = Program {
        dims: vec![attention.batch, attention.heads, attention.queries],
        reduced: Some(vec![true; 3]),
        ..Program::default()
    };
    let mut access = |scalar: Scalar, strides: &[usize], written: bool| {
        program.parameters.push(Parameter::Memory { scalar, written, alignment: scalar.size() });
        let parameter = program.parameters.len() - 1;
        let strides = strides.iter().copied().take(3).collect();
        Access { parameter, scalar, strides, alignment: scalar.size() }
    };
    let from = access(rows.scalar, &rows.strides, false);
    let to = access(largest.scalar, &[0; 3], true);
    let loaded = program.push(Origin::Load(from), Scalar::F32);
    let value = program.push(Origin::Reduce(Join::Greatest, loaded), Scalar::F32);
    program.stores.push(Store { value, access: to });
    let written = program.write(name, target)?;
    let arguments = vec![Argument::Memory(uid), Argument::Memory(largest.uid)];
    Ok(Whole { launch: launch(written), arguments })
}
