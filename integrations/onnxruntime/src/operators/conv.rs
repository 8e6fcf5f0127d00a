//! Convolutions.

use hipdnn::graph::operation::{ConvolutionBackwardData, ConvolutionForward};
use hipdnn::graph::{ConvMode, PointwiseMode};

use super::Cost::Heavy;
use super::{Operator, Window, by_channel, floats, image, onnx, same_type};
use crate::lowering::{Lowered, Lowering, View, refuse};
use crate::model::{Element, Node};

pub const OPERATORS: &[Operator] =
    &[onnx("Conv", (1, 22), Heavy, conv), onnx("ConvTranspose", (1, 22), Heavy, conv_transpose)];

fn conv(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, w) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    floats(&[&x, &w])?;
    same_type(&[&x, &w])?;
    let y = conv_of(node, lowering, &x, &w, x.element)?;
    let y = with_bias(node, lowering, y)?;
    lowering.set(node, 0, y)
}

/// The convolution that a node's attributes describe.
pub fn conv_of(
    node: &Node,
    lowering: &mut Lowering<'_>,
    x: &View,
    w: &View,
    element: Element,
) -> Lowered<View> {
    let (batch, channels, spatial) = image(x)?;
    let (filters, group_channels, size) = image(w)?;
    let groups = node.int("group", 1);
    if groups < 1 || group_channels.checked_mul(groups) != Some(channels) || filters % groups != 0 {
        return refuse(format!("{channels} channels in {groups} groups, a filter for {group_channels}"));
    }
    if spatial.len() > 3 {
        return refuse("more than 3 spatial dimensions");
    }
    if node.ints("kernel_shape").is_some_and(|shape| shape != size) {
        return refuse("kernel_shape is not that of the filter");
    }
    let window = Window::read(node, &spatial, &size, false)?;
    let mut dims = vec![batch, filters];
    dims.extend(&window.out);
    let y = lowering.fresh_like(element, &dims, x);
    let operation = ConvolutionForward {
        x: lowering.tensor(x),
        w: lowering.tensor(w),
        y: lowering.tensor(&y),
        pre_padding: window.before,
        post_padding: window.after,
        stride: window.stride,
        dilation: window.dilation,
        conv_mode: ConvMode::CrossCorrelation,
    };
    lowering.op(&node.name, operation)?;
    Ok(y)
}

/// Adds the third input, one number for each channel.
fn with_bias(node: &Node, lowering: &mut Lowering<'_>, y: View) -> Lowered<View> {
    if !Lowering::has_input(node, 2) {
        return Ok(y);
    }
    let bias = lowering.input(node, 2)?;
    same_type(&[&y, &bias])?;
    let bias = by_channel(lowering, &bias, y.rank())?;
    lowering.binary(PointwiseMode::Add, &y, &bias)
}

fn conv_transpose(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, w) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    floats(&[&x, &w])?;
    same_type(&[&x, &w])?;
    let (batch, channels, spatial) = image(&x)?;
    let (filters, group_filters, size) = image(&w)?;
    let groups = node.int("group", 1);
    if filters != channels || groups < 1 || channels % groups != 0 {
        return refuse(format!("{channels} channels in {groups} groups, a filter of {filters}"));
    }
    let count = spatial.len();
    if size.len() != count || count > 3 {
        return refuse(format!("{count} spatial dimensions and a window of {}", size.len()));
    }
    let list = |name: &str, absent: i64| -> Lowered<Vec<i64>> {
        match node.ints(name) {
            None => Ok(vec![absent; count]),
            Some(list) if list.len() == count && list.iter().all(|value| *value >= absent) => {
                Ok(list.to_vec())
            }
            Some(list) => refuse(format!("{name} is {list:?}")),
        }
    };
    let (stride, dilation, extra) = (list("strides", 1)?, list("dilations", 1)?, list("output_padding", 0)?);
    let pads = node.ints("pads").unwrap_or(&[]);
    if !pads.is_empty() && pads.len() != 2 * count {
        return refuse(format!("pads is {pads:?}"));
    }
    let wanted = node.ints("output_shape");
    let auto = node.text("auto_pad", "NOTSET");
    let (mut before, mut after, mut out) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..count {
        let get = |of: &[i64]| of.get(at).copied().unwrap_or(1);
        let (have, step, more) = (get(&spatial), get(&stride), get(&extra));
        let reach = (get(&size) - 1) * get(&dilation) + 1;
        let full = (have - 1) * step + reach + more;
        let size = match (wanted, auto) {
            // The shape may come with the batch and the channels in front.
            (Some(shape), _) => {
                let skip = shape.len().saturating_sub(count);
                Some(shape.get(at + skip).copied().unwrap_or(0))
            }
            (None, "SAME_UPPER" | "SAME_LOWER") => Some(have * step),
            (None, "VALID") => Some(full),
            (None, "NOTSET" | "") => None,
            (None, other) => return refuse(format!("auto_pad is {other:?}")),
        };
        let (front, back) = match size {
            None => (pads.get(at).copied().unwrap_or(0), pads.get(at + count).copied().unwrap_or(0)),
            Some(size) => {
                let total = full - size;
                let half = total.div_euclid(2);
                if auto == "SAME_UPPER" { (half, total - half) } else { (total - half, half) }
            }
        };
        let size = full - front - back;
        // As the data gradient of a convolution: what is behind the last window is within a stride of it.
        let positions = (size + front + back - reach).div_euclid(step) + 1;
        if front < 0 || back < 0 || size < 1 || have < 1 || positions != have {
            return refuse(format!("{have} elements become {size} with padding {front} and {back}"));
        }
        before.push(front);
        after.push(back);
        out.push(size);
    }
    let mut dims = vec![batch, group_filters * groups];
    dims.extend(&out);
    let y = lowering.fresh_like(x.element, &dims, &x);
    let operation = ConvolutionBackwardData {
        dy: lowering.tensor(&x),
        w: lowering.tensor(&w),
        dx: lowering.tensor(&y),
        pre_padding: before,
        post_padding: after,
        stride,
        dilation,
        conv_mode: ConvMode::CrossCorrelation,
    };
    lowering.op(&node.name, operation)?;
    let y = with_bias(node, lowering, y)?;
    lowering.set(node, 0, y)
}
