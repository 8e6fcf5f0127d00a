//! Some rows of the output in some channels, and the loops over them.

use crate::depthwise::epilogue::{Coefficients, Registers};
use crate::depthwise::shape::Shape;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, has_special_cases};

/// Rows of the output that share loads of the input: most image sides are multiples of it.
pub(crate) const ROWS: usize = 7;

/// The same for filters of any size.
const ROWS_OF_ANY: usize = 4;

/// Some rows of the output of some channels, and their operands.
#[derive(Clone)]
pub(crate) struct Band<T> {
    pub(crate) shape: Shape,
    /// The number of channels, and their strides in the image, the output and the filters.
    pub(crate) channels: usize,
    pub(crate) channel_strides: [usize; 3],
    /// The image, addressed from row 0, and the stride of its rows.
    pub(crate) input: *const T,
    pub(crate) input_row: usize,
    /// The first of the rows of the output, their stride, and their range.
    pub(crate) output: *mut T,
    pub(crate) output_row: usize,
    pub(crate) rows: std::ops::Range<usize>,
    /// The filter, row by row.
    pub(crate) taps: *const T,
    /// With dilated input, [`room`](crate::depthwise::dilated::room) for a row.
    pub(crate) phases: *mut T,
    /// The epilogue in registers, and its coefficients for each channel.
    pub(crate) registers: Registers<T>,
    pub(crate) coefficients: *const Coefficients<T>,
}

/// The loops for a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// 3 × 3 filters without dilation, with stride 1 or 2 in both directions.
    Three,
    ThreeByTwo,
    /// 5 × 5 filters.
    Five,
    FiveByTwo,
    /// 7 × 7 filters with stride 1.
    Seven,
    /// All others.
    Any,
    /// Dilated input.
    Dilated,
    /// Input dilated by 2 in both directions, and 3 × 3 filters that begin on a gap in both directions.
    ThreeDilated,
}

impl Form {
    /// The loops for a convolution by vectors of an instruction set.
    pub(crate) fn of<T: Float>(shape: &Shape, isa: Isa) -> Self {
        if !has_special_cases::<T>(isa) {
            return if shape.input_dilation == [1, 1] { Self::Any } else { Self::Dilated };
        }
        if shape.input_dilation != [1, 1] {
            let is_beside = shape.padding.iter().all(|n| n.rem_euclid(2) == 1);
            let is_three = (shape.dilation, shape.window, shape.input_dilation) == ([1, 1], [3, 3], [2, 2]);
            return if is_three && is_beside { Self::ThreeDilated } else { Self::Dilated };
        }
        match (shape.dilation, shape.window, shape.stride) {
            ([1, 1], [3, 3], [1, 1]) => Self::Three,
            ([1, 1], [3, 3], [2, 2]) => Self::ThreeByTwo,
            ([1, 1], [5, 5], [1, 1]) => Self::Five,
            ([1, 1], [5, 5], [2, 2]) => Self::FiveByTwo,
            ([1, 1], [7, 7], [1, 1]) => Self::Seven,
            _ => Self::Any,
        }
    }

    /// Rows of the output that share loads of the input.
    pub(crate) fn rows(self) -> usize {
        match self {
            Self::Any | Self::Dilated | Self::ThreeDilated => ROWS_OF_ANY,
            _ => ROWS,
        }
    }
}
