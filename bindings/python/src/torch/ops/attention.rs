//! Attention on CPUs as PyTorch defines it, and its gradient, which also runs on GPUs.

use hipdnn::graph::operation::{Sdpa, SdpaBackward};

use super::{float, int, optional, require, same_type, tensor};
use crate::torch::arguments::{CPU, TensorValue, Value, dtype};
use crate::torch::recipe::{Made, Reason, Recipe, lies_as, packed};

/// Strides of [B, H, S, D] stored as [B, S, H, D].
fn by_row(dims: &[i64; 4]) -> [i64; 4] {
    let [_, heads, length, size] = *dims;
    [length * heads * size, size, heads * size, 1]
}

/// Whether a tensor has this layout, or is part of one that has, such as the queries of a fused QKV projection: PyTorch then
/// packs the result in the same order.
fn is_by_row(of: &TensorValue) -> bool {
    let ([_, heads, length, _], &[batch, head, row, _]) = (&of.dims[..], &of.strides[..]) else {
        return false;
    };
    let is_part = *heads > 1 && *length > 1 && batch >= row && row >= head && head > 0;
    is_part
        || <[i64; 4]>::try_from(&of.dims[..]).is_ok_and(|dims| lies_as(&of.dims, &of.strides, &by_row(&dims)))
}

/// Batch, heads, sequence length and head size.
fn heads(of: &TensorValue) -> Result<[i64; 4], Reason> {
    let dims = <[i64; 4]>::try_from(of.dims.as_slice()).map_err(|_| "another rank".to_owned())?;
    require(of.strides.last() == Some(&1) || of.dims.last() == Some(&1), "a tensor with gaps")?;
    Ok(dims)
}

/// What both directions share.
struct Settings {
    is_causal: bool,
    scale: f64,
}

impl Settings {
    /// Expects the dropout at this argument, and whether it is causal at the next one.
    fn read(values: &[Value], first: usize, scale: usize, size: i64) -> Result<Self, Reason> {
        require(float(values, first)? == 0.0, "dropout")?;
        let scale = float(values, scale).unwrap_or(1.0 / (size as f64).sqrt());
        Ok(Self { is_causal: int(values, first + 1)? != 0, scale })
    }
}

/// A mask added to the scores, with size one where it is the same along a dimension.
fn mask(recipe: &mut Recipe, of: &TensorValue, q: &TensorValue) -> Result<i64, Reason> {
    require(of.dtype == q.dtype || of.dtype == dtype::FLOAT, "a mask of another type")?;
    require(matches!(of.dims.len(), 2 | 4), "a mask of another rank")?;
    // PyTorch may have expanded it without copying.
    let size = |(size, stride): (&i64, &i64)| if *stride == 0 { 1 } else { *size };
    let mut dims: Vec<i64> = of.dims.iter().zip(&of.strides).map(size).collect();
    let mut strides: Vec<i64> = of.strides.iter().map(|stride| (*stride).max(1)).collect();
    while dims.len() < 4 {
        dims.insert(0, 1);
        strides.insert(0, of.count().max(1));
    }
    require(strides.last() == Some(&1), "a mask with gaps")?;
    recipe.input_as(of, &dims, &strides)
}

pub fn forward(values: &[Value]) -> Result<Recipe, Reason> {
    let (q, k, v) = (tensor(values, 0)?, tensor(values, 1)?, tensor(values, 2)?);
    same_type(&[q, k, v])?;
    require(q.dtype != dtype::DOUBLE, "double precision")?;
    require(q.device.0 == CPU, "PyTorch's operation for CPUs on a GPU")?;
    let (of_q, of_k, of_v) = (heads(q)?, heads(k)?, heads(v)?);
    let ([batch, heads, length, size], [.., inner, _]) = (of_q, of_k);
    check(of_q, of_k, of_v)?;
    let settings = Settings::read(values, 3, 6, size)?;
    require(!settings.is_causal || length == inner, "a causal mask of another shape")?;
    let dims = [batch, heads, length, *of_v.last().unwrap_or(&0)];
    let strides = if q.is_packed() {
        packed(&dims)
    } else {
        require(is_by_row(q), "a tensor with gaps")?;
        by_row(&dims).to_vec()
    };
    let mut recipe = Recipe::new("attention", q)?;
    let (uid_q, uid_k, uid_v) = (recipe.input(q)?, recipe.input(k)?, recipe.input(v)?);
    let bias = optional(values, 5).map(|of| mask(&mut recipe, of, q)).transpose()?;
    let o = recipe.output(q.dtype, &dims, &strides)?;
    // PyTorch stores statistics by row, with 0 for rows without keys.
    recipe.sums.push(recipe.made.len());
    let made = Made {
        dtype: dtype::FLOAT,
        dims: vec![batch, heads, length],
        strides: vec![length * heads, 1, heads],
    };
    let stats = recipe.output_as(made, &[batch, heads, length, 1], &[length * heads, 1, heads, 1])?;
    let mut node = Sdpa::new(uid_q, uid_k, uid_v, o);
    node.attn_mask = bias;
    node.stats = Some(stats);
    node.generate_stats = Some(true);
    node.causal_mask = settings.is_causal;
    node.attn_scale_value = Some(settings.scale as f32);
    recipe.node("attention", node);
    Ok(recipe)
}

fn check(q: [i64; 4], k: [i64; 4], v: [i64; 4]) -> Result<(), Reason> {
    let ([batch, heads, _, size], [batch_k, heads_k, length_k, size_k], [batch_v, heads_v, length_v, _]) =
        (q, k, v);
    let fits = batch == batch_k && batch == batch_v && heads_k == heads_v && heads == heads_k;
    require(fits && size == size_k && length_k == length_v, "shapes that do not fit")
}

pub fn backward(values: &[Value]) -> Result<Recipe, Reason> {
    gradients(values, 6, 9, optional(values, 8))
}

/// The gradients of PyTorch's attention kernels on GPUs, which store the same statistics as cuDNN: the log-sum-exp of each row.
pub fn flash_backward(values: &[Value]) -> Result<Recipe, Reason> {
    require(optional(values, 6).is_none() && optional(values, 7).is_none(), "sequences of several lengths")?;
    gradients(values, 10, 14, None)
}

/// The gradients, given the positions of dropout and scale.
fn gradients(
    values: &[Value],
    dropout: usize,
    scale: usize,
    bias: Option<&TensorValue>,
) -> Result<Recipe, Reason> {
    let (d_o, q, k, v) = (tensor(values, 0)?, tensor(values, 1)?, tensor(values, 2)?, tensor(values, 3)?);
    let (o, stats) = (tensor(values, 4)?, tensor(values, 5)?);
    same_type(&[q, k, v, o, d_o])?;
    require(q.dtype != dtype::DOUBLE && stats.dtype == dtype::FLOAT, "double precision")?;
    let (of_q, of_k, of_v) = (heads(q)?, heads(k)?, heads(v)?);
    check(of_q, of_k, of_v)?;
    heads(d_o)?;
    let ([batch, heads, length, size], [.., inner, _]) = (of_q, of_k);
    let settings = Settings::read(values, dropout, scale, size)?;
    require(!settings.is_causal || length == inner, "a causal mask of another shape")?;
    require(stats.dims == [batch, heads, length] && o.dims == d_o.dims, "shapes that do not fit")?;
    let mut recipe = Recipe::new("attention_backward", q)?;
    let (uid_q, uid_k, uid_v) = (recipe.input(q)?, recipe.input(k)?, recipe.input(v)?);
    let (uid_o, uid_do) = (recipe.input(o)?, recipe.input(d_o)?);
    let wide: Vec<i64> = stats.strides.iter().copied().chain([1]).collect();
    let uid_stats = recipe.input_as(stats, &[batch, heads, length, 1], &wide)?;
    let bias = bias.map(|of| mask(&mut recipe, of, q)).transpose()?;
    let dq = recipe.output(q.dtype, &of_q, &by_row(&of_q))?;
    let dk = recipe.output(q.dtype, &of_k, &by_row(&of_k))?;
    let dv = recipe.output(q.dtype, &of_v, &by_row(&of_v))?;
    let node = SdpaBackward {
        attn_mask: bias,
        causal_mask: settings.is_causal,
        attn_scale_value: Some(settings.scale as f32),
        ..SdpaBackward::new([uid_q, uid_k, uid_v, uid_o, uid_do, uid_stats], [dq, dk, dv])
    };
    recipe.node("attention_backward", node);
    Ok(recipe)
}
