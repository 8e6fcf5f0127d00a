//! Many elements that become one.

#![expect(clippy::indexing_slicing, reason = "every index is below a rank that is checked first")]

use hipdnn_plugin_sdk::graph::ReductionMode;

use super::{Operand, Operands};
use crate::Refusal;
use crate::layout::MAX_RANK;

/// A reduction whose shapes agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// How elements become one; never `NotSet`.
    pub mode: ReductionMode,
    /// The input.
    pub x: Operand,
    /// The result, of x's dims, but 1 along the dimensions that are reduced.
    pub y: Operand,
    /// Whether each dimension is reduced. As many entries count as x has dimensions.
    pub reduced: [bool; MAX_RANK],
    /// How many elements become one.
    pub count: usize,
}

impl Reduction {
    /// The reduction. The refusal names the argument that does not fit the others.
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
