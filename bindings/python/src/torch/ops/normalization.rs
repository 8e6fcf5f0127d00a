//! Layer, RMS and batch normalization, and their gradients.

use hipdnn::graph::NormFwdPhase;
use hipdnn::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInferenceVariance, Layernorm, LayernormBackward, RmsNorm,
    RmsNormBackward,
};

use super::{float, int, ints, optional, product, require, same_type, tensor};
use crate::torch::arguments::{CPU, TensorValue, Value, dtype};
use crate::torch::recipe::{Answer, Made, Reason, Recipe, Target, channels_last, lies_as, packed};

/// Rows and their size.
struct Rows {
    /// The shape in the graph: a matrix if rows are contiguous, else that of the tensors, with rows of one dimension.
    dims: Vec<i64>,
    size: i64,
    /// The shape of statistics.
    statistics: Vec<i64>,
}

impl Rows {
    /// The rows of tensors of one shape, which are packed, or have packed rows in any order.
    fn read(tensors: &[&TensorValue], shape: &[i64]) -> Result<Self, Reason> {
        let x = tensors.first().ok_or("a tensor is left out")?;
        let outer = x.dims.len().checked_sub(shape.len()).ok_or("shapes that do not fit")?;
        let (outer, inner) = x.dims.split_at_checked(outer).ok_or("shapes that do not fit")?;
        require(inner == shape && !shape.is_empty(), "shapes that do not fit")?;
        require(tensors.iter().all(|of| of.dims == x.dims), "shapes that do not fit")?;
        let mut statistics = outer.to_vec();
        statistics.resize(x.dims.len(), 1);
        let size = product(inner);
        require(size > 1, "rows of one element")?;
        let is_packed = tensors.iter().all(|of| of.is_packed());
        let in_rows = |of: &&TensorValue| of.strides.last() == Some(&1);
        require(
            is_packed || shape.len() == 1 && tensors.iter().all(in_rows),
            "rows whose elements are apart",
        )?;
        let dims = if is_packed { vec![product(outer), size] } else { x.dims.clone() };
        Ok(Self { dims, size, statistics })
    }

    /// A tensor of rows.
    fn input(&self, recipe: &mut Recipe, of: &TensorValue) -> Result<i64, Reason> {
        let packed = packed(&self.dims);
        let strides = if of.is_packed() { &packed } else { &of.strides };
        recipe.input_as(of, &self.dims, strides)
    }

    /// A new tensor of contiguous rows.
    fn output(&self, recipe: &mut Recipe, like: &TensorValue) -> Result<i64, Reason> {
        let made = Made { dtype: like.dtype, dims: like.dims.clone(), strides: packed(&like.dims) };
        recipe.output_as(made, &self.dims, &packed(&self.dims))
    }

    /// The shape with one number per row.
    fn of_rows(&self) -> Vec<i64> {
        let mut dims = self.dims.clone();
        if let Some(last) = dims.last_mut() {
            *last = 1;
        }
        dims
    }

    /// A factor for each element of a row.
    fn factor(&self, recipe: &mut Recipe, of: &TensorValue) -> Result<i64, Reason> {
        require(of.is_packed() && of.count() == self.size, "factors with gaps")?;
        let (dims, strides) = self.of_factors();
        recipe.input_as(of, &dims, &strides)
    }

    fn of_factors(&self) -> (Vec<i64>, Vec<i64>) {
        let mut dims = vec![1; self.dims.len()];
        if let Some(last) = dims.last_mut() {
            *last = self.size;
        }
        let strides = packed(&dims);
        (dims, strides)
    }

    fn of_statistics(&self, dtype: i32) -> Made {
        let dtype = Recipe::statistics(dtype);
        Made { dtype, dims: self.statistics.clone(), strides: packed(&self.statistics) }
    }
}

/// Leaves factors to PyTorch whose types change its statistics.
fn check_factors(x: &TensorValue, factors: &[&TensorValue]) -> Result<(), Reason> {
    let expected = Recipe::statistics(x.dtype);
    require(factors.iter().all(|of| of.dtype == expected), "factors of another type")
}

pub fn layer_norm(values: &[Value]) -> Result<Recipe, Reason> {
    let (x, scale, bias) = (tensor(values, 0)?, tensor(values, 2)?, tensor(values, 3)?);
    let rows = Rows::read(&[x], ints(values, 1)?)?;
    check_factors(x, &[scale, bias])?;
    require(scale.dims == bias.dims && scale.dims == ints(values, 1)?, "shapes that do not fit")?;
    let mut recipe = Recipe::new("layer_norm", x)?;
    let of_x = rows.input(&mut recipe, x)?;
    let (of_scale, of_bias) = (rows.factor(&mut recipe, scale)?, rows.factor(&mut recipe, bias)?);
    let epsilon = recipe.number(float(values, 4)?, 2);
    let y = rows.output(&mut recipe, x)?;
    let one = rows.of_rows();
    let mean = recipe.output_as(rows.of_statistics(x.dtype), &one, &packed(&one))?;
    let inv = recipe.output_as(rows.of_statistics(x.dtype), &one, &packed(&one))?;
    let node = Layernorm {
        x: of_x,
        scale: of_scale,
        bias: of_bias,
        epsilon,
        y,
        mean: Some(mean),
        inv_variance: Some(inv),
        forward_phase: NormFwdPhase::Training,
        normalized_dim_count: 1,
    };
    recipe.node("layer_norm", node);
    Ok(recipe)
}

pub fn layer_norm_backward(values: &[Value]) -> Result<Recipe, Reason> {
    let (dy, x, scale) = (tensor(values, 0)?, tensor(values, 1)?, tensor(values, 5)?);
    let (mean, inv) = (tensor(values, 3)?, tensor(values, 4)?);
    let rows = Rows::read(&[x, dy], ints(values, 2)?)?;
    same_type(&[dy, x])?;
    check_factors(x, &[scale, mean, inv])?;
    let one = rows.of_rows();
    require(mean.count() == product(&one) && inv.count() == product(&one), "shapes that do not fit")?;
    require(mean.is_packed() && inv.is_packed() && scale.dims == ints(values, 2)?, "shapes that do not fit")?;
    require(ints(values, 7)? == [1, 1, 1] && optional(values, 6).is_some(), "some of the gradients")?;
    let mut recipe = Recipe::new("layer_norm_backward", x)?;
    let (of_dy, of_x) = (rows.input(&mut recipe, dy)?, rows.input(&mut recipe, x)?);
    let of_scale = rows.factor(&mut recipe, scale)?;
    let steps = packed(&one);
    let (of_mean, of_inv) = (recipe.input_as(mean, &one, &steps)?, recipe.input_as(inv, &one, &steps)?);
    let dx = rows.output(&mut recipe, x)?;
    let (wide, steps) = rows.of_factors();
    let mut factor = || {
        let made = Made { dtype: scale.dtype, dims: scale.dims.clone(), strides: packed(&scale.dims) };
        recipe.output_as(made, &wide, &steps)
    };
    let (dscale, dbias) = (factor()?, factor()?);
    let node = LayernormBackward {
        dy: of_dy,
        x: of_x,
        scale: of_scale,
        mean: Some(of_mean),
        inv_variance: Some(of_inv),
        epsilon: None,
        dx,
        dscale,
        dbias,
        normalized_dim_count: 1,
    };
    recipe.node("layer_norm_backward", node);
    Ok(recipe)
}

/// Leaves a factor of RMS normalization to PyTorch unless it has the type of the rows or of statistics.
fn check_rms(x: &TensorValue, scale: &TensorValue, shape: &[i64]) -> Result<(), Reason> {
    let fits = scale.dtype == x.dtype || scale.dtype == Recipe::statistics(x.dtype);
    require(fits, "factors of another type")?;
    require(scale.dims == shape, "shapes that do not fit")
}

pub fn rms_norm(values: &[Value]) -> Result<Recipe, Reason> {
    let (x, shape, scale) = (tensor(values, 0)?, ints(values, 1)?, tensor(values, 2)?);
    let rows = Rows::read(&[x], shape)?;
    check_rms(x, scale, shape)?;
    // Without an epsilon, PyTorch takes that of the compute type.
    let least = if x.dtype == dtype::DOUBLE { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let mut recipe = Recipe::new("rms_norm", x)?;
    let (of_x, of_scale) = (rows.input(&mut recipe, x)?, rows.factor(&mut recipe, scale)?);
    let epsilon = recipe.number(float(values, 3).unwrap_or(least), 2);
    let y = rows.output(&mut recipe, x)?;
    let one = rows.of_rows();
    let inv_rms = recipe.output_as(rows.of_statistics(x.dtype), &one, &packed(&one))?;
    let node = RmsNorm {
        x: of_x,
        scale: of_scale,
        epsilon,
        y,
        bias: None,
        inv_rms: Some(inv_rms),
        forward_phase: NormFwdPhase::Training,
    };
    recipe.node("rms_norm", node);
    Ok(recipe)
}

pub fn rms_norm_backward(values: &[Value]) -> Result<Recipe, Reason> {
    let (dy, x, shape) = (tensor(values, 0)?, tensor(values, 1)?, ints(values, 2)?);
    let (inv, scale) = (tensor(values, 3)?, tensor(values, 4)?);
    let rows = Rows::read(&[x, dy], shape)?;
    same_type(&[dy, x])?;
    check_factors(x, &[inv])?;
    check_rms(x, scale, shape)?;
    let one = rows.of_rows();
    require(inv.is_packed() && inv.count() == product(&one), "shapes that do not fit")?;
    require(ints(values, 5)? == [1, 1], "some of the gradients")?;
    let mut recipe = Recipe::new("rms_norm_backward", x)?;
    let (of_dy, of_x) = (rows.input(&mut recipe, dy)?, rows.input(&mut recipe, x)?);
    let of_scale = rows.factor(&mut recipe, scale)?;
    let of_inv = recipe.input_as(inv, &one, &packed(&one))?;
    let dx = rows.output(&mut recipe, x)?;
    let (wide, steps) = rows.of_factors();
    let made = Made { dtype: scale.dtype, dims: scale.dims.clone(), strides: packed(&scale.dims) };
    let dscale = recipe.output_as(made, &wide, &steps)?;
    let node = RmsNormBackward {
        dy: of_dy,
        x: of_x,
        scale: of_scale,
        inv_rms: Some(of_inv),
        dx,
        dscale,
        dbias: None,
    };
    recipe.node("rms_norm_backward", node);
    Ok(recipe)
}

/// An image with channels, as batch normalization sees it.
struct Image {
    dims: Vec<i64>,
    strides: Vec<i64>,
    channels: i64,
}

impl Image {
    fn read(x: &TensorValue) -> Result<Self, Reason> {
        let channels = *x.dims.get(1).ok_or("another rank")?;
        require(x.dims.len() <= 5, "another rank")?;
        let last = x.suggests_channels_last();
        let made = if last { channels_last(&x.dims) } else { packed(&x.dims) };
        require(lies_as(&x.dims, &x.strides, &made), "a tensor with gaps")?;
        let (mut dims, mut strides) = (x.dims.clone(), made);
        while dims.len() < 4 {
            dims.push(1);
            strides.push(1);
        }
        require(x.count() > channels, "one element for each channel")?;
        Ok(Self { dims, strides, channels })
    }

    /// One number per channel.
    fn channel(&self) -> (Vec<i64>, Vec<i64>) {
        let (mut dims, mut strides) = (vec![1; self.dims.len()], vec![1; self.dims.len()]);
        if let (Some(dim), Some(stride)) = (dims.get_mut(1), strides.first_mut()) {
            (*dim, *stride) = (self.channels, self.channels);
        }
        (dims, strides)
    }

    fn factor(&self, recipe: &mut Recipe, of: &TensorValue) -> Result<i64, Reason> {
        require(of.dims == [self.channels] && of.is_packed(), "factors with gaps")?;
        let (dims, strides) = self.channel();
        recipe.input_as(of, &dims, &strides)
    }

    fn made(&self, x: &TensorValue) -> Made {
        let strides = self.strides.iter().take(x.dims.len()).copied().collect();
        Made { dtype: x.dtype, dims: x.dims.clone(), strides }
    }

    fn statistic(&self, recipe: &mut Recipe, dtype: i32) -> Result<i64, Reason> {
        let (dims, strides) = self.channel();
        let made = Made { dtype, dims: vec![self.channels], strides: vec![1] };
        recipe.output_as(made, &dims, &strides)
    }
}

pub fn batch_norm(values: &[Value]) -> Result<Recipe, Reason> {
    let (x, scale, bias) = (tensor(values, 0)?, tensor(values, 1)?, tensor(values, 2)?);
    let image = Image::read(x)?;
    check_factors(x, &[scale, bias])?;
    let running = (optional(values, 3), optional(values, 4));
    let is_training = int(values, 5)? != 0;
    let mut recipe = Recipe::new("batch_norm", x)?;
    let of_x = recipe.input_as(x, &image.dims, &image.strides)?;
    let (of_scale, of_bias) = (image.factor(&mut recipe, scale)?, image.factor(&mut recipe, bias)?);
    let epsilon = recipe.number(float(values, 7)?, image.dims.len());
    let y = recipe.output_as(image.made(x), &image.dims, &image.strides)?;
    if !is_training {
        let (Some(mean), Some(variance)) = running else { return Err("no statistics".to_owned()) };
        check_factors(x, &[mean, variance])?;
        let (mean, variance) = (image.factor(&mut recipe, mean)?, image.factor(&mut recipe, variance)?);
        let node = BatchnormInferenceVariance {
            x: of_x,
            mean,
            variance,
            scale: of_scale,
            bias: of_bias,
            y,
            epsilon,
        };
        recipe.node("batch_norm", node);
        for at in 1..3 {
            recipe.answers.push(Answer::Made(at));
            recipe.made.push(Made { dtype: scale.dtype, dims: vec![0], strides: vec![1] });
        }
        return Ok(recipe);
    }
    let mut node = Batchnorm::new(of_x, of_scale, of_bias, epsilon, y);
    node.mean = Some(image.statistic(&mut recipe, scale.dtype)?);
    node.inv_variance = Some(image.statistic(&mut recipe, scale.dtype)?);
    match running {
        (None, None) => {}
        (Some(mean), Some(variance)) => {
            check_factors(x, &[mean, variance])?;
            require(mean.dims == [image.channels] && mean.dims == variance.dims, "shapes that do not fit")?;
            require(mean.is_packed() && variance.is_packed(), "statistics with gaps")?;
            node.prev_running_mean = Some(image.factor(&mut recipe, mean)?);
            node.prev_running_variance = Some(image.factor(&mut recipe, variance)?);
            // On the host these are the batch's own, and the running ones move towards them by the call's momentum.
            let is_host = x.device.0 == CPU;
            let momentum = if is_host { 1.0 } else { float(values, 6)? };
            node.momentum = Some(recipe.number(momentum, image.dims.len()));
            let (dims, strides) = image.channel();
            let mut moved = |to: &TensorValue| {
                if !is_host {
                    return recipe.replaced(to, &dims, &strides);
                }
                let target = Target::Moved { count: image.channels as usize, dtype: to.dtype, to: to.at };
                recipe.aside(to.dtype, &dims, &strides, target)
            };
            node.next_running_mean = Some(moved(mean)?);
            node.next_running_variance = Some(moved(variance)?);
        }
        _ => return Err("half of the statistics".to_owned()),
    }
    recipe.node("batch_norm", node);
    Ok(recipe)
}

pub fn batch_norm_backward(values: &[Value]) -> Result<Recipe, Reason> {
    let (dy, x, scale) = (tensor(values, 0)?, tensor(values, 1)?, tensor(values, 2)?);
    require(int(values, 7)? != 0, "gradients beside given statistics")?;
    let (mean, inv) = (tensor(values, 5)?, tensor(values, 6)?);
    require(ints(values, 9)? == [1, 1, 1], "some of the gradients")?;
    let image = Image::read(x)?;
    same_type(&[dy, x])?;
    check_factors(x, &[scale, mean, inv])?;
    require(
        dy.dims == x.dims && image.made(x).strides == image_strides(dy)?,
        "tensors that lie in two ways",
    )?;
    let mut recipe = Recipe::new("batch_norm_backward", x)?;
    let of_dy = recipe.input_as(dy, &image.dims, &image.strides)?;
    let of_x = recipe.input_as(x, &image.dims, &image.strides)?;
    let of_scale = image.factor(&mut recipe, scale)?;
    let (of_mean, of_inv) = (image.factor(&mut recipe, mean)?, image.factor(&mut recipe, inv)?);
    let dx = recipe.output_as(image.made(x), &image.dims, &image.strides)?;
    let dscale = image.statistic(&mut recipe, scale.dtype)?;
    let dbias = image.statistic(&mut recipe, scale.dtype)?;
    let node = BatchnormBackward {
        dy: of_dy,
        x: of_x,
        scale: of_scale,
        dx,
        dscale,
        dbias,
        mean: Some(of_mean),
        inv_variance: Some(of_inv),
        peer_stats: Vec::new(),
    };
    recipe.node("batch_norm_backward", node);
    Ok(recipe)
}

/// The strides of an image, at PyTorch's rank.
fn image_strides(of: &TensorValue) -> Result<Vec<i64>, Reason> {
    Ok(Image::read(of)?.made(of).strides)
}
