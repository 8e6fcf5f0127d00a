//! Activations and their gradients.

use hipdnn::graph::PointwiseMode;
use hipdnn::graph::operation::Pointwise;

use super::{require, same_type, tensor, text};
use crate::torch::arguments::{TensorValue, Value};
use crate::torch::recipe::{Made, Reason, Recipe, channels_last, lies_as, packed};

/// The layout of a packed tensor: flat, or channels last.
fn dense(of: &TensorValue) -> Result<Vec<i64>, Reason> {
    if of.is_packed() {
        return Ok(packed(&of.dims));
    }
    let last = channels_last(&of.dims);
    require(of.dims.len() >= 4 && lies_as(&of.dims, &of.strides, &last), "a tensor with gaps")?;
    Ok(last)
}

/// The elements in memory order.
fn flat(of: &TensorValue) -> ([i64; 2], [i64; 2]) {
    let count = of.count();
    ([1, count], [count, 1])
}

fn forward(x: &TensorValue, mode: PointwiseMode, in_place: bool) -> Result<Recipe, Reason> {
    let strides = dense(x)?;
    let (dims, steps) = flat(x);
    let mut recipe = Recipe::new("activation", x)?;
    let of_x = recipe.input_as(x, &dims, &steps)?;
    let y = if in_place {
        recipe.given(x, &dims, &steps)?
    } else {
        let made = Made { dtype: x.dtype, dims: x.dims.clone(), strides };
        recipe.output_as(made, &dims, &steps)?
    };
    recipe.node("activation", Pointwise::new(mode, of_x, None, y));
    Ok(recipe)
}

fn backward(dy: &TensorValue, x: &TensorValue, mode: PointwiseMode) -> Result<Recipe, Reason> {
    same_type(&[dy, x])?;
    require(dy.dims == x.dims, "shapes that do not fit")?;
    let strides = dense(x)?;
    require(strides == dense(dy)?, "tensors that lie in two ways")?;
    let (dims, steps) = flat(x);
    let mut recipe = Recipe::new("activation_backward", x)?;
    let (of_dy, of_x) = (recipe.input_as(dy, &dims, &steps)?, recipe.input_as(x, &dims, &steps)?);
    let made = Made { dtype: x.dtype, dims: x.dims.clone(), strides };
    let dx = recipe.output_as(made, &dims, &steps)?;
    recipe.node("activation_backward", Pointwise::new(mode, of_dy, Some(of_x), dx));
    Ok(recipe)
}

pub fn gelu(values: &[Value]) -> Result<Recipe, Reason> {
    let mode = match text(values, 1)? {
        "none" => PointwiseMode::GeluFwd,
        "tanh" => PointwiseMode::GeluApproxTanhFwd,
        _ => return Err("another approximation".to_owned()),
    };
    forward(tensor(values, 0)?, mode, false)
}

pub fn gelu_backward(values: &[Value]) -> Result<Recipe, Reason> {
    let mode = match text(values, 2)? {
        "none" => PointwiseMode::GeluBwd,
        "tanh" => PointwiseMode::GeluApproxTanhBwd,
        _ => return Err("another approximation".to_owned()),
    };
    backward(tensor(values, 0)?, tensor(values, 1)?, mode)
}

pub fn silu(values: &[Value]) -> Result<Recipe, Reason> {
    forward(tensor(values, 0)?, PointwiseMode::SwishFwd, false)
}

pub fn silu_in_place(values: &[Value]) -> Result<Recipe, Reason> {
    forward(tensor(values, 0)?, PointwiseMode::SwishFwd, true)
}

pub fn silu_backward(values: &[Value]) -> Result<Recipe, Reason> {
    backward(tensor(values, 0)?, tensor(values, 1)?, PointwiseMode::SwishBwd)
}
