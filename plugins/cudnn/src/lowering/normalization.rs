//! LayerNorm and RMSNorm with their gradients, as rows of [rows, elements, 1, 1].

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_sdk::graph::{Operation, operation};

use super::shape::packed;
use super::view::View;
use super::{Builder, Descriptor, TensorPlace};
use crate::names::{
    ATTR_OPERATION_NORM_BWD_DBIAS_DESC, ATTR_OPERATION_NORM_BWD_DSCALE_DESC, ATTR_OPERATION_NORM_BWD_DXDESC,
    ATTR_OPERATION_NORM_BWD_DYDESC, ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC,
    ATTR_OPERATION_NORM_BWD_MEAN_DESC, ATTR_OPERATION_NORM_BWD_MODE, ATTR_OPERATION_NORM_BWD_SCALE_DESC,
    ATTR_OPERATION_NORM_BWD_XDESC, ATTR_OPERATION_NORM_FWD_BIAS_DESC, ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
    ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, ATTR_OPERATION_NORM_FWD_MEAN_DESC,
    ATTR_OPERATION_NORM_FWD_MODE, ATTR_OPERATION_NORM_FWD_PHASE, ATTR_OPERATION_NORM_FWD_SCALE_DESC,
    ATTR_OPERATION_NORM_FWD_XDESC, ATTR_OPERATION_NORM_FWD_YDESC, BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
    BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, LAYER_NORM, NORM_FWD_INFERENCE, NORM_FWD_TRAINING, RMS_NORM,
    TYPE_NORM_FWD_PHASE, TYPE_NORM_MODE,
};

impl Builder<'_> {
    /// A tensor with one value per row.
    fn rows(&mut self, uid: i64) -> Result<TensorPlace, Refusal> {
        let shape = self.view.of_rows(&self.layout(uid)?)?;
        self.tensor_as(uid, shape)
    }

    /// The same, in scratch memory if it is not requested.
    fn optional_rows(&mut self, uid: Option<i64>) -> Result<TensorPlace, Refusal> {
        match uid {
            Some(uid) => self.rows(uid),
            None => {
                let View::Rows(dims, leading) = &self.view else {
                    return Err("operation is not a normalization of rows".to_owned());
                };
                let rows = dims.iter().take(*leading).product();
                self.scratch(packed(&[rows, 1, 1, 1]))
            }
        }
    }
}

pub(super) fn lower(builder: &mut Builder<'_>, operation: &Operation) -> Result<(), Refusal> {
    match operation {
        Operation::Layernorm(operation) => layernorm(builder, operation),
        Operation::LayernormBackward(operation) => layernorm_backward(builder, operation),
        Operation::RmsNorm(operation) => rms(builder, operation),
        Operation::RmsNormBackward(operation) => rms_backward(builder, operation),
        _ => Err("operation is not a normalization of rows".to_owned()),
    }
}

fn forward(mode: i32, is_training: bool) -> Descriptor {
    let phase = if is_training { NORM_FWD_TRAINING } else { NORM_FWD_INFERENCE };
    Descriptor::new(BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR)
        .number(ATTR_OPERATION_NORM_FWD_MODE, TYPE_NORM_MODE, mode)
        .number(ATTR_OPERATION_NORM_FWD_PHASE, TYPE_NORM_FWD_PHASE, phase)
}

fn layernorm(builder: &mut Builder<'_>, operation: &operation::Layernorm) -> Result<(), Refusal> {
    let is_training = operation.mean.is_some() || operation.inv_variance.is_some();
    let mut lowered =
        forward(LAYER_NORM, is_training).tensor(ATTR_OPERATION_NORM_FWD_XDESC, builder.tensor(operation.x)?);
    if is_training {
        lowered =
            lowered.tensor(ATTR_OPERATION_NORM_FWD_MEAN_DESC, builder.optional_rows(operation.mean)?).tensor(
                ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
                builder.optional_rows(operation.inv_variance)?,
            );
    }
    let lowered = lowered
        .tensor(ATTR_OPERATION_NORM_FWD_SCALE_DESC, builder.tensor(operation.scale)?)
        .tensor(ATTR_OPERATION_NORM_FWD_BIAS_DESC, builder.tensor(operation.bias)?)
        .tensor(ATTR_OPERATION_NORM_FWD_EPSILON_DESC, builder.by_value("epsilon", operation.epsilon)?)
        .tensor(ATTR_OPERATION_NORM_FWD_YDESC, builder.tensor(operation.y)?);
    builder.operation(lowered);
    Ok(())
}

fn rms(builder: &mut Builder<'_>, operation: &operation::RmsNorm) -> Result<(), Refusal> {
    let mut lowered = forward(RMS_NORM, operation.inv_rms.is_some())
        .tensor(ATTR_OPERATION_NORM_FWD_XDESC, builder.tensor(operation.x)?);
    if let Some(inverse) = operation.inv_rms {
        lowered = lowered.tensor(ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, builder.rows(inverse)?);
    }
    lowered = lowered.tensor(ATTR_OPERATION_NORM_FWD_SCALE_DESC, builder.tensor(operation.scale)?);
    if let Some(bias) = operation.bias {
        lowered = lowered.tensor(ATTR_OPERATION_NORM_FWD_BIAS_DESC, builder.tensor(bias)?);
    }
    let lowered = lowered
        .tensor(ATTR_OPERATION_NORM_FWD_EPSILON_DESC, builder.by_value("epsilon", operation.epsilon)?)
        .tensor(ATTR_OPERATION_NORM_FWD_YDESC, builder.tensor(operation.y)?);
    builder.operation(lowered);
    Ok(())
}

fn layernorm_backward(
    builder: &mut Builder<'_>,
    operation: &operation::LayernormBackward,
) -> Result<(), Refusal> {
    let (Some(mean), Some(inverse)) = (operation.mean, operation.inv_variance) else {
        return Err(
            "mean and inv_variance: absent, expected the statistics that the forward pass saved".to_owned()
        );
    };
    let lowered = backward(LAYER_NORM)
        .tensor(ATTR_OPERATION_NORM_BWD_XDESC, builder.tensor(operation.x)?)
        .tensor(ATTR_OPERATION_NORM_BWD_MEAN_DESC, builder.rows(mean)?)
        .tensor(ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, builder.rows(inverse)?)
        .tensor(ATTR_OPERATION_NORM_BWD_DYDESC, builder.tensor(operation.dy)?)
        .tensor(ATTR_OPERATION_NORM_BWD_SCALE_DESC, builder.tensor(operation.scale)?)
        .tensor(ATTR_OPERATION_NORM_BWD_DSCALE_DESC, builder.tensor(operation.dscale)?)
        .tensor(ATTR_OPERATION_NORM_BWD_DBIAS_DESC, builder.tensor(operation.dbias)?)
        .tensor(ATTR_OPERATION_NORM_BWD_DXDESC, builder.tensor(operation.dx)?);
    builder.operation(lowered);
    Ok(())
}

fn rms_backward(builder: &mut Builder<'_>, operation: &operation::RmsNormBackward) -> Result<(), Refusal> {
    let inverse =
        operation.inv_rms.ok_or("inv_rms: absent, expected the statistics that the forward pass saved")?;
    let mut lowered = backward(RMS_NORM)
        .tensor(ATTR_OPERATION_NORM_BWD_XDESC, builder.tensor(operation.x)?)
        .tensor(ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, builder.rows(inverse)?)
        .tensor(ATTR_OPERATION_NORM_BWD_DYDESC, builder.tensor(operation.dy)?)
        .tensor(ATTR_OPERATION_NORM_BWD_SCALE_DESC, builder.tensor(operation.scale)?)
        .tensor(ATTR_OPERATION_NORM_BWD_DSCALE_DESC, builder.tensor(operation.dscale)?);
    if let Some(dbias) = operation.dbias {
        lowered = lowered.tensor(ATTR_OPERATION_NORM_BWD_DBIAS_DESC, builder.tensor(dbias)?);
    }
    let lowered = lowered.tensor(ATTR_OPERATION_NORM_BWD_DXDESC, builder.tensor(operation.dx)?);
    builder.operation(lowered);
    Ok(())
}

fn backward(mode: i32) -> Descriptor {
    Descriptor::new(BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR).number(
        ATTR_OPERATION_NORM_BWD_MODE,
        TYPE_NORM_MODE,
        mode,
    )
}
