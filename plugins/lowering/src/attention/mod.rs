//! Attention nodes as kernels of the crate `hipdnn-kernels`.

mod forward;
mod gradients;

use hipdnn_kernels::attention::{self, Attention, Band, Dropout, HeadFactor, Mask, Scale, Tensor};
use hipdnn_kernels::domain::Written;
use hipdnn_kernels::product::Launch;
use hipdnn_kernels::{Scalar, form};
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::attention::alibi;
use hipdnn_plugin_planner::problem::attention::options::{self, Options};
use hipdnn_plugin_planner::problem::attention::shape::{Integers, Sequences, Shape, Start};
use hipdnn_plugin_planner::problem::{Operand, Problem, pointers};
use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Tensor as GraphTensor, packed_strides};

use crate::Argument;
use crate::codes::scalar;
use crate::memory::{alignment, in_memory};
use crate::spelling::unused;
use crate::way::Way;

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
        let alignment = alignment(self.graph, uid, scalar);
        Ok(Tensor { scalar, strides, alignment, start: attention::Start::Even })
    }

    fn sequences(&mut self, name: &str, sequences: &Sequences) -> Result<Tensor, Refusal> {
        let mut tensor = self.tensor(name, &sequences.operand, sequences.strides())?;
        tensor.start = match &sequences.start {
            Start::Even => attention::Start::Even,
            Start::Packed => attention::Start::Packed,
            Start::Ragged { offsets, multiplier } => {
                if i32::try_from(*multiplier).is_err() {
                    return Err(format!(
                        "{name}: ragged_offset_multiplier is {multiplier}, expected at most {}",
                        i32::MAX
                    ));
                }
                let offsets = self.integers(&format!("ragged offsets of {name}"), offsets)?;
                let extent = sequences.operand.layout.extent();
                attention::Start::Ragged { offsets, multiplier: *multiplier, extent }
            }
            Start::Paged(table) => {
                self.integers(&format!("page_table_{name}"), table)?;
                let [pages, _, rows, _] = sequences.dims();
                attention::Start::Paged { rows, pages: [pages, table.dims[1]], strides: table.strides }
            }
        };
        Ok(tensor)
    }

    /// Adds a tensor in memory of which only the slot is known.
    fn elements(&mut self, name: &str, slot: usize) -> Result<(), Refusal> {
        let uid = self.add(slot);
        let tensor = self.graph.tensor(uid);
        if tensor.is_none_or(|tensor| tensor.value.is_some() || tensor.is_runtime_pass_by_value) {
            return Err(format!("{name}: is passed by value, expected a tensor in memory"));
        }
        Ok(())
    }

    /// Adds integers, and gives their type and distance.
    fn integers(&mut self, name: &str, integers: &Integers) -> Result<(Scalar, usize), Refusal> {
        self.elements(name, integers.slot)?;
        let scalar = if integers.data_type == DataType::Int64 { Scalar::I64 } else { Scalar::I32 };
        Ok((scalar, integers.strides[0]))
    }

    fn scale(&mut self, name: &str, scale: &options::Scale) -> Result<Scale, Refusal> {
        let own = match scale {
            options::Scale::Value(value) => return Ok(Scale::Value(f64::from(*value))),
            options::Scale::Tensor(own) => own,
        };
        let uid = self.all.get(own.slot).copied().unwrap_or_default();
        match self.graph.tensor(uid) {
            Some(tensor) if tensor.value.is_some() => {
                let number = tensor.value.as_ref().and_then(|value| value.as_f64());
                let number = number.ok_or_else(|| {
                    format!("{name}: has an 8-bit float as its value, expected a wider type")
                })?;
                Ok(Scale::Value(number))
            }
            Some(tensor) if tensor.is_runtime_pass_by_value => {
                let of_byte = named(name, own.data_type)?.size() == 1;
                absent(&format!("{name} by value of 8 bits"), of_byte)?;
                self.used.push(Argument::Number { uid, data_type: tensor.data_type });
                Ok(Scale::Passed)
            }
            _ => {
                self.add(own.slot);
                Ok(Scale::Memory(named(name, own.data_type)?))
            }
        }
    }

    fn dropout(&mut self, dropout: &Option<options::Dropout>) -> Result<Option<Dropout>, Refusal> {
        Ok(match dropout {
            None => None,
            Some(options::Dropout::Random { probability, seed, offset }) => {
                let ((seed, _), (offset, _)) =
                    (self.integers("seed", seed)?, self.integers("offset", offset)?);
                Some(Dropout::Random { probability: f64::from(*probability), scalars: [seed, offset] })
            }
            Some(options::Dropout::Mask { mask, scale }) => {
                let mask = self.tensor("dropout_mask", &mask.operand, mask.strides)?;
                let scale = self.scale("dropout_scale", &options::Scale::Tensor(*scale))?;
                Some(Dropout::Mask { mask, scale })
            }
        })
    }

    fn factor(
        &mut self,
        name: &str,
        factor: &Option<options::HeadFactor>,
    ) -> Result<Option<HeadFactor>, Refusal> {
        let Some(factor) = factor else { return Ok(None) };
        let strides = [factor.strides[0], factor.strides[1], 0, 0];
        let Tensor { scalar, .. } = self.tensor(name, &factor.operand, strides)?;
        Ok(Some(HeadFactor { scalar, heads: factor.heads, strides: factor.strides }))
    }

    fn mask(&mut self, mask: &Option<options::Spread>) -> Result<Option<Mask>, Refusal> {
        let Some(spread) = mask else { return Ok(None) };
        Ok(Some(Mask { tensor: self.tensor("attn_mask", &spread.operand, spread.strides)? }))
    }

    fn lengths(&mut self, options: &Options) -> Result<Option<[(Scalar, usize); 2]>, Refusal> {
        let Some([queries, keys]) = &options.lengths else { return Ok(None) };
        Ok(Some([self.integers("seq_len_q", queries)?, self.integers("seq_len_kv", keys)?]))
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
        way: Way<'_>,
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
            scale: self.scale("scale", &options.scale)?,
            mask: self.mask(&options.mask)?,
            band: band(&options.band, shape),
            slopes: slopes(options, shape),
            lengths: self.lengths(options)?,
            dropout: self.dropout(&options.dropout)?,
            sink: None,
            statistics: [None; 3],
            block_mask: None,
            factors: [None; 3],
            scales: [None; 3],
            largest: [false; 2],
            is_invariant: !way.shares,
        })
    }
}

/// A tensor between kernels, without gaps.
fn between(graph: &mut Graph, real: Scalar, dims: [usize; 4]) -> (i64, Tensor) {
    let data_type = if real == Scalar::F64 { DataType::Double } else { DataType::Float };
    let dims = dims.map(|dim| dim as i64);
    let dense = packed_strides(&dims);
    let uid = unused(graph);
    let tensor = GraphTensor { is_virtual: true, ..GraphTensor::new(uid, data_type, &dims, &dense) };
    graph.tensors.push(tensor);
    let mut own = [0; 4];
    for (to, from) in own.iter_mut().zip(dense) {
        *to = usize::try_from(from).unwrap_or(0);
    }
    (uid, Tensor { scalar: real, strides: own, alignment: ALIGNMENT, start: attention::Start::Even })
}

fn launch(written: Written) -> Launch {
    Launch { kernel: written.kernel, grid: written.groups }
}

/// The kernels of an attention or its gradients, in order; none for other nodes. Tensors between them are added to the graph.
pub fn kernels(
    graph: &mut Graph,
    node: &Node,
    problem: &Problem,
    way: Way<'_>,
) -> Option<Result<Vec<Whole>, Refusal>> {
    match problem {
        Problem::Attention(own) => Some(forward::forward(graph, node, own, way)),
        Problem::AttentionGradients(own) => Some(gradients::backward(graph, node, own, way)),
        _ => None,
    }
}
