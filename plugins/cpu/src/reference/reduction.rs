//! Reductions: sums, products, extremes and norms along some dimensions.

#![expect(clippy::indexing_slicing, reason = "axes run below the rank of the operands, at most MAX_RANK")]

use hipdnn_plugin_sdk::graph::ReductionMode;

use crate::dtype::element::Real;
use crate::kernel::{Kernel, Refusal};
use crate::layout::{MAX_RANK, Walk};
use crate::problem::reduction::Reduction;
use crate::reference::memory::Memory;

struct PortableVector<R> {
    problem: Reduction,
    x: Memory<R>,
    y: Memory<R>,
    /// The dims of x along which it is reduced, and 1 along the others.
    window: [usize; MAX_RANK],
}

pub(crate) fn plan<R: Real>(problem: Reduction) -> Result<Box<dyn Kernel>, Refusal> {
    let mut window = [1; MAX_RANK];
    for (axis, dim) in problem.x.layout.dims().iter().enumerate() {
        if problem.reduced[axis] {
            window[axis] = *dim;
        }
    }
    Ok(Box::new(PortableVector::<R> {
        x: Memory::of_numbers("in", &problem.x)?,
        y: Memory::of_numbers("out", &problem.y)?,
        window,
        problem,
    }))
}

impl<R: Real> Kernel for PortableVector<R> {
    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract.
        let (x, y) = unsafe { (self.x.bind(tensors), self.y.bind(tensors)) };
        let p = &self.problem;
        let x_strides = p.x.layout.strides();
        let mut at = Walk::new(p.y.layout.dims(), [x_strides, p.y.layout.strides()]);
        loop {
            let [x_base, y_at] = at.offsets;
            let mut total = start(p.mode);
            let mut inner = Walk::new(&self.window[..x_strides.len()], [x_strides]);
            loop {
                // SAFETY: the two walks together are over the dims of x.
                let value = unsafe { x.get(x_base + inner.offsets[0]) }.to_f64();
                total = joined(p.mode, total, value);
                if !inner.advance() {
                    break;
                }
            }
            // SAFETY: the walk is over the dims of y.
            unsafe { y.set(y_at, R::from_f64(finished(p.mode, total, p.count))) };
            if !at.advance() {
                break;
            }
        }
    }
}

/// What no element at all would give.
fn start(mode: ReductionMode) -> f64 {
    match mode {
        ReductionMode::Mul | ReductionMode::MulNoZeros => 1.0,
        ReductionMode::Min => f64::INFINITY,
        ReductionMode::Max => f64::NEG_INFINITY,
        _ => 0.0,
    }
}

fn joined(mode: ReductionMode, total: f64, value: f64) -> f64 {
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

/// The value where it is beyond, and NaN where either is NaN.
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
