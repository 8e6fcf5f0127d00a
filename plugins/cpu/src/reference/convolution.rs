//! Convolution and its gradients, each element of the result as one sum.

#![expect(
    clippy::indexing_slicing,
    reason = "axes run below the number of spatial dimensions, at most MAX_SPATIAL"
)]

use crate::dtype::element::Real;
use crate::kernel::{Kernel, Refusal};
use crate::layout::{MAX_RANK, Walk};
use crate::problem::convolution::{Convolution, Direction, MAX_SPATIAL};
use crate::reference::memory::{Memory, View};

struct PortableVector<R> {
    problem: Convolution,
    x: Memory<R>,
    w: Memory<R>,
    y: Memory<R>,
}

pub(crate) fn plan<R: Real>(problem: Convolution) -> Result<Box<dyn Kernel>, Refusal> {
    let [x, w, y] = match problem.direction {
        Direction::Forward => ["x", "w", "y"],
        Direction::BackwardData => ["dx", "w", "dy"],
        Direction::BackwardFilter => ["x", "dw", "dy"],
    };
    // Gradients are of floats.
    let memory = if problem.direction == Direction::Forward { Memory::of_numbers } else { Memory::of };
    Ok(Box::new(PortableVector::<R> {
        x: memory(x, &problem.x)?,
        w: memory(w, &problem.w)?,
        y: memory(y, &problem.y)?,
        problem,
    }))
}

impl<R: Real> Kernel for PortableVector<R> {
    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract; every offset below
        // is made of indices inside the tensors' dims.
        unsafe {
            let (x, w, y) = (self.x.bind(tensors), self.w.bind(tensors), self.y.bind(tensors));
            match self.problem.direction {
                Direction::Forward => self.forward(&x, &w, &y),
                Direction::BackwardData => self.backward_data(&x, &w, &y),
                Direction::BackwardFilter => self.backward_filter(&x, &w, &y),
            }
        }
    }
}

impl<R: Real> PortableVector<R> {
    /// # Safety
    /// The views are those of the problem's tensors; y may be written.
    unsafe fn forward(&self, x: &View<R>, w: &View<R>, y: &View<R>) {
        let p = &self.problem;
        let (xs, ws, ys) = (p.x.layout.strides(), p.w.layout.strides(), p.y.layout.strides());
        let dims = joined([p.batch, p.groups, p.out_channels], &p.output[..p.spatial]);
        let strides = joined([ys[0], p.out_channels * ys[1], ys[1]], &ys[2..]);
        let mut at = Walk::new(&dims[..3 + p.spatial], [&strides]);
        loop {
            let [n, group, k, output @ ..] = at.index;
            let x_base = n * xs[0] + group * p.in_channels * xs[1];
            let w_base = (group * p.out_channels + k) * ws[0];
            let mut sum = R::ZERO;
            let mut window = Walk::new(&p.window[..p.spatial], []);
            loop {
                if let Some(x_at) = self.input_offset(&output, &window.index, &xs[2..]) {
                    let w_at = self.window_offset(&window.index, &ws[2..]);
                    for c in 0..p.in_channels {
                        // SAFETY: n, group, c, k and the positions are below the dims of x and w.
                        sum = sum
                            + unsafe { x.get(x_base + x_at + c * xs[1]) * w.get(w_base + w_at + c * ws[1]) };
                    }
                }
                if !window.advance() {
                    break;
                }
            }
            // SAFETY: the walk is over the dims of y.
            unsafe { y.set(at.offsets[0], sum) };
            if !at.advance() {
                break;
            }
        }
    }

    /// # Safety
    /// The views are those of the problem's tensors; x may be written.
    unsafe fn backward_data(&self, x: &View<R>, w: &View<R>, y: &View<R>) {
        let p = &self.problem;
        let (xs, ws, ys) = (p.x.layout.strides(), p.w.layout.strides(), p.y.layout.strides());
        let dims = joined([p.batch, p.groups, p.in_channels], &p.input[..p.spatial]);
        let strides = joined([xs[0], p.in_channels * xs[1], xs[1]], &xs[2..]);
        let mut at = Walk::new(&dims[..3 + p.spatial], [&strides]);
        loop {
            let [n, group, c, input @ ..] = at.index;
            let y_base = n * ys[0] + group * p.out_channels * ys[1];
            let w_base = group * p.out_channels * ws[0] + c * ws[1];
            let mut sum = R::ZERO;
            let mut window = Walk::new(&p.window[..p.spatial], []);
            loop {
                if let Some(y_at) = self.output_offset(&input, &window.index, &ys[2..]) {
                    let w_at = self.window_offset(&window.index, &ws[2..]);
                    for k in 0..p.out_channels {
                        // SAFETY: n, group, c, k and the positions are below the dims of y and w.
                        sum = sum
                            + unsafe { y.get(y_base + y_at + k * ys[1]) * w.get(w_base + w_at + k * ws[0]) };
                    }
                }
                if !window.advance() {
                    break;
                }
            }
            // SAFETY: the walk is over the dims of x.
            unsafe { x.set(at.offsets[0], sum) };
            if !at.advance() {
                break;
            }
        }
    }

    /// # Safety
    /// The views are those of the problem's tensors; w may be written.
    unsafe fn backward_filter(&self, x: &View<R>, w: &View<R>, y: &View<R>) {
        let p = &self.problem;
        let (xs, ws, ys) = (p.x.layout.strides(), p.w.layout.strides(), p.y.layout.strides());
        let dims = joined([p.groups, p.out_channels, p.in_channels], &p.window[..p.spatial]);
        let mut at = Walk::new(&dims[..3 + p.spatial], []);
        loop {
            let [group, k, c, window @ ..] = at.index;
            let x_base = (group * p.in_channels + c) * xs[1];
            let y_base = (group * p.out_channels + k) * ys[1];
            let mut sum = R::ZERO;
            let mut output = Walk::new(&p.output[..p.spatial], [&ys[2..]]);
            loop {
                if let Some(x_at) = self.input_offset(&output.index, &window, &xs[2..]) {
                    let y_at = output.offsets[0];
                    for n in 0..p.batch {
                        // SAFETY: n, group, c, k and the positions are below the dims of x and y.
                        sum = sum
                            + unsafe { x.get(x_base + x_at + n * xs[0]) * y.get(y_base + y_at + n * ys[0]) };
                    }
                }
                if !output.advance() {
                    break;
                }
            }
            let w_at = self.window_offset(&window, &ws[2..]);
            // SAFETY: group, k, c and the window are below the dims of w.
            unsafe { w.set((group * p.out_channels + k) * ws[0] + c * ws[1] + w_at, sum) };
            if !at.advance() {
                break;
            }
        }
    }

    /// The offset in x of what window element `window` meets for output element `output`; none in the padding.
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

    /// The offset in y of the element for which window element `window` meets input element `input`; none where there is
    /// no such element.
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

/// Three numbers and then one for each spatial dimension.
fn joined(first: [usize; 3], spatial: &[usize]) -> [usize; MAX_RANK] {
    let mut all = [0; MAX_RANK];
    for (to, from) in all.iter_mut().zip(first.iter().chain(spatial)) {
        *to = *from;
    }
    all
}

const _: () = assert!(MAX_SPATIAL + 3 <= MAX_RANK);
