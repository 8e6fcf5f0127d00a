//! Reductions.

use std::ffi::c_int;

use hipdnn_plugin_problem::Refusal;
use hipdnn_plugin_sdk::graph::{Node, ReductionMode, operation};

use super::{Builder, Descriptor, TensorPlace, data_type};
use crate::names::{
    ATTR_OPERATION_REDUCTION_DESC, ATTR_OPERATION_REDUCTION_XDESC, ATTR_OPERATION_REDUCTION_YDESC,
    ATTR_REDUCTION_COMP_TYPE, ATTR_REDUCTION_OPERATOR, BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
    BACKEND_REDUCTION_DESCRIPTOR, REDUCE_TENSOR_ADD, REDUCE_TENSOR_AMAX, REDUCE_TENSOR_AVG,
    REDUCE_TENSOR_MAX, REDUCE_TENSOR_MIN, REDUCE_TENSOR_MUL, REDUCE_TENSOR_MUL_NO_ZEROS, REDUCE_TENSOR_NORM1,
    REDUCE_TENSOR_NORM2, TYPE_REDUCTION_OPERATOR_TYPE,
};

pub(super) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    operation: &operation::Reduction,
) -> Result<(), Refusal> {
    let mode = match operation.mode {
        ReductionMode::NotSet => return Err("mode: is not_set, expected a reduction mode".to_owned()),
        ReductionMode::Add => REDUCE_TENSOR_ADD,
        ReductionMode::Mul => REDUCE_TENSOR_MUL,
        ReductionMode::Min => REDUCE_TENSOR_MIN,
        ReductionMode::Max => REDUCE_TENSOR_MAX,
        ReductionMode::Amax => REDUCE_TENSOR_AMAX,
        ReductionMode::Avg => REDUCE_TENSOR_AVG,
        ReductionMode::Norm1 => REDUCE_TENSOR_NORM1,
        ReductionMode::Norm2 => REDUCE_TENSOR_NORM2,
        ReductionMode::MulNoZeros => REDUCE_TENSOR_MUL_NO_ZEROS,
    };
    let (x, y) = (builder.tensor(operation.in_)?, builder.tensor(operation.out)?);
    builder.reduce(mode, data_type(node.compute_type)?, x, y);
    Ok(())
}

impl Builder<'_> {
    /// y = x, reduced along the dimensions that y has as ones.
    pub(super) fn reduce(&mut self, mode: c_int, compute_type: c_int, x: TensorPlace, y: TensorPlace) {
        let reduction = Descriptor::new(BACKEND_REDUCTION_DESCRIPTOR)
            .number(ATTR_REDUCTION_OPERATOR, TYPE_REDUCTION_OPERATOR_TYPE, mode)
            .compute_type(ATTR_REDUCTION_COMP_TYPE, compute_type);
        self.operation(
            Descriptor::new(BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
                .tensor(ATTR_OPERATION_REDUCTION_XDESC, x)
                .tensor(ATTR_OPERATION_REDUCTION_YDESC, y)
                .descriptor(ATTR_OPERATION_REDUCTION_DESC, reduction),
        );
    }
}
