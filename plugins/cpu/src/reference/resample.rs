//! Pooling and its gradient.

#![expect(
    clippy::indexing_slicing,
    reason = "axes run below the number of spatial dimensions, at most MAX_SPATIAL"
)]

use crate::dtype::element::Real;
use crate::kernel::{Kernel, Refusal};
use crate::layout::Walk;
use crate::problem::Operand;
use crate::problem::convolution::MAX_SPATIAL;
use crate::problem::resample::{Pooling, Resample};
use crate::reference::memory::{Memory, View};

pub(crate) fn plan<R: Real>(problem: Resample) -> Result<Box<dyn Kernel>, Refusal> {
    let [x, y] = if problem.backward { ["dx", "dy"] } else { ["x", "y"] };
    let (x, y) = (Memory::of_numbers(x, &problem.x)?, Memory::of_numbers(y, &problem.y)?);
    Ok(if problem.backward {
        Box::new(Backward::<R> { problem, dx: x, dy: y })
    } else {
        Box::new(Forward::<R> { problem, x, y })
    })
}

/// The positions of one window that lie inside x.
struct Inside {
    /// The first element of x along each spatial dimension.
    first: [usize; MAX_SPATIAL],
    /// The number of elements; 0 along every dimension where the window lies outside.
    extent: [usize; MAX_SPATIAL],
    /// The first position outside x, in the order of positions, counted from the first inside or before it.
    outside: Option<Outside>,
}

/// Where the first position outside x comes in the order of positions.
#[derive(Clone, Copy)]
enum Outside {
    /// Before all that are inside.
    First,
    /// After the positions inside whose index is smaller.
    At([usize; MAX_SPATIAL]),
}

impl Inside {
    fn of(problem: &Resample, output: &[usize]) -> Self {
        let mut inside = Self { first: [0; MAX_SPATIAL], extent: [1; MAX_SPATIAL], outside: None };
        let mut cut = None;
        let mut empty = false;
        for (axis, output) in output.iter().enumerate().take(problem.spatial) {
            let (pre, input) = (problem.pre_padding[axis], problem.input[axis]);
            // Both are counted from the first element of the padding.
            let begin = output * problem.stride[axis];
            let end = begin + problem.window[axis];
            let first = begin.max(pre);
            let extent = end.min(pre + input).saturating_sub(first);
            if begin < pre {
                inside.outside = Some(Outside::First);
            }
            if end > pre + input {
                cut = Some(axis);
            }
            empty |= extent == 0;
            inside.first[axis] = first - pre;
            inside.extent[axis] = extent;
        }
        if empty {
            inside.extent = [0; MAX_SPATIAL];
        }
        if let (None, Some(axis)) = (inside.outside, cut) {
            let mut index = [0; MAX_SPATIAL];
            index[axis] = inside.extent[axis];
            inside.outside = Some(Outside::At(index));
        }
        inside
    }

    /// The number of positions.
    fn count(&self, problem: &Resample) -> usize {
        self.extent[..problem.spatial].iter().product()
    }

    /// Calls `visit` for each position, the last dimension fastest, with the index from the first position and the offset under
    /// `strides`.
    fn each(&self, problem: &Resample, strides: &[usize], mut visit: impl FnMut(&[usize], usize)) {
        if self.count(problem) == 0 {
            return;
        }
        let base = offset(&self.first, strides);
        let mut at = Walk::new(&self.extent[..problem.spatial], [strides]);
        loop {
            visit(&at.index[..MAX_SPATIAL], base + at.offsets[0]);
            if !at.advance() {
                break;
            }
        }
    }
}

fn offset(index: &[usize], strides: &[usize]) -> usize {
    index.iter().zip(strides).map(|(index, stride)| index * stride).sum()
}

/// The number that a sum is divided by.
fn divisor(problem: &Resample, inside: &Inside) -> f64 {
    match problem.pooling {
        Pooling::MeanInside => inside.count(problem).max(1) as f64,
        // As a double, since the window may be larger than any tensor.
        _ => problem.window[..problem.spatial].iter().map(|n| *n as f64).product(),
    }
}

/// Strides of a plane of x without gaps: what index tensors count with.
fn plane_strides(problem: &Resample) -> [usize; MAX_SPATIAL] {
    let mut strides = [1; MAX_SPATIAL];
    for axis in (1..problem.spatial).rev() {
        strides[axis - 1] = strides[axis] * problem.input[axis];
    }
    strides
}

/// Elements of the index tensor.
///
/// # Safety
/// As for [`Memory::bind`].
unsafe fn indices(tensors: &[*mut u8], operand: &Operand) -> *mut i32 {
    // SAFETY: a pointer for every tensor of the operation is valid, as this function requires.
    unsafe { *tensors.get_unchecked(operand.slot) }.cast()
}

struct Forward<R> {
    problem: Resample,
    x: Memory<R>,
    y: Memory<R>,
}

impl<R: Real> Kernel for Forward<R> {
    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        let p = &self.problem;
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract.
        let (x, y) = unsafe { (self.x.bind(tensors), self.y.bind(tensors)) };
        let index = p.index.as_ref().map(|operand| {
            // SAFETY: the tensors and the scratch memory are those of the kernel's contract.
            (unsafe { indices(tensors, operand) }, operand.layout.strides())
        });
        let index_strides = index.map_or(&[][..], |(_, strides)| strides);
        let xs = p.x.layout.strides();
        let mut at = Walk::new(p.y.layout.dims(), [p.y.layout.strides(), index_strides]);
        loop {
            let [n, c, output @ ..] = at.index;
            let base = n * xs[0] + c * xs[1];
            let inside = Inside::of(p, &output);
            let [y_at, index_at] = at.offsets;
            // SAFETY: the walk is over the dims of y, which the index tensor shares; `Inside` has only positions inside x.
            unsafe {
                match p.pooling {
                    Pooling::Maximum { zeros } => {
                        let (largest, place) = largest(p, &x, base, &inside, zeros);
                        y.set(y_at, largest);
                        if let Some((index, _)) = index {
                            index.add(index_at).write_unaligned(place);
                        }
                    }
                    Pooling::MeanInside | Pooling::MeanOfWindow => {
                        let mut sum = 0.0;
                        inside.each(p, &xs[2..], |_, x_at| sum += x.get(base + x_at).to_f64());
                        y.set(y_at, R::from_f64(sum / divisor(p, &inside)));
                    }
                }
            }
            if !at.advance() {
                break;
            }
        }
    }
}

/// The largest element of a window and its index in the plane. The first NaN is larger than all else.
///
/// # Safety
/// `x` is the view of the problem's x, `base` the offset of one of its planes.
unsafe fn largest<R: Real>(
    problem: &Resample,
    x: &View<R>,
    base: usize,
    inside: &Inside,
    zeros: bool,
) -> (R, i32) {
    let xs = problem.x.layout.strides();
    let mut best: Option<(R, [usize; MAX_SPATIAL])> = None;
    inside.each(problem, &xs[2..], |index, x_at| {
        // SAFETY: the position lies inside x.
        let value = unsafe { x.get(base + x_at) };
        let wins = match &best {
            None => true,
            Some((best, _)) => value > *best || (value.is_nan() && !best.is_nan()),
        };
        if wins {
            let mut place = [0; MAX_SPATIAL];
            place.copy_from_slice(index);
            best = Some((value, place));
        }
    });
    if let (true, Some(outside)) = (zeros, inside.outside) {
        let zero_wins = match &best {
            None => true,
            Some((best, _)) if best.is_nan() => false,
            Some((best, place)) if *best == R::ZERO => match outside {
                Outside::First => true,
                Outside::At(index) => index < *place,
            },
            Some((best, _)) => *best < R::ZERO,
        };
        if zero_wins {
            return (R::ZERO, -1);
        }
    }
    match best {
        None => (R::from_f64(f64::NEG_INFINITY), -1),
        Some((value, place)) => {
            let mut position = inside.first;
            for (to, from) in position.iter_mut().zip(place) {
                *to += from;
            }
            let index = offset(&position[..problem.spatial], &plane_strides(problem));
            // Without an index tensor a plane may be larger than int32 counts, and then nobody reads the number.
            (value, i32::try_from(index).unwrap_or(-1))
        }
    }
}

/// The gradient is summed in scratch, one double for each element of a plane.
struct Backward<R> {
    problem: Resample,
    dx: Memory<R>,
    dy: Memory<R>,
}

impl<R: Real> Backward<R> {
    fn plane(&self) -> usize {
        let p = &self.problem;
        p.input[..p.spatial].iter().product()
    }
}

impl<R: Real> Kernel for Backward<R> {
    fn scratch_size(&self) -> usize {
        self.plane().saturating_mul(size_of::<f64>())
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let p = &self.problem;
        let (dxs, dys) = (p.x.layout.strides(), p.y.layout.strides());
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract: scratch is aligned
        // and has room for a plane. Walks stay below the dims of dx and dy, and an index is used only if it
        // lies in the plane.
        unsafe {
            let (dx, dy) = (self.dx.bind(tensors), self.dy.bind(tensors));
            let sums = scratch.cast::<f64>();
            let plane = self.plane();
            let add = |place: usize, value: f64| *sums.add(place) += value;
            let mut planes = Walk::new(&p.x.layout.dims()[..2], [dxs, dys]);
            loop {
                let [dx_base, dy_base] = planes.offsets;
                for place in 0..plane {
                    sums.add(place).write(0.0);
                }
                let index = p.index.as_ref().map(|operand| {
                    let strides = operand.layout.strides();
                    (indices(tensors, operand).add(offset(&planes.index[..2], strides)), &strides[2..])
                });
                let mut at =
                    Walk::new(&p.output[..p.spatial], [&dys[2..], index.map_or(&[][..], |(_, s)| s)]);
                loop {
                    let value = dy.get(dy_base + at.offsets[0]).to_f64();
                    if let Some((index, _)) = index {
                        let place = usize::try_from(index.add(at.offsets[1]).read_unaligned());
                        if let Some(place) = place.ok().filter(|place| *place < plane) {
                            add(place, value);
                        }
                    } else {
                        let inside = Inside::of(p, &at.index);
                        let part = value / divisor(p, &inside);
                        inside.each(p, &plane_strides(p), |_, place| add(place, part));
                    }
                    if !at.advance() {
                        break;
                    }
                }
                let mut at = Walk::new(&p.input[..p.spatial], [&dxs[2..], &plane_strides(p)]);
                loop {
                    dx.set(dx_base + at.offsets[0], R::from_f64(*sums.add(at.offsets[1])));
                    if !at.advance() {
                        break;
                    }
                }
                if !planes.advance() {
                    break;
                }
            }
        }
    }
}
