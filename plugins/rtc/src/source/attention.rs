//! Attention nodes as kernels of the crate `hipdnn-kernels`.

use hipdnn_kernels::attention::{self, Attention, Band, Mask, Scale, Tensor};
use hipdnn_kernels::{Scalar, Target};
use hipdnn_plugin_planner::problem::attention::shape::{Integers, Sequences, Start};
use hipdnn_plugin_planner::problem::attention::{self as planned, alibi, options};
use hipdnn_plugin_planner::problem::{Operand, pointers};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node};

use super::kernel::Kernel;
use super::matrix::{alignment, in_memory, made, scalar};
use crate::Refusal;

/// The tensors of a kernel's parameters as they are added.
struct Uids<'a> {
    graph: &'a Graph,
    all: Vec<i64>,
    used: Vec<i64>,
}

impl Uids<'_> {
    /// Adds the tensor in a slot.
    fn add(&mut self, slot: usize) -> i64 {
        let uid = self.all.get(slot).copied().unwrap_or_default();
        self.used.push(uid);
        uid
    }

    /// A tensor in memory with these strides.
    fn tensor(&mut self, name: &str, operand: &Operand, strides: [usize; 4]) -> Result<Tensor, Refusal> {
        let uid = self.add(operand.slot);
        in_memory(self.graph, name, uid, operand)?;
        let scalar = if operand.data_type == DataType::Boolean {
            Scalar::Bool
        } else {
            scalar(name, operand.data_type)?
        };
        Ok(Tensor { scalar, strides, alignment: alignment(self.graph, uid, scalar) })
    }

    fn sequences(&mut self, name: &str, sequences: &Sequences) -> Result<Tensor, Refusal> {
        if sequences.start != Start::Even {
            return Err(format!("{name}: is ragged, paged or packed, expected sequences at even distances"));
        }
        self.tensor(name, &sequences.operand, sequences.strides())
    }

    fn integers(&mut self, integers: &Integers) -> (Scalar, usize) {
        self.add(integers.slot);
        let scalar = if integers.data_type == DataType::Int64 { Scalar::I64 } else { Scalar::I32 };
        (scalar, integers.strides[0])
    }
}

/// Refuses what is there.
fn absent(name: &str, there: bool) -> Result<(), Refusal> {
    if there { Err(format!("{name}: is set, expected none")) } else { Ok(()) }
}

/// The kernel of an attention.
pub(super) fn kernel(
    graph: &Graph,
    node: &Node,
    problem: &planned::Attention,
    target: &Target,
    name: &str,
) -> Result<Kernel, Refusal> {
    if node.compute_type != DataType::Float {
        return Err(format!("compute type is {}, expected float", node.compute_type.name()));
    }
    let (shape, options, factors) = (&problem.shape, &problem.options, &problem.factors);
    absent("block_mask", problem.block_mask.is_some())?;
    absent("dropout", options.dropout.is_some())?;
    absent("rng_dump", problem.rng_dump.is_some())?;
    absent("amax_s", problem.amax_s.is_some())?;
    absent("amax_o", problem.amax_o.is_some())?;
    absent("descale_q", factors.descale_q.is_some() || factors.descale_k.is_some())?;
    absent("descale_v", factors.descale_v.is_some() || factors.descale_s.is_some())?;
    absent("scale_s", factors.scale_s.is_some() || factors.scale_o.is_some())?;
    if shape.packed {
        return Err("q: is packed, expected a sequence for each index of dimension 0".to_owned());
    }
    let mut uids = Uids { graph, all: pointers(graph, &node.operation), used: Vec::new() };
    let q = uids.sequences("q", &problem.q)?;
    let k = uids.sequences("k", &problem.k)?;
    let v = uids.sequences("v", &problem.v)?;
    let o = uids.sequences("o", &problem.o)?;
    let scale = match options.scale {
        options::Scale::Value(value) => Scale::Value(f64::from(value)),
        options::Scale::Tensor(own) => {
            let tensor = uids.all.get(own.slot).and_then(|uid| graph.tensor(*uid));
            match tensor {
                Some(tensor) if tensor.value.is_some() => {
                    let number = tensor.value.as_ref().and_then(|value| value.as_f64());
                    Scale::Value(
                        number.ok_or("attn_scale: has an 8-bit float as its value, expected a wider type")?,
                    )
                }
                Some(tensor) if tensor.is_runtime_pass_by_value => {
                    uids.add(own.slot);
                    Scale::Passed
                }
                _ => {
                    uids.add(own.slot);
                    Scale::Memory(scalar("attn_scale", own.data_type)?)
                }
            }
        }
    };
    let mask = match &options.mask {
        Some(spread) => Some(Mask { tensor: uids.tensor("attn_mask", &spread.operand, spread.strides)? }),
        None => None,
    };
    let lengths =
        options.lengths.as_ref().map(|lengths| [uids.integers(&lengths[0]), uids.integers(&lengths[1])]);
    let sink = match problem.sink {
        Some(sink) => {
            let uid = uids.add(sink.slot);
            let by_value = graph
                .tensor(uid)
                .is_none_or(|tensor| tensor.value.is_some() || tensor.is_runtime_pass_by_value);
            absent("sink_token by value", by_value)?;
            Some((scalar("sink_token", sink.data_type)?, sink.stride))
        }
        None => None,
    };
    let mut statistics = [None; 3];
    let named = [("stats", &problem.stats), ("max", &problem.max), ("sum_exp", &problem.sum_exp)];
    for (to, (name, from)) in statistics.iter_mut().zip(named) {
        if let Some(from) = from {
            *to = Some(uids.sequences(name, from)?);
        }
    }
    // A bound beyond every key is none.
    let reach = (shape.queries + shape.keys) as u64;
    let bound = |bound: Option<u64>| bound.filter(|bound| *bound < reach).map(|bound| bound as usize);
    let attention = Attention {
        batch: shape.batch,
        heads: shape.heads,
        key_heads: shape.key_heads,
        value_heads: shape.value_heads,
        queries: shape.queries,
        keys: shape.keys,
        depth: shape.depth,
        value_depth: shape.value_depth,
        q,
        k,
        v,
        o,
        scale,
        mask,
        band: Band {
            left: bound(options.band.left),
            right: bound(options.band.right),
            bottom_right: options.band.bottom_right,
        },
        slopes: options.alibi.then(|| (0..shape.heads).map(|head| alibi::slope(head, shape.heads)).collect()),
        lengths,
        sink,
        statistics,
    };
    let launch = attention::write(&attention, target, name)?;
    Ok(made(&launch, &uids.used, target))
}
