//! Operations on each element.

use std::ffi::c_int;

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_sdk::graph::{Node, Operation, PointwiseMode, operation};

use super::{Builder, Descriptor, TensorPlace, data_type};
use crate::names::{
    ATTR_OPERATION_POINTWISE_BDESC, ATTR_OPERATION_POINTWISE_DXDESC, ATTR_OPERATION_POINTWISE_DYDESC,
    ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, ATTR_OPERATION_POINTWISE_TDESC, ATTR_OPERATION_POINTWISE_XDESC,
    ATTR_OPERATION_POINTWISE_YDESC, ATTR_POINTWISE_AXIS, ATTR_POINTWISE_ELU_ALPHA, ATTR_POINTWISE_MATH_PREC,
    ATTR_POINTWISE_MODE, ATTR_POINTWISE_RELU_LOWER_CLIP, ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE,
    ATTR_POINTWISE_RELU_UPPER_CLIP, ATTR_POINTWISE_SOFTPLUS_BETA, ATTR_POINTWISE_SWISH_BETA,
    BACKEND_OPERATION_POINTWISE_DESCRIPTOR, BACKEND_POINTWISE_DESCRIPTOR, DATA_BOOLEAN, POINTWISE_ABS,
    POINTWISE_ADD, POINTWISE_ADD_SQUARE, POINTWISE_BINARY_SELECT, POINTWISE_CEIL, POINTWISE_CMP_EQ,
    POINTWISE_CMP_GE, POINTWISE_CMP_GT, POINTWISE_CMP_LE, POINTWISE_CMP_LT, POINTWISE_CMP_NEQ, POINTWISE_DIV,
    POINTWISE_ELU_BWD, POINTWISE_ELU_FWD, POINTWISE_ERF, POINTWISE_EXP, POINTWISE_FLOOR,
    POINTWISE_GELU_APPROX_TANH_BWD, POINTWISE_GELU_APPROX_TANH_FWD, POINTWISE_GELU_BWD, POINTWISE_GELU_FWD,
    POINTWISE_GEN_INDEX, POINTWISE_IDENTITY, POINTWISE_LOG, POINTWISE_LOGICAL_AND, POINTWISE_LOGICAL_NOT,
    POINTWISE_LOGICAL_OR, POINTWISE_MAX, POINTWISE_MIN, POINTWISE_MUL, POINTWISE_NEG, POINTWISE_RECIPROCAL,
    POINTWISE_RELU_BWD, POINTWISE_RELU_FWD, POINTWISE_RSQRT, POINTWISE_SIGMOID_BWD, POINTWISE_SIGMOID_FWD,
    POINTWISE_SIN, POINTWISE_SOFTPLUS_BWD, POINTWISE_SOFTPLUS_FWD, POINTWISE_SQRT, POINTWISE_SUB,
    POINTWISE_SWISH_BWD, POINTWISE_SWISH_FWD, POINTWISE_TAN, POINTWISE_TANH_BWD, POINTWISE_TANH_FWD,
    TYPE_POINTWISE_MODE,
};

/// cuDNN's number of a mode.
fn mode(mode: PointwiseMode) -> Result<c_int, Refusal> {
    use PointwiseMode as M;
    Ok(match mode {
        M::Abs => POINTWISE_ABS,
        M::Add => POINTWISE_ADD,
        M::AddSquare => POINTWISE_ADD_SQUARE,
        M::BinarySelect => POINTWISE_BINARY_SELECT,
        M::Ceil => POINTWISE_CEIL,
        M::CmpEq => POINTWISE_CMP_EQ,
        M::CmpGe => POINTWISE_CMP_GE,
        M::CmpGt => POINTWISE_CMP_GT,
        M::CmpLe => POINTWISE_CMP_LE,
        M::CmpLt => POINTWISE_CMP_LT,
        M::CmpNeq => POINTWISE_CMP_NEQ,
        M::Div => POINTWISE_DIV,
        M::EluBwd => POINTWISE_ELU_BWD,
        M::EluFwd => POINTWISE_ELU_FWD,
        M::Erf => POINTWISE_ERF,
        M::Exp => POINTWISE_EXP,
        M::Floor => POINTWISE_FLOOR,
        M::GeluApproxTanhBwd => POINTWISE_GELU_APPROX_TANH_BWD,
        M::GeluApproxTanhFwd => POINTWISE_GELU_APPROX_TANH_FWD,
        M::GeluBwd => POINTWISE_GELU_BWD,
        M::GeluFwd => POINTWISE_GELU_FWD,
        M::GenIndex => POINTWISE_GEN_INDEX,
        M::Identity => POINTWISE_IDENTITY,
        M::Log => POINTWISE_LOG,
        M::LogicalAnd => POINTWISE_LOGICAL_AND,
        M::LogicalNot => POINTWISE_LOGICAL_NOT,
        M::LogicalOr => POINTWISE_LOGICAL_OR,
        M::Max => POINTWISE_MAX,
        M::Min => POINTWISE_MIN,
        M::Mul => POINTWISE_MUL,
        M::Neg => POINTWISE_NEG,
        M::Reciprocal => POINTWISE_RECIPROCAL,
        M::ReluBwd => POINTWISE_RELU_BWD,
        M::ReluFwd => POINTWISE_RELU_FWD,
        M::Rsqrt => POINTWISE_RSQRT,
        M::SigmoidBwd => POINTWISE_SIGMOID_BWD,
        M::SigmoidFwd => POINTWISE_SIGMOID_FWD,
        M::Sin => POINTWISE_SIN,
        M::SoftplusBwd => POINTWISE_SOFTPLUS_BWD,
        M::SoftplusFwd => POINTWISE_SOFTPLUS_FWD,
        M::Sqrt => POINTWISE_SQRT,
        M::Sub => POINTWISE_SUB,
        M::SwishBwd => POINTWISE_SWISH_BWD,
        M::SwishFwd => POINTWISE_SWISH_FWD,
        M::Tan => POINTWISE_TAN,
        M::TanhBwd => POINTWISE_TANH_BWD,
        M::TanhFwd => POINTWISE_TANH_FWD,
        other => return Err(format!("operation: is {}, expected a mode that cuDNN computes", other.name())),
    })
}

fn described(mode: c_int, compute_type: c_int) -> Descriptor {
    Descriptor::new(BACKEND_POINTWISE_DESCRIPTOR)
        .number(ATTR_POINTWISE_MODE, TYPE_POINTWISE_MODE, mode)
        .compute_type(ATTR_POINTWISE_MATH_PREC, compute_type)
}

/// Refuses what is computed in the same call and repeated along a larger result, unless a reduction made it: cuDNN 9.19 takes such graphs,
/// and computed NaN on an H200.
fn check_spread(builder: &Builder<'_>, operation: &operation::Pointwise) -> Result<(), Refusal> {
    let dims = |uid: i64| builder.graph.tensors.iter().find(|of| of.uid == uid).map(|of| of.dims.as_slice());
    let result = dims(operation.out_0).unwrap_or_default();
    for uid in [Some(operation.in_0), operation.in_1, operation.in_2].into_iter().flatten() {
        let writer = builder.nodes.iter().find(|node| node.operation.outputs().contains(&uid));
        let own = dims(uid).unwrap_or_default();
        if writer.is_some_and(|node| !matches!(node.operation, Operation::Reduction(_))) && own != result {
            return Err(format!(
                "tensor {uid}: has the dimensions {own:?} and is computed in the same call, expected those of the result, {result:?}"
            ));
        }
    }
    Ok(())
}

pub(super) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    operation: &operation::Pointwise,
) -> Result<(), Refusal> {
    check_spread(builder, operation)?;
    let mut pointwise = described(mode(operation.operation)?, data_type(node.compute_type)?);
    for (attribute, number) in [
        (ATTR_POINTWISE_RELU_LOWER_CLIP, operation.relu_lower_clip),
        (ATTR_POINTWISE_RELU_UPPER_CLIP, operation.relu_upper_clip),
        (ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, operation.relu_lower_clip_slope),
        (ATTR_POINTWISE_ELU_ALPHA, operation.elu_alpha),
        (ATTR_POINTWISE_SOFTPLUS_BETA, operation.softplus_beta),
        (ATTR_POINTWISE_SWISH_BETA, operation.swish_beta),
    ] {
        if let Some(number) = number {
            // cuDNN's gradient is zero from the bound on, hipDNN's above it.
            let above = attribute == ATTR_POINTWISE_RELU_UPPER_CLIP && operation.operation.is_backward();
            let number = if above { number.next_up() } else { number };
            pointwise = pointwise.double(attribute, f64::from(number));
        }
    }
    let output = builder.tensor(operation.out_0)?;
    if operation.operation == PointwiseMode::GenIndex {
        let rank = builder.shape(output).dims.len();
        let own = builder.dims(operation.out_0)?.len();
        let axis = operation.axis.unwrap_or(0) + rank.saturating_sub(own) as i64;
        pointwise = pointwise.integers(ATTR_POINTWISE_AXIS, &[axis]);
    }
    let first = builder.tensor(operation.in_0)?;
    let second = operation.in_1.map(|uid| builder.tensor(uid)).transpose()?;
    let third = operation.in_2.map(|uid| builder.truth(uid)).transpose()?;
    let lowered = Descriptor::new(BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        .descriptor(ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
    builder.operation(if operation.operation.is_backward() {
        lowered
            .tensor(ATTR_OPERATION_POINTWISE_DYDESC, first)
            .optional(ATTR_OPERATION_POINTWISE_XDESC, second)
            .tensor(ATTR_OPERATION_POINTWISE_DXDESC, output)
    } else {
        lowered
            .tensor(ATTR_OPERATION_POINTWISE_XDESC, first)
            .optional(ATTR_OPERATION_POINTWISE_BDESC, second)
            .optional(ATTR_OPERATION_POINTWISE_TDESC, third)
            .tensor(ATTR_OPERATION_POINTWISE_YDESC, output)
    });
    Ok(())
}

impl Builder<'_> {
    /// A tensor as truth values: whatever is not zero is true.
    fn truth(&mut self, uid: i64) -> Result<TensorPlace, Refusal> {
        let tensor = self.tensor(uid)?;
        if self.type_of(uid)? == DATA_BOOLEAN {
            return Ok(tensor);
        }
        let (shape, zero) = (self.shape(tensor), self.float(0.0));
        let truth = self.between_as(DATA_BOOLEAN, shape);
        self.pointwise(POINTWISE_CMP_NEQ, DATA_BOOLEAN, tensor, Some(zero), truth);
        Ok(truth)
    }

    /// y = mode(x, b).
    pub(super) fn pointwise(
        &mut self,
        mode: c_int,
        compute_type: c_int,
        x: TensorPlace,
        b: Option<TensorPlace>,
        y: TensorPlace,
    ) {
        self.operation(
            Descriptor::new(BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                .descriptor(ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, described(mode, compute_type))
                .tensor(ATTR_OPERATION_POINTWISE_XDESC, x)
                .optional(ATTR_OPERATION_POINTWISE_BDESC, b)
                .tensor(ATTR_OPERATION_POINTWISE_YDESC, y),
        );
    }

    /// y = the index of each element along an axis of x.
    pub(super) fn index(&mut self, compute_type: c_int, x: TensorPlace, axis: i64, y: TensorPlace) {
        let pointwise = described(POINTWISE_GEN_INDEX, compute_type).integers(ATTR_POINTWISE_AXIS, &[axis]);
        self.operation(
            Descriptor::new(BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                .descriptor(ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise)
                .tensor(ATTR_OPERATION_POINTWISE_XDESC, x)
                .tensor(ATTR_OPERATION_POINTWISE_YDESC, y),
        );
    }

    /// y = x where the mask is true, else b.
    pub(super) fn select(
        &mut self,
        compute_type: c_int,
        x: TensorPlace,
        b: TensorPlace,
        mask: TensorPlace,
        y: TensorPlace,
    ) {
        let pointwise = described(POINTWISE_BINARY_SELECT, compute_type);
        self.operation(
            Descriptor::new(BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                .descriptor(ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise)
                .tensor(ATTR_OPERATION_POINTWISE_XDESC, x)
                .tensor(ATTR_OPERATION_POINTWISE_BDESC, b)
                .tensor(ATTR_OPERATION_POINTWISE_TDESC, mask)
                .tensor(ATTR_OPERATION_POINTWISE_YDESC, y),
        );
    }
}
