//! Softmax and its logarithm along a dimension, and their gradients.

use hipdnn::graph::operation::{Pointwise, Reduction};
use hipdnn::graph::{PointwiseMode, ReductionMode};

use super::{int, product, require, same_type, tensor};
use crate::torch::arguments::{TensorValue, Value};
use crate::torch::recipe::{Made, Reason, Recipe, packed};

/// The longest row that engines compute in one pass over memory.
const LONGEST: i64 = 1 << 15;

/// A packed tensor as matrices whose rows or columns are normalized.
struct Rows {
    dims: Vec<i64>,
    /// The same, with size one along the reduced dimension.
    sums: Vec<i64>,
}

impl Rows {
    /// The rows of tensors of one shape; columns as well if `any` dimension is supported.
    fn read(tensors: &[&TensorValue], dim: i64, any: bool) -> Result<Self, Reason> {
        let x = tensors.first().ok_or("a tensor is left out")?;
        same_type(tensors)?;
        require(tensors.iter().all(|of| of.is_packed()), "a tensor with gaps")?;
        require(tensors.iter().all(|of| of.dims == x.dims), "shapes that do not fit")?;
        let rank = x.dims.len();
        let dim = if dim < 0 { dim + rank as i64 } else { dim };
        let dim = usize::try_from(dim).ok().filter(|dim| *dim < rank).ok_or("no such dimension")?;
        let (outer, rest) = x.dims.split_at_checked(dim).ok_or("no such dimension")?;
        let (size, inner) = rest.split_first().ok_or("no such dimension")?;
        let (outer, inner) = (product(outer), product(inner));
        require(*size > 1 && *size <= LONGEST, "rows of one element, or of many")?;
        require(any || inner == 1, "another dimension than the last")?;
        if inner == 1 {
            return Ok(Self { dims: vec![outer, *size], sums: vec![outer, 1] });
        }
        Ok(Self { dims: vec![outer, *size, inner], sums: vec![outer, 1, inner] })
    }

    fn input(&self, recipe: &mut Recipe, of: &TensorValue) -> Result<i64, Reason> {
        recipe.input_as(of, &self.dims, &packed(&self.dims))
    }

    fn output(&self, recipe: &mut Recipe, like: &TensorValue) -> Result<i64, Reason> {
        let made = Made { dtype: like.dtype, dims: like.dims.clone(), strides: packed(&like.dims) };
        recipe.output_as(made, &self.dims, &packed(&self.dims))
    }

    /// A pointwise node with one or two operands, whose result is virtual.
    fn pointwise(&self, recipe: &mut Recipe, mode: PointwiseMode, a: i64, b: Option<i64>) -> i64 {
        let out = recipe.between(&self.dims, &packed(&self.dims));
        recipe.node("softmax", Pointwise::new(mode, a, b, out));
        out
    }

    fn reduce(&self, recipe: &mut Recipe, mode: ReductionMode, in_: i64) -> i64 {
        let out = recipe.between(&self.sums, &packed(&self.sums));
        recipe.node("softmax", Reduction { in_, out, mode, is_deterministic: false });
        out
    }
}

/// A call's tensor and rows, and the graph's tensor minus the largest element of its row.
fn shifted(values: &[Value], any: bool) -> Result<(Recipe, Rows, i64), Reason> {
    let x = tensor(values, 0)?;
    require(int(values, 2)? == 0, "half precision that becomes single")?;
    let rows = Rows::read(&[x], int(values, 1)?, any)?;
    let mut recipe = Recipe::new("softmax", x)?;
    let of_x = rows.input(&mut recipe, x)?;
    let largest = rows.reduce(&mut recipe, ReductionMode::Max, of_x);
    let less = rows.pointwise(&mut recipe, PointwiseMode::Sub, of_x, Some(largest));
    Ok((recipe, rows, less))
}

pub fn forward(values: &[Value]) -> Result<Recipe, Reason> {
    let (mut recipe, rows, less) = shifted(values, true)?;
    let powers = rows.pointwise(&mut recipe, PointwiseMode::Exp, less, None);
    let sum = rows.reduce(&mut recipe, ReductionMode::Add, powers);
    let y = rows.output(&mut recipe, tensor(values, 0)?)?;
    recipe.node("softmax", Pointwise::new(PointwiseMode::Div, powers, Some(sum), y));
    Ok(recipe)
}

pub fn log_forward(values: &[Value]) -> Result<Recipe, Reason> {
    let (mut recipe, rows, less) = shifted(values, false)?;
    let powers = rows.pointwise(&mut recipe, PointwiseMode::Exp, less, None);
    let sum = rows.reduce(&mut recipe, ReductionMode::Add, powers);
    let log = recipe.between(&rows.sums, &packed(&rows.sums));
    recipe.node("softmax", Pointwise::new(PointwiseMode::Log, sum, None, log));
    let y = rows.output(&mut recipe, tensor(values, 0)?)?;
    recipe.node("softmax", Pointwise::new(PointwiseMode::Sub, less, Some(log), y));
    Ok(recipe)
}

/// The gradient of a result, and the result, as tensors of the graph.
fn gradient(values: &[Value]) -> Result<(Recipe, Rows, [i64; 2]), Reason> {
    let (dy, y) = (tensor(values, 0)?, tensor(values, 1)?);
    let rows = Rows::read(&[dy, y], int(values, 2)?, false)?;
    // The fourth argument is the type of the forward's input.
    let same = int(values, 3)? & 0xffff_ffff == i64::from(dy.dtype);
    require(same, "gradients of another type")?;
    let mut recipe = Recipe::new("softmax_backward", dy)?;
    let inputs = [rows.input(&mut recipe, dy)?, rows.input(&mut recipe, y)?];
    Ok((recipe, rows, inputs))
}

pub fn backward(values: &[Value]) -> Result<Recipe, Reason> {
    let (mut recipe, rows, [dy, y]) = gradient(values)?;
    let products = rows.pointwise(&mut recipe, PointwiseMode::Mul, dy, Some(y));
    let sum = rows.reduce(&mut recipe, ReductionMode::Add, products);
    let less = rows.pointwise(&mut recipe, PointwiseMode::Sub, dy, Some(sum));
    let dx = rows.output(&mut recipe, tensor(values, 0)?)?;
    recipe.node("softmax", Pointwise::new(PointwiseMode::Mul, less, Some(y), dx));
    Ok(recipe)
}

pub fn log_backward(values: &[Value]) -> Result<Recipe, Reason> {
    let (mut recipe, rows, [dy, y]) = gradient(values)?;
    let sum = rows.reduce(&mut recipe, ReductionMode::Add, dy);
    let powers = rows.pointwise(&mut recipe, PointwiseMode::Exp, y, None);
    let shares = rows.pointwise(&mut recipe, PointwiseMode::Mul, powers, Some(sum));
    let dx = rows.output(&mut recipe, tensor(values, 0)?)?;
    recipe.node("softmax", Pointwise::new(PointwiseMode::Sub, dy, Some(shares), dx));
    Ok(recipe)
}
