//! The two operands of a convolution as a product.

use super::{Convolution, Direction, Tensor};
use crate::builder::Builder;
use crate::form::Value;
use crate::product::engine::Along;
use crate::scalar::Scalar;

/// What an operand's own indices stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// Images and their pixels.
    Pixels,
    /// Channels of the result, or of dy for the gradient of filters.
    Channels,
    /// Channels of x and elements of the window.
    Window,
}

/// An operand.
pub(super) struct Side {
    own: Own,
    /// Its place among x, w and y.
    pub(super) tensor: usize,
    /// The sizes of its own indices, and of those of dot products.
    dims: Vec<usize>,
    depth: Vec<usize>,
    /// Whether channels are the last of the window's indices.
    channels_last: bool,
    pub(super) along: Along,
    pub(super) vector: usize,
    /// How many neighbours are stored together.
    pub(super) width: usize,
}

fn joined(first: usize, rest: &[usize]) -> Vec<usize> {
    [&[first], rest].concat()
}

/// The sizes of a window's indices.
fn window_dims(channels: usize, window: &[usize], channels_last: bool) -> Vec<usize> {
    if channels_last { [window, &[channels]].concat() } else { joined(channels, window) }
}

/// The operands whose indices are rows and columns.
pub(super) fn sides(c: &Convolution) -> [Side; 2] {
    let is_last = |tensor: &Tensor| tensor.strides.get(1) == Some(&1);
    match c.direction {
        Direction::Filter => {
            let depth = joined(c.batch, &c.output);
            let (x_last, y_last) = (is_last(&c.x), is_last(&c.y));
            let channels = if y_last {
                (Along::Own, c.y.vector(1, c.out_channels))
            } else {
                (Along::K, c.y.vector_of_rest(2, &c.output))
            };
            let window = if x_last { (Along::Own, c.x.vector(1, c.in_channels)) } else { (Along::K, 1) };
            let width = if x_last {
                c.w.vector(1, c.in_channels)
            } else if c.mirrored {
                // Neighbours are stored the other way around.
                1
            } else {
                c.w.vector_of_rest(1, &joined(c.in_channels, &c.window))
            };
            let rows = Side {
                own: Own::Channels,
                tensor: 2,
                dims: vec![c.out_channels],
                depth: depth.clone(),
                channels_last: x_last,
                along: channels.0,
                vector: channels.1,
                width: 1,
            };
            let columns = Side {
                own: Own::Window,
                tensor: 0,
                dims: window_dims(c.in_channels, &c.window, x_last),
                depth,
                channels_last: x_last,
                along: window.0,
                vector: window.1,
                width,
            };
            [rows, columns]
        }
        Direction::Forward | Direction::Data => {
            let forward = c.direction == Direction::Forward;
            let (from, to) = if forward { (&c.x, &c.y) } else { (&c.y, &c.x) };
            let (inner, outer) =
                if forward { (c.in_channels, c.out_channels) } else { (c.out_channels, c.in_channels) };
            let sizes = if forward { &c.output } else { &c.input };
            let last = is_last(from);
            let depth = window_dims(inner, &c.window, last);
            let pixels = if last { (Along::K, from.vector(1, inner)) } else { (Along::Own, 1) };
            let filters = match (forward, last) {
                (true, true) if is_last(&c.w) => (Along::K, c.w.vector(1, c.in_channels)),
                (true, false) if !c.mirrored => {
                    (Along::K, c.w.vector_of_rest(1, &joined(c.in_channels, &c.window)))
                }
                (false, _) if is_last(&c.w) => (Along::Own, c.w.vector(1, c.in_channels)),
                _ => (Along::K, 1),
            };
            let of_pixels = Side {
                own: Own::Pixels,
                tensor: if forward { 0 } else { 2 },
                dims: joined(c.batch, sizes),
                depth: depth.clone(),
                channels_last: last,
                along: pixels.0,
                vector: pixels.1,
                width: to.vector_of_rest(2, sizes),
            };
            let of_channels = Side {
                own: Own::Channels,
                tensor: 1,
                dims: vec![outer],
                depth,
                channels_last: last,
                along: filters.0,
                vector: filters.1,
                width: to.vector(1, outer),
            };
            // Neighbours in the result are columns.
            if is_last(to) { [of_pixels, of_channels] } else { [of_channels, of_pixels] }
        }
    }
}

/// An index's parts, the last one fastest.
fn parts(b: &mut Builder, index: Value, dims: &[usize]) -> Vec<Value> {
    let mut all = vec![index; dims.len()];
    let mut rest = index;
    for (place, (part, dim)) in all.iter_mut().zip(dims).enumerate().rev() {
        if place == 0 {
            *part = rest;
        } else {
            (rest, *part) = b.div_rem(rest, *dim);
        }
    }
    all
}

/// The first part, and the others.
fn first_and_rest(all: &[Value]) -> (Value, &[Value]) {
    match all {
        [first, rest @ ..] => (*first, rest),
        [] => (Value(0), all),
    }
}

/// The offset of indices.
fn offset(b: &mut Builder, indices: &[Value], strides: &[usize]) -> Value {
    let mut sum = b.number(0);
    for (index, stride) in indices.iter().zip(strides) {
        let own = b.mul(*index, *stride);
        sum = b.add(sum, own);
    }
    sum
}

fn and(b: &mut Builder, before: Option<Value>, holds: Value) -> Option<Value> {
    Some(match before {
        Some(before) => b.and(before, holds),
        None => holds,
    })
}

impl Side {
    /// The number of own indices.
    pub(super) fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether a pixel is met by several elements of the window.
    pub(super) fn is_seen_again(&self, c: &Convolution) -> bool {
        let is_image = matches!(self.own, Own::Pixels | Own::Window);
        is_image && c.window.iter().zip(&c.stride).any(|(window, stride)| window > stride)
    }

    /// The length of dot products.
    pub(super) fn depth(&self) -> usize {
        self.depth.iter().product()
    }

    /// The channel and the window's element of an index.
    fn window(&self, b: &mut Builder, index: Value, dims: &[usize]) -> (Value, Vec<Value>) {
        let mut all = parts(b, index, dims);
        if self.channels_last {
            let channel = all.pop().unwrap_or(index);
            (channel, all)
        } else {
            let (channel, window) = first_and_rest(&all);
            (channel, window.to_vec())
        }
    }

    /// A channel among all groups'.
    fn channel(b: &mut Builder, group: Value, channels: usize, channel: Value) -> Value {
        let first = b.mul(group, channels);
        b.add(first, channel)
    }

    /// Where an element is in the tensor, and whether it is there.
    pub(super) fn element(
        &self,
        b: &mut Builder,
        c: &Convolution,
        group: Value,
        own: Value,
        k: Value,
    ) -> (Value, Option<Value>) {
        match (c.direction, self.own) {
            (Direction::Forward, Own::Pixels) => {
                let all = parts(b, own, &self.dims);
                let (image, pixel) = first_and_rest(&all);
                let (channel, window) = self.window(b, k, &self.depth);
                Self::input(b, c, group, image, channel, pixel, &window)
            }
            (Direction::Filter, Own::Window) => {
                let (channel, window) = self.window(b, own, &self.dims);
                let all = parts(b, k, &self.depth);
                let (image, pixel) = first_and_rest(&all);
                Self::input(b, c, group, image, channel, pixel, &window)
            }
            (Direction::Filter, _) => {
                let channel = Self::channel(b, group, c.out_channels, own);
                let all = parts(b, k, &self.depth);
                let (image, pixel) = first_and_rest(&all);
                let indices = [&[image, channel], pixel].concat();
                (offset(b, &indices, &c.y.strides), None)
            }
            (Direction::Data, Own::Pixels) => {
                let all = parts(b, own, &self.dims);
                let (image, pixel) = first_and_rest(&all);
                let (channel, window) = self.window(b, k, &self.depth);
                let channel = Self::channel(b, group, c.out_channels, channel);
                let mut indices = vec![image, channel];
                let mut there = None;
                let sizes = c.padding.iter().zip(&c.dilation).zip(&c.stride).zip(&c.output);
                for ((place, element), (((padding, dilation), stride), output)) in
                    pixel.iter().zip(&window).zip(sizes)
                {
                    let shift = b.mul(*element, *dilation);
                    let place = b.add(*place, *padding);
                    let place = b.sub(place, shift);
                    let inside = b.greater_equal(place, 0);
                    there = and(b, there, inside);
                    let place = b.max(place, 0);
                    let (index, rest) = b.div_rem(place, *stride);
                    if *stride > 1 {
                        let whole = b.equal(rest, 0);
                        there = and(b, there, whole);
                    }
                    let inside = b.less(index, *output);
                    there = and(b, there, inside);
                    indices.push(index);
                }
                (offset(b, &indices, &c.y.strides), there)
            }
            // Filters.
            (direction, _) => {
                let (channel, window) = self.window(b, k, &self.depth);
                let (of_y, of_x) =
                    if direction == Direction::Forward { (own, channel) } else { (channel, own) };
                let of_y = Self::channel(b, group, c.out_channels, of_y);
                let window = Self::turned(b, c, &window);
                let indices = [&[of_y, of_x], window.as_slice()].concat();
                (offset(b, &indices, &c.w.strides), None)
            }
        }
    }

    /// The place of the window's elements in filters.
    fn turned(b: &mut Builder, c: &Convolution, window: &[Value]) -> Vec<Value> {
        let sizes = window.iter().zip(&c.window);
        sizes
            .map(|(element, size)| {
                if !c.mirrored {
                    return *element;
                }
                let last = b.int(*size as i64 - 1, Scalar::I32);
                b.sub(last, *element)
            })
            .collect()
    }

    /// An element of x that the window's element meets at a pixel of y.
    fn input(
        b: &mut Builder,
        c: &Convolution,
        group: Value,
        image: Value,
        channel: Value,
        pixel: &[Value],
        window: &[Value],
    ) -> (Value, Option<Value>) {
        let channel = Self::channel(b, group, c.in_channels, channel);
        let mut indices = vec![image, channel];
        let mut there = None;
        for (axis, (place, element)) in pixel.iter().zip(window).enumerate() {
            let of = |all: &[usize]| all.get(axis).copied().unwrap_or(1);
            let (stride, dilation, padding) = (of(&c.stride), of(&c.dilation), of(&c.padding));
            let first = b.mul(*place, stride);
            let shift = b.mul(*element, dilation);
            let index = b.add(first, shift);
            let index = b.sub(index, padding);
            if padding > 0 {
                let inside = b.greater_equal(index, 0);
                there = and(b, there, inside);
            }
            let reach = (of(&c.output) - 1) * stride + (of(&c.window) - 1) * dilation;
            if reach >= of(&c.input) + padding {
                let inside = b.less(index, of(&c.input));
                there = and(b, there, inside);
            }
            indices.push(index);
        }
        (offset(b, &indices, &c.x.strides), there)
    }

    /// The dimension of the result along which the own index counts first, and its size.
    pub(super) fn near(&self, c: &Convolution) -> (usize, usize) {
        match self.own {
            Own::Channels => (usize::from(c.direction != Direction::Filter), self.count()),
            Own::Window if self.channels_last => (1, c.in_channels),
            Own::Pixels | Own::Window => (self.dims.len(), self.dims.last().copied().unwrap_or(1)),
        }
    }

    /// The indices of the result that the own index makes up, each with its dimension.
    pub(super) fn indices(
        &self,
        b: &mut Builder,
        c: &Convolution,
        group: Value,
        own: Value,
    ) -> Vec<(usize, Value)> {
        match self.own {
            Own::Pixels => {
                let all = parts(b, own, &self.dims);
                let (image, pixel) = first_and_rest(&all);
                let pixel = pixel.iter().enumerate().map(|(axis, index)| (2 + axis, *index));
                std::iter::once((0, image)).chain(pixel).collect()
            }
            Own::Channels if c.direction == Direction::Filter => {
                vec![(0, Self::channel(b, group, c.out_channels, own))]
            }
            Own::Channels => {
                let channels = if c.direction == Direction::Forward { c.out_channels } else { c.in_channels };
                vec![(1, Self::channel(b, group, channels, own))]
            }
            Own::Window => {
                let (channel, window) = self.window(b, own, &self.dims);
                let window = Self::turned(b, c, &window);
                let window = window.into_iter().enumerate().map(|(axis, index)| (2 + axis, index));
                std::iter::once((1, channel)).chain(window).collect()
            }
        }
    }
}
