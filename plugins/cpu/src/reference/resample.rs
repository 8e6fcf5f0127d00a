//! Pooling and its gradient.

#![expect(
    clippy::indexing_slicing,
    reason = "axes run below the number of spatial dimensions, at most MAX_SPATIAL"
)]

use hipdnn_plugin_sdk::graph::DataType;

use crate::dtype::element::ComputeType;
use crate::dtype::integer::Integer;
use crate::kernel::{Kernel, Refusal};
use crate::layout::{MAX_RANK, Walk};
use crate::problem::convolution::MAX_SPATIAL;
use crate::problem::resample::{Pooling, Resample};
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers, View, offset, sum};

pub(crate) fn plan<R: ComputeType>(problem: Resample) -> Result<Box<dyn Kernel>, Refusal> {
    let [x, y] = if problem.backward { ["dx", "dy"] } else { ["x", "y"] };
    let (x, y) = (Memory::of_any(x, &problem.x)?, Memory::of_any(y, &problem.y)?);
    let index = problem.index.as_ref().map(|index| Memory::of_any("index", index)).transpose()?;
    let none = problem.index.map_or(-1, |index| if index.data_type == DataType::Uint8 { 255 } else { -1 });
    let index = index.map(|memory| Index { memory, of_window: problem.index_is_of_window(), none });
    Ok(if problem.backward {
        Box::new(Backward::<R> { problem, dx: x, dy: y, index })
    } else {
        Box::new(Forward::<R> { problem, x, y, index })
    })
}

/// The tensor with the index of each largest element.
#[derive(Clone, Copy)]
struct Index {
    memory: Memory<Integer>,
    /// Whether indices count positions of the window rather than elements of the plane.
    of_window: bool,
    /// The index that means "none".
    none: i64,
}

/// The positions of a window inside x.
struct Inside {
    /// The first element of x along each spatial dimension.
    first: [usize; MAX_SPATIAL],
    /// The number of elements; 0 along every dimension if the window lies outside.
    extent: [usize; MAX_SPATIAL],
    /// The first position outside x, relative to those inside.
    outside: Option<Outside>,
}

/// When the first position outside x comes in the order of positions.
#[derive(Clone, Copy)]
enum Outside {
    /// Before all positions inside.
    First,
    /// After the positions inside with a smaller index.
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

    /// Each position, the last dimension fastest: its index from the first position, and its offset.
    fn positions(
        &self,
        problem: &Resample,
        strides: &[usize],
    ) -> impl Iterator<Item = ([usize; MAX_RANK], usize)> {
        let base = offset(&self.first, strides);
        let walk = (self.count(problem) > 0).then(|| Walk::new(&self.extent[..problem.spatial], [strides]));
        walk.into_iter().flatten().map(move |(index, [at])| (index, base + at))
    }
}

/// The divisor of a sum.
fn divisor(problem: &Resample, inside: &Inside) -> f64 {
    match problem.pooling {
        Pooling::MeanInside => inside.count(problem).max(1) as f64,
        // As a double, since the window may be larger than any tensor.
        _ => problem.window[..problem.spatial].iter().map(|n| *n as f64).product(),
    }
}

/// Strides of a dense plane of x, in which index tensors count.
fn plane_strides(problem: &Resample) -> [usize; MAX_SPATIAL] {
    let mut strides = [1; MAX_SPATIAL];
    for axis in (1..problem.spatial).rev() {
        strides[axis - 1] = strides[axis] * problem.input[axis];
    }
    strides
}

struct Forward<R> {
    problem: Resample,
    x: Memory<R>,
    y: Memory<R>,
    index: Option<Index>,
}

impl<R: ComputeType> Reference for Forward<R> {
    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let p = &self.problem;
        let (x, y) = (self.x.bind(tensors), self.y.bind(tensors));
        let index_strides = p.index.as_ref().map_or(&[][..], |operand| operand.layout.strides());
        let xs = p.x.layout.strides();
        let walk = Walk::new(p.y.layout.dims(), [p.y.layout.strides(), index_strides]);
        for ([n, c, output @ ..], [y_at, index_at]) in walk {
            let base = n * xs[0] + c * xs[1];
            let inside = Inside::of(p, &output);
            if let Pooling::Maximum { zeros } = p.pooling {
                let (largest, position) = largest(p, &x, base, &inside, zeros);
                y.set(y_at, largest);
                if let Some(index) = &self.index {
                    let counted = position.map(|position| match index.of_window {
                        true => in_window(p, &output, &position),
                        false => offset(&position, &plane_strides(p)) as i64,
                    });
                    index.memory.set(tensors, index_at, Integer(counted.unwrap_or(index.none).into()));
                }
            } else {
                let values = inside.positions(p, &xs[2..]).map(|(_, x_at)| x.get(base + x_at).to_f64());
                y.set(y_at, R::from_f64(sum(values) / divisor(p, &inside)));
            }
        }
    }
}

/// The position in a window of a position in the plane, the last dimension fastest.
fn in_window(problem: &Resample, output: &[usize], position: &[usize; MAX_SPATIAL]) -> i64 {
    (0..problem.spatial).fold(0, |index, axis| {
        let begin = output[axis] * problem.stride[axis];
        let place = (position[axis] + problem.pre_padding[axis]).saturating_sub(begin);
        index * problem.window[axis] as i64 + place as i64
    })
}

/// The index in the plane of a position in a window; `None` outside of either.
fn in_plane(problem: &Resample, output: &[usize], position: i128) -> Option<usize> {
    let mut rest = usize::try_from(position).ok()?;
    let (mut place, strides) = (0, plane_strides(problem));
    for axis in (0..problem.spatial).rev() {
        let padded = output[axis] * problem.stride[axis] + rest % problem.window[axis];
        rest /= problem.window[axis];
        let inside = padded.checked_sub(problem.pre_padding[axis]).filter(|at| *at < problem.input[axis])?;
        place += inside * strides[axis];
    }
    (rest == 0).then_some(place)
}

/// The largest element of a window and its position in the plane. The first NaN counts as the largest.
fn largest<R: ComputeType>(
    problem: &Resample,
    x: &View<'_, R>,
    base: usize,
    inside: &Inside,
    zeros: bool,
) -> (R, Option<[usize; MAX_SPATIAL]>) {
    let mut best: Option<(R, [usize; MAX_RANK])> = None;
    for (index, x_at) in inside.positions(problem, &problem.x.layout.strides()[2..]) {
        let value = x.get(base + x_at);
        let wins = best.is_none_or(|(best, _)| value > best || (value.is_nan() && !best.is_nan()));
        if wins {
            best = Some((value, index));
        }
    }
    if let (true, Some(outside)) = (zeros, inside.outside) {
        let zero_wins = match best {
            None => true,
            Some((best, _)) if best.is_nan() => false,
            Some((best, position)) if best == R::ZERO => match outside {
                Outside::First => true,
                Outside::At(index) => index[..] < position[..MAX_SPATIAL],
            },
            Some((best, _)) => best < R::ZERO,
        };
        if zero_wins {
            return (R::ZERO, None);
        }
    }
    let Some((value, index)) = best else { return (R::from_f64(f64::NEG_INFINITY), None) };
    let mut position = inside.first;
    for (place, index) in position.iter_mut().zip(index).take(problem.spatial) {
        *place += index;
    }
    (value, Some(position))
}

/// Sums the gradient in scratch memory, one double per element of a plane.
struct Backward<R> {
    problem: Resample,
    dx: Memory<R>,
    dy: Memory<R>,
    index: Option<Index>,
}

impl<R: ComputeType> Reference for Backward<R> {
    fn scratch(&self) -> usize {
        self.problem.input[..self.problem.spatial].iter().product()
    }

    fn compute(&self, tensors: Pointers<'_>, sums: &mut [f64]) {
        let p = &self.problem;
        let (dxs, dys) = (p.x.layout.strides(), p.y.layout.strides());
        let (dx, dy) = (self.dx.bind(tensors), self.dy.bind(tensors));
        let index = self.index.map(|index| (index, index.memory.bind(tensors)));
        let index_strides = p.index.as_ref().map_or(&[0; MAX_RANK][..], |operand| operand.layout.strides());
        for (_, [dx_base, dy_base, index_base]) in
            Walk::new(&p.x.layout.dims()[..2], [dxs, dys, index_strides])
        {
            sums.fill(0.0);
            for (output, [dy_at, index_at]) in
                Walk::new(&p.output[..p.spatial], [&dys[2..], &index_strides[2..]])
            {
                let value = dy.get(dy_base + dy_at).to_f64();
                if let Some((index, view)) = &index {
                    // An index outside the plane is skipped.
                    let position = view.get(index_base + index_at).0;
                    let place = match index.of_window {
                        true => in_plane(p, &output, position),
                        false => usize::try_from(position).ok(),
                    };
                    if let Some(sum) = place.and_then(|place| sums.get_mut(place)) {
                        *sum += value;
                    }
                } else {
                    let inside = Inside::of(p, &output);
                    let part = value / divisor(p, &inside);
                    inside.positions(p, &plane_strides(p)).for_each(|(_, position)| sums[position] += part);
                }
            }
            for (_, [dx_at, position]) in Walk::new(&p.input[..p.spatial], [&dxs[2..], &plane_strides(p)]) {
                dx.set(dx_base + dx_at, R::from_f64(sums[position]));
            }
        }
    }
}
