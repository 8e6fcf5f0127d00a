//! Matrix products.

use hipdnn::graph::operation::Matmul;

use super::{require, same_type, tensor};
use crate::torch::arguments::{TensorValue, Value};
use crate::torch::recipe::{Made, Reason, Recipe, packed};

/// A matrix as a batch of one.
fn batched(recipe: &mut Recipe, of: &TensorValue) -> Result<i64, Reason> {
    let (mut dims, mut strides) = (vec![1], vec![of.dims.iter().product::<i64>().max(1)]);
    dims.extend_from_slice(&of.dims);
    strides.extend_from_slice(&of.strides);
    // Engines read packed rows or packed columns.
    let has_unit = of.dims.iter().zip(&of.strides).any(|(size, stride)| *size == 1 || *stride == 1);
    require(has_unit, "a matrix that is broadcast, or whose rows and columns have gaps")?;
    recipe.input_as(of, &dims, &strides)
}

/// The result: a new tensor, or one passed to the call.
fn result(
    recipe: &mut Recipe,
    like: &TensorValue,
    dims: &[i64],
    out: Option<&TensorValue>,
) -> Result<i64, Reason> {
    let mut wide = vec![1; 3_usize.saturating_sub(dims.len())];
    wide.extend_from_slice(dims);
    let Some(out) = out else {
        let made = Made { dtype: like.dtype, dims: dims.to_vec(), strides: packed(dims) };
        return recipe.output_as(made, &wide, &packed(&wide));
    };
    require(out.dtype == like.dtype && out.dims == dims && out.is_packed(), "a result of another kind")?;
    recipe.given(out, &wide, &packed(&wide))
}

pub fn mm(values: &[Value]) -> Result<Recipe, Reason> {
    matrices(values, None)
}

pub fn mm_out(values: &[Value]) -> Result<Recipe, Reason> {
    matrices(values, Some(tensor(values, 2)?))
}

fn matrices(values: &[Value], out: Option<&TensorValue>) -> Result<Recipe, Reason> {
    let (a, b) = (tensor(values, 0)?, tensor(values, 1)?);
    same_type(&[a, b])?;
    let ([m, k], [rows, n]) = (a.dims.as_slice(), b.dims.as_slice()) else {
        return Err("another rank".to_owned());
    };
    require(k == rows, "shapes that do not fit")?;
    let mut recipe = Recipe::new("mm", a)?;
    let (of_a, of_b) = (batched(&mut recipe, a)?, batched(&mut recipe, b)?);
    let c = result(&mut recipe, a, &[*m, *n], out)?;
    recipe.node("mm", Matmul { a: of_a, b: of_b, c });
    Ok(recipe)
}

pub fn bmm(values: &[Value]) -> Result<Recipe, Reason> {
    batches(values, None)
}

pub fn bmm_out(values: &[Value]) -> Result<Recipe, Reason> {
    batches(values, Some(tensor(values, 2)?))
}

fn batches(values: &[Value], out: Option<&TensorValue>) -> Result<Recipe, Reason> {
    let (a, b) = (tensor(values, 0)?, tensor(values, 1)?);
    same_type(&[a, b])?;
    let ([batch, m, k], [batches, rows, n]) = (a.dims.as_slice(), b.dims.as_slice()) else {
        return Err("another rank".to_owned());
    };
    require(k == rows && batch == batches, "shapes that do not fit")?;
    let mut recipe = Recipe::new("bmm", a)?;
    let (of_a, of_b) = (recipe.input(a)?, recipe.input(b)?);
    let c = result(&mut recipe, a, &[*batch, *m, *n], out)?;
    recipe.node("bmm", Matmul { a: of_a, b: of_b, c });
    Ok(recipe)
}
