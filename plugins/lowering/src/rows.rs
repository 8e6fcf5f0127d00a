//! Nodes that reduce rows, or use what was reduced: reductions, normalizations and products of matrices.

use hipdnn_kernels::domain::Join;
use hipdnn_kernels::form::Unary;
use hipdnn_kernels::{Builder, Scalar, Value};
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::batchnorm::{self, Inference};
use hipdnn_plugin_planner::problem::matmul::Matmul;
use hipdnn_plugin_planner::problem::normalization::{Backward, Forward, Spread, Statistics};
use hipdnn_plugin_planner::problem::reduction::Reduction;
use hipdnn_plugin_sdk::graph::{DataType, ReductionMode};

use crate::adding::{Adding, check_floats};

/// Calls a function with as many values as it takes.
fn of<const N: usize>(values: &[Value], f: impl FnOnce([Value; N]) -> Value) -> Value {
    <[Value; N]>::try_from(values).map_or(Value(0), f)
}

impl Adding<'_> {
    fn two(
        &mut self,
        x: usize,
        y: usize,
        f: impl Fn(&mut Builder, Value, Value) -> Value + 'static,
    ) -> usize {
        self.group.compute(self.real, &[x, y], move |b, values| of(values, |[x, y]| f(b, x, y)))
    }

    fn one(&mut self, x: usize, f: impl Fn(&mut Builder, Value) -> Value + 'static) -> usize {
        self.group.compute(self.real, &[x], move |b, values| of(values, |[x]| f(b, x)))
    }

    fn mul(&mut self, x: usize, y: usize) -> usize {
        self.two(x, y, |b, x, y| b.mul(x, y))
    }

    fn sub(&mut self, x: usize, y: usize) -> usize {
        self.two(x, y, |b, x, y| b.sub(x, y))
    }

    fn add(&mut self, x: usize, y: usize) -> usize {
        self.two(x, y, |b, x, y| b.add(x, y))
    }

    fn sum(&mut self, x: usize) -> usize {
        self.group.reduce(self.real, Join::Sum, x)
    }

    /// The mean of a row's values.
    fn mean(&mut self, x: usize, count: f64) -> usize {
        let sum = self.sum(x);
        self.one(sum, move |b, sum| b.div(sum, count))
    }
}

/// How many elements a row has from a dimension on.
fn count_from(dims: &[usize], leading: usize) -> f64 {
    dims.iter().skip(leading).product::<usize>() as f64
}

pub(crate) fn reduction(node: &mut Adding<'_>, p: &Reduction) -> Result<(), Refusal> {
    use ReductionMode as M;
    let real = node.real;
    // Sums of large integers, and products, which soon leave float's range, are accumulated in double where the device has it.
    let is_wide = matches!(p.x.data_type, DataType::Int32 | DataType::Int64 | DataType::Double)
        || matches!(p.mode, M::Mul | M::MulNoZeros);
    let total = if is_wide && node.options.has_doubles { Scalar::F64 } else { real };
    let x = node.element(&p.x)?;
    let mode = p.mode;
    let term = node.group.compute(total, &[x], move |b, values| {
        of(values, |[x]| match mode {
            M::Amax | M::Norm1 => b.unary(Unary::Abs, x),
            M::Norm2 => b.mul(x, x),
            M::MulNoZeros => {
                let is_zero = b.equal(x, 0.0);
                b.select(is_zero, 1.0, x)
            }
            _ => x,
        })
    });
    let join = match p.mode {
        M::Mul | M::MulNoZeros => Join::Product,
        M::Min => Join::Least,
        M::Max | M::Amax => Join::Greatest,
        M::NotSet | M::Add | M::Avg | M::Norm1 | M::Norm2 => Join::Sum,
    };
    let joined = node.group.reduce(total, join, term);
    let count = p.count as f64;
    let ended = node.group.compute(total, &[joined], move |b, values| {
        of(values, |[x]| match mode {
            M::Avg => b.div(x, count),
            M::Norm2 => b.unary(Unary::Sqrt, x),
            _ => x,
        })
    });
    let result = node.one(ended, |_, x| x);
    node.write_element(&p.y, result)
}

/// Mean, variance, scale and bias of a batch normalization.
pub fn channels(p: &Inference) -> [(&'static str, batchnorm::Parameter); 4] {
    let spread = match p.spread {
        batchnorm::Spread::InvVariance(part) => ("inv_variance", part),
        batchnorm::Spread::Variance(part, _) => ("variance", part),
    };
    [("mean", p.mean), spread, ("scale", p.scale), ("bias", p.bias)]
}

/// The slot of epsilon.
pub fn epsilon(p: &Inference) -> Option<usize> {
    match p.spread {
        batchnorm::Spread::InvVariance(_) => None,
        batchnorm::Spread::Variance(_, epsilon) => Some(epsilon.slot),
    }
}

pub(crate) fn batchnorm(node: &mut Adding<'_>, p: &Inference) -> Result<(), Refusal> {
    let parts = channels(p);
    check_floats(&[("x", Some(p.x.data_type)), ("y", Some(p.y.data_type))])?;
    check_floats(&parts.map(|(name, part)| (name, Some(part.data_type))))?;
    let x = node.element(&p.x)?;
    let has_channels = p.x.layout.dims().get(1).is_some_and(|dim| *dim > 1);
    let mut inputs = Vec::with_capacity(4);
    for (_, part) in parts {
        let stride = if has_channels { part.stride } else { 0 };
        inputs.push(node.spread(part.slot, &[0, stride])?);
    }
    let [mean, mut inverse, scale, bias] = *inputs.as_slice() else {
        return Err("operation: a batch normalization without its four tensors".to_owned());
    };
    if let Some(slot) = epsilon(p) {
        let epsilon = node.spread(slot, &[])?;
        inverse = node.two(inverse, epsilon, |b, variance, epsilon| {
            let sum = b.add(variance, epsilon);
            b.rsqrt(sum)
        });
    }
    let centered = node.sub(x, mean);
    let normalized = node.mul(centered, inverse);
    let scaled = node.mul(normalized, scale);
    let y = node.add(scaled, bias);
    node.write_element(&p.y, y)
}

pub(crate) fn normalization(node: &mut Adding<'_>, p: &Forward) -> Result<(), Refusal> {
    check_floats(&[
        ("x", Some(p.x.data_type)),
        ("y", Some(p.y.data_type)),
        ("scale", Some(p.scale.data_type)),
        ("bias", p.bias.map(|part| part.data_type)),
        ("mean", p.mean.map(|part| part.data_type)),
        ("inverse", p.inverse.map(|part| part.data_type)),
    ])?;
    let count = count_from(p.x.layout.dims(), p.leading);
    let x = node.element(&p.x)?;
    let (mean, centered) = if p.centered {
        let mean = node.mean(x, count);
        (Some(mean), node.sub(x, mean))
    } else {
        (None, x)
    };
    let square = node.mul(centered, centered);
    let variance = node.mean(square, count);
    let epsilon = node.spread(p.epsilon.slot, &[])?;
    let inverse = node.two(variance, epsilon, |b, variance, epsilon| {
        let sum = b.add(variance, epsilon);
        b.rsqrt(sum)
    });
    let scale = node.part(&p.scale)?;
    let scaled = node.mul(scale, centered);
    let mut y = node.mul(scaled, inverse);
    if let Some(bias) = &p.bias {
        let bias = node.part(bias)?;
        y = node.add(y, bias);
    }
    node.write_element(&p.y, y)?;
    if let (Some(part), Some(mean)) = (&p.mean, mean) {
        node.write(part.slot, &part.strides, mean)?;
    }
    match &p.inverse {
        Some(part) => node.write(part.slot, &part.strides, inverse),
        None => Ok(()),
    }
}

/// Mean and inverse saved by the forward pass.
pub fn saved(p: &Backward) -> [Option<Spread>; 2] {
    match p.statistics {
        Statistics::Saved { mean, inverse } => [mean, Some(inverse)],
        Statistics::Computed(_) => [None, None],
    }
}

/// The same, with the inverse required, of a gradient whose tensors are floats.
///
/// # Errors
/// A tensor is of another type, or the forward pass saved nothing.
pub fn saved_floats(p: &Backward) -> Result<(Option<Spread>, Spread), Refusal> {
    let [mean, inverse] = saved(p);
    check_floats(&[
        ("dy", Some(p.dy.data_type)),
        ("x", Some(p.x.data_type)),
        ("dx", Some(p.dx.data_type)),
        ("scale", Some(p.scale.data_type)),
        ("dscale", Some(p.dscale.data_type)),
        ("dbias", p.dbias.map(|part| part.data_type)),
        ("mean", mean.map(|part| part.data_type)),
        ("inverse", inverse.map(|part| part.data_type)),
    ])?;
    let inverse = inverse.ok_or("inverse: absent, expected the statistics that the forward pass saved")?;
    Ok((mean, inverse))
}

/// dy and the normalized x of each element, and the inverse of its row.
fn normalized(node: &mut Adding<'_>, p: &Backward) -> Result<[usize; 3], Refusal> {
    let (mean, inverse) = saved_floats(p)?;
    let mut x = node.element(&p.x)?;
    let dy = node.element(&p.dy)?;
    let inverse = node.part(&inverse)?;
    if let Some(mean) = mean {
        let mean = node.part(&mean)?;
        x = node.sub(x, mean);
    }
    let normalized = node.mul(x, inverse);
    Ok([dy, normalized, inverse])
}

pub(crate) fn input_gradient(node: &mut Adding<'_>, p: &Backward) -> Result<(), Refusal> {
    let count = count_from(p.x.layout.dims(), p.leading);
    let [dy, normalized, inverse] = normalized(node, p)?;
    let scale = node.part(&p.scale)?;
    let scaled = node.mul(dy, scale);
    let product = node.mul(scaled, normalized);
    let along = node.mean(product, count);
    let part = node.mul(normalized, along);
    let mut rest = node.sub(scaled, part);
    if p.centered {
        let mean = node.mean(scaled, count);
        rest = node.sub(rest, mean);
    }
    let dx = node.mul(rest, inverse);
    node.write_element(&p.dx, dx)
}

pub(crate) fn parameter_gradient(node: &mut Adding<'_>, p: &Backward) -> Result<(), Refusal> {
    let [dy, normalized, _] = normalized(node, p)?;
    let product = node.mul(dy, normalized);
    for (part, term) in [(Some(&p.dscale), product), (p.dbias.as_ref(), dy)] {
        if let Some(part) = part {
            let sum = node.sum(term);
            node.write(part.slot, &part.strides, sum)?;
        }
    }
    Ok(())
}

/// Refuses batches whose matrices are shared by groups that do not nest.
pub(crate) fn check_shares(p: &Matmul) -> Result<(), Refusal> {
    for (axis, (a, b)) in p.a_share.iter().zip(&p.b_share).take(p.batch).enumerate() {
        let (few, many) = (a.min(b), a.max(b));
        if !many.is_multiple_of(*few) {
            return Err(format!(
                "a and b: share matrices in groups of {a} and {b} along dims[{axis}], expected one to be a multiple of the other"
            ));
        }
    }
    Ok(())
}

/// The parts of each batch dimension, between which indices of a and b change: the size of the part, and the strides of a, b and c.
fn batches(p: &Matmul) -> Vec<(usize, [usize; 3])> {
    let mut parts = Vec::with_capacity(3 * p.batch);
    let layouts = [&p.a, &p.b, &p.c].map(|operand| (operand.layout.dims(), operand.layout.strides()));
    for axis in 0..p.batch {
        let get = |of: &[usize]| of.get(axis).copied().unwrap_or(1);
        let shares = [get(&p.a_share), get(&p.b_share), 1];
        let mut left = get(layouts[2].0);
        let mut steps: Vec<usize> = vec![shares[0].max(shares[1]), shares[0].min(shares[1]), 1];
        steps.dedup();
        for step in steps {
            let count = left / step;
            left = step;
            let mut strides = [0; 3];
            for ((stride, (dims, own)), share) in strides.iter_mut().zip(&layouts).zip(shares) {
                // Steps smaller than a share stay in one matrix.
                if step.is_multiple_of(share) && get(dims) > 1 {
                    *stride = get(own) * (step / share);
                }
            }
            parts.push((count, strides));
        }
    }
    parts
}

/// The domain of a product: the batch, m, n and k, which is reduced.
pub(crate) fn matmul_domain(p: &Matmul) -> (Vec<usize>, Option<Vec<bool>>) {
    let mut dims: Vec<usize> = batches(p).into_iter().map(|(count, _)| count).collect();
    dims.extend([p.m, p.n, p.k]);
    let last = dims.len() - 1;
    let reduced = (0..dims.len()).map(|axis| axis == last).collect();
    (dims, Some(reduced))
}

pub(crate) fn matmul(node: &mut Adding<'_>, p: &Matmul) -> Result<(), Refusal> {
    let parts = batches(p);
    let strides = |place: usize, own: &[usize], names: [Option<usize>; 3]| -> Vec<usize> {
        let mut all: Vec<usize> =
            parts.iter().map(|(_, strides)| strides.get(place).copied().unwrap_or(0)).collect();
        all.extend(names.map(|name| name.and_then(|name| own.get(p.batch + name)).copied().unwrap_or(0)));
        all
    };
    let a = strides(0, p.a.layout.strides(), [Some(0), None, Some(1)]);
    let b = strides(1, p.b.layout.strides(), [None, Some(1), Some(0)]);
    let c = strides(2, p.c.layout.strides(), [Some(0), Some(1), None]);
    let x = node.spread(p.a.slot, &a)?;
    let y = node.spread(p.b.slot, &b)?;
    let product = node.mul(x, y);
    let sum = node.sum(product);
    node.write(p.c.slot, &c, sum)
}
