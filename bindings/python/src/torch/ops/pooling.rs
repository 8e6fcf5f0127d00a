//! Pooling of images, and the gradient of averages.

use hipdnn::graph::operation::{ResampleBackward, ResampleForward};
use hipdnn::graph::{PaddingMode, ResampleMode};

use super::{int, ints, require, same_type, tensor};
use crate::torch::arguments::{TensorValue, Value, dtype};
use crate::torch::recipe::{Made, Reason, Recipe, channels_last, lies_as, packed};

/// Windows along height and width.
struct Windows {
    window: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    /// The padding behind the image: `padding`, and what the last window needs beyond it.
    post: Vec<i64>,
    /// The shape of the result.
    dims: Vec<i64>,
}

impl Windows {
    /// The windows of an image, from an argument on: size, stride, padding; and whether the last window may reach beyond the padding.
    fn read(values: &[Value], first: usize, ceil: bool, x: &TensorValue) -> Result<Self, Reason> {
        let [images, channels, image @ ..] = x.dims.as_slice() else { return Err("another rank".to_owned()) };
        require(image.len() == 2, "another rank")?;
        let window = pair(ints(values, first)?)?;
        let stride = ints(values, first + 1)?;
        let stride = if stride.is_empty() { window.clone() } else { pair(stride)? };
        let padding = pair(ints(values, first + 2)?)?;
        let (mut post, mut dims) = (Vec::new(), vec![*images, *channels]);
        let sizes = image.iter().zip(&window).zip(&stride).zip(&padding);
        for (((size, window), stride), padding) in sizes {
            let is_fit = *window > 0 && *stride > 0 && *padding >= 0 && 2 * padding <= *window;
            require(is_fit && *size > 0, "an invalid window")?;
            let left = size + 2 * padding - window;
            require(left >= 0, "shapes that do not fit")?;
            let mut count = left / stride + 1;
            // The last window must begin within the image or the padding before it.
            if ceil && left % stride != 0 && count * stride < size + padding {
                count += 1;
            }
            post.push((*padding).max((count - 1) * stride + window - padding - size));
            dims.push(count);
        }
        Ok(Self { window, stride, padding, post, dims })
    }

    fn reach_out(&self) -> bool {
        self.post != self.padding
    }
}

/// One number each for height and width, or one for both.
fn pair(numbers: &[i64]) -> Result<Vec<i64>, Reason> {
    let numbers = match numbers {
        [one] => vec![*one; 2],
        _ => numbers.to_vec(),
    };
    let is_fit = numbers.len() == 2 && numbers.iter().all(|number| (0..1 << 31).contains(number));
    require(is_fit, "an invalid window")?;
    Ok(numbers)
}

/// The layout of a packed image, which the result shares.
fn layout(of: &TensorValue, dims: &[i64]) -> Result<Vec<i64>, Reason> {
    let strides = if of.suggests_channels_last() { channels_last } else { packed };
    require(lies_as(&of.dims, &of.strides, &strides(&of.dims)), "a tensor with gaps")?;
    Ok(strides(dims))
}

/// Maxima, and their index within the plane.
pub fn maximum(values: &[Value]) -> Result<Recipe, Reason> {
    let x = tensor(values, 0)?;
    require(ints(values, 4)?.iter().all(|step| *step == 1), "a window with gaps")?;
    let windows = Windows::read(values, 1, int(values, 5)? != 0, x)?;
    let plane = x.dims.iter().skip(2).fold(1_i64, |product, size| product.saturating_mul(*size));
    require(plane < 1 << 31, "a plane of many elements")?;
    let strides = layout(x, &windows.dims)?;
    let mut recipe = Recipe::new("max_pool", x)?;
    let of_x = recipe.input(x)?;
    let y = recipe.output(x.dtype, &windows.dims, &strides)?;
    // Engines are fast with 32-bit indices.
    let made = Made { dtype: dtype::INT64, dims: windows.dims.clone(), strides };
    let index = recipe.converted(made, dtype::INT32)?;
    let Windows { window, stride, padding, post, .. } = windows;
    let node = ResampleForward {
        x: of_x,
        y,
        index: Some(index),
        pre_padding: padding,
        post_padding: post,
        stride,
        window,
        resample_mode: ResampleMode::Maxpool,
        padding_mode: PaddingMode::NegInfPad,
        generate_index: Some(true),
    };
    recipe.node("max_pool", node);
    Ok(recipe)
}

/// How averages count padding.
fn mode(values: &[Value], include: usize, windows: &Windows) -> Result<ResampleMode, Reason> {
    require(matches!(values.get(include + 1), Some(Value::None)), "a divisor of the program's")?;
    let includes = int(values, include)? != 0;
    // PyTorch counts the padding in such a window, but nothing beyond it.
    require(!includes || !windows.reach_out(), "a window that reaches out")?;
    Ok(if includes { ResampleMode::AvgpoolIncludePadding } else { ResampleMode::AvgpoolExcludePadding })
}

pub fn average(values: &[Value]) -> Result<Recipe, Reason> {
    let x = tensor(values, 0)?;
    let windows = Windows::read(values, 1, int(values, 4)? != 0, x)?;
    let resample_mode = mode(values, 5, &windows)?;
    let strides = layout(x, &windows.dims)?;
    let mut recipe = Recipe::new("avg_pool", x)?;
    let of_x = recipe.input(x)?;
    let y = recipe.output(x.dtype, &windows.dims, &strides)?;
    let Windows { window, stride, padding, post, .. } = windows;
    let node = ResampleForward {
        x: of_x,
        y,
        index: None,
        pre_padding: padding,
        post_padding: post,
        stride,
        window,
        resample_mode,
        padding_mode: PaddingMode::ZeroPad,
        generate_index: None,
    };
    recipe.node("avg_pool", node);
    Ok(recipe)
}

pub fn average_backward(values: &[Value]) -> Result<Recipe, Reason> {
    let (dy, x) = (tensor(values, 0)?, tensor(values, 1)?);
    same_type(&[dy, x])?;
    let windows = Windows::read(values, 2, int(values, 5)? != 0, x)?;
    require(dy.dims == windows.dims, "shapes that do not fit")?;
    let resample_mode = mode(values, 6, &windows)?;
    let strides = layout(x, &x.dims)?;
    layout(dy, &dy.dims)?;
    let mut recipe = Recipe::new("avg_pool_backward", x)?;
    let of_dy = recipe.input(dy)?;
    let dx = recipe.output(x.dtype, &x.dims, &strides)?;
    let Windows { window, stride, padding, post, .. } = windows;
    let node = ResampleBackward {
        dy: of_dy,
        dx,
        index: None,
        pre_padding: padding,
        post_padding: post,
        stride,
        window,
        resample_mode,
        padding_mode: PaddingMode::ZeroPad,
    };
    recipe.node("avg_pool_backward", node);
    Ok(recipe)
}
