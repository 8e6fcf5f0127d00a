//! Reductions.

#![expect(clippy::indexing_slicing, reason = "every index is below a rank that is checked first")]

use hipdnn_plugin_sdk::graph::{PointwiseMode, ReductionMode};

use super::pointwise::{Activation, Broadcast, Pointwise};
use super::{Operand, Operands};
use crate::Refusal;
use crate::layout::MAX_RANK;

/// A reduction whose shapes agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// How elements are combined; never `NotSet`. Of single elements, `Max` for their value and `Amax` for
    /// its magnitude, which need no sums, squares or roots, or `MulNoZeros`.
    pub mode: ReductionMode,
    /// The input.
    pub x: Operand,
    /// The output, with x's dims except for 1 along the reduced dimensions.
    pub y: Operand,
    /// Whether each dimension is reduced; only x's dimensions have valid entries. None is where the
    /// dimensions to reduce are 1 in x, too.
    pub reduced: [bool; MAX_RANK],
    /// How many elements are combined into one.
    pub count: usize,
}

impl Reduction {
    /// The reduction. A refusal names the inconsistent argument.
    pub(crate) fn of(operands: &Operands<'_>, mode: ReductionMode) -> Result<Self, Refusal> {
        if mode == ReductionMode::NotSet {
            return Err("mode: is not_set, expected a reduction mode".to_owned());
        }
        let (x, y) = (operands.required("in")?, operands.required("out")?);
        let (xd, yd) = (x.layout.dims(), y.layout.dims());
        if xd.len() != yd.len() {
            return Err(format!("out: dims {yd:?} has {} entries, expected {} as in in", yd.len(), xd.len()));
        }
        let mut reduced = [false; MAX_RANK];
        let mut count = 1;
        for (axis, (dim, left)) in xd.iter().zip(yd).enumerate() {
            if left == dim {
                continue;
            }
            if *left != 1 {
                return Err(format!("out: dims[{axis}] is {left}, expected {dim} as in in, or 1"));
            }
            reduced[axis] = true;
            count *= dim;
        }
        if reduced == [false; MAX_RANK] && !xd.contains(&1) {
            return Err(format!("out: dims are {yd:?} as in in, expected 1 along the dimensions to reduce"));
        }
        let mode = match mode {
            _ if reduced != [false; MAX_RANK] => mode,
            ReductionMode::MulNoZeros => mode,
            ReductionMode::Amax | ReductionMode::Norm1 | ReductionMode::Norm2 => ReductionMode::Amax,
            _ => ReductionMode::Max,
        };
        Ok(Self { mode, x, y, reduced, count })
    }

    /// Whether each result is made of a single element.
    pub fn is_of_single(&self) -> bool {
        self.reduced == [false; MAX_RANK]
    }

    /// The copy, or the magnitudes, that a reduction of single elements is; `None` for other reductions, and
    /// where zeros count as 1.
    pub fn as_pointwise(&self) -> Option<Pointwise> {
        let mode = match self.mode {
            _ if !self.is_of_single() => return None,
            ReductionMode::MulNoZeros => return None,
            ReductionMode::Amax => PointwiseMode::Abs,
            _ => PointwiseMode::Identity,
        };
        let mut strides = [0; MAX_RANK];
        let layout = &self.x.layout;
        for (to, (dim, stride)) in strides.iter_mut().zip(layout.dims().iter().zip(layout.strides())) {
            *to = if *dim == 1 { 0 } else { *stride };
        }
        let inputs = vec![Broadcast { operand: self.x, strides }];
        Some(Pointwise { mode, inputs, output: self.y, axis: 0, activation: Activation::default() })
    }
}
