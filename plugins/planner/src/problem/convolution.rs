//! A convolution and its gradients, described by the same parameters.

#![expect(clippy::indexing_slicing, reason = "every index is below a rank that is checked first")]

use hipdnn_plugin_sdk::graph::ConvMode;
use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
};

use super::{Operand, Operands};
use crate::Refusal;
use crate::layout::MAX_RANK;

/// Maximum number of spatial dimensions.
pub const MAX_SPATIAL: usize = 5;

/// Which of the three tensors is computed from the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// y from x and w.
    Forward,
    /// The gradient of x from dy and w.
    BackwardData,
    /// The gradient of w from x and dy.
    BackwardFilter,
}

/// A convolution whose shapes agree.
///
/// Along every spatial dimension, element `o` of y and element `r` of the window use element `o * stride + r
/// * dilation - pre_padding` of x, if it is inside x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Convolution {
    /// What is computed.
    pub direction: Direction,
    /// x or its gradient, [batch, groups * in_channels, input...].
    pub x: Operand,
    /// The filter or its gradient, [groups * out_channels, in_channels, window...].
    pub w: Operand,
    /// y or its gradient, [batch, groups * out_channels, output...].
    pub y: Operand,
    /// Number of images.
    pub batch: usize,
    /// Number of groups.
    pub groups: usize,
    /// Channels of x per group.
    pub in_channels: usize,
    /// Channels of y per group.
    pub out_channels: usize,
    /// Number of spatial dimensions, and of valid entries in the arrays below.
    pub spatial: usize,
    /// Spatial dimensions of x.
    pub input: [usize; MAX_SPATIAL],
    /// Spatial dimensions of y.
    pub output: [usize; MAX_SPATIAL],
    /// Spatial dimensions of the filter.
    pub window: [usize; MAX_SPATIAL],
    /// Stride of the window.
    pub stride: [usize; MAX_SPATIAL],
    /// Spacing of the window's elements.
    pub dilation: [usize; MAX_SPATIAL],
    /// Padding zeros before x.
    pub pre_padding: [usize; MAX_SPATIAL],
    /// Whether the filter is flipped: element `r` of the window uses the filter's element `window - 1 - r`.
    pub mirrored: bool,
}

impl Convolution {
    /// The forward convolution. A refusal names the inconsistent argument, as for the gradients.
    pub(crate) fn forward(operands: &Operands<'_>, c: &ConvolutionForward) -> Result<Self, Refusal> {
        let windows = [&c.pre_padding, &c.post_padding, &c.stride, &c.dilation].map(Vec::as_slice);
        Self::checked(Direction::Forward, operands, ["x", "w", "y"], windows, c.conv_mode)
    }

    /// The gradient of the input.
    pub(crate) fn backward_data(
        operands: &Operands<'_>,
        c: &ConvolutionBackwardData,
    ) -> Result<Self, Refusal> {
        let windows = [&c.pre_padding, &c.post_padding, &c.stride, &c.dilation].map(Vec::as_slice);
        Self::checked(Direction::BackwardData, operands, ["dx", "w", "dy"], windows, c.conv_mode)
    }

    /// The gradient of the filter.
    pub(crate) fn backward_filter(
        operands: &Operands<'_>,
        c: &ConvolutionBackwardFilter,
    ) -> Result<Self, Refusal> {
        let windows = [&c.pre_padding, &c.post_padding, &c.stride, &c.dilation].map(Vec::as_slice);
        Self::checked(Direction::BackwardFilter, operands, ["x", "dw", "dy"], windows, c.conv_mode)
    }

    fn checked(
        direction: Direction,
        operands: &Operands<'_>,
        [x_name, w_name, y_name]: [&str; 3],
        [pre, post, stride, dilation]: [&[i64]; 4],
        mode: ConvMode,
    ) -> Result<Self, Refusal> {
        let x = operands.required(x_name)?;
        let w = operands.required(w_name)?;
        let y = operands.required(y_name)?;
        let rank = x.layout.rank();
        if !(3..=MAX_SPATIAL + 2).contains(&rank) {
            return Err(format!(
                "{x_name}: dims {:?} has {rank} entries, expected batch, channels and 1 to {MAX_SPATIAL} spatial dimensions",
                x.layout.dims()
            ));
        }
        for (name, operand) in [(w_name, &w), (y_name, &y)] {
            if operand.layout.rank() != rank {
                return Err(format!(
                    "{name}: dims {:?} has {} entries, expected {rank} as in {x_name}",
                    operand.layout.dims(),
                    operand.layout.rank()
                ));
            }
        }
        let mirrored = match mode {
            ConvMode::Convolution => true,
            ConvMode::CrossCorrelation => false,
            ConvMode::Unset => {
                return Err("conv_mode: is UNSET, expected CONVOLUTION or CROSS_CORRELATION".to_owned());
            }
        };
        let spatial = rank - 2;
        let pre_padding = parameters("pre_padding", pre, spatial, 0)?;
        let post_padding = parameters("post_padding", post, spatial, 0)?;
        let stride = parameters("stride", stride, spatial, 1)?;
        let dilation = parameters("dilation", dilation, spatial, 1)?;

        let (xd, wd, yd) = (x.layout.dims(), w.layout.dims(), y.layout.dims());
        if xd[1] % wd[1] != 0 {
            return Err(format!(
                "{w_name}: dims[1] is {}, expected a divisor of the {} channels of {x_name}",
                wd[1], xd[1]
            ));
        }
        let groups = xd[1] / wd[1];
        if wd[0] % groups != 0 {
            return Err(format!(
                "{w_name}: dims[0] is {}, expected a multiple of the {groups} groups ({} channels of {x_name} / dims[1] {})",
                wd[0], xd[1], wd[1]
            ));
        }
        for (axis, expected, source) in [(0, xd[0], x_name), (1, wd[0], w_name)] {
            if yd[axis] != expected {
                return Err(format!(
                    "{y_name}: dims[{axis}] is {}, expected {expected} as in dims[0] of {source}",
                    yd[axis]
                ));
            }
        }
        let mut convolution = Self {
            direction,
            x,
            w,
            y,
            batch: xd[0],
            groups,
            in_channels: wd[1],
            out_channels: wd[0] / groups,
            spatial,
            input: [1; MAX_SPATIAL],
            output: [1; MAX_SPATIAL],
            window: [1; MAX_SPATIAL],
            stride,
            dilation,
            pre_padding,
            mirrored,
        };
        for axis in 0..spatial {
            let (input, window) = (xd[axis + 2], wd[axis + 2]);
            let padded = input.checked_add(pre_padding[axis]).and_then(|n| n.checked_add(post_padding[axis]));
            let reach = (window - 1).checked_mul(dilation[axis]).and_then(|n| n.checked_add(1));
            let (Some(padded), Some(reach)) = (padded, reach) else {
                return Err(format!(
                    "spatial dimension {axis}: window {window} with dilation {} and paddings {} and {} overflow",
                    dilation[axis], pre_padding[axis], post_padding[axis]
                ));
            };
            if reach > padded {
                return Err(format!(
                    "{w_name}: dims[{}] is {window}, which spans {reach} elements with dilation {}, expected at most the {padded} of {x_name} with its padding",
                    axis + 2,
                    dilation[axis]
                ));
            }
            let output = (padded - reach) / stride[axis] + 1;
            if yd[axis + 2] != output {
                return Err(format!(
                    "{y_name}: dims[{}] is {}, expected {output} = ({input} + {} + {} - {reach}) / {} + 1",
                    axis + 2,
                    yd[axis + 2],
                    pre_padding[axis],
                    post_padding[axis],
                    stride[axis]
                ));
            }
            convolution.input[axis] = input;
            convolution.window[axis] = window;
            convolution.output[axis] = output;
        }
        Ok(convolution)
    }
}

/// One number per spatial dimension, each at least `least`.
pub(super) fn parameters(
    name: &str,
    values: &[i64],
    spatial: usize,
    least: usize,
) -> Result<[usize; MAX_SPATIAL], Refusal> {
    if values.len() != spatial {
        return Err(format!(
            "{name}: {values:?} has {} entries, expected {spatial}, one for each spatial dimension",
            values.len()
        ));
    }
    let mut numbers = [least; MAX_SPATIAL];
    for (axis, (number, value)) in numbers.iter_mut().zip(values).enumerate() {
        // Half of the address space, so that an index plus its padding never overflows.
        let limit = (isize::MAX as usize) / 2;
        *number = usize::try_from(*value).ok().filter(|n| (least..=limit).contains(n)).ok_or_else(|| {
            format!("{name}[{axis}]: is {value}, expected at least {least} and at most {limit}")
        })?;
    }
    Ok(numbers)
}

const _: () = assert!(MAX_SPATIAL + 2 <= MAX_RANK);
