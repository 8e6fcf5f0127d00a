//! Reductions.

#![expect(clippy::indexing_slicing, reason = "every index is below a rank that is checked first")]

use hipdnn_plugin_sdk::graph::ReductionMode;

use super::{Operand, Operands};
use crate::Refusal;
use crate::layout::MAX_RANK;

/// A reduction whose shapes agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// How elements are combined; never `NotSet`.
    pub mode: ReductionMode,
    /// The input.
    pub x: Operand,
    /// The output, with x's dims except for 1 along the reduced dimensions.
    pub y: Operand,
    /// Whether each dimension is reduced; only x's dimensions have valid entries.
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
        if reduced == [false; MAX_RANK] {
            return Err(format!(
                "out: dims are {yd:?} as in in, expected 1 along a dimension where in has more"
            ));
        }
        Ok(Self { mode, x, y, reduced, count })
    }
}
