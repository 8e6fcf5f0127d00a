//! Convolutions and their gradients as products whose operands are gathered.

mod sides;

use crate::builder::Builder;
use crate::form::{Pointer, Value};
use crate::product::engine::{self, Engine, Source};
use crate::product::tiling::Tiling;
use crate::product::{Launch, operand_type};
use crate::scalar::Scalar;
use crate::target::Target;
use sides::{Side, sides};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// y from x and w.
    Forward,
    /// The gradient of x from w and dy.
    Data,
    /// The gradient of w from x and dy.
    Filter,
}

/// A tensor: images [batch, channels, spatial...] or filters [out channels, in channels, window...].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The type of elements.
    pub scalar: Scalar,
    /// The distances along its dimensions, in elements.
    pub strides: Vec<usize>,
    /// What its address is a multiple of, in bytes.
    pub alignment: usize,
}

/// A convolution. Element `o` of y and element `r` of the window use element o · stride + r · dilation − padding of x.
/// The kernel's parameters are x, w and y.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// What is computed.
    pub direction: Direction,
    /// Images.
    pub batch: usize,
    /// Groups of channels.
    pub groups: usize,
    /// Channels of x in a group.
    pub in_channels: usize,
    /// Channels of y in a group.
    pub out_channels: usize,
    /// Spatial sizes of x, of y and of the window.
    pub input: Vec<usize>,
    /// See above.
    pub output: Vec<usize>,
    /// See above.
    pub window: Vec<usize>,
    /// The steps of the window.
    pub stride: Vec<usize>,
    /// The distances of its elements.
    pub dilation: Vec<usize>,
    /// Zeros before x.
    pub padding: Vec<usize>,
    /// Whether the window is turned around.
    pub mirrored: bool,
    /// The images, or their gradient.
    pub x: Tensor,
    /// The filters, or their gradient.
    pub w: Tensor,
    /// The result, or its gradient.
    pub y: Tensor,
}

impl Tensor {
    /// The most elements that are neighbours along the axis `near`, whose number is a multiple of theirs.
    fn vector(&self, near: usize, count: usize) -> usize {
        let size = self.scalar.size();
        let fits = |most: usize| {
            let others = self.strides.iter().enumerate().filter(|(axis, _)| *axis != near);
            self.strides.get(near) == Some(&1)
                && self.alignment.is_multiple_of(most * size)
                && count.is_multiple_of(most)
                && others.into_iter().all(|(_, stride)| stride.is_multiple_of(most))
        };
        self.most(fits)
    }

    /// The most elements that are neighbours along the axes from `first` on, taken together.
    fn vector_of_rest(&self, first: usize, dims: &[usize]) -> usize {
        let mut dense = 1;
        for (dim, stride) in dims.iter().zip(self.strides.iter().skip(first)).rev() {
            if *dim > 1 && *stride != dense {
                return 1;
            }
            dense *= dim;
        }
        let size = self.scalar.size();
        self.most(|most| {
            self.alignment.is_multiple_of(most * size)
                && dense.is_multiple_of(most)
                && self.strides.iter().take(first).all(|stride| stride.is_multiple_of(most))
        })
    }

    fn most(&self, fits: impl Fn(usize) -> bool) -> usize {
        let mut most = 16 / self.scalar.size();
        while most > 1 && !fits(most) {
            most /= 2;
        }
        most
    }
}

/// Writes the kernel of a convolution.
///
/// # Errors
/// What is not supported.
pub fn write(convolution: &Convolution, target: &Target, name: &str) -> Result<Launch, String> {
    let [left, right, result] = match convolution.direction {
        Direction::Forward => [&convolution.x, &convolution.w, &convolution.y],
        Direction::Data => [&convolution.y, &convolution.w, &convolution.x],
        Direction::Filter => [&convolution.y, &convolution.x, &convolution.w],
    };
    let operand = operand_type(left.scalar, right.scalar)
        .ok_or_else(|| format!("a convolution of {} and {}", left.scalar.name(), right.scalar.name()))?;
    let [rows, columns] = sides(convolution);
    let (m, n, k) = (rows.count(), columns.count(), rows.depth());
    let tiling = Tiling::of(target, operand, m, n, convolution.groups, k);
    let mut b = Builder::new(name, tiling.threads(target), target);
    let writes = [Direction::Data, Direction::Filter, Direction::Forward];
    let tensors = [&convolution.x, &convolution.w, &convolution.y];
    let pointers: Vec<Pointer> = tensors
        .iter()
        .zip(writes)
        .map(|(tensor, direction)| {
            if direction == convolution.direction {
                b.output(tensor.scalar)
            } else {
                b.pointer(tensor.scalar)
            }
        })
        .collect();
    let (down, across) = (m.div_ceil(tiling.rows()), n.div_ceil(tiling.columns()));
    let (workgroup, grid) = engine::groups(&mut b, down * across * convolution.groups)?;
    let (group, tile) = b.div_rem(workgroup, down * across);
    let (tile_row, tile_column) = engine::place(&mut b, tile, down, across);
    let firsts = [b.mul(tile_row, tiling.rows()), b.mul(tile_column, tiling.columns())];
    let places = [&rows, &columns]
        .map(|side| move |b: &mut Builder, own: Value, k: Value| side.element(b, convolution, group, own, k));
    let [of_rows, of_columns] = &places;
    let source = |side: &Side, first, place| Source {
        pointer: pointers.get(side.tensor).copied().unwrap_or(Pointer(0)),
        scalar: tensors.get(side.tensor).map_or(operand, |tensor| tensor.scalar),
        along: side.along,
        vector: side.vector,
        first,
        length: side.count(),
        place,
    };
    let sources =
        [source(&rows, firsts[0], of_rows as engine::Place<'_>), source(&columns, firsts[1], of_columns)];
    let main = Engine::new(&mut b, &tiling, sources, k);
    main.run(&mut b);
    let output = pointers
        .iter()
        .zip(writes)
        .find(|(_, direction)| *direction == convolution.direction)
        .map_or(Pointer(0), |(pointer, _)| *pointer);
    let width = columns.width;
    main.visit(&mut b, firsts, [m, n], width, &mut |b, row, column, values| {
        let down = rows.result(b, convolution, group, row);
        let across = columns.result(b, convolution, group, column);
        let at = b.add(down, across);
        engine::store(b, output, at, values, result.scalar);
    });
    Ok(Launch { kernel: b.finish(), grid })
}

#[cfg(test)]
mod tests;
