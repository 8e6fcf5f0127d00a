//! Reductions: sums, products, extremes and norms along some dimensions.

#![expect(clippy::indexing_slicing, reason = "axes run below the rank of the operands, at most MAX_RANK")]

use std::any::TypeId;

use hipdnn_plugin_sdk::graph::ReductionMode;

use crate::dtype::element::{ComputeType, is_integer};
use crate::dtype::integer::{Integer, Truth};
use crate::kernel::{Kernel, Refusal};
use crate::layout::{MAX_RANK, Walk};
use crate::problem::reduction::Reduction;
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers};

struct Loops<R> {
    problem: Reduction,
    x: Memory<R>,
    y: Memory<R>,
    /// The dims of x that are reduced, and 1 for the others.
    window: [usize; MAX_RANK],
}

/// Integers, whose sums, products and extremes are exact.
struct OfIntegers<R> {
    problem: Reduction,
    x: Memory<Integer>,
    y: Memory<Integer>,
    /// y again, for means and norms, which use the compute type.
    rounded: Memory<R>,
    window: [usize; MAX_RANK],
}

pub(crate) fn plan<R: ComputeType>(problem: Reduction) -> Result<Box<dyn Kernel>, Refusal> {
    let mut window = [1; MAX_RANK];
    for (axis, dim) in problem.x.layout.dims().iter().enumerate() {
        if problem.reduced[axis] {
            window[axis] = *dim;
        }
    }
    let is_compute_type = |id| TypeId::of::<R>() == id;
    if is_compute_type(TypeId::of::<Integer>())
        || is_integer(problem.x.data_type) && !is_compute_type(TypeId::of::<Truth>())
    {
        return Ok(Box::new(OfIntegers::<R> {
            x: Memory::of_any("in", &problem.x)?,
            y: Memory::of_any("out", &problem.y)?,
            rounded: Memory::of_any("out", &problem.y)?,
            window,
            problem,
        }));
    }
    Ok(Box::new(Loops::<R> {
        x: Memory::of_any("in", &problem.x)?,
        y: Memory::of_any("out", &problem.y)?,
        window,
        problem,
    }))
}

impl<R: ComputeType> Reference for Loops<R> {
    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let (x, y) = (self.x.bind(tensors), self.y.bind(tensors));
        let p = &self.problem;
        let xs = p.x.layout.strides();
        for (_, [x_base, y_at]) in Walk::new(p.y.layout.dims(), [xs, p.y.layout.strides()]) {
            let window = Walk::new(&self.window[..xs.len()], [xs]);
            let values = window.map(|(_, [x_at])| x.get(x_base + x_at).to_f64());
            let total = values.fold(start(p.mode), |total, value| combined(p.mode, total, value));
            y.set(y_at, R::from_f64(finished(p.mode, total, p.count)));
        }
    }
}

impl<R: ComputeType> Reference for OfIntegers<R> {
    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let x = self.x.bind(tensors);
        let p = &self.problem;
        let xs = p.x.layout.strides();
        for (_, [x_base, y_at]) in Walk::new(p.y.layout.dims(), [xs, p.y.layout.strides()]) {
            let window = Walk::new(&self.window[..xs.len()], [xs]);
            let values = window.map(|(_, [x_at])| x.get(x_base + x_at).0);
            let total = exact(p.mode, values);
            match p.mode {
                ReductionMode::Avg | ReductionMode::Norm2 => {
                    let result = finished(p.mode, total as f64, p.count);
                    self.rounded.set(tensors, y_at, R::from_f64(result));
                }
                _ => self.y.set(tensors, y_at, Integer(total)),
            }
        }
    }
}

/// The sum, product or extreme of integers; of squares for a norm. Saturates at 128 bits.
fn exact(mode: ReductionMode, values: impl Iterator<Item = i128>) -> i128 {
    match mode {
        ReductionMode::Mul => values.fold(1, i128::saturating_mul),
        ReductionMode::MulNoZeros => values.filter(|value| *value != 0).fold(1, i128::saturating_mul),
        ReductionMode::Min => values.min().unwrap_or(i128::MAX),
        ReductionMode::Max => values.max().unwrap_or(i128::MIN),
        ReductionMode::Amax => values.map(i128::abs).max().unwrap_or(0),
        ReductionMode::Norm1 => values.map(i128::abs).fold(0, i128::saturating_add),
        ReductionMode::Norm2 => values.map(|value| value * value).fold(0, i128::saturating_add),
        ReductionMode::NotSet | ReductionMode::Add | ReductionMode::Avg => {
            values.fold(0, i128::saturating_add)
        }
    }
}

/// The result for no elements.
fn start(mode: ReductionMode) -> f64 {
    match mode {
        ReductionMode::Mul | ReductionMode::MulNoZeros => 1.0,
        ReductionMode::Min => f64::INFINITY,
        ReductionMode::Max => f64::NEG_INFINITY,
        _ => 0.0,
    }
}

fn combined(mode: ReductionMode, total: f64, value: f64) -> f64 {
    match mode {
        ReductionMode::Mul => total * value,
        ReductionMode::MulNoZeros if value == 0.0 => total,
        ReductionMode::MulNoZeros => total * value,
        ReductionMode::Min => extreme(total, value, value < total),
        ReductionMode::Max => extreme(total, value, value > total),
        ReductionMode::Amax => extreme(total, value.abs(), value.abs() > total),
        ReductionMode::Norm1 => total + value.abs(),
        ReductionMode::Norm2 => total + value * value,
        ReductionMode::NotSet | ReductionMode::Add | ReductionMode::Avg => total + value,
    }
}

/// `value` if it is `beyond` the total; NaN if either is NaN.
fn extreme(total: f64, value: f64, beyond: bool) -> f64 {
    if !total.is_nan() && (beyond || value.is_nan()) { value } else { total }
}

fn finished(mode: ReductionMode, total: f64, count: usize) -> f64 {
    match mode {
        ReductionMode::Avg => total / count as f64,
        ReductionMode::Norm2 => total.sqrt(),
        _ => total,
    }
}
