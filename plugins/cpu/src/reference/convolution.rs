//! Convolution and its gradients; each element of the result is a single sum.

#![expect(
    clippy::indexing_slicing,
    reason = "axes run below the number of spatial dimensions, at most MAX_SPATIAL"
)]

use crate::dtype::element::{ComputeType, is_integer};
use crate::kernel::{Kernel, Refusal};
use crate::layout::{MAX_RANK, Walk};
use crate::problem::convolution::{Convolution, Direction, MAX_SPATIAL};
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers, View};

struct Loops<R> {
    problem: Convolution,
    x: Memory<R>,
    w: Memory<R>,
    y: Memory<R>,
}

pub(crate) fn plan<R: ComputeType>(problem: Convolution) -> Result<Box<dyn Kernel>, Refusal> {
    let [x, w, y] = match problem.direction {
        Direction::Forward => ["x", "w", "y"],
        Direction::BackwardData => ["dx", "w", "dy"],
        Direction::BackwardFilter => ["x", "dw", "dy"],
    };
    // Gradients only accept floats.
    let memory = if problem.direction == Direction::Forward { Memory::of_any } else { Memory::of };
    Ok(Box::new(Loops::<R> {
        x: memory(x, &problem.x)?,
        w: memory(w, &problem.w)?,
        y: memory(y, &problem.y)?,
        problem,
    }))
}

/// Whether products of integers are summed, which is exact in any compute type.
pub(crate) fn sums_integers(problem: &Convolution) -> bool {
    problem.direction == Direction::Forward
        && [&problem.x, &problem.w].iter().all(|operand| is_integer(operand.data_type))
}

impl<R: ComputeType> Reference for Loops<R> {
    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let (x, w, y) = (self.x.bind(tensors), self.w.bind(tensors), self.y.bind(tensors));
        match self.problem.direction {
            Direction::Forward => self.forward(&x, &w, &y),
            Direction::BackwardData => self.backward_data(&x, &w, &y),
            Direction::BackwardFilter => self.backward_weights(&x, &w, &y),
        }
    }
}

impl<R: ComputeType> Loops<R> {
    fn strides(&self) -> [&[usize]; 3] {
        [&self.problem.x, &self.problem.w, &self.problem.y].map(|operand| operand.layout.strides())
    }

    fn forward(&self, x: &View<'_, R>, w: &View<'_, R>, y: &View<'_, R>) {
        let (p, [xs, ws, ys]) = (&self.problem, self.strides());
        let dims = concatenated([p.batch, p.groups, p.out_channels], &p.output[..p.spatial]);
        let strides = concatenated([ys[0], p.out_channels * ys[1], ys[1]], &ys[2..]);
        for ([n, group, k, output @ ..], [y_at]) in Walk::new(&dims[..3 + p.spatial], [&strides]) {
            let x_base = n * xs[0] + group * p.in_channels * xs[1];
            let w_base = (group * p.out_channels + k) * ws[0];
            let mut sum = R::ZERO;
            for (window, []) in Walk::new(&p.window[..p.spatial], []) {
                let Some(x_at) = self.input_offset(&output, &window, &xs[2..]) else { continue };
                let w_at = self.window_offset(&window, &ws[2..]);
                for c in 0..p.in_channels {
                    sum = sum + x.get(x_base + x_at + c * xs[1]) * w.get(w_base + w_at + c * ws[1]);
                }
            }
            y.set(y_at, sum);
        }
    }

    fn backward_data(&self, x: &View<'_, R>, w: &View<'_, R>, y: &View<'_, R>) {
        let (p, [xs, ws, ys]) = (&self.problem, self.strides());
        let dims = concatenated([p.batch, p.groups, p.in_channels], &p.input[..p.spatial]);
        let strides = concatenated([xs[0], p.in_channels * xs[1], xs[1]], &xs[2..]);
        for ([n, group, c, input @ ..], [x_at]) in Walk::new(&dims[..3 + p.spatial], [&strides]) {
            let y_base = n * ys[0] + group * p.out_channels * ys[1];
            let w_base = group * p.out_channels * ws[0] + c * ws[1];
            let mut sum = R::ZERO;
            for (window, []) in Walk::new(&p.window[..p.spatial], []) {
                let Some(y_at) = self.output_offset(&input, &window, &ys[2..]) else { continue };
                let w_at = self.window_offset(&window, &ws[2..]);
                for k in 0..p.out_channels {
                    sum = sum + y.get(y_base + y_at + k * ys[1]) * w.get(w_base + w_at + k * ws[0]);
                }
            }
            x.set(x_at, sum);
        }
    }

    fn backward_weights(&self, x: &View<'_, R>, w: &View<'_, R>, y: &View<'_, R>) {
        let (p, [xs, ws, ys]) = (&self.problem, self.strides());
        let dims = concatenated([p.groups, p.out_channels, p.in_channels], &p.window[..p.spatial]);
        for ([group, k, c, window @ ..], []) in Walk::new(&dims[..3 + p.spatial], []) {
            let x_base = (group * p.in_channels + c) * xs[1];
            let y_base = (group * p.out_channels + k) * ys[1];
            let mut sum = R::ZERO;
            for (output, [y_at]) in Walk::new(&p.output[..p.spatial], [&ys[2..]]) {
                let Some(x_at) = self.input_offset(&output, &window, &xs[2..]) else { continue };
                for n in 0..p.batch {
                    sum = sum + x.get(x_base + x_at + n * xs[0]) * y.get(y_base + y_at + n * ys[0]);
                }
            }
            let w_base = (group * p.out_channels + k) * ws[0] + c * ws[1];
            w.set(w_base + self.window_offset(&window, &ws[2..]), sum);
        }
    }

    /// The offset in x of window element `window` of output element `output`; `None` in the padding.
    fn input_offset(&self, output: &[usize], window: &[usize], strides: &[usize]) -> Option<usize> {
        let p = &self.problem;
        let mut offset = 0;
        for axis in 0..p.spatial {
            let padded = output[axis] * p.stride[axis] + window[axis] * p.dilation[axis];
            let position = padded.checked_sub(p.pre_padding[axis]).filter(|at| *at < p.input[axis])?;
            offset += position * strides[axis];
        }
        Some(offset)
    }

    /// The offset in y of the output element whose window element `window` meets input element `input`, if
    /// any.
    fn output_offset(&self, input: &[usize], window: &[usize], strides: &[usize]) -> Option<usize> {
        let p = &self.problem;
        let mut offset = 0;
        for axis in 0..p.spatial {
            let padded = input[axis] + p.pre_padding[axis];
            let steps = padded.checked_sub(window[axis] * p.dilation[axis])?;
            if steps % p.stride[axis] != 0 {
                return None;
            }
            let position = Some(steps / p.stride[axis]).filter(|at| *at < p.output[axis])?;
            offset += position * strides[axis];
        }
        Some(offset)
    }

    /// The offset in the filter of window element `window`.
    fn window_offset(&self, window: &[usize], strides: &[usize]) -> usize {
        let p = &self.problem;
        (0..p.spatial)
            .map(|axis| {
                let element = if p.mirrored { p.window[axis] - 1 - window[axis] } else { window[axis] };
                element * strides[axis]
            })
            .sum()
    }
}

/// Dimensions or strides: three, then the spatial ones.
fn concatenated(first: [usize; 3], spatial: &[usize]) -> [usize; MAX_RANK] {
    let mut all = [0; MAX_RANK];
    for (to, from) in all.iter_mut().zip(first.iter().chain(spatial)) {
        *to = *from;
    }
    all
}

const _: () = assert!(MAX_SPATIAL + 3 <= MAX_RANK);
