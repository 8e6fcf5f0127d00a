//! Group normalization and its gradient. Graphs have no node for it: an image is viewed as [images, groups, channels of a group, places],
//! and computed with reductions and pointwise nodes, which engines fuse into few kernels.

use hipdnn::graph::operation::{Pointwise, Reduction};
use hipdnn::graph::{PointwiseMode as Mode, ReductionMode};

use super::{float, int, ints, optional, product, require, same_type, tensor};
use crate::torch::arguments::{CPU, TensorValue, Value};
use crate::torch::recipe::{Answer, Made, Reason, Recipe, channels_last, lies_as, packed, size_of};

/// The bytes, and elements, of a group that fit into a workgroup. A larger one is read twice rather than three times if channels get
/// their statistics first.
const KEPT: (i64, i64) = (160 << 10, 1 << 16);
/// The bytes of an image from which gradients are first summed per channel, in additional kernels. With fewer places, rows are short.
const LARGE: i64 = 8 << 20;
const FEW: i64 = 32;

/// The axes of an image in the graph.
const IMAGES: usize = 0;
const CHANNELS: usize = 2;
const PLACES: usize = 3;

/// An image in groups of channels.
struct Image {
    dims: Vec<i64>,
    strides: Vec<i64>,
    /// The strides of PyTorch's shape.
    made: Vec<i64>,
    /// The type of statistics.
    statistics: i32,
}

impl Image {
    /// The image of a call, whose sizes begin at an argument; `factors` are scale and bias, if present.
    fn read(
        x: &TensorValue,
        values: &[Value],
        at: usize,
        factors: [Option<&TensorValue>; 2],
    ) -> Result<Self, Reason> {
        let (images, channels) = (int(values, at)?, int(values, at + 1)?);
        let (places, groups) = (int(values, at + 2)?, int(values, at + 3)?);
        let ([first, second], rest) = x.dims.split_first_chunk().ok_or("another rank")?;
        let is_shape = *first == images && *second == channels && product(rest) == places;
        require(is_shape && groups > 0 && channels % groups == 0, "shapes that do not fit")?;
        let depth = channels / groups;
        require(depth.saturating_mul(places) > 1, "groups of one element")?;
        let last = x.suggests_channels_last();
        let made = if last { channels_last(&x.dims) } else { packed(&x.dims) };
        require(lies_as(&x.dims, &x.strides, &made), "a tensor with gaps")?;
        let whole = channels.saturating_mul(places);
        let strides =
            if last { vec![whole, depth, 1, channels] } else { vec![whole, depth * places, places, 1] };
        let mut statistics = x.dtype;
        for factor in factors.into_iter().flatten() {
            require(factor.dims == [channels] && factor.is_packed(), "factors with gaps")?;
            statistics = factor.dtype;
        }
        same_type(&factors.into_iter().flatten().collect::<Vec<_>>())?;
        // On GPUs PyTorch takes only factors of the image's type.
        let is_mixed = statistics != x.dtype;
        let fits = !is_mixed || x.device.0 == CPU && statistics == Recipe::statistics(x.dtype);
        require(fits, "factors of another type")?;
        Ok(Self { dims: vec![images, groups, depth, places], strides, made, statistics })
    }

    /// Dims with size one along all axes but these.
    fn without(&self, axes: &[usize]) -> Vec<i64> {
        let of = |(axis, dim): (usize, &i64)| if axes.contains(&axis) { 1 } else { *dim };
        self.dims.iter().enumerate().map(of).collect()
    }

    /// Dims with one element per group.
    fn rows(&self) -> Vec<i64> {
        self.without(&[CHANNELS, PLACES])
    }

    fn input(&self, recipe: &mut Recipe, of: &TensorValue) -> Result<i64, Reason> {
        recipe.input_as(of, &self.dims, &self.strides)
    }

    fn output(&self, recipe: &mut Recipe, like: &TensorValue) -> Result<i64, Reason> {
        let made = Made { dtype: like.dtype, dims: like.dims.clone(), strides: self.made.clone() };
        recipe.output_as(made, &self.dims, &self.strides)
    }

    /// The shape with one number per channel.
    fn channel(&self) -> Vec<i64> {
        self.without(&[IMAGES, PLACES])
    }

    fn factor(&self, recipe: &mut Recipe, of: &TensorValue) -> Result<i64, Reason> {
        recipe.input_as(of, &self.channel(), &packed(&self.channel()))
    }

    /// A new tensor with one number per group, or the gradient of a factor.
    fn numbers(&self, recipe: &mut Recipe, dims: &[i64], shape: Vec<i64>) -> Result<i64, Reason> {
        let made = Made { dtype: self.statistics, strides: packed(&shape), dims: shape };
        recipe.output_as(made, dims, &packed(dims))
    }

    /// Adds a node with one or two operands and these dims.
    fn pointwise(&self, recipe: &mut Recipe, dims: &[i64], mode: Mode, a: i64, b: Option<i64>) -> i64 {
        let strides = if dims == self.dims { self.strides.clone() } else { packed(dims) };
        let out = recipe.between(dims, &strides);
        recipe.node("group_norm", Pointwise::new(mode, a, b, out));
        out
    }

    fn reduce(&self, recipe: &mut Recipe, [from, to]: [&[i64]; 2], mode: ReductionMode, in_: i64) -> i64 {
        let out = recipe.between(to, &packed(to));
        reduce_into(recipe, [from, to], mode, in_, out);
        out
    }

    /// The mean, and the mean of squared differences from it.
    fn moments(&self, recipe: &mut Recipe, from: &[i64], to: &[i64], x: i64) -> [i64; 2] {
        let mean = self.reduce(recipe, [from, to], ReductionMode::Avg, x);
        let less = self.pointwise(recipe, from, Mode::Sub, x, Some(mean));
        let square = self.pointwise(recipe, from, Mode::Mul, less, Some(less));
        [mean, self.reduce(recipe, [from, to], ReductionMode::Avg, square)]
    }

    /// Mean and variance of each group.
    fn statistics(&self, recipe: &mut Recipe, x: i64, is_long: bool) -> [i64; 2] {
        let rows = self.rows();
        if !is_long {
            return self.moments(recipe, &self.dims, &rows, x);
        }
        // All channels have equally many elements, so a group's variance is that within plus that among channels (Chan, Golub, LeVeque).
        let parts = self.without(&[PLACES]);
        let [means, variances] = self.moments(recipe, &self.dims, &parts, x);
        let within = self.reduce(recipe, [&parts, &rows], ReductionMode::Avg, variances);
        let [mean, among] = self.moments(recipe, &parts, &rows, means);
        [mean, self.pointwise(recipe, &rows, Mode::Add, within, Some(among))]
    }

    /// Each element minus its group's mean, times the inverse.
    fn normalized(&self, recipe: &mut Recipe, x: i64, mean: i64, inverse: i64) -> i64 {
        let less = self.pointwise(recipe, &self.dims, Mode::Sub, x, Some(mean));
        self.pointwise(recipe, &self.dims, Mode::Mul, less, Some(inverse))
    }

    /// Whether a group does not fit into a workgroup, so that channels get statistics first.
    fn is_long(&self, x: &TensorValue) -> bool {
        let [.., depth, places] = self.dims.as_slice() else { return false };
        let elements = depth * places;
        let is_kept = elements * size_of(x.dtype) as i64 <= KEPT.0 && elements <= KEPT.1;
        x.device.0 != CPU && *depth > 1 && !is_kept
    }

    /// Whether to sum per channel first.
    fn is_large(&self, x: &TensorValue) -> bool {
        let places = self.dims.last().copied().unwrap_or_default();
        x.device.0 != CPU && x.count() * size_of(x.dtype) as i64 > LARGE && places >= FEW
    }
}

pub fn forward(values: &[Value]) -> Result<Recipe, Reason> {
    let x = tensor(values, 0)?;
    let (scale, bias) = (optional(values, 1), optional(values, 2));
    let image = Image::read(x, values, 3, [scale, bias])?;
    let mut recipe = Recipe::new("group_norm", x)?;
    let of_x = image.input(&mut recipe, x)?;
    let epsilon = recipe.number(float(values, 7)?, image.dims.len());
    let y = image.output(&mut recipe, x)?;
    let (rows, shape) = (image.rows(), image.dims.iter().take(2).copied().collect::<Vec<_>>());
    let of_mean = image.numbers(&mut recipe, &rows, shape.clone())?;
    let of_inverse = image.numbers(&mut recipe, &rows, shape)?;
    let [mean, variance] = image.statistics(&mut recipe, of_x, image.is_long(x));
    let variance = image.pointwise(&mut recipe, &rows, Mode::Add, variance, Some(epsilon));
    let inverse = image.pointwise(&mut recipe, &rows, Mode::Rsqrt, variance, None);
    recipe.node("mean", Pointwise::new(Mode::Identity, mean, None, of_mean));
    recipe.node("inverse", Pointwise::new(Mode::Identity, inverse, None, of_inverse));
    let mut last = image.normalized(&mut recipe, of_x, mean, inverse);
    let factors = [(Mode::Mul, scale), (Mode::Add, bias)];
    for (mode, factor) in factors {
        if let Some(factor) = factor {
            let factor = image.factor(&mut recipe, factor)?;
            last = image.pointwise(&mut recipe, &image.dims, mode, last, Some(factor));
        }
    }
    recipe.node("y", Pointwise::new(Mode::Identity, last, None, y));
    Ok(recipe)
}

pub fn backward(values: &[Value]) -> Result<Recipe, Reason> {
    let (dy, x) = (tensor(values, 0)?, tensor(values, 1)?);
    let (mean, inverse, scale) = (tensor(values, 2)?, tensor(values, 3)?, optional(values, 4));
    let image = Image::read(x, values, 5, [scale, None])?;
    same_type(&[dy, x])?;
    require(
        dy.dims == x.dims && lies_as(&dy.dims, &dy.strides, &image.made),
        "tensors that lie in two ways",
    )?;
    let wanted = if scale.is_some() { [1, 1, 1] } else { [1, 0, 0] };
    require(ints(values, 9)? == wanted, "some of the gradients")?;
    let rows = image.rows();
    for of in [mean, inverse] {
        require(of.dtype == image.statistics, "statistics of another type")?;
        require(of.is_packed() && of.count() == product(&rows), "shapes that do not fit")?;
    }
    let mut recipe = Recipe::new("group_norm_backward", x)?;
    let (of_dy, of_x) = (image.input(&mut recipe, dy)?, image.input(&mut recipe, x)?);
    let of_mean = recipe.input_as(mean, &rows, &packed(&rows))?;
    let of_inverse = recipe.input_as(inverse, &rows, &packed(&rows))?;
    let scale = scale.map(|of| image.factor(&mut recipe, of)).transpose()?;
    let dx = image.output(&mut recipe, x)?;
    let tensors = Tensors { dy: of_dy, x: of_x, mean: of_mean, inverse: of_inverse, scale, dx };
    let factors = match scale {
        None => None,
        Some(_) => {
            let (dims, shape) = (image.channel(), vec![product(&image.channel())]);
            let gradient = |recipe: &mut Recipe| image.numbers(recipe, &dims, shape.clone());
            Some([gradient(&mut recipe)?, gradient(&mut recipe)?])
        }
    };
    if factors.is_none() {
        recipe.answers.extend([Answer::Nothing; 2]);
    }
    if image.is_large(x) {
        by_channels(&mut recipe, &image, &tensors, factors);
    } else {
        by_groups(&mut recipe, &image, &tensors, factors);
    }
    Ok(recipe)
}

/// The graph's tensors.
struct Tensors {
    dy: i64,
    x: i64,
    mean: i64,
    inverse: i64,
    scale: Option<i64>,
    dx: i64,
}

/// The gradients that read a group's elements once, and once more for the gradients of scale and bias.
fn by_groups(recipe: &mut Recipe, image: &Image, of: &Tensors, factors: Option<[i64; 2]>) {
    let rows = image.rows();
    let normalized = image.normalized(recipe, of.x, of.mean, of.inverse);
    let scaled = scaled(recipe, image, &image.dims, of.dy, of.scale);
    let along = image.pointwise(recipe, &image.dims, Mode::Mul, scaled, Some(normalized));
    let averages = [&image.dims, &rows].map(|dims| dims.as_slice());
    let [along, sum] = [along, scaled].map(|of| image.reduce(recipe, averages, ReductionMode::Avg, of));
    gradient(recipe, image, of, [scaled, normalized, along, sum]);
    let Some([dscale, dbias]) = factors else { return };
    // Separate nodes: other kernels reduce along other axes.
    let normalized = image.normalized(recipe, of.x, of.mean, of.inverse);
    let weighted = image.pointwise(recipe, &image.dims, Mode::Mul, of.dy, Some(normalized));
    for (in_, out) in [(weighted, dscale), (of.dy, dbias)] {
        reduce_into(recipe, [&image.dims, &image.channel()], ReductionMode::Add, in_, out);
    }
}

/// The gradients computed from sums per channel.
fn by_channels(recipe: &mut Recipe, image: &Image, of: &Tensors, factors: Option<[i64; 2]>) {
    let (rows, parts) = (image.rows(), image.without(&[PLACES]));
    let normalized = image.normalized(recipe, of.x, of.mean, of.inverse);
    let weighted = image.pointwise(recipe, &image.dims, Mode::Mul, of.dy, Some(normalized));
    let sums = [weighted, of.dy];
    let sums = sums.map(|of| image.reduce(recipe, [&image.dims, &parts], ReductionMode::Add, of));
    let elements = image.dims.iter().skip(CHANNELS).product::<i64>();
    let share = recipe.number(1.0 / elements as f64, image.dims.len());
    let [along, sum] = sums.map(|sum| {
        let scaled = scaled(recipe, image, &parts, sum, of.scale);
        let sum = image.reduce(recipe, [&parts, &rows], ReductionMode::Add, scaled);
        image.pointwise(recipe, &rows, Mode::Mul, sum, Some(share))
    });
    for (in_, out) in sums.into_iter().zip(factors.into_iter().flatten()) {
        reduce_into(recipe, [&parts, &image.channel()], ReductionMode::Add, in_, out);
    }
    let normalized = image.normalized(recipe, of.x, of.mean, of.inverse);
    let scaled = scaled(recipe, image, &image.dims, of.dy, of.scale);
    gradient(recipe, image, of, [scaled, normalized, along, sum]);
}

/// A node that reduces one tensor to another; engines refuse reductions without an axis.
fn reduce_into(recipe: &mut Recipe, [from, to]: [&[i64]; 2], mode: ReductionMode, in_: i64, out: i64) {
    if from == to {
        recipe.node("group_norm", Pointwise::new(Mode::Identity, in_, None, out));
    } else {
        recipe.node("group_norm", Reduction { in_, out, mode, is_deterministic: false });
    }
}

/// Elements times the scale, if present.
fn scaled(recipe: &mut Recipe, image: &Image, dims: &[i64], of: i64, scale: Option<i64>) -> i64 {
    scale.map_or(of, |scale| image.pointwise(recipe, dims, Mode::Mul, of, Some(scale)))
}

/// The gradient of the image: that of the normalized image, minus its mean and its projection, times the inverse.
fn gradient(recipe: &mut Recipe, image: &Image, of: &Tensors, [scaled, normalized, along, sum]: [i64; 4]) {
    let part = image.pointwise(recipe, &image.dims, Mode::Mul, normalized, Some(along));
    let less = image.pointwise(recipe, &image.dims, Mode::Sub, scaled, Some(part));
    let less = image.pointwise(recipe, &image.dims, Mode::Sub, less, Some(sum));
    recipe.node("dx", Pointwise::new(Mode::Mul, less, Some(of.inverse), of.dx));
}
