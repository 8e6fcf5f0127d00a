//! Convolutions and their gradients as products whose operands are gathered.

mod sides;

use crate::builder::Builder;
use crate::domain::{Epilogue, Finish};
use crate::form::{Pointer, Value};
use crate::product::engine::{self, Engine, Source};
use crate::product::plan::{Plan, Sharing, Work};
use crate::product::sums::Sums;
use crate::product::{Call, Launch, Launches, Passed, held_as, operand_type, passed_to};
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
/// Its tensors are x, w and y.
#[derive(Clone, Debug)]
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
    /// What is stored instead of y or the gradient of x; its domain are these.
    pub epilogue: Option<Epilogue>,
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

impl Convolution {
    /// The places of the operands and the result among x, w and y.
    fn places(&self) -> [usize; 3] {
        match self.direction {
            Direction::Forward => [0, 1, 2],
            Direction::Data => [2, 1, 0],
            Direction::Filter => [2, 0, 1],
        }
    }

    /// The tensor at a place among x, w and y.
    fn tensor(&self, place: usize) -> &Tensor {
        match place {
            0 => &self.x,
            1 => &self.w,
            _ => &self.y,
        }
    }
}

/// Writes the kernels of a convolution, whose tensors are x, w and y. Only if it `shares`, the order of additions depends on the number of
/// images.
///
/// # Errors
/// What is not supported.
pub fn write(
    convolution: &Convolution,
    target: &Target,
    name: &str,
    shares: bool,
) -> Result<Launches, String> {
    let [left, right, _] = convolution.places().map(|place| convolution.tensor(place));
    let operand = operand_type(left.scalar, right.scalar)
        .ok_or_else(|| format!("a convolution of {} and {}", left.scalar.name(), right.scalar.name()))?;
    let operand = held_as(operand, target);
    let [rows, columns] = sides(convolution);
    let (m, n, k) = (rows.count(), columns.count(), rows.depth());
    let gathered = convolution.direction != Direction::Filter;
    let batch = convolution.groups;
    let sharing = if shares {
        Sharing::Freely
    } else {
        let [rows, columns] = sides(&Convolution { batch: 1, ..convolution.clone() });
        Sharing::Like { m: rows.count(), n: columns.count(), batch }
    };
    let work = Work { m, n, k, batch, operand, gathered, sharing };
    write_as(convolution, target, name, &Plan::of(target, &work))
}

/// As [`write()`], in this way.
///
/// # Errors
/// What is not supported.
pub fn write_as(
    convolution: &Convolution,
    target: &Target,
    name: &str,
    plan: &Plan,
) -> Result<Launches, String> {
    let [rows, columns] = sides(convolution);
    let (m, n, parts) = (rows.count(), columns.count(), plan.parts);
    let sums = (parts.sharers() > 1).then_some(Sums {
        scalar: plan.tiling.shape.sum,
        parts,
        batches: convolution.groups,
        m,
        n,
    });
    let sides = [&rows, &columns];
    let width = width(convolution, &columns);
    let tiling = &plan.tiling;
    let mut b = Builder::new(name, tiling.threads(target), target);
    let places = [rows.tensor, columns.tensor];
    let pointers = places.map(|place| b.pointer(convolution.tensor(place).scalar));
    let (down, across) = (m.div_ceil(tiling.rows()), n.div_ceil(tiling.columns()));
    let of_part = down * across * convolution.groups;
    let (workgroup, grid) = engine::groups(&mut b, of_part * parts.sharers())?;
    // Workgroups that run together have the same part, so that they share operands.
    let (part, workgroup) =
        if parts.sharers() == 1 { (b.number(0), workgroup) } else { b.div_rem(workgroup, of_part) };
    let (group, tile) = b.div_rem(workgroup, down * across);
    let (tile_row, tile_column) = engine::place(&mut b, tile, down, across);
    let firsts = [b.mul(tile_row, tiling.rows()), b.mul(tile_column, tiling.columns())];
    let elements = [&rows, &columns]
        .map(|side| move |b: &mut Builder, own: Value, k: Value| side.element(b, convolution, group, own, k));
    let [of_rows, of_columns] = &elements;
    let source = |side: &Side, pointer, first, place| Source {
        pointer,
        scalar: convolution.tensor(side.tensor).scalar,
        along: side.along,
        vector: side.vector,
        // Neighbours of an image meet the window several times.
        near: side.is_seen_again(convolution),
        first,
        length: side.count(),
        place,
    };
    let sources = [
        source(&rows, pointers[0], firsts[0], of_rows as engine::Place<'_>),
        source(&columns, pointers[1], firsts[1], of_columns),
    ];
    let main = Engine::new(&mut b, tiling, sources, &parts, part);
    main.run(&mut b);
    let mut passed = places.map(Passed::Tensor).to_vec();
    match &sums {
        Some(sums) => {
            let output = b.output(sums.scalar);
            passed.push(Passed::Sums);
            main.visit(&mut b, firsts, [m, n], sums.width(), &mut |b, row, column, values| {
                sums.keep(b, output, [part, group], [row, column], values);
            });
        }
        None => {
            let (results, own) = Results::declare(&mut b, convolution, sides);
            passed.extend(own);
            main.visit(&mut b, firsts, [m, n], width, &mut |b, row, column, values| {
                results.store(b, group, [row, column], values);
            });
        }
    }
    let mut all = vec![Call { launch: Launch { kernel: b.finish(), grid }, passed }];
    if let Some(sums) = &sums {
        let mut b = Builder::new(format!("{name}_sum"), Sums::threads(target) as u32, target);
        let from = b.pointer(sums.scalar);
        let (results, passed) = Results::declare(&mut b, convolution, sides);
        let grid = sums.add(&mut b, from, width, &mut |b, group, row, column, values| {
            results.store(b, group, [row, column], values);
        })?;
        let passed = [vec![Passed::Sums], passed].concat();
        all.push(Call { launch: Launch { kernel: b.finish(), grid }, passed });
    }
    Ok(Launches { all, sums: sums.map(|sums| (sums.scalar, sums.count())) }.in_parts(parts.count))
}

/// How many neighbours along columns are stored together.
fn width(convolution: &Convolution, columns: &Side) -> usize {
    let (_, size) = columns.near(convolution);
    let mut width = columns.width;
    // An epilogue sees neighbours along one dimension.
    while convolution.epilogue.is_some() && !size.is_multiple_of(width) {
        width /= 2;
    }
    width
}

/// Where results go.
struct Results<'a> {
    convolution: &'a Convolution,
    sides: [&'a Side; 2],
    to: To<'a>,
}

enum To<'a> {
    /// Elements of a type.
    Memory(Pointer, Scalar),
    Epilogue(Finish<'a>),
}

impl<'a> Results<'a> {
    /// Also what is passed for them.
    fn declare(b: &mut Builder, convolution: &'a Convolution, sides: [&'a Side; 2]) -> (Self, Vec<Passed>) {
        let [.., place] = convolution.places();
        let scalar = convolution.tensor(place).scalar;
        let (to, passed) = match &convolution.epilogue {
            None => (To::Memory(b.output(scalar), scalar), vec![Passed::Tensor(place)]),
            Some(epilogue) => (To::Epilogue(epilogue.declare(b)), passed_to(epilogue)),
        };
        (Self { convolution, sides, to }, passed)
    }

    /// Stores neighbours of a row, from sums.
    fn store(&self, b: &mut Builder, group: Value, at: [Value; 2], values: &[Value]) {
        let [.., place] = self.convolution.places();
        let strides = &self.convolution.tensor(place).strides;
        let mut indices = vec![b.number(0); strides.len()];
        for (side, own) in self.sides.into_iter().zip(at) {
            for (axis, index) in side.indices(b, self.convolution, group, own) {
                if let Some(place) = indices.get_mut(axis) {
                    *place = index;
                }
            }
        }
        match &self.to {
            To::Memory(pointer, scalar) => {
                let mut at = b.number(0);
                for (index, stride) in indices.iter().zip(strides) {
                    let own = b.mul(*index, *stride);
                    at = b.add(at, own);
                }
                engine::store(b, *pointer, at, values, *scalar);
            }
            To::Epilogue(finish) => {
                let [_, columns] = self.sides;
                finish.store(b, &indices, columns.near(self.convolution).0, values);
            }
        }
    }
}

#[cfg(test)]
mod tests;
