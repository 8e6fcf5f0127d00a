//! A node whose values are being added to a kernel.

use hipdnn_kernels::Scalar;
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::layout::MAX_RANK;
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_planner::problem::normalization::Spread;
use hipdnn_plugin_sdk::graph::{DataType, Graph};

use crate::Options;
use crate::group::Group;

/// A node whose values are being added to a group.
pub(crate) struct Adding<'a> {
    pub group: &'a mut Group,
    pub graph: &'a Graph,
    /// The type that it computes in.
    pub real: Scalar,
    pub options: Options,
    pub uids: &'a [i64],
}

impl Adding<'_> {
    /// The tensor in a slot.
    pub fn uid(&self, slot: usize) -> Result<i64, Refusal> {
        self.uids.get(slot).copied().ok_or_else(|| format!("the node has no tensor in slot {slot}"))
    }

    /// The value of a tensor with the domain's dimensions.
    pub fn element(&mut self, operand: &Operand) -> Result<usize, Refusal> {
        self.spread(operand.slot, &spread(operand))
    }

    /// The value of a tensor with these strides.
    pub fn spread(&mut self, slot: usize, strides: &[usize]) -> Result<usize, Refusal> {
        let uid = self.uid(slot)?;
        self.group.operand(self.graph, uid, strides, self.real)
    }

    /// The value of a tensor for each row, or for each position in a row.
    pub fn part(&mut self, part: &Spread) -> Result<usize, Refusal> {
        self.spread(part.slot, &part.strides)
    }

    /// Makes a value the element of a tensor.
    pub fn write(&mut self, slot: usize, strides: &[usize], value: usize) -> Result<(), Refusal> {
        let uid = self.uid(slot)?;
        self.group.write(self.graph, uid, strides, value)
    }

    /// Makes a value the element of a tensor with the domain's dimensions.
    pub fn write_element(&mut self, operand: &Operand, value: usize) -> Result<(), Refusal> {
        self.write(operand.slot, &spread(operand), value)
    }
}

/// The strides of a tensor with the domain's dimensions: 0 along those of size 1.
pub(crate) fn spread(operand: &Operand) -> [usize; MAX_RANK] {
    let mut strides = [0; MAX_RANK];
    let own = operand.layout.dims().iter().zip(operand.layout.strides());
    for (to, (dim, stride)) in strides.iter_mut().zip(own) {
        *to = if *dim == 1 { 0 } else { *stride };
    }
    strides
}

/// Refuses tensors that do not hold real numbers.
pub fn check_floats(tensors: &[(&str, Option<DataType>)]) -> Result<(), Refusal> {
    for (name, data_type) in tensors {
        let is_float = |data_type: &DataType| {
            matches!(data_type, DataType::Float | DataType::Double | DataType::Half | DataType::Bfloat16)
        };
        if let Some(data_type) = data_type.filter(|data_type| !is_float(data_type)) {
            return Err(format!(
                "{name}: data type is {}, expected float, double, half or bfloat16",
                data_type.name()
            ));
        }
    }
    Ok(())
}
