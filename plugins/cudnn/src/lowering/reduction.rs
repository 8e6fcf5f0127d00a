//! Reductions.

use std::ffi::c_int;

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_sdk::graph::{Node, ReductionMode, operation};

use super::{Builder, Descriptor, TensorPlace, data_type};
use crate::names::{
    ATTR_OPERATION_REDUCTION_DESC, ATTR_OPERATION_REDUCTION_XDESC, ATTR_OPERATION_REDUCTION_YDESC,
    ATTR_REDUCTION_COMP_TYPE, ATTR_REDUCTION_OPERATOR, BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
    BACKEND_REDUCTION_DESCRIPTOR, DATA_FLOAT, POINTWISE_ABS, POINTWISE_MUL, POINTWISE_SQRT,
    REDUCE_TENSOR_ADD, REDUCE_TENSOR_AMAX, REDUCE_TENSOR_MAX, REDUCE_TENSOR_MIN, REDUCE_TENSOR_MUL,
    REDUCE_TENSOR_MUL_NO_ZEROS, TYPE_REDUCTION_OPERATOR_TYPE,
};

pub(super) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    operation: &operation::Reduction,
) -> Result<(), Refusal> {
    let compute_type = data_type(node.compute_type)?;
    let mut x = builder.tensor(operation.in_)?;
    let y = builder.tensor(operation.out)?;
    let mode = match operation.mode {
        ReductionMode::NotSet => return Err("mode: is not_set, expected a reduction mode".to_owned()),
        // Reductions that cuDNN lacks are expressed as sums.
        ReductionMode::Avg => {
            let elements = |uid| Ok::<_, Refusal>(builder.layout(uid)?.elements());
            let count = elements(operation.in_)? / elements(operation.out)?;
            let share = builder.float((1.0 / count as f64) as f32);
            x = builder.before(POINTWISE_MUL, compute_type, x, Some(share));
            REDUCE_TENSOR_ADD
        }
        ReductionMode::Norm1 => {
            x = builder.before(POINTWISE_ABS, compute_type, x, None);
            REDUCE_TENSOR_ADD
        }
        ReductionMode::Norm2 => {
            x = builder.before(POINTWISE_MUL, compute_type, x, Some(x));
            let shape = builder.shape(y);
            let squares = builder.between_as(DATA_FLOAT, shape);
            builder.reduce(REDUCE_TENSOR_ADD, compute_type, x, squares);
            builder.pointwise(POINTWISE_SQRT, compute_type, squares, None, y);
            return Ok(());
        }
        ReductionMode::Add => REDUCE_TENSOR_ADD,
        ReductionMode::Mul => REDUCE_TENSOR_MUL,
        ReductionMode::Min => REDUCE_TENSOR_MIN,
        ReductionMode::Max => REDUCE_TENSOR_MAX,
        ReductionMode::Amax => REDUCE_TENSOR_AMAX,
        ReductionMode::MulNoZeros => REDUCE_TENSOR_MUL_NO_ZEROS,
    };
    builder.reduce(mode, compute_type, x, y);
    Ok(())
}

impl Builder<'_> {
    /// A pointwise operation on the reduction's input.
    fn before(
        &mut self,
        mode: c_int,
        compute_type: c_int,
        x: TensorPlace,
        other: Option<TensorPlace>,
    ) -> TensorPlace {
        let shape = self.shape(x);
        let y = self.between_as(DATA_FLOAT, shape);
        self.pointwise(mode, compute_type, x, other, y);
        y
    }

    /// Reduces x to y along the dimensions in which y is 1.
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
