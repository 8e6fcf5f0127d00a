//! Quantized tensors: finds the stored bytes behind values that a graph dequantizes.

use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use crate::fusion::state::slot_of;
use crate::fusion::uses::Uses;
use crate::int8::epilogue::Param;
use crate::layout::MAX_RANK;
use crate::prepare::Prepared;
use crate::problem::Problem;
use crate::problem::block_scale::BlockScale;
use crate::problem::pointwise::Broadcast;

/// One value for all, or one per index along a dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub(crate) uid: i64,
    pub(crate) data_type: DataType,
    /// Strides along the dimensions of the tensor that it is broadcast to.
    strides: [usize; MAX_RANK],
    dims: [usize; MAX_RANK],
}

impl Number {
    /// An operand broadcast to a tensor of these dimensions.
    pub(crate) fn of(uid: i64, broadcast: &Broadcast, dims: &[usize]) -> Self {
        let mut sizes = [1; MAX_RANK];
        sizes.iter_mut().zip(dims).for_each(|(size, dim)| *size = *dim);
        Self { uid, data_type: broadcast.operand.data_type, strides: broadcast.strides, dims: sizes }
    }

    /// A tensor with its own dimensions.
    pub(crate) fn of_tensor(uses: &Uses<'_>, uid: i64) -> Option<Self> {
        let operand = uses.operand(uid, 0)?;
        let mut strides = [0; MAX_RANK];
        strides.iter_mut().zip(operand.layout.strides()).for_each(|(to, stride)| *to = *stride);
        Some(Self::of(uid, &Broadcast { operand, strides }, operand.layout.dims()))
    }

    /// The stride along `axis`; `None` if the value varies along another dimension.
    pub(crate) fn along(&self, axis: Option<usize>) -> Option<usize> {
        let others = self.strides.iter().zip(self.dims).enumerate();
        let mut others = others.filter(|(at, _)| Some(*at) != axis);
        let is_one = others.all(|(_, (stride, dim))| *stride == 0 || dim == 1);
        is_one.then(|| axis.map_or(0, |axis| if self.dims[axis] == 1 { 0 } else { self.strides[axis] }))
    }

    /// The parameter per column along `axis`; its tensor is added to `tensors` unless its value is known.
    pub(crate) fn param(
        &self,
        uses: &Uses<'_>,
        axis: Option<usize>,
        tensors: &mut Vec<i64>,
    ) -> Option<Param> {
        let value = uses.tensors.get(&self.uid).and_then(|tensor| tensor.value.as_ref()?.as_f64());
        let value = value.filter(|_| self.data_type == DataType::Float);
        let slot = if value.is_some() { 0 } else { slot_of(tensors, self.uid) };
        Param { slot, data_type: self.data_type, stride: self.along(axis)?, value }.checked().ok()
    }
}

/// (stored − zero) · scales, as nodes of the graph compute it.
#[derive(Clone, Debug)]
pub(crate) struct Dequantized {
    /// The stored tensor.
    pub(crate) uid: i64,
    pub(crate) data_type: DataType,
    pub(crate) zero: Option<Number>,
    pub(crate) scales: Vec<Number>,
    /// The nodes that dequantize.
    pub(crate) nodes: Vec<usize>,
}

/// Whether elements are bytes.
pub(crate) fn are_bytes(data_type: DataType) -> bool {
    matches!(data_type, DataType::Int8 | DataType::Uint8)
}

/// Traces a tensor back to one whose type `is_stored` accepts.
pub(crate) fn dequantized(
    prepared: &Prepared,
    uses: &Uses<'_>,
    uid: i64,
    is_stored: fn(DataType) -> bool,
) -> Option<Dequantized> {
    let data_type = uses.tensors.get(&uid)?.data_type;
    let mut found = Dequantized { uid, data_type, zero: None, scales: Vec::new(), nodes: Vec::new() };
    while !is_stored(found.data_type) {
        let tensor = uses.tensors.get(&found.uid)?;
        if !tensor.is_virtual || !matches!(tensor.data_type, DataType::Float | DataType::Int32) {
            return None;
        }
        let index = *uses.writers.get(&found.uid)?;
        found.nodes.push(index);
        step(prepared, uses, &mut found, index, is_stored)?;
        let next = uses.tensors.get(&found.uid)?;
        if next.dims != tensor.dims {
            return None;
        }
        found.data_type = next.data_type;
    }
    let is_whole = found.zero.is_none_or(|zero| is_whole(uses, &zero, found.data_type));
    is_whole.then_some(found)
}

/// Steps from the result of a node to its operand.
fn step(
    prepared: &Prepared,
    uses: &Uses<'_>,
    found: &mut Dequantized,
    index: usize,
    is_stored: fn(DataType) -> bool,
) -> Option<()> {
    let checked = prepared.node(index)?;
    let inputs = checked.node.operation.inputs();
    let dims = uses.tensors.get(&found.uid)?.dims.clone();
    match checked.problem {
        Problem::Pointwise(pointwise) => {
            let is_float = checked.node.compute_type == DataType::Float;
            let is_whole = checked.node.compute_type == DataType::Int32;
            let all = pointwise.output.layout.dims();
            let number = |at: usize| Some(Number::of(*inputs.get(at)?, pointwise.inputs.get(at)?, all));
            let is_value = |at: usize| {
                let tensor = inputs.get(at).and_then(|uid| uses.tensors.get(uid));
                tensor.is_some_and(|tensor| {
                    tensor.dims == dims && (tensor.is_virtual || is_stored(tensor.data_type))
                })
            };
            match pointwise.mode {
                PointwiseMode::Identity if is_float || is_whole => found.uid = *inputs.first()?,
                PointwiseMode::Mul if is_float && found.zero.is_none() && found.scales.len() < 2 => {
                    let value = (0..2).find(|at| is_value(*at))?;
                    found.scales.push(number(1 - value)?);
                    found.uid = *inputs.get(value)?;
                }
                PointwiseMode::Sub if (is_float || is_whole) && found.zero.is_none() && is_value(0) => {
                    found.zero = Some(number(1)?);
                    found.uid = *inputs.first()?;
                }
                _ => return None,
            }
        }
        Problem::BlockScale(BlockScale::Dequantize(dequantize)) => {
            let is_plain = !dequantize.is_negative_scale && found.zero.is_none() && found.scales.is_empty();
            let [x, scale] = inputs.as_slice() else { return None };
            // Each dimension has one scale per element, or one for all.
            let (x_dims, strides) = (dequantize.x.layout.dims(), dequantize.scale.layout.strides());
            let mut of_scale = Broadcast { operand: dequantize.scale, strides: [0; MAX_RANK] };
            for (axis, (dim, stride)) in x_dims.iter().zip(strides).enumerate() {
                match dequantize.block[axis] {
                    1 => of_scale.strides[axis] = *stride,
                    block if block >= *dim => {}
                    _ => return None,
                }
            }
            if !is_plain {
                return None;
            }
            found.scales.push(Number::of(*scale, &of_scale, x_dims));
            found.uid = *x;
        }
        _ => return None,
    }
    Some(())
}

/// Whether a zero point is an integer of the type: stored in it, or a known value.
fn is_whole(uses: &Uses<'_>, zero: &Number, data_type: DataType) -> bool {
    let range = match data_type {
        DataType::Int8 => -128.0..=127.0,
        DataType::Uint8 => 0.0..=255.0,
        _ => return false,
    };
    let known = uses.tensors.get(&zero.uid).and_then(|tensor| tensor.value.as_ref()?.as_f64());
    zero.data_type == data_type || known.is_some_and(|value| range.contains(&value) && value.fract() == 0.0)
}
