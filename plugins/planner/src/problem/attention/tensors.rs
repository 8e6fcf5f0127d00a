//! The tensors of an attention, each in the form that its kernel needs.

use hipdnn_plugin_sdk::graph::DataType;

use super::fields::Fields;
use super::options::{BlockMask, HeadFactor, Options, Spread};
use super::shape::{Integers, Sequences, Shape, Start, expect_dims, four};
use crate::Refusal;
use crate::problem::Operand;
use crate::problem::batchnorm::{Parameter, Scalar};

impl Fields<'_> {
    /// A tensor broadcast to the scores.
    #[inline(never)]
    pub(super) fn spread(&self, name: &str, shape: &Shape) -> Result<Option<Spread>, Refusal> {
        let Some(operand) = self.operands.optional(name)? else { return Ok(None) };
        let strides = spread_over(name, &operand, shape.scores())?;
        Ok(Some(Spread { operand, strides }))
    }

    #[inline(never)]
    pub(super) fn block_mask(&self, shape: &Shape) -> Result<Option<BlockMask>, Refusal> {
        let Some(operand) = self.operands.optional("block_mask")? else { return Ok(None) };
        if operand.data_type != DataType::Uint8 {
            return Err(format!("block_mask: data type is {}, expected uint8", operand.data_type.name()));
        }
        let rows = shape.queries.div_ceil(BlockMask::TILE);
        let bytes = shape.keys.div_ceil(BlockMask::TILE).div_ceil(8);
        let dims = four(operand.layout.dims(), 1);
        if operand.layout.rank() != 4 || dims[2..] != [rows, bytes] {
            return Err(format!(
                "block_mask: dims are {:?}, expected {:?}, a bit for each tile of 128 × 128 scores",
                operand.layout.dims(),
                [shape.batch, shape.heads, rows, bytes]
            ));
        }
        let strides = spread_over("block_mask", &operand, [shape.batch, shape.heads, rows, bytes])?;
        Ok(Some(BlockMask { slot: operand.slot, strides }))
    }

    #[inline(never)]
    pub(super) fn sink(&self, shape: &Shape) -> Result<Option<Parameter>, Refusal> {
        let Some(operand) = self.operands.optional("sink_token")? else { return Ok(None) };
        let (count, stride) = operand.line();
        if count != Some(shape.heads) {
            return Err(format!(
                "sink_token: dims are {:?}, expected {} element(s) along one dimension, one for each head",
                operand.layout.dims(),
                shape.heads
            ));
        }
        Ok(Some(Parameter { slot: operand.slot, data_type: operand.data_type, stride }))
    }

    #[inline(never)]
    pub(super) fn head_factor(&self, name: &str, shape: &Shape) -> Result<Option<HeadFactor>, Refusal> {
        let Some(operand) = self.operands.optional(name)? else { return Ok(None) };
        if operand.layout.elements() == 1 {
            return Ok(Some(HeadFactor { operand, heads: 1, strides: [0, 0] }));
        }
        let dims = four(operand.layout.dims(), 1);
        let strides = four(operand.layout.strides(), 0);
        let known = [1, shape.heads, shape.key_heads, shape.value_heads];
        let fits = operand.layout.rank() <= 4
            && (dims[0] == 1 || dims[0] == shape.batch)
            && known.contains(&dims[1])
            && dims[2..] == [1, 1];
        if !fits {
            return Err(format!(
                "{name}: dims are {:?}, expected a single element or [{}, {}, 1, 1]",
                operand.layout.dims(),
                shape.batch,
                shape.key_heads
            ));
        }
        let along = |dim: usize, stride: usize| if dim == 1 { 0 } else { stride };
        Ok(Some(HeadFactor {
            operand,
            heads: dims[1],
            strides: [along(dims[0], strides[0]), along(dims[1], strides[1])],
        }))
    }

    #[inline(never)]
    pub(super) fn optional_scalar(&self, name: &str) -> Result<Option<Scalar>, Refusal> {
        let Some(operand) = self.operands.optional(name)? else { return Ok(None) };
        if operand.layout.elements() != 1 {
            return Err(format!("{name}: dims are {:?}, expected a single element", operand.layout.dims()));
        }
        Ok(Some(Scalar { slot: operand.slot, data_type: operand.data_type }))
    }

    /// This many integers along one dimension.
    pub(super) fn integers(
        &self,
        name: &str,
        types: &[DataType],
        count: usize,
    ) -> Result<Option<Integers>, Refusal> {
        let operand = self.operands.optional(name)?;
        operand.map(|operand| integers(name, &operand, types, count)).transpose()
    }

    /// The page table of the tensor `container`: [sequences, blocks] or [sequences, 1, blocks, 1].
    #[inline(never)]
    pub(super) fn table(
        &self,
        name: &str,
        of: &str,
        container: &Operand,
    ) -> Result<Option<Integers>, Refusal> {
        let Some(operand) = self.operands.optional(name)? else { return Ok(None) };
        if operand.data_type != DataType::Int32 {
            return Err(format!("{name}: data type is {}, expected int32", operand.data_type.name()));
        }
        let (dims, strides) = (operand.layout.dims(), operand.layout.strides());
        let (dims, strides) = match (dims, strides) {
            ([sequences, blocks], [a, b]) | ([sequences, 1, blocks, 1], [a, _, b, _]) => {
                ([*sequences, *blocks], [*a, *b])
            }
            _ => {
                return Err(format!(
                    "{name}: dims are {dims:?}, expected [sequences, blocks] or [sequences, 1, blocks, 1] for the blocks {:?} of {of}",
                    container.layout.dims()
                ));
            }
        };
        Ok(Some(Integers { slot: operand.slot, data_type: operand.data_type, dims, strides }))
    }

    /// Where the sequences of a tensor begin, if it is not paged.
    #[inline(never)]
    pub(super) fn start(&self, name: &str, shape: &Shape, padded: bool) -> Result<Start, Refusal> {
        let Some(place) = self.ragged.iter().position(|(ragged, ..)| *ragged == name) else {
            let of_queries = !matches!(name, "k" | "v" | "dk" | "dv");
            return Ok(if shape.packed && of_queries { Start::Packed } else { Start::Even });
        };
        if !padded {
            return Err(format!("seq_len_q: absent, expected a tensor as {name} has ragged offsets"));
        }
        if shape.packed {
            return Err(format!("{name}: has ragged offsets, expected none as queries are packed"));
        }
        let (_, uid, offsets) = self.ragged.get(place).copied().unwrap_or_default();
        let missing =
            || format!("{name}: no tensor of the graph has the uid {offsets} of its ragged offsets");
        let tensor = self.graph.tensor(offsets).ok_or_else(missing)?;
        let multiplier = self.graph.tensor(uid).map_or(1, |tensor| tensor.ragged_offset_multiplier);
        let multiplier =
            usize::try_from(multiplier).ok().filter(|multiplier| *multiplier >= 1).ok_or_else(|| {
                format!("{name}: ragged_offset_multiplier is {multiplier}, expected at least 1")
            })?;
        let name = format!("ragged offsets of {name}");
        let layout = crate::layout::Layout::of(tensor).map_err(|refusal| format!("{name}: {refusal}"))?;
        let slot = self.first_offsets + place;
        let operand = Operand { slot, data_type: tensor.data_type, layout };
        let offsets = integers(&name, &operand, &[DataType::Int32, DataType::Int64], shape.batch + 1)?;
        Ok(Start::Ragged { offsets, multiplier })
    }

    #[inline(never)]
    pub(super) fn sequences(
        &self,
        name: &'static str,
        dims: [usize; 4],
        shape: &Shape,
        options: &Options,
    ) -> Result<Sequences, Refusal> {
        let sequences = self.optional_sequences(name, dims, shape, options)?;
        sequences.ok_or_else(|| format!("{name}: absent, expected a tensor"))
    }

    #[inline(never)]
    pub(super) fn optional_sequences(
        &self,
        name: &'static str,
        dims: [usize; 4],
        shape: &Shape,
        options: &Options,
    ) -> Result<Option<Sequences>, Refusal> {
        let Some(operand) = self.operands.optional(name)? else { return Ok(None) };
        // The statistics of older graphs lack the last dimension, which is 1.
        if !(dims[3] == 1 && operand.layout.dims() == &dims[..3]) {
            expect_dims(name, &operand, &dims)?;
        }
        let start = self.start(name, shape, options.lengths.is_some())?;
        Ok(Some(Sequences { operand, start }))
    }
}

fn integers(name: &str, operand: &Operand, types: &[DataType], count: usize) -> Result<Integers, Refusal> {
    let data_type = operand.data_type;
    if !types.contains(&data_type) {
        let types: Vec<_> = types.iter().map(|data_type| data_type.name()).collect();
        return Err(format!("{name}: data type is {}, expected {}", data_type.name(), types.join(" or ")));
    }
    let (found, stride) = operand.line();
    if found != Some(count) {
        return Err(format!(
            "{name}: dims are {:?}, expected {count} element(s) along one dimension",
            operand.layout.dims()
        ));
    }
    Ok(Integers { slot: operand.slot, data_type, dims: [count, 1], strides: [stride, 0] })
}

/// The strides of a tensor along `dims`, aligned at the last dimension: 0 where it is broadcast.
fn spread_over(name: &str, operand: &Operand, dims: [usize; 4]) -> Result<[usize; 4], Refusal> {
    let own = operand.layout.dims();
    let fits =
        own.len() <= 4 && own.iter().rev().zip(dims.iter().rev()).all(|(own, dim)| *own == 1 || own == dim);
    if !fits {
        return Err(format!("{name}: dims {own:?} do not spread over {dims:?}, aligned at the last"));
    }
    let mut strides = [0; 4];
    let places = strides.iter_mut().skip(4 - own.len());
    for (to, (dim, stride)) in places.zip(own.iter().zip(operand.layout.strides())) {
        *to = if *dim == 1 { 0 } else { *stride };
    }
    Ok(strides)
}
