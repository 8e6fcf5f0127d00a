//! Pooling over windows of the spatial dimensions, and its gradient.

#![expect(clippy::indexing_slicing, reason = "every index is below a rank that is checked first")]

use hipdnn_plugin_sdk::graph::operation::{ResampleBackward, ResampleForward};
use hipdnn_plugin_sdk::graph::{DataType, PaddingMode, ResampleMode};

use super::convolution::{MAX_SPATIAL, parameters};
use super::{Operand, Operands};
use crate::Refusal;

/// How a window is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The maximum; among equal elements the first. Positions outside x count as zeros or are skipped.
    Maximum {
        /// Whether positions outside x count as zeros.
        zeros: bool,
    },
    /// The sum divided by the number of positions inside x, or by 1 if there are none.
    MeanInside,
    /// The sum divided by the number of positions in the window.
    MeanOfWindow,
}

/// A pooling or its gradient, whose shapes agree.
///
/// Along every spatial dimension, position `r` of the window of element `o` of y is element `o * stride + r -
/// pre_padding` of x, if it is inside x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resample {
    /// Whether dx is computed from dy.
    pub backward: bool,
    /// How a window is reduced.
    pub pooling: Pooling,
    /// x or its gradient, [batch, channels, input...].
    pub x: Operand,
    /// y or its gradient, [batch, channels, output...].
    pub y: Operand,
    /// The index of each maximum, with y's dims. `int32` and `int64` count in the plane of x as if it were
    /// dense, `int8` and `uint8` in the window; -1 (255 for `uint8`) means no maximum. Optional output of the
    /// forward pass; required by the gradient of a maximum.
    pub index: Option<Operand>,
    /// Number of spatial dimensions, and of valid entries in the arrays below.
    pub spatial: usize,
    /// Spatial dimensions of x.
    pub input: [usize; MAX_SPATIAL],
    /// Spatial dimensions of y.
    pub output: [usize; MAX_SPATIAL],
    /// Size of the window.
    pub window: [usize; MAX_SPATIAL],
    /// Stride of the window.
    pub stride: [usize; MAX_SPATIAL],
    /// Padding before x.
    pub pre_padding: [usize; MAX_SPATIAL],
}

/// The parameters of both directions.
struct Asked<'a> {
    backward: bool,
    names: [&'static str; 2],
    pre: &'a [i64],
    post: &'a [i64],
    stride: &'a [i64],
    window: &'a [i64],
    mode: ResampleMode,
    padding: PaddingMode,
    generate_index: bool,
}

impl Resample {
    /// The pooling. A refusal names the inconsistent argument, as for the gradient.
    pub(crate) fn forward(operands: &Operands<'_>, r: &ResampleForward) -> Result<Self, Refusal> {
        let asked = Asked {
            backward: false,
            names: ["x", "y"],
            pre: &r.pre_padding,
            post: &r.post_padding,
            stride: &r.stride,
            window: &r.window,
            mode: r.resample_mode,
            padding: r.padding_mode,
            generate_index: r.generate_index == Some(true),
        };
        Self::checked(&asked, operands)
    }

    /// The gradient of the input.
    pub(crate) fn backward(operands: &Operands<'_>, r: &ResampleBackward) -> Result<Self, Refusal> {
        let asked = Asked {
            backward: true,
            names: ["dx", "dy"],
            pre: &r.pre_padding,
            post: &r.post_padding,
            stride: &r.stride,
            window: &r.window,
            mode: r.resample_mode,
            padding: r.padding_mode,
            generate_index: false,
        };
        Self::checked(&asked, operands)
    }

    fn checked(asked: &Asked<'_>, operands: &Operands<'_>) -> Result<Self, Refusal> {
        let [x_name, y_name] = asked.names;
        let (x, y) = (operands.required(x_name)?, operands.required(y_name)?);
        let (xd, yd) = (x.layout.dims(), y.layout.dims());
        let rank = xd.len();
        if !(3..=MAX_SPATIAL + 2).contains(&rank) {
            return Err(format!(
                "{x_name}: dims {xd:?} has {rank} entries, expected batch, channels and 1 to {MAX_SPATIAL} spatial dimensions"
            ));
        }
        if yd.len() != rank {
            return Err(format!(
                "{y_name}: dims {yd:?} has {} entries, expected {rank} as in {x_name}",
                yd.len()
            ));
        }
        let pooling = match (asked.mode, asked.padding) {
            (ResampleMode::NotSet, _) => {
                return Err(
                    "resample_mode: is not_set, expected maxpool or one of the two averages".to_owned()
                );
            }
            (ResampleMode::Maxpool, padding) => Pooling::Maximum { zeros: padding != PaddingMode::NegInfPad },
            (ResampleMode::AvgpoolExcludePadding, _) => Pooling::MeanInside,
            (ResampleMode::AvgpoolIncludePadding, _) => Pooling::MeanOfWindow,
        };
        let spatial = rank - 2;
        let mut resample = Self {
            backward: asked.backward,
            pooling,
            x,
            y,
            index: None,
            spatial,
            input: [1; MAX_SPATIAL],
            output: [1; MAX_SPATIAL],
            window: parameters("window", asked.window, spatial, 1)?,
            stride: parameters("stride", asked.stride, spatial, 1)?,
            pre_padding: parameters("pre_padding", asked.pre, spatial, 0)?,
        };
        let post_padding = parameters("post_padding", asked.post, spatial, 0)?;
        for axis in 0..2 {
            if yd[axis] != xd[axis] {
                return Err(format!(
                    "{y_name}: dims[{axis}] is {}, expected {} as in {x_name}",
                    yd[axis], xd[axis]
                ));
            }
        }
        for axis in 0..spatial {
            let (input, output) = (xd[axis + 2], yd[axis + 2]);
            resample.input[axis] = input;
            resample.output[axis] = output;
            resample.check_axis(axis, post_padding[axis], asked.names)?;
        }
        resample.index = resample.index(asked, operands.optional("index")?)?;
        Ok(resample)
    }

    fn check_axis(&self, axis: usize, post: usize, [x_name, y_name]: [&str; 2]) -> Result<(), Refusal> {
        let (input, pre) = (self.input[axis], self.pre_padding[axis]);
        let (window, stride) = (self.window[axis], self.stride[axis]);
        let padded = input
            .checked_add(pre)
            .and_then(|n| n.checked_add(post))
            .ok_or_else(|| format!("spatial dimension {axis}: paddings {pre} and {post} overflow"))?;
        if window > padded {
            return Err(format!(
                "window[{axis}]: is {window}, expected at most the {padded} of {x_name} with its padding"
            ));
        }
        let output = (padded - window) / stride + 1;
        if self.output[axis] != output {
            return Err(format!(
                "{y_name}: dims[{}] is {}, expected {output} = ({input} + {pre} + {post} - {window}) / {stride} + 1",
                axis + 2,
                self.output[axis]
            ));
        }
        Ok(())
    }

    fn index(&self, asked: &Asked<'_>, index: Option<Operand>) -> Result<Option<Operand>, Refusal> {
        let is_maximum = matches!(self.pooling, Pooling::Maximum { .. });
        let Some(operand) = index else {
            return match (is_maximum, asked.backward, asked.generate_index) {
                (true, true, _) => {
                    Err("index: absent, expected the indices that maxpool wrote in the forward pass"
                        .to_owned())
                }
                (_, false, true) => {
                    Err("index: absent, expected a tensor because generate_index is set".to_owned())
                }
                _ => Ok(None),
            };
        };
        if !is_maximum {
            return Err(format!("index: given, but {} has none", asked.mode.name()));
        }
        if operand.layout.dims() != self.y.layout.dims() {
            return Err(format!(
                "index: dims are {:?}, expected {:?} as in {}",
                operand.layout.dims(),
                self.y.layout.dims(),
                asked.names[1]
            ));
        }
        self.check_count(asked, operand.data_type)?;
        Ok(Some(operand))
    }

    /// Checks that the index type is large enough.
    fn check_count(&self, asked: &Asked<'_>, data_type: DataType) -> Result<(), Refusal> {
        let of_window = |most: usize| {
            let positions: f64 = self.window[..self.spatial].iter().map(|side| *side as f64).product();
            if positions <= most as f64 {
                return Ok(());
            }
            let window = &self.window[..self.spatial];
            let name = data_type.name();
            Err(format!(
                "window: is {window:?}, expected at most {most} positions, so that {name} can count them"
            ))
        };
        match data_type {
            DataType::Int8 => of_window(128),
            // 255 means no maximum.
            DataType::Uint8 => of_window(255),
            DataType::Int64 => Ok(()),
            DataType::Int32 => {
                let plane: usize = self.input[..self.spatial].iter().product();
                if i32::try_from(plane).is_ok() {
                    return Ok(());
                }
                Err(format!(
                    "{}: dims are {:?}, expected at most {} elements in a plane, so that int32 can count them",
                    asked.names[0],
                    self.x.layout.dims(),
                    i32::MAX
                ))
            }
            other => {
                Err(format!("index: data type is {}, expected int32, int64, int8 or uint8", other.name()))
            }
        }
    }

    /// Whether the index counts positions in the window rather than elements of a plane.
    pub fn index_is_of_window(&self) -> bool {
        self.index.is_some_and(|index| matches!(index.data_type, DataType::Int8 | DataType::Uint8))
    }

    /// Whether there is an index of a type other than `int32`.
    pub fn has_other_index(&self) -> bool {
        self.index.is_some_and(|index| index.data_type != DataType::Int32)
    }
}
