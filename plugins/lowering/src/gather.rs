//! Convolutions and pooling, with their gradients: each output gathers what it is computed from, one thread for one element.

#![expect(
    clippy::indexing_slicing,
    reason = "axes run below the number of spatial dimensions, at most MAX_SPATIAL"
)]

use std::rc::Rc;

use hipdnn_kernels::form::{Memory, Pointer};
use hipdnn_kernels::{Builder, Scalar, Value};
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_planner::problem::convolution::{Convolution, Direction, MAX_SPATIAL};
use hipdnn_plugin_planner::problem::resample::{Pooling, Resample};

use crate::adding::{Adding, check_floats, spread};
use crate::window_limits::{check_convolution, check_pooling};

/// A node whose outputs gather windows.
#[derive(Debug)]
pub enum Window {
    /// A convolution or a gradient of one.
    Convolution(Convolution),
    /// A pooling or its gradient.
    Pooling(Resample),
}

impl Window {
    /// The window of a convolution.
    ///
    /// # Errors
    /// Those of [`check_convolution`].
    pub fn convolution(p: Convolution) -> Result<Self, Refusal> {
        check_convolution(&p).map(|()| Self::Convolution(p))
    }

    /// The window of a pooling or its gradient.
    ///
    /// # Errors
    /// Those of [`check_pooling`].
    pub fn pooling(p: Resample) -> Result<Self, Refusal> {
        check_pooling(&p).map(|()| Self::Pooling(p))
    }

    /// The output tensor.
    pub fn output(&self) -> &Operand {
        match self {
            Self::Convolution(p) => match p.direction {
                Direction::Forward => &p.y,
                Direction::BackwardData => &p.x,
                Direction::BackwardFilter => &p.w,
            },
            Self::Pooling(p) if p.backward => &p.x,
            Self::Pooling(p) => &p.y,
        }
    }

    /// The inputs.
    pub fn inputs(&self) -> impl Iterator<Item = &Operand> {
        let [first, second] = match self {
            Self::Convolution(p) => match p.direction {
                Direction::Forward => [Some(&p.x), Some(&p.w)],
                Direction::BackwardData => [Some(&p.y), Some(&p.w)],
                Direction::BackwardFilter => [Some(&p.x), Some(&p.y)],
            },
            Self::Pooling(p) if p.backward => [Some(&p.y), p.index.as_ref()],
            Self::Pooling(p) => [Some(&p.x), None],
        };
        first.into_iter().chain(second)
    }

    /// Adds the values of the node.
    pub(crate) fn add(&self, node: &mut Adding<'_>) -> Result<(), Refusal> {
        let output = *self.output();
        let mut uids = Vec::with_capacity(2);
        for operand in self.inputs() {
            uids.push(node.uid(operand.slot)?);
        }
        let real = node.real;
        let gather = |node: &mut Adding<'_>, real: Scalar, f: hipdnn_kernels::domain::Gather| {
            node.group.gather(node.graph, real, &uids, f)
        };
        match self {
            Self::Convolution(p) => {
                let p = *p;
                // Any type converts; what a kernel has no type for is refused where it is loaded.
                let value = gather(node, real, Rc::new(move |b, t, i| convolution(b, &p, real, t, i)))?;
                node.write_element(&output, value)
            }
            Self::Pooling(p) => {
                let p = *p;
                if real == Scalar::I32 {
                    return Err("compute type is int32, expected float, double, half or bfloat16".to_owned());
                }
                check_floats(&[p.x, p.y].map(|operand| ("x or y", Some(operand.data_type))))?;
                let value = gather(
                    node,
                    real,
                    Rc::new(move |b, t, i| match (p.backward, p.pooling) {
                        (true, _) => pooling_gradient(b, &p, real, t, i),
                        (false, Pooling::Maximum { .. }) => maximum(b, &p, real, t, i)[0],
                        (false, _) => mean(b, &p, real, t, i),
                    }),
                )?;
                node.write_element(&output, value)?;
                match p.index.filter(|_| !p.backward) {
                    Some(index) => {
                        let value =
                            gather(node, Scalar::I32, Rc::new(move |b, t, i| maximum(b, &p, real, t, i)[1]))?;
                        node.write(index.slot, &spread(&index), value)
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

/// Calls a function inside loops over indices along each dimension.
fn loops(
    b: &mut Builder,
    counts: &[usize],
    so_far: &mut Vec<Value>,
    f: &mut dyn FnMut(&mut Builder, &[Value]),
) {
    let Some((count, rest)) = counts.split_first() else { return f(b, so_far) };
    b.for_range(0, *count, 1, |b, index| {
        so_far.push(index);
        loops(b, rest, so_far, f);
        so_far.pop();
    });
}

fn each(b: &mut Builder, counts: &[usize], mut f: impl FnMut(&mut Builder, &[Value])) {
    loops(b, counts, &mut Vec::new(), &mut f);
}

/// Whether 0 ≤ x < end.
fn within(b: &mut Builder, x: Value, end: usize) -> Value {
    let [above, below] = [b.greater_equal(x, 0), b.less(x, end)];
    b.and(above, below)
}

fn all(b: &mut Builder, conditions: &[Value]) -> Value {
    let mut holds = b.int(1, Scalar::Bool);
    for condition in conditions {
        holds = b.and(holds, *condition);
    }
    holds
}

/// The sum of indices times strides.
fn at(b: &mut Builder, indices: &[Value], strides: &[usize]) -> Value {
    let mut sum = b.number(0);
    for (index, stride) in indices.iter().zip(strides) {
        let distance = b.mul(*index, *stride);
        sum = b.add(sum, distance);
    }
    sum
}

fn load(b: &mut Builder, pointer: Pointer, place: Value, real: Scalar) -> Value {
    let own = b.load(Memory::Global(pointer), place);
    b.convert(own, real)
}

fn add_product(b: &mut Builder, sum: hipdnn_kernels::form::Local, x: Value, y: Value) {
    let so_far = b.get(sum);
    let next = b.fma(x, y, so_far);
    b.set(sum, next);
}

/// An element of a convolution or of one of its gradients.
fn convolution(b: &mut Builder, p: &Convolution, real: Scalar, tensors: &[Pointer], i: &[Value]) -> Value {
    let [first, second] = *tensors else { return b.float(0.0, real) };
    let sum = b.local(real, 0.0);
    let (xs, ws, ys) = (p.x.layout.strides(), p.w.layout.strides(), p.y.layout.strides());
    let turned = |b: &mut Builder, r: &[Value]| -> Vec<Value> {
        let turn = |(axis, r): (usize, &Value)| {
            if p.mirrored {
                let last = b.number(p.window[axis] - 1);
                b.sub(last, *r)
            } else {
                *r
            }
        };
        r.iter().enumerate().map(turn).collect()
    };
    // The position in x of an element of the window of an element of y.
    let position = |b: &mut Builder, axis: usize, o: Value, r: Value| {
        let start = b.mul(o, p.stride[axis]);
        let reach = b.mul(r, p.dilation[axis]);
        let place = b.add(start, reach);
        b.sub(place, p.pre_padding[axis])
    };
    match p.direction {
        Direction::Forward => {
            let group = b.div(i[1], p.out_channels);
            let first_channel = b.mul(group, p.in_channels);
            let x0 = at(b, &[i[0], first_channel], xs);
            let w0 = b.mul(i[1], ws[0]);
            each(b, &p.window[..p.spatial], |b, r| {
                let places: Vec<Value> =
                    (0..p.spatial).map(|axis| position(b, axis, i[axis + 2], r[axis])).collect();
                let inside: Vec<Value> =
                    (0..p.spatial).map(|axis| within(b, places[axis], p.input[axis])).collect();
                let inside = all(b, &inside);
                b.when(inside, |b| {
                    let t = turned(b, r);
                    let [own_x, own_w] = [at(b, &places, &xs[2..]), at(b, &t, &ws[2..])];
                    let [x1, w1] = [b.add(x0, own_x), b.add(w0, own_w)];
                    b.for_range(0, p.in_channels, 1, |b, c| {
                        let [xc, wc] = [b.mul(c, xs[1]), b.mul(c, ws[1])];
                        let [xc, wc] = [b.add(x1, xc), b.add(w1, wc)];
                        let [x, w] = [load(b, first, xc, real), load(b, second, wc, real)];
                        add_product(b, sum, x, w);
                    });
                });
            });
        }
        Direction::BackwardData => {
            let (group, channel) = b.div_rem(i[1], p.in_channels);
            let filter = b.mul(group, p.out_channels);
            let y0 = at(b, &[i[0], filter], ys);
            let w0 = at(b, &[filter, channel], ws);
            each(b, &p.window[..p.spatial], |b, r| {
                let mut conditions = Vec::with_capacity(2 * p.spatial);
                let mut places = Vec::with_capacity(p.spatial);
                for axis in 0..p.spatial {
                    let padded = b.add(i[axis + 2], p.pre_padding[axis]);
                    let reach = b.mul(r[axis], p.dilation[axis]);
                    let ahead = b.sub(padded, reach);
                    conditions.push(b.greater_equal(ahead, 0));
                    // Divisions are of numbers that are not negative.
                    let ahead = b.max(ahead, 0);
                    let (place, rest) = b.div_rem(ahead, p.stride[axis]);
                    conditions.push(b.equal(rest, 0));
                    conditions.push(b.less(place, p.output[axis]));
                    places.push(place);
                }
                let inside = all(b, &conditions);
                b.when(inside, |b| {
                    let t = turned(b, r);
                    let [own_y, own_w] = [at(b, &places, &ys[2..]), at(b, &t, &ws[2..])];
                    let [y1, w1] = [b.add(y0, own_y), b.add(w0, own_w)];
                    b.for_range(0, p.out_channels, 1, |b, c| {
                        let [yc, wc] = [b.mul(c, ys[1]), b.mul(c, ws[0])];
                        let [yc, wc] = [b.add(y1, yc), b.add(w1, wc)];
                        let [y, w] = [load(b, first, yc, real), load(b, second, wc, real)];
                        add_product(b, sum, y, w);
                    });
                });
            });
        }
        Direction::BackwardFilter => {
            let group = b.div(i[0], p.out_channels);
            let start = b.mul(group, p.in_channels);
            let channel = b.add(start, i[1]);
            let x0 = b.mul(channel, xs[1]);
            let y0 = b.mul(i[0], ys[1]);
            let r = turned(b, &i[2..]);
            let mut counts = vec![p.batch];
            counts.extend(&p.output[..p.spatial]);
            each(b, &counts, |b, o| {
                let places: Vec<Value> =
                    (0..p.spatial).map(|axis| position(b, axis, o[axis + 1], r[axis])).collect();
                let inside: Vec<Value> =
                    (0..p.spatial).map(|axis| within(b, places[axis], p.input[axis])).collect();
                let inside = all(b, &inside);
                b.when(inside, |b| {
                    let [own_x, own_y] = [at(b, &places, &xs[2..]), at(b, &o[1..], &ys[2..])];
                    let [image_x, image_y] = [b.mul(o[0], xs[0]), b.mul(o[0], ys[0])];
                    let [x1, y1] = [b.add(own_x, image_x), b.add(own_y, image_y)];
                    let [x1, y1] = [b.add(x0, x1), b.add(y0, y1)];
                    let [x, y] = [load(b, first, x1, real), load(b, second, y1, real)];
                    add_product(b, sum, x, y);
                });
            });
        }
    }
    b.get(sum)
}

/// The position in x of an element of a pooling window.
fn pooled(b: &mut Builder, p: &Resample, axis: usize, o: Value, r: Value) -> Value {
    let start = b.mul(o, p.stride[axis]);
    let place = b.add(start, r);
    b.sub(place, p.pre_padding[axis])
}

/// The strides of a dense array with these sizes.
fn dense(sizes: &[usize]) -> [usize; MAX_SPATIAL] {
    let mut strides = [1_usize; MAX_SPATIAL];
    for axis in (1..sizes.len()).rev() {
        strides[axis - 1] = strides[axis].wrapping_mul(sizes[axis]);
    }
    strides
}

/// The maximum of a window, and its index.
fn maximum(b: &mut Builder, p: &Resample, real: Scalar, tensors: &[Pointer], i: &[Value]) -> [Value; 2] {
    let zeros = p.pooling == Pooling::Maximum { zeros: true };
    let Some(x) = tensors.first().copied() else { return [b.float(0.0, real), b.number(0)] };
    let xs = p.x.layout.strides();
    let best = b.local(real, f64::NEG_INFINITY);
    let place = b.local(Scalar::I32, -1);
    let any = b.local(Scalar::I32, 0);
    let start = at(b, &i[..2], xs);
    each(b, &p.window[..p.spatial], |b, r| {
        let places: Vec<Value> =
            (0..p.spatial).map(|axis| pooled(b, p, axis, i[axis + 2], r[axis])).collect();
        let inside: Vec<Value> = (0..p.spatial).map(|axis| within(b, places[axis], p.input[axis])).collect();
        let inside = all(b, &inside);
        let index = if p.index_is_of_window() {
            at(b, r, &dense(&p.window[..p.spatial]))
        } else {
            at(b, &places, &dense(&p.input[..p.spatial]))
        };
        let take = |b: &mut Builder, value: Value, index: Value| {
            let [so_far, seen] = [b.get(best), b.get(any)];
            // The first NaN is the maximum.
            let is_first = b.equal(seen, 0);
            let is_greater = b.greater(value, so_far);
            let [is_nan, was_none] = [b.not_equal(value, value), b.equal(so_far, so_far)];
            let is_first_nan = b.and(is_nan, was_none);
            let takes = b.or(is_first, is_greater);
            let takes = b.or(takes, is_first_nan);
            b.when(takes, |b| {
                b.set(best, value);
                b.set(place, index);
                b.set(any, 1);
            });
        };
        b.if_else(
            inside,
            |b| {
                let own = at(b, &places, &xs[2..]);
                let own = b.add(start, own);
                let value = load(b, x, own, real);
                take(b, value, index);
            },
            |b| {
                if zeros {
                    let [zero, none] = [b.float(0.0, real), b.number(0)];
                    let none = b.sub(none, 1);
                    take(b, zero, none);
                }
            },
        );
    });
    [b.get(best), b.get(place)]
}

/// The number of positions of a window.
fn window_size(p: &Resample) -> f64 {
    p.window[..p.spatial].iter().map(|extent| *extent as f64).product()
}

fn mean(b: &mut Builder, p: &Resample, real: Scalar, tensors: &[Pointer], i: &[Value]) -> Value {
    let Some(x) = tensors.first().copied() else { return b.float(0.0, real) };
    let xs = p.x.layout.strides();
    let sum = b.local(real, 0.0);
    let count = b.local(Scalar::I32, 0);
    let start = at(b, &i[..2], xs);
    each(b, &p.window[..p.spatial], |b, r| {
        let places: Vec<Value> =
            (0..p.spatial).map(|axis| pooled(b, p, axis, i[axis + 2], r[axis])).collect();
        let inside: Vec<Value> = (0..p.spatial).map(|axis| within(b, places[axis], p.input[axis])).collect();
        let inside = all(b, &inside);
        b.when(inside, |b| {
            let own = at(b, &places, &xs[2..]);
            let own = b.add(start, own);
            let value = load(b, x, own, real);
            let [so_far, counted] = [b.get(sum), b.get(count)];
            let [next, more] = [b.add(so_far, value), b.add(counted, 1)];
            b.set(sum, next);
            b.set(count, more);
        });
    });
    let sum = b.get(sum);
    if p.pooling == Pooling::MeanInside {
        let count = b.get(count);
        let count = b.max(count, 1);
        let count = b.convert(count, real);
        b.div(sum, count)
    } else {
        b.div(sum, window_size(p))
    }
}

/// The gradient of one element of x, from all windows that contain it.
fn pooling_gradient(b: &mut Builder, p: &Resample, real: Scalar, tensors: &[Pointer], i: &[Value]) -> Value {
    let Some(dy) = tensors.first().copied() else { return b.float(0.0, real) };
    let ys = p.y.layout.strides();
    let sum = b.local(real, 0.0);
    let start = at(b, &i[..2], ys);
    let plane = at(b, &i[2..], &dense(&p.input[..p.spatial]));
    // Every window that contains the element is one of these many, the last first.
    let counts: Vec<usize> = (0..p.spatial).map(|axis| p.window[axis].div_ceil(p.stride[axis])).collect();
    each(b, &counts, |b, back| {
        let mut conditions = Vec::with_capacity(4 * p.spatial);
        let [mut outputs, mut within_window] = [(); 2].map(|()| Vec::with_capacity(p.spatial));
        let mut count = b.number(1);
        for axis in 0..p.spatial {
            let (window, stride, pre) = (p.window[axis], p.stride[axis], p.pre_padding[axis]);
            let padded = b.add(i[axis + 2], pre);
            let last = b.div(padded, stride);
            let o = b.sub(last, back[axis]);
            conditions.push(within(b, o, p.output[axis]));
            let begin = b.mul(o, stride);
            let r = b.sub(padded, begin);
            conditions.push(within(b, r, window));
            let end = b.add(begin, window);
            let end = b.min(end, pre + p.input[axis]);
            let first = b.max(begin, pre);
            let own = b.sub(end, first);
            count = b.mul(count, own);
            outputs.push(o);
            within_window.push(r);
        }
        let inside = all(b, &conditions);
        b.when(inside, |b| {
            let own = at(b, &outputs, &ys[2..]);
            let own = b.add(start, own);
            let value = load(b, dy, own, real);
            let so_far = b.get(sum);
            match (&p.index, tensors.get(1), p.pooling) {
                (Some(index), Some(pointer), _) => {
                    let strides = index.layout.strides();
                    let place = at(b, &i[..2], strides);
                    let own = at(b, &outputs, &strides[2..]);
                    let place = b.add(place, own);
                    let chosen = load(b, *pointer, place, Scalar::I32);
                    let expected = if p.index_is_of_window() {
                        at(b, &within_window, &dense(&p.window[..p.spatial]))
                    } else {
                        plane
                    };
                    let is_own = b.equal(chosen, expected);
                    b.when(is_own, |b| {
                        let next = b.add(so_far, value);
                        b.set(sum, next);
                    });
                }
                (_, _, pooling) => {
                    let part = if pooling == Pooling::MeanInside {
                        let count = b.convert(count, real);
                        b.div(value, count)
                    } else {
                        b.div(value, window_size(p))
                    };
                    let next = b.add(so_far, part);
                    b.set(sum, next);
                }
            }
        });
    });
    b.get(sum)
}
