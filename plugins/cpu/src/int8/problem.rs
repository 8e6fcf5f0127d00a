//! An int8 product as the kernel sees it: rows of terms times columns of weights.
//!
//! A row belongs to a position of the result: a matrix row, or an output of a convolution, whose terms are
//! the elements of its window. Columns are those of operand B, or output channels. Along the axes of groups
//! both operands change, like the groups of a convolution or a batch of matrices.

use hipdnn_plugin_sdk::graph::DataType;

use crate::kernel::Refusal;
use crate::layout::MAX_RANK;
use crate::problem::Operand;
use crate::problem::convolution::{Convolution, Direction};
use crate::problem::matmul::Matmul;

/// With at most this many terms, a sum of products of byte differences stays below 2³¹.
pub(crate) const MAX_TERMS: usize = 1 << 15;

/// The most spatial dimensions of a window.
pub(crate) const WINDOW: usize = 3;

/// An axis of positions, or of groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) size: usize,
    /// Strides in x, in the weights and in the result.
    pub(crate) x: usize,
    pub(crate) w: usize,
    pub(crate) y: usize,
    /// The stride in the residual.
    pub(crate) added: usize,
    /// The stride of columns in their parameters.
    pub(crate) columns: usize,
    /// The dimension of the result.
    pub(crate) of: usize,
}

/// The window along one spatial dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) size: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    pub(crate) padding: usize,
    /// Elements of x.
    pub(crate) input: usize,
    /// Strides in x and in the weights.
    pub(crate) x: usize,
    pub(crate) w: usize,
}

impl Window {
    const NONE: Self = Self { size: 1, stride: 1, dilation: 1, padding: 0, input: 1, x: 0, w: 0 };

    /// Whether it is trivial: each output has the input at its own position.
    fn is_trivial(&self) -> bool {
        self.size == 1 && self.padding == 0
    }
}

/// An operand: its slot, its type, and the strides of channels (terms) and of columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) slot: usize,
    pub(crate) is_signed: bool,
    pub(crate) channel: usize,
    pub(crate) column: usize,
}

/// y = x · w.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) x: Side,
    pub(crate) w: Side,
    pub(crate) y: Operand,
    /// The stride of columns in y, and the dimension of y along which they lie.
    pub(crate) y_column: usize,
    pub(crate) column_axis: usize,
    /// The groups' axes, outermost first.
    pub(crate) groups: Vec<Axis>,
    pub(crate) positions: Vec<Axis>,
    /// The windows along the last positions, if there are any.
    pub(crate) windows: Option<[Window; WINDOW]>,
    /// Terms per element of the window.
    pub(crate) channels: usize,
    pub(crate) columns: usize,
    /// Whether the weights are mirrored.
    pub(crate) mirrored: bool,
}

/// Whether a byte type is signed; fails for other types.
pub(crate) fn signed(data_type: DataType) -> Result<bool, Refusal> {
    match data_type {
        DataType::Int8 => Ok(true),
        DataType::Uint8 => Ok(false),
        other => Err(format!("an operand is {}, expected int8 or uint8", other.name())),
    }
}

impl Problem {
    /// A matrix multiplication.
    pub(crate) fn of_matmul(p: &Matmul) -> Result<Self, Refusal> {
        let (a, b, c) = (p.a.layout.strides(), p.b.layout.strides(), p.c.layout.strides());
        let (row, column) = (p.batch, p.batch + 1);
        let mut groups = Vec::new();
        let mut positions = Vec::new();
        for of in 0..p.batch {
            let size = p.c.layout.dims()[of];
            let (a_share, b_share) = (p.a_share[of], p.b_share[of]);
            if size == 1 {
                continue;
            }
            if b_share == size && a_share == 1 {
                // All share one matrix B, so these are rows.
                positions.push(Axis { size, x: a[of], w: 0, y: c[of], added: 0, columns: 0, of });
                continue;
            }
            if (a_share != 1 && a_share != size) || (b_share != 1 && b_share != size) {
                return Err("matrices are shared along a part of a batch dimension".to_owned());
            }
            let stride = |share: usize, stride: usize| if share == 1 { stride } else { 0 };
            groups.push(Axis {
                size,
                x: stride(a_share, a[of]),
                w: stride(b_share, b[of]),
                y: c[of],
                added: 0,
                columns: 0,
                of,
            });
        }
        positions.push(Axis { size: p.m, x: a[row], w: 0, y: c[row], added: 0, columns: 0, of: row });
        let side = |operand: &Operand, channel, column| {
            Ok::<_, Refusal>(Side {
                slot: operand.slot,
                is_signed: signed(operand.data_type)?,
                channel,
                column,
            })
        };
        let problem = Self {
            x: side(&p.a, a[column], 0)?,
            w: side(&p.b, b[row], b[column])?,
            y: p.c,
            y_column: c[column],
            column_axis: column,
            groups,
            positions,
            windows: None,
            channels: p.k,
            columns: p.n,
            mirrored: false,
        };
        problem.checked()
    }

    /// A forward convolution.
    pub(crate) fn of_convolution(c: &Convolution) -> Result<Self, Refusal> {
        if c.direction != Direction::Forward {
            return Err("it is a gradient".to_owned());
        }
        if c.spatial > WINDOW {
            return Err(format!("{} spatial dimensions, expected at most {WINDOW}", c.spatial));
        }
        if c.in_channels == 1 && c.groups > 1 {
            return Err("one input channel in a group".to_owned());
        }
        let (x, w, y) = (c.x.layout.strides(), c.w.layout.strides(), c.y.layout.strides());
        let mut positions = vec![Axis { size: c.batch, x: x[0], w: 0, y: y[0], added: 0, columns: 0, of: 0 }];
        let mut windows = [Window::NONE; WINDOW];
        let mut is_padded = false;
        for i in 0..c.spatial {
            let window = Window {
                size: c.window[i],
                stride: c.stride[i],
                dilation: c.dilation[i],
                padding: c.pre_padding[i],
                input: c.input[i],
                x: x[2 + i],
                w: w[2 + i],
            };
            let reach = (c.output[i] - 1) * window.stride + (window.size - 1) * window.dilation;
            is_padded |= window.padding > 0 || reach >= window.input;
            windows[WINDOW - c.spatial + i] = window;
            positions.push(Axis {
                size: c.output[i],
                x: x[2 + i] * c.stride[i],
                w: 0,
                y: y[2 + i],
                added: 0,
                columns: 0,
                of: 2 + i,
            });
        }
        let groups = vec![Axis {
            size: c.groups,
            x: c.in_channels * x[1],
            w: c.out_channels * w[0],
            y: c.out_channels * y[1],
            added: 0,
            columns: c.out_channels,
            of: 1,
        }];
        let problem = Self {
            x: Side { slot: c.x.slot, is_signed: signed(c.x.data_type)?, channel: x[1], column: 0 },
            w: Side { slot: c.w.slot, is_signed: signed(c.w.data_type)?, channel: w[1], column: w[0] },
            y: c.y,
            y_column: y[1],
            column_axis: 1,
            groups: if c.groups == 1 { Vec::new() } else { groups },
            positions,
            windows: (is_padded || !windows.iter().all(Window::is_trivial)).then_some(windows),
            channels: c.in_channels,
            columns: c.out_channels,
            mirrored: c.mirrored,
        };
        problem.checked()
    }

    fn checked(self) -> Result<Self, Refusal> {
        if self.terms() > MAX_TERMS {
            return Err(format!("{} terms, expected at most {MAX_TERMS}", self.terms()));
        }
        Ok(self)
    }

    /// Elements of the window.
    pub(crate) fn taps(&self) -> usize {
        self.windows.map_or(1, |windows| windows.iter().map(|window| window.size).product())
    }

    /// Terms of a sum.
    pub(crate) fn terms(&self) -> usize {
        self.channels * self.taps()
    }

    /// Positions.
    pub(crate) fn rows(&self) -> usize {
        self.positions.iter().map(|axis| axis.size).product()
    }

    /// Groups.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.iter().map(|axis| axis.size).product()
    }

    /// The position of a group.
    pub(crate) fn group(&self, index: usize) -> Group {
        let mut group = Group::default();
        let mut rest = index;
        for axis in self.groups.iter().rev() {
            let at = rest % axis.size;
            rest /= axis.size;
            group.x += at * axis.x;
            group.w += at * axis.w;
            group.y += at * axis.y;
            group.added += at * axis.added;
            group.columns += at * axis.columns;
        }
        group
    }

    /// Adds a residual with these strides along the dimensions of the result.
    pub(crate) fn add(&mut self, strides: &[usize; MAX_RANK]) {
        for axis in self.groups.iter_mut().chain(&mut self.positions) {
            axis.added = strides[axis.of] * axis.columns.max(1);
        }
    }

    /// Merges neighbouring axes of positions that are contiguous in every tensor. Not for windows.
    pub(crate) fn merge(&mut self) {
        if self.windows.is_some() {
            return;
        }
        self.positions.retain(|axis| axis.size > 1);
        let mut merged: Vec<Axis> = Vec::new();
        for axis in self.positions.drain(..) {
            match merged.last_mut() {
                Some(outer)
                    if [(outer.x, axis.x), (outer.y, axis.y), (outer.added, axis.added)]
                        .iter()
                        .all(|(outer, inner)| *outer == inner * axis.size) =>
                {
                    *outer = Axis { size: outer.size * axis.size, ..axis };
                }
                _ => merged.push(axis),
            }
        }
        self.positions = merged;
    }

    /// The offset of an element of the window in the weights.
    pub(crate) fn tap(&self, tap: usize) -> usize {
        let Some(windows) = &self.windows else { return 0 };
        let mut rest = tap;
        let mut offset = 0;
        for window in windows.iter().rev() {
            let at = rest % window.size;
            rest /= window.size;
            offset += window.w * if self.mirrored { window.size - 1 - at } else { at };
        }
        offset
    }
}

/// Offsets of a group in x, in the weights, in y and in the residual, and its first column overall.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Group {
    pub(crate) x: usize,
    pub(crate) w: usize,
    pub(crate) y: usize,
    pub(crate) added: usize,
    pub(crate) columns: usize,
}
