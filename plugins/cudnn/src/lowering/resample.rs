//! Pooling and its gradient. cuDNN's indices of a maximum count in the window, hipDNN's in the plane, so
//! pooling with indices is refused.

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::resample::{Pooling, Resample};
use hipdnn_plugin_sdk::graph::{Node, Operation};

use super::shape::Shape;
use super::{Builder, Descriptor, data_type};
use crate::names::{
    ATTR_OPERATION_RESAMPLE_BWD_ALPHA, ATTR_OPERATION_RESAMPLE_BWD_BETA, ATTR_OPERATION_RESAMPLE_BWD_DESC,
    ATTR_OPERATION_RESAMPLE_BWD_DXDESC, ATTR_OPERATION_RESAMPLE_BWD_DYDESC,
    ATTR_OPERATION_RESAMPLE_FWD_ALPHA, ATTR_OPERATION_RESAMPLE_FWD_BETA, ATTR_OPERATION_RESAMPLE_FWD_DESC,
    ATTR_OPERATION_RESAMPLE_FWD_XDESC, ATTR_OPERATION_RESAMPLE_FWD_YDESC, ATTR_RESAMPLE_COMP_TYPE,
    ATTR_RESAMPLE_MODE, ATTR_RESAMPLE_NAN_PROPAGATION, ATTR_RESAMPLE_PADDING_MODE,
    ATTR_RESAMPLE_POST_PADDINGS, ATTR_RESAMPLE_PRE_PADDINGS, ATTR_RESAMPLE_SPATIAL_DIMS,
    ATTR_RESAMPLE_STRIDES, ATTR_RESAMPLE_WINDOW_DIMS, BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR,
    BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, BACKEND_RESAMPLE_DESCRIPTOR, DATA_BFLOAT16, NEG_INF_PAD,
    PROPAGATE_NAN, RESAMPLE_AVGPOOL_EXCLUDE_PADDING, RESAMPLE_AVGPOOL_INCLUDE_PADDING, RESAMPLE_MAXPOOL,
    TYPE_NAN_PROPOGATION, TYPE_PADDING_MODE, TYPE_RESAMPLE_MODE, ZERO_PAD,
};

pub(super) fn lower(builder: &mut Builder<'_>, node: &Node, problem: &Resample) -> Result<(), Refusal> {
    if problem.index.is_some() {
        return Err("index: given, expected none, since cuDNN counts within the window".to_owned());
    }
    let (mode, padding) = match problem.pooling {
        Pooling::Maximum { zeros } => (RESAMPLE_MAXPOOL, if zeros { ZERO_PAD } else { NEG_INF_PAD }),
        Pooling::MeanInside => (RESAMPLE_AVGPOOL_EXCLUDE_PADDING, ZERO_PAD),
        Pooling::MeanOfWindow => (RESAMPLE_AVGPOOL_INCLUDE_PADDING, ZERO_PAD),
    };
    let (read, written, [pre, post, stride, window]) = match &node.operation {
        Operation::ResampleForward(r) => (r.x, r.y, [&r.pre_padding, &r.post_padding, &r.stride, &r.window]),
        Operation::ResampleBackward(r) => {
            (r.dy, r.dx, [&r.pre_padding, &r.post_padding, &r.stride, &r.window])
        }
        _ => return Err("operation is not a pooling".to_owned()),
    };
    let image = |uid| builder.view.shape(&builder.layout(uid)?);
    let (shape_read, shape_written) = (image(read)?, image(written)?);
    let innermost = |shape: &Shape| shape.strides.get(1) == Some(&1);
    // The layout of a one-pixel image is ambiguous, so the larger image decides.
    let channels_last = innermost(if problem.backward { &shape_written } else { &shape_read });
    // cuDNN 9.14 fails at execution for the first of these, and returns NaN for the second.
    if problem.backward {
        for (name, shape) in [("dy", &shape_read), ("dx", &shape_written)] {
            if !innermost(shape) {
                return Err(format!(
                    "{name}: channels are not innermost, expected images with channels last"
                ));
            }
        }
    }
    if !problem.backward && channels_last && builder.type_of(read)? == DATA_BFLOAT16 {
        return Err(
            "x: data type is bfloat16 with channels last, expected channels first or another type".to_owned()
        );
    }
    let compute_type = data_type(node.compute_type)?;
    let spatial = problem.spatial.max(2);
    let numbers = |values: &[i64], of_one: i64| {
        let mut numbers = vec![of_one; spatial - problem.spatial];
        numbers.extend(values);
        numbers
    };
    let resample = Descriptor::new(BACKEND_RESAMPLE_DESCRIPTOR)
        .number(ATTR_RESAMPLE_MODE, TYPE_RESAMPLE_MODE, mode)
        .compute_type(ATTR_RESAMPLE_COMP_TYPE, compute_type)
        .number(ATTR_RESAMPLE_NAN_PROPAGATION, TYPE_NAN_PROPOGATION, PROPAGATE_NAN)
        .number(ATTR_RESAMPLE_PADDING_MODE, TYPE_PADDING_MODE, padding)
        .integers(ATTR_RESAMPLE_SPATIAL_DIMS, &[spatial as i64])
        .integers(ATTR_RESAMPLE_WINDOW_DIMS, &numbers(window, 1))
        .integers(ATTR_RESAMPLE_STRIDES, &numbers(stride, 1))
        .integers(ATTR_RESAMPLE_PRE_PADDINGS, &numbers(pre, 0))
        .integers(ATTR_RESAMPLE_POST_PADDINGS, &numbers(post, 0));
    // Nodes that share a tensor must see the same strides.
    let alone = builder.nodes.len() == 1;
    let lying = |shape: Shape| if alone { shape.lying(channels_last) } else { shape };
    let read = builder.tensor_as(read, lying(shape_read))?;
    let written = builder.tensor_as(written, lying(shape_written))?;
    builder.operation(if problem.backward {
        Descriptor::new(BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR)
            .tensor(ATTR_OPERATION_RESAMPLE_BWD_DYDESC, read)
            .tensor(ATTR_OPERATION_RESAMPLE_BWD_DXDESC, written)
            .double(ATTR_OPERATION_RESAMPLE_BWD_ALPHA, 1.0)
            .double(ATTR_OPERATION_RESAMPLE_BWD_BETA, 0.0)
            .descriptor(ATTR_OPERATION_RESAMPLE_BWD_DESC, resample)
    } else {
        Descriptor::new(BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR)
            .tensor(ATTR_OPERATION_RESAMPLE_FWD_XDESC, read)
            .tensor(ATTR_OPERATION_RESAMPLE_FWD_YDESC, written)
            .double(ATTR_OPERATION_RESAMPLE_FWD_ALPHA, 1.0)
            .double(ATTR_OPERATION_RESAMPLE_FWD_BETA, 0.0)
            .descriptor(ATTR_OPERATION_RESAMPLE_FWD_DESC, resample)
    });
    Ok(())
}
