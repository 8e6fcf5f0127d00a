//! Convolution and its two gradients.

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::convolution::{Convolution, Direction};
use hipdnn_plugin_sdk::graph::{Node, Operation};

use super::view::View;
use super::{Builder, Descriptor, data_type};
use crate::names::{
    ATTR_CONVOLUTION_COMP_TYPE, ATTR_CONVOLUTION_CONV_MODE, ATTR_CONVOLUTION_DILATIONS,
    ATTR_CONVOLUTION_FILTER_STRIDES, ATTR_CONVOLUTION_POST_PADDINGS, ATTR_CONVOLUTION_PRE_PADDINGS,
    ATTR_CONVOLUTION_SPATIAL_DIMS, ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
    ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
    ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
    ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
    ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
    ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
    ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
    ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
    ATTR_OPERATION_CONVOLUTION_FORWARD_W, ATTR_OPERATION_CONVOLUTION_FORWARD_X,
    ATTR_OPERATION_CONVOLUTION_FORWARD_Y, BACKEND_CONVOLUTION_DESCRIPTOR,
    BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CONVOLUTION, CROSS_CORRELATION, TYPE_CONVOLUTION_MODE,
};

/// The tensors that are read, the one that is written, and the parameters.
struct Parts<'a> {
    read: [i64; 2],
    written: i64,
    pre_padding: &'a [i64],
    post_padding: &'a [i64],
    stride: &'a [i64],
    dilation: &'a [i64],
}

/// The descriptor of an operation with its attributes for the inputs, the output, the convolution, and two
/// factors.
type Names = (i32, [i32; 6]);

const FORWARD: Names = (
    BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    [
        ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
    ],
);
const BACKWARD_DATA: Names = (
    BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    [
        ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
    ],
);
const BACKWARD_FILTER: Names = (
    BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    [
        ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
    ],
);

macro_rules! parts {
    ($operation:expr, [$($read:ident),+], $written:ident) => {
        Parts {
            read: [$($operation.$read),+],
            written: $operation.$written,
            pre_padding: &$operation.pre_padding,
            post_padding: &$operation.post_padding,
            stride: &$operation.stride,
            dilation: &$operation.dilation,
        }
    };
}

/// Refuses other operations beside a convolution between images of one pixel and larger ones whose channels lie first: the strides of the
/// former are those of either layout, and cuDNN 9.19 computed NaN for some on an H200.
fn check_pixels(builder: &Builder<'_>, problem: &Convolution, uids: [i64; 3]) -> Result<(), Refusal> {
    let images = match problem.direction {
        Direction::Forward | Direction::BackwardData => [uids[0], uids[2]],
        Direction::BackwardFilter => [uids[0], uids[1]],
    };
    let pixels = |uid: &i64| builder.dims(*uid).map(|dims| dims.iter().skip(2).product::<i64>());
    let [first, second] = [pixels(&images[0])?, pixels(&images[1])?];
    let is_first = matches!(builder.view, View::Image(_, Some(false)));
    if builder.nodes.len() > 1 && is_first && first != second && (first == 1 || second == 1) {
        return Err(format!(
            "images of {first} and {second} pixels beside other operations, expected channels last or no image of one pixel"
        ));
    }
    Ok(())
}

pub(super) fn lower(builder: &mut Builder<'_>, node: &Node, problem: &Convolution) -> Result<(), Refusal> {
    let parts = match &node.operation {
        Operation::ConvolutionForward(operation) => parts!(operation, [x, w], y),
        Operation::ConvolutionBackwardData(operation) => parts!(operation, [dy, w], dx),
        Operation::ConvolutionBackwardFilter(operation) => parts!(operation, [x, dy], dw),
        _ => return Err("operation is not a convolution".to_owned()),
    };
    let (kind, [first, second, result, convolution, alpha, beta]) = match problem.direction {
        Direction::Forward => FORWARD,
        Direction::BackwardData => BACKWARD_DATA,
        Direction::BackwardFilter => BACKWARD_FILTER,
    };
    check_pixels(builder, problem, [parts.read[0], parts.read[1], parts.written])?;
    builder.multiplies(parts.read);
    let compute_type = data_type(node.compute_type)?;
    // One spatial dimension is treated as an image of height 1.
    let spatial = problem.spatial.max(2);
    let numbers = |values: &[i64], of_one: i64| {
        let mut numbers = vec![of_one; spatial - problem.spatial];
        numbers.extend(values);
        numbers
    };
    let mode = if problem.mirrored { CONVOLUTION } else { CROSS_CORRELATION };
    let described = Descriptor::new(BACKEND_CONVOLUTION_DESCRIPTOR)
        .compute_type(ATTR_CONVOLUTION_COMP_TYPE, compute_type)
        .number(ATTR_CONVOLUTION_CONV_MODE, TYPE_CONVOLUTION_MODE, mode)
        .integers(ATTR_CONVOLUTION_SPATIAL_DIMS, &[spatial as i64])
        .integers(ATTR_CONVOLUTION_DILATIONS, &numbers(parts.dilation, 1))
        .integers(ATTR_CONVOLUTION_FILTER_STRIDES, &numbers(parts.stride, 1))
        .integers(ATTR_CONVOLUTION_PRE_PADDINGS, &numbers(parts.pre_padding, 0))
        .integers(ATTR_CONVOLUTION_POST_PADDINGS, &numbers(parts.post_padding, 0));
    let [a, b] = parts.read;
    let operation = Descriptor::new(kind)
        .tensor(first, builder.tensor(a)?)
        .tensor(second, builder.tensor(b)?)
        .tensor(result, builder.tensor(parts.written)?)
        .descriptor(convolution, described)
        .factor(alpha, 1.0, compute_type)
        .factor(beta, 0.0, compute_type);
    builder.operation(operation);
    Ok(())
}
