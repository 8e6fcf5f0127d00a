//! Attention nodes as kernels of the crate `hipdnn-kernels`.

mod gradients;

use hipdnn_kernels::attention::{self, Attention, Band, Mask, Scale, Tensor};
use hipdnn_kernels::product::Launch;
use hipdnn_kernels::{Scalar, Target, form};
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::attention::options::{self, Options};
use hipdnn_plugin_planner::problem::attention::shape::{Integers, Sequences, Shape, Start};
use hipdnn_plugin_planner::problem::attention::{self as planned, alibi};
use hipdnn_plugin_planner::problem::{Operand, Problem, pointers};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node};

use crate::Argument;
use crate::group::scalar;
use crate::memory::{alignment, in_memory};

/// A kernel of a node that is computed by itself.
#[derive(Clone, Debug)]
pub struct Whole {
    /// The kernel and its workgroups.
    pub launch: Launch,
    /// Its arguments, in the order of its parameters.
    pub arguments: Vec<Argument>,
}

impl Whole {
    /// The tensors that it reads.
    pub fn reads(&self) -> impl Iterator<Item = i64> + '_ {
        let all = self.launch.kernel.parameters.iter().zip(&self.arguments);
        let read =
            all.filter(|(parameter, _)| !matches!(parameter, form::Parameter::Memory { written: true, .. }));
        read.map(|(_, argument)| argument.uid())
    }
}

/// The tensors of a kernel's parameters as they are added.
struct Uids<'a> {
    graph: &'a Graph,
    all: Vec<i64>,
    used: Vec<Argument>,
}

impl<'a> Uids<'a> {
    fn new(graph: &'a Graph, node: &Node) -> Self {
        Self { graph, all: pointers(graph, &node.operation), used: Vec::new() }
    }

    /// Adds the tensor in a slot.
    fn add(&mut self, slot: usize) -> i64 {
        let uid = self.all.get(slot).copied().unwrap_or_default();
        self.used.push(Argument::Memory(uid));
        uid
    }

    /// A tensor in memory with these strides.
    fn tensor(&mut self, name: &str, operand: &Operand, strides: [usize; 4]) -> Result<Tensor, Refusal> {
        let uid = self.add(operand.slot);
        in_memory(self.graph, name, uid, operand)?;
        let scalar = named(name, operand.data_type)?;
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

    fn scale(&mut self, scale: &options::Scale) -> Result<Scale, Refusal> {
        let own = match scale {
            options::Scale::Value(value) => return Ok(Scale::Value(f64::from(*value))),
            options::Scale::Tensor(own) => own,
        };
        let uid = self.all.get(own.slot).copied().unwrap_or_default();
        match self.graph.tensor(uid) {
            Some(tensor) if tensor.value.is_some() => {
                let number = tensor.value.as_ref().and_then(|value| value.as_f64());
                let number =
                    number.ok_or("attn_scale: has an 8-bit float as its value, expected a wider type")?;
                Ok(Scale::Value(number))
            }
            Some(tensor) if tensor.is_runtime_pass_by_value => {
                let of_byte = named("attn_scale", own.data_type)?.size() == 1;
                absent("attn_scale by value of 8 bits", of_byte)?;
                self.used.push(Argument::Number { uid, data_type: tensor.data_type });
                Ok(Scale::Passed)
            }
            _ => {
                self.add(own.slot);
                Ok(Scale::Memory(named("attn_scale", own.data_type)?))
            }
        }
    }

    fn mask(&mut self, mask: &Option<options::Spread>) -> Result<Option<Mask>, Refusal> {
        let Some(spread) = mask else { return Ok(None) };
        Ok(Some(Mask { tensor: self.tensor("attn_mask", &spread.operand, spread.strides)? }))
    }

    fn lengths(&mut self, options: &Options) -> Option<[(Scalar, usize); 2]> {
        options.lengths.as_ref().map(|lengths| [self.integers(&lengths[0]), self.integers(&lengths[1])])
    }
}

/// The kernels' type of a tensor's elements.
fn named(name: &str, data_type: DataType) -> Result<Scalar, Refusal> {
    scalar(data_type).map_err(|refusal| format!("{name}: {refusal}"))
}

/// Refuses what is there.
fn absent(name: &str, there: bool) -> Result<(), Refusal> {
    if there { Err(format!("{name}: is set, expected none")) } else { Ok(()) }
}

/// Refuses compute types that do not fit the queries.
fn check_compute_type(node: &Node, q: &Sequences) -> Result<(), Refusal> {
    let wide = q.operand.data_type == DataType::Double;
    let fits = match node.compute_type {
        DataType::Float | DataType::Half | DataType::Bfloat16 => !wide,
        DataType::Double => wide,
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let expected = if wide { "double as q is double" } else { "float" };
    Err(format!("compute type is {}, expected {expected}", node.compute_type.name()))
}

fn band(band: &options::Band, shape: &Shape) -> Band {
    // A bound beyond every key is none.
    let reach = (shape.queries + shape.keys) as u64;
    let bound = |bound: Option<u64>| bound.filter(|bound| *bound < reach).map(|bound| bound as usize);
    Band { left: bound(band.left), right: bound(band.right), bottom_right: band.bottom_right }
}

fn slopes(options: &Options, shape: &Shape) -> Option<Vec<f64>> {
    options.alibi.then(|| (0..shape.heads).map(|head| alibi::slope(head, shape.heads)).collect())
}

impl Uids<'_> {
    /// An attention of these tensors, without a sink and results of rows; adds the arguments of its options.
    fn attention(
        &mut self,
        shape: &Shape,
        options: &Options,
        [q, k, v, o]: [Tensor; 4],
    ) -> Result<Attention, Refusal> {
        Ok(Attention {
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
            scale: self.scale(&options.scale)?,
            mask: self.mask(&options.mask)?,
            band: band(&options.band, shape),
            slopes: slopes(options, shape),
            lengths: self.lengths(options),
            sink: None,
            statistics: [None; 3],
        })
    }
}

/// The kernels of an attention or its gradients, in order; none for other nodes. Tensors between them are added to the graph.
pub fn kernels(
    graph: &mut Graph,
    node: &Node,
    problem: &Problem,
    target: &Target,
    name: &str,
) -> Option<Result<Vec<Whole>, Refusal>> {
    match problem {
        Problem::Attention(own) => Some(forward(graph, node, own, target, name).map(|kernel| vec![kernel])),
        Problem::AttentionGradients(own) => Some(gradients::backward(graph, node, own, target, name)),
        _ => None,
    }
}

/// The kernel of an attention.
fn forward(
    graph: &Graph,
    node: &Node,
    problem: &planned::Attention,
    target: &Target,
    name: &str,
) -> Result<Whole, Refusal> {
    check_compute_type(node, &problem.q)?;
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
    let mut uids = Uids::new(graph, node);
    let q = uids.sequences("q", &problem.q)?;
    let k = uids.sequences("k", &problem.k)?;
    let v = uids.sequences("v", &problem.v)?;
    let o = uids.sequences("o", &problem.o)?;
    let mut attention = uids.attention(shape, options, [q, k, v, o])?;
    attention.sink = match problem.sink {
        Some(sink) => {
            let uid = uids.add(sink.slot);
            let by_value = graph
                .tensor(uid)
                .is_none_or(|tensor| tensor.value.is_some() || tensor.is_runtime_pass_by_value);
            absent("sink_token by value", by_value)?;
            Some((named("sink_token", sink.data_type)?, sink.stride))
        }
        None => None,
    };
    let of_rows = [("stats", &problem.stats), ("max", &problem.max), ("sum_exp", &problem.sum_exp)];
    for (to, (name, from)) in attention.statistics.iter_mut().zip(of_rows) {
        if let Some(from) = from {
            *to = Some(uids.sequences(name, from)?);
        }
    }
    let launch = attention::write(&attention, target, name)?;
    Ok(Whole { launch, arguments: uids.used })
}
