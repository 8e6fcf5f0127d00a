//! Products of matrices.

use hipdnn::graph::operation::Matmul;

use super::{require, same_type, tensor};
use crate::torch::arguments::{TensorValue, Value};
use crate::torch::recipe::{Made, Reason, Recipe, packed};

/// A matrix as a batch of one.
fn batched(recipe: &mut Recipe, of: &TensorValue) -> Result<i64, Reason> {
    let (mut dims, mut strides) = (vec![1], vec![of.dims.iter().product::<i64>().max(1)]);
    dims.extend_from_slice(&of.dims);
    strides.extend_from_slice(&of.strides);
    // Engines read rows or columns that have no gaps.
    let has_unit = of.dims.iter().zip(&of.strides).any(|(size, stride)| *size == 1 || *stride == 1);
    require(has_unit, "a matrix whose rows and columns have gaps")?;
    recipe.input_as(of, &dims, &strides)
}

pub fn mm(values: &[Value]) -> Result<Recipe, Reason> {
    let (a, b) = (tensor(values, 0)?, tensor(values, 1)?);
    same_type(&[a, b])?;
    let ([m, k], [rows, n]) = (a.dims.as_slice(), b.dims.as_slice()) else {
        return Err("another rank".to_owned());
    };
    require(k == rows, "shapes that do not fit")?;
    let mut recipe = Recipe::new("mm", a)?;
    let (of_a, of_b) = (batched(&mut recipe, a)?, batched(&mut recipe, b)?);
    let dims = [1, *m, *n];
    let made = Made { dtype: a.dtype, dims: vec![*m, *n], strides: packed(&[*m, *n]) };
    let c = recipe.output_as(made, &dims, &packed(&dims))?;
    recipe.node("mm", Matmul { a: of_a, b: of_b, c });
    Ok(recipe)
}

pub fn bmm(values: &[Value]) -> Result<Recipe, Reason> {
    let (a, b) = (tensor(values, 0)?, tensor(values, 1)?);
    same_type(&[a, b])?;
    let ([batch, m, k], [batches, rows, n]) = (a.dims.as_slice(), b.dims.as_slice()) else {
        return Err("another rank".to_owned());
    };
    require(k == rows && batch == batches, "shapes that do not fit")?;
    let mut recipe = Recipe::new("bmm", a)?;
    let (of_a, of_b) = (recipe.input(a)?, recipe.input(b)?);
    let dims = [*batch, *m, *n];
    let c = recipe.output(a.dtype, &dims, &packed(&dims))?;
    recipe.node("bmm", Matmul { a: of_a, b: of_b, c });
    Ok(recipe)
}
