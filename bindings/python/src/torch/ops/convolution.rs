//! Convolutions and their gradients.

use hipdnn::graph::operation::{
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward, Pointwise, Reduction,
};
use hipdnn::graph::{ConvMode, PointwiseMode, ReductionMode};

use super::{int, ints, optional, require, same_type, tensor};
use crate::torch::arguments::{TensorValue, Value};
use crate::torch::recipe::{Answer, Made, Reason, Recipe, channels_last, lies_as, packed};

/// A convolution's parameters.
struct Window {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    output_padding: Vec<i64>,
    is_transposed: bool,
    groups: i64,
}

impl Window {
    fn read(values: &[Value], first: usize, rank: usize) -> Result<Self, Reason> {
        let of = |at: usize| -> Result<Vec<i64>, Reason> {
            let numbers = ints(values, at)?;
            match numbers {
                [one] => Ok(vec![*one; rank]),
                _ if numbers.len() == rank => Ok(numbers.to_vec()),
                _ => Err("a window of another rank".to_owned()),
            }
        };
        let window = Self {
            stride: of(first)?,
            padding: of(first + 1)?,
            dilation: of(first + 2)?,
            is_transposed: int(values, first + 3)? != 0,
            output_padding: of(first + 4)?,
            groups: int(values, first + 5)?,
        };
        let positive = |of: &[i64]| of.iter().all(|number| (1..1 << 31).contains(number));
        let small = |of: &[i64]| of.iter().all(|number| (0..1 << 31).contains(number));
        let is_fit = positive(&window.stride) && positive(&window.dilation) && small(&window.padding);
        require(is_fit && small(&window.output_padding) && window.groups > 0, "an invalid window")?;
        Ok(window)
    }

    /// The shape of the result.
    fn answer(&self, x: &TensorValue, w: &TensorValue) -> Result<Vec<i64>, Reason> {
        let other = || "shapes that do not fit".to_owned();
        let (Some((n, [c, image @ ..])), Some((k, [per_group, filter @ ..]))) =
            (x.dims.split_first(), w.dims.split_first())
        else {
            return Err(other());
        };
        let (inner, outer) = if self.is_transposed {
            (*k, per_group.saturating_mul(self.groups))
        } else {
            (per_group.saturating_mul(self.groups), *k)
        };
        require(*c == inner && k % self.groups == 0, "shapes that do not fit")?;
        let mut dims = vec![*n, outer];
        let sizes = image.iter().zip(filter).zip(&self.stride).zip(&self.padding);
        let sizes = sizes.zip(&self.dilation).zip(&self.output_padding);
        for (((((size, filter), stride), padding), dilation), extra) in sizes {
            let reach = (filter - 1).saturating_mul(*dilation) + 1;
            dims.push(if self.is_transposed {
                (size - 1).saturating_mul(*stride) - 2 * padding + reach + extra
            } else {
                (size + 2 * padding - reach).div_euclid(*stride) + 1
            });
            require(*filter > 0 && *size > 0 && dims.last() > Some(&0), "shapes that do not fit")?;
            require(self.is_transposed || size + 2 * padding >= reach, "shapes that do not fit")?;
            require(
                !self.is_transposed || *extra < *stride.max(dilation),
                "padding of the output by a step",
            )?;
        }
        Ok(dims)
    }

    /// The node of the convolution.
    fn add(&self, recipe: &mut Recipe, x: i64, w: i64, y: i64) {
        if self.is_transposed {
            recipe.node("convolution", self.data(x, w, y));
        } else {
            recipe.node("convolution", self.forward(x, w, y));
        }
    }

    fn forward(&self, x: i64, w: i64, y: i64) -> ConvolutionForward {
        let (pre_padding, post_padding) = (self.padding.clone(), self.padding.clone());
        let (stride, dilation) = (self.stride.clone(), self.dilation.clone());
        ConvolutionForward {
            x,
            w,
            y,
            pre_padding,
            post_padding,
            stride,
            dilation,
            conv_mode: ConvMode::CrossCorrelation,
        }
    }

    fn data(&self, dy: i64, w: i64, dx: i64) -> ConvolutionBackwardData {
        let (pre_padding, post_padding) = (self.padding.clone(), self.padding.clone());
        let (stride, dilation) = (self.stride.clone(), self.dilation.clone());
        ConvolutionBackwardData {
            dy,
            w,
            dx,
            pre_padding,
            post_padding,
            stride,
            dilation,
            conv_mode: ConvMode::CrossCorrelation,
        }
    }

    fn filter(&self, x: i64, dy: i64, dw: i64) -> ConvolutionBackwardFilter {
        let (pre_padding, post_padding) = (self.padding.clone(), self.padding.clone());
        let (stride, dilation) = (self.stride.clone(), self.dilation.clone());
        ConvolutionBackwardFilter {
            x,
            dy,
            dw,
            pre_padding,
            post_padding,
            stride,
            dilation,
            conv_mode: ConvMode::CrossCorrelation,
        }
    }
}

/// The layout of PyTorch's result: channels last if the image or the filter is.
fn layout(x: &TensorValue, w: &TensorValue, dims: &[i64]) -> Vec<i64> {
    if x.suggests_channels_last() || w.suggests_channels_last() { channels_last(dims) } else { packed(dims) }
}

/// Leaves images with gaps, and ranks that engines lack, to PyTorch.
fn check(tensors: &[&TensorValue]) -> Result<usize, Reason> {
    same_type(tensors)?;
    let rank = tensors.first().map_or(0, |of| of.dims.len());
    require((3..=5).contains(&rank) && tensors.iter().all(|of| of.dims.len() == rank), "another rank")?;
    let is_dense =
        |of: &&TensorValue| of.is_packed() || lies_as(&of.dims, &of.strides, &channels_last(&of.dims));
    require(tensors.iter().all(is_dense), "a tensor with gaps")?;
    Ok(rank - 2)
}

/// A vector of channels, broadcast over images.
fn beside(channels: i64, rank: usize) -> (Vec<i64>, Vec<i64>) {
    let (mut dims, mut strides) = (vec![1; rank], vec![1; rank]);
    if let (Some(dim), Some(stride)) = (dims.get_mut(1), strides.first_mut()) {
        (*dim, *stride) = (channels, channels);
    }
    (dims, strides)
}

pub fn forward(values: &[Value]) -> Result<Recipe, Reason> {
    let (x, w) = (tensor(values, 0)?, tensor(values, 1)?);
    let rank = check(&[x, w])?;
    let window = Window::read(values, 3, rank)?;
    let dims = window.answer(x, w)?;
    let mut recipe = Recipe::new("convolution", x)?;
    let (of_x, of_w) = (recipe.input(x)?, recipe.input(w)?);
    let strides = layout(x, w, &dims);
    let Some(bias) = optional(values, 2) else {
        let y = recipe.output(x.dtype, &dims, &strides)?;
        window.add(&mut recipe, of_x, of_w, y);
        return Ok(recipe);
    };
    same_type(&[x, bias])?;
    require(bias.dims.as_slice() == dims.get(1..2).unwrap_or_default(), "shapes that do not fit")?;
    require(bias.is_packed(), "a bias with gaps")?;
    let (wide, steps) = beside(bias.count(), rank + 2);
    let bias = recipe.input_as(bias, &wide, &steps)?;
    let between = recipe.between(&dims, &strides);
    window.add(&mut recipe, of_x, of_w, between);
    let y = recipe.output(x.dtype, &dims, &strides)?;
    recipe.node("bias", Pointwise::new(PointwiseMode::Add, between, Some(bias), y));
    Ok(recipe)
}

pub fn backward(values: &[Value]) -> Result<Recipe, Reason> {
    let (dy, x, w) = (tensor(values, 0)?, tensor(values, 1)?, tensor(values, 2)?);
    let rank = check(&[x, w, dy])?;
    let window = Window::read(values, 4, rank)?;
    let dims = window.answer(x, w)?;
    require(dims == dy.dims, "shapes that do not fit")?;
    let [of_image, of_filter, of_bias] = ints(values, 10)? else { return Err("another mask".to_owned()) };
    require(*of_image + *of_filter > 0, "no gradient of an image or filter")?;
    let mut recipe = Recipe::new("convolution_backward", x)?;
    let of_dy = recipe.input(dy)?;
    if *of_image != 0 {
        let of_w = recipe.input(w)?;
        let dx = recipe.output(x.dtype, &x.dims, &layout(x, w, &x.dims))?;
        if window.is_transposed {
            recipe.node("dx", window.forward(of_dy, of_w, dx));
        } else {
            recipe.node("dx", window.data(of_dy, of_w, dx));
        }
    } else {
        recipe.answers.push(Answer::Nothing);
    }
    if *of_filter != 0 {
        let of_x = recipe.input(x)?;
        let dw = recipe.output(w.dtype, &w.dims, &layout(x, w, &w.dims))?;
        let (image, gradient) = if window.is_transposed { (of_dy, of_x) } else { (of_x, of_dy) };
        recipe.node("dw", window.filter(image, gradient, dw));
    } else {
        recipe.answers.push(Answer::Nothing);
    }
    if *of_bias != 0 {
        let channels = dims.get(1).copied().unwrap_or(1);
        require(dy.count() != channels, "a gradient of one element for each channel")?;
        let (wide, steps) = beside(channels, rank + 2);
        let made = Made { dtype: x.dtype, dims: vec![channels], strides: vec![1] };
        let db = recipe.output_as(made, &wide, &steps)?;
        let sum = Reduction { in_: of_dy, out: db, mode: ReductionMode::Add, is_deterministic: false };
        recipe.node("db", sum);
    } else {
        recipe.answers.push(Answer::Nothing);
    }
    Ok(recipe)
}
