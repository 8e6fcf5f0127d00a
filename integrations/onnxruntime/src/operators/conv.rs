//! Convolutions.

use hipdnn::graph::operation::{ConvolutionBackwardData, ConvolutionForward};
use hipdnn::graph::{ConvMode, PointwiseMode};

use super::Cost::Heavy;
use super::pool::surrounded;
use super::{Operator, Window, by_channel, floats, image, onnx, same_type};
use crate::lowering::{Lowered, Lowering, View, refuse};
use crate::model::{Element, Node};

pub const OPERATORS: &[Operator] =
    &[onnx("Conv", (1, 22), Heavy, conv), onnx("ConvTranspose", (1, 22), Heavy, conv_transpose)];

fn conv(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let y = biased(node, lowering)?;
    lowering.set(node, 0, y)
}

/// A convolution with its bias.
pub fn biased(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<View> {
    let (x, w) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    floats(&[&x, &w])?;
    same_type(&[&x, &w])?;
    let is_of_bytes = reads_bytes(node, lowering);
    let y = conv_of(node, lowering, [&x, &w], x.element, is_of_bytes)?;
    with_bias(node, lowering, y)
}

/// Whether image and weights are dequantized bytes.
fn reads_bytes(node: &Node, lowering: &Lowering<'_>) -> bool {
    let nodes = &lowering.model.nodes;
    [0, 1].into_iter().all(|at| {
        let value = node.inputs.get(at).copied().flatten();
        let by = value.and_then(|value| nodes.iter().find(|by| by.outputs.contains(&Some(value))));
        by.filter(|by| by.operator == "DequantizeLinear")
            .and_then(|by| lowering.optional(by, 0))
            .is_some_and(|bytes| matches!(bytes.element, Element::Int8 | Element::Uint8))
    })
}

/// The convolution described by a node's attributes. The result is channels last where kernels want that: for bytes, since matmul of
/// bytes reads packed rows, and for [images of such an engine](Lowering::images_last). With a single channel per group it has the
/// image's layout.
pub fn conv_of(
    node: &Node,
    lowering: &mut Lowering<'_>,
    [x, w]: [&View; 2],
    element: Element,
    is_of_bytes: bool,
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
    let window = Window::read(node, &spatial, &size, None)?;
    let mut dims = vec![batch, filters];
    dims.extend(&window.out);
    let is_image = lowering.images_last && element == Element::Float && spatial.len() == 2;
    let y = match (is_of_bytes || is_image) && group_channels > 1 {
        true => lowering.channels_last(element, &dims),
        false => lowering.fresh_like(element, &dims, x),
    };
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

/// Adds the third input, one number per channel.
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
    // Negative padding: zeros around what the filter reaches.
    let mut around = [vec![0; count], vec![0; count]];
    for at in 0..count {
        let get = |of: &[i64]| of.get(at).copied().unwrap_or(1);
        let (have, step, more) = (get(&spatial), get(&stride), get(&extra));
        let reach = (get(&size) - 1) * get(&dilation) + 1;
        let full = (have - 1) * step + reach + more;
        let size = match (wanted, auto) {
            // The shape may include batch and channels.
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
            // CPUExecutionProvider adds nothing for equal sizes, and zeros for a given one.
            Some(size) if size > full => (0, if wanted.is_some() { full - size } else { 0 }),
            Some(size) => {
                let total = full - size;
                let half = total.div_euclid(2);
                if auto == "SAME_UPPER" { (half, total - half) } else { (total - half, half) }
            }
        };
        for (list, pad) in around.iter_mut().zip([front, back]) {
            list.iter_mut().skip(at).take(1).for_each(|of| *of = (-pad).max(0));
        }
        let (front, back) = (front.max(0), back.max(0));
        let size = full - front - back;
        // As backward data of a convolution: what is behind the last window is within a stride of it.
        let positions = (size + front + back - reach).div_euclid(step) + 1;
        if size < 1 || have < 1 || positions != have {
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
    let y = match around.iter().flatten().any(|of| *of > 0) {
        true => {
            let zero = lowering.data(x.element, &[1], &vec![0; x.element.size()])?;
            surrounded(lowering, &y, [&around[0], &around[1]], &zero)?
        }
        false => y,
    };
    let y = with_bias(node, lowering, y)?;
    lowering.set(node, 0, y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Model, Value};
    use crate::operators::find;

    /// The strides of a convolution's result: for dequantized bytes, or for numbers.
    fn strides(element: Element, group: i64, images_last: bool) -> Vec<i64> {
        let value = |element| Value { element: Some(element), ..Value::default() };
        let types = [element, Element::Float, element, Element::Float, Element::Float, Element::Float];
        let node = |operator: &str, inputs: &[usize], output: usize| Node {
            operator: operator.to_owned(),
            since: 11,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
            attributes: [("group".to_owned(), crate::model::Attribute::Int(group))].into(),
            ..Node::default()
        };
        let mut model = Model { values: types.map(value).into(), ..Model::default() };
        model.values.extend([(); 2].map(|()| value(Element::Float)));
        let [before, of] = match element {
            Element::Float => ["Identity"; 2].map(|name| (name, &[0][..], &[2][..])),
            _ => ["DequantizeLinear"; 2].map(|name| (name, &[0, 1][..], &[2, 3][..])),
        };
        model.nodes = vec![node(before.0, before.1, 4), node(of.0, of.2, 5), node("Conv", &[4, 5], 6)];
        let mut lowering = Lowering::new(&model);
        lowering.images_last = images_last;
        lowering.bind_input(0, element, &[2, 4, 5, 5], false);
        lowering.bind_input(1, Element::Float, &[1], false);
        lowering.bind_input(2, element, &[8, 4 / group, 3, 3], true);
        lowering.bind_input(3, Element::Float, &[1], false);
        for node in &model.nodes {
            (find(node).unwrap().build)(node, &mut lowering).unwrap();
        }
        lowering.of(6).unwrap().strides.to_vec()
    }

    #[test]
    fn results_of_bytes_have_their_channels_last() {
        assert_eq!(strides(Element::Float, 1, false), [72, 9, 3, 1]);
        assert_eq!(strides(Element::Uint8, 1, false), [72, 1, 24, 8]);
        assert_eq!(strides(Element::Uint8, 4, false), [72, 9, 3, 1]);
        // Where the engine wants it, those of images of single precision, too; depthwise ones keep their image's layout.
        assert_eq!(strides(Element::Float, 1, true), [72, 1, 24, 8]);
        assert_eq!(strides(Element::Float, 4, true), [72, 9, 3, 1]);
    }
}
