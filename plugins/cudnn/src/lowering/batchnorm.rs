//! Batch normalization. With given statistics it is a sequence of pointwise operations.

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_sdk::graph::{Node, Operation, operation};

use super::shape::Shape;
use super::{Builder, Descriptor, TensorPlace, data_type};
use crate::names::{
    ATTR_OPERATION_NORM_BWD_DBIAS_DESC, ATTR_OPERATION_NORM_BWD_DSCALE_DESC, ATTR_OPERATION_NORM_BWD_DXDESC,
    ATTR_OPERATION_NORM_BWD_DYDESC, ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC,
    ATTR_OPERATION_NORM_BWD_MEAN_DESC, ATTR_OPERATION_NORM_BWD_MODE, ATTR_OPERATION_NORM_BWD_SCALE_DESC,
    ATTR_OPERATION_NORM_BWD_XDESC, ATTR_OPERATION_NORM_FWD_BIAS_DESC, ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
    ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
    ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
    ATTR_OPERATION_NORM_FWD_MEAN_DESC, ATTR_OPERATION_NORM_FWD_MODE,
    ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
    ATTR_OPERATION_NORM_FWD_PHASE, ATTR_OPERATION_NORM_FWD_SCALE_DESC, ATTR_OPERATION_NORM_FWD_XDESC,
    ATTR_OPERATION_NORM_FWD_YDESC, BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
    BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, BATCH_NORM, DATA_FLOAT, NORM_FWD_TRAINING, POINTWISE_ADD,
    POINTWISE_MUL, POINTWISE_RSQRT, POINTWISE_SUB, TYPE_NORM_FWD_PHASE, TYPE_NORM_MODE,
};

impl Builder<'_> {
    /// A per-channel tensor as [1, channels, 1, 1].
    fn channels(&mut self, x: i64, uid: i64) -> Result<TensorPlace, Refusal> {
        let shape = self.channel_shape(x, uid)?;
        self.tensor_as(uid, shape)
    }

    fn channel_shape(&self, x: i64, uid: i64) -> Result<Shape, Refusal> {
        let rank = self.view.shape(&self.layout(x)?)?.dims.len();
        let layout = self.layout(uid)?;
        let long = layout.dims().iter().zip(layout.strides()).find(|(dim, _)| **dim > 1);
        let (count, stride) = long.map_or((1, 1), |(dim, stride)| (*dim as i64, *stride as i64));
        if stride != 1 {
            return Err(format!("tensor {uid}: the stride of the channels is {stride}, expected 1"));
        }
        let mut shape = Shape { dims: vec![1; rank], strides: vec![count * stride; rank] };
        if let (Some(dim), Some(step)) = (shape.dims.get_mut(1), shape.strides.get_mut(1)) {
            (*dim, *step) = (count, stride);
        }
        Ok(shape)
    }

    /// A statistic; if it is not requested, workspace with the shape of `like`.
    fn statistic(&mut self, x: i64, uid: Option<i64>, like: i64) -> Result<TensorPlace, Refusal> {
        match uid {
            Some(uid) => self.channels(x, uid),
            None => {
                let shape = self.channel_shape(x, like)?;
                self.scratch(shape)
            }
        }
    }
}

pub(super) fn lower(builder: &mut Builder<'_>, node: &Node, operation: &Operation) -> Result<(), Refusal> {
    match operation {
        Operation::BatchnormInference(operation) => inference(builder, node, operation),
        Operation::BatchnormInferenceVariance(operation) => inference_with_variance(builder, node, operation),
        Operation::Batchnorm(operation) => training(builder, operation),
        Operation::BatchnormBackward(operation) => backward(builder, operation),
        _ => Err("operation is not a batch normalization".to_owned()),
    }
}

/// y = (x - mean) · factor · scale + bias
fn apply(builder: &mut Builder<'_>, compute_type: i32, [x, mean, factor, scale, bias, y]: [TensorPlace; 6]) {
    let shape = builder.shape(x);
    let mut last = x;
    for (mode, other) in [(POINTWISE_SUB, mean), (POINTWISE_MUL, factor), (POINTWISE_MUL, scale)] {
        let next = builder.between_as(DATA_FLOAT, shape.clone());
        builder.pointwise(mode, compute_type, last, Some(other), next);
        last = next;
    }
    builder.pointwise(POINTWISE_ADD, compute_type, last, Some(bias), y);
}

fn inference(
    builder: &mut Builder<'_>,
    node: &Node,
    operation: &operation::BatchnormInference,
) -> Result<(), Refusal> {
    let x = operation.x;
    let tensors = [
        builder.tensor(x)?,
        builder.channels(x, operation.mean)?,
        builder.channels(x, operation.inv_variance)?,
        builder.channels(x, operation.scale)?,
        builder.channels(x, operation.bias)?,
        builder.tensor(operation.y)?,
    ];
    apply(builder, data_type(node.compute_type)?, tensors);
    Ok(())
}

fn inference_with_variance(
    builder: &mut Builder<'_>,
    node: &Node,
    operation: &operation::BatchnormInferenceVariance,
) -> Result<(), Refusal> {
    let x = operation.x;
    // The inverse is computed in the same call and repeated along pixels: where these lie innermost, cuDNN 9.19 returned NaN on an H200.
    let layout = Shape::of(&builder.layout(x)?);
    let axes = || layout.dims.iter().zip(&layout.strides).skip(1).filter(|(dim, _)| **dim > 1);
    let has_channels = layout.dims.get(1).is_some_and(|dim| *dim > 1);
    let innermost = axes().map(|(_, stride)| *stride).min();
    if has_channels && layout.strides.get(1).copied() > innermost {
        return Err(format!("x: strides are {:?}, expected channels last", layout.strides));
    }
    let compute_type = data_type(node.compute_type)?;
    let variance = builder.channels(x, operation.variance)?;
    let epsilon = builder.tensor(operation.epsilon)?;
    let shape = builder.channel_shape(x, operation.variance)?;
    let sum = builder.between_as(DATA_FLOAT, shape.clone());
    builder.pointwise(POINTWISE_ADD, compute_type, variance, Some(epsilon), sum);
    let factor = builder.between_as(DATA_FLOAT, shape);
    builder.pointwise(POINTWISE_RSQRT, compute_type, sum, None, factor);
    let tensors = [
        builder.tensor(x)?,
        builder.channels(x, operation.mean)?,
        factor,
        builder.channels(x, operation.scale)?,
        builder.channels(x, operation.bias)?,
        builder.tensor(operation.y)?,
    ];
    apply(builder, compute_type, tensors);
    Ok(())
}

fn training(builder: &mut Builder<'_>, operation: &operation::Batchnorm) -> Result<(), Refusal> {
    let x = operation.x;
    let like = operation.scale;
    let mut lowered = Descriptor::new(BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR)
        .number(ATTR_OPERATION_NORM_FWD_MODE, TYPE_NORM_MODE, BATCH_NORM)
        .number(ATTR_OPERATION_NORM_FWD_PHASE, TYPE_NORM_FWD_PHASE, NORM_FWD_TRAINING)
        .tensor(ATTR_OPERATION_NORM_FWD_XDESC, builder.tensor(x)?)
        .tensor(ATTR_OPERATION_NORM_FWD_MEAN_DESC, builder.statistic(x, operation.mean, like)?)
        .tensor(
            ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
            builder.statistic(x, operation.inv_variance, like)?,
        )
        .tensor(ATTR_OPERATION_NORM_FWD_SCALE_DESC, builder.channels(x, operation.scale)?)
        .tensor(ATTR_OPERATION_NORM_FWD_BIAS_DESC, builder.channels(x, operation.bias)?)
        .tensor(ATTR_OPERATION_NORM_FWD_EPSILON_DESC, builder.by_value("epsilon", operation.epsilon)?);
    if let (Some(mean), Some(variance), Some(next_mean), Some(next_variance)) = (
        operation.prev_running_mean,
        operation.prev_running_variance,
        operation.next_running_mean,
        operation.next_running_variance,
    ) {
        let momentum = operation.momentum.ok_or(
            "momentum: absent, expected a number that is passed by value as there are running statistics",
        )?;
        for (attribute, uid) in [
            (ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, mean),
            (ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, variance),
            (ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, next_mean),
            (ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, next_variance),
        ] {
            lowered = lowered.tensor(attribute, builder.channels(x, uid)?);
        }
        let factor = builder.by_value("momentum", momentum)?;
        lowered = lowered.tensor(ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, factor);
    }
    let lowered = lowered.tensor(ATTR_OPERATION_NORM_FWD_YDESC, builder.tensor(operation.y)?);
    builder.operation(lowered);
    Ok(())
}

fn backward(builder: &mut Builder<'_>, operation: &operation::BatchnormBackward) -> Result<(), Refusal> {
    let x = operation.x;
    let (Some(mean), Some(inv_variance)) = (operation.mean, operation.inv_variance) else {
        return Err(
            "mean and inv_variance: absent, expected the statistics that the forward pass saved".to_owned()
        );
    };
    let lowered = Descriptor::new(BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR)
        .number(ATTR_OPERATION_NORM_BWD_MODE, TYPE_NORM_MODE, BATCH_NORM)
        .tensor(ATTR_OPERATION_NORM_BWD_XDESC, builder.tensor(x)?)
        .tensor(ATTR_OPERATION_NORM_BWD_MEAN_DESC, builder.channels(x, mean)?)
        .tensor(ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, builder.channels(x, inv_variance)?)
        .tensor(ATTR_OPERATION_NORM_BWD_DYDESC, builder.tensor(operation.dy)?)
        .tensor(ATTR_OPERATION_NORM_BWD_SCALE_DESC, builder.channels(x, operation.scale)?)
        .tensor(ATTR_OPERATION_NORM_BWD_DSCALE_DESC, builder.channels(x, operation.dscale)?)
        .tensor(ATTR_OPERATION_NORM_BWD_DBIAS_DESC, builder.channels(x, operation.dbias)?)
        .tensor(ATTR_OPERATION_NORM_BWD_DXDESC, builder.tensor(operation.dx)?);
    builder.operation(lowered);
    Ok(())
}
