//! Some rows of the output of some channels, and the forms of the loops over them.

use crate::depthwise::shape::Shape;

/// Rows of the output that are computed together, and share rows of the input, with windows of 3 by 3: the sides of most images are
/// multiples of it.
pub(crate) const ROWS_OF_THREE: usize = 7;

/// The same with windows of 5 by 5.
pub(crate) const ROWS_OF_FIVE: usize = 4;

/// Some rows of the output of some channels, and what they are made of.
#[derive(Clone)]
pub(crate) struct Band<T> {
    /// How many channels, and how far these are apart in the image, in the output and in the windows.
    pub(crate) channels: usize,
    pub(crate) steps: [usize; 3],
    /// The image, as if it began with row 0, and the distance of its rows.
    pub(crate) input: *const T,
    pub(crate) input_row: usize,
    /// Its rows and columns.
    pub(crate) size: [usize; 2],
    /// The first of the output's rows that are computed, the distance of its rows, and which rows these are.
    pub(crate) output: *mut T,
    pub(crate) output_row: usize,
    pub(crate) rows: std::ops::Range<usize>,
    /// Columns of the output.
    pub(crate) columns: usize,
    /// The window, row by row.
    pub(crate) taps: *const T,
    pub(crate) window: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    pub(crate) padding: [isize; 2],
    /// How far the image's rows and columns are apart where windows meet them, and [`room`](crate::depthwise::gaps::room) for a row where they are.
    pub(crate) input_dilation: [usize; 2],
    pub(crate) between: *mut T,
    /// For each channel what a sum is multiplied with and what is added to it, and where sums end.
    pub(crate) ends: *const [T; 2],
    pub(crate) bounds: Option<(T, T)>,
}

/// The forms of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Windows of 3 by 3 neighbours, the step in both directions 1 or 2.
    Three,
    ThreeByTwo,
    /// Windows of 5 by 5 neighbours.
    Five,
    FiveByTwo,
    /// All others.
    Any,
    /// Images with gaps.
    Apart,
    /// The same with every other row and column a gap, of windows of 3 by 3 neighbours, the first of which begins beside an element of the
    /// image in both directions.
    ThreeApart,
}

impl Form {
    /// The form for a convolution.
    pub(crate) fn of(shape: &Shape) -> Self {
        if shape.input_dilation != [1, 1] {
            let is_beside = shape.padding.iter().all(|n| n.rem_euclid(2) == 1);
            let is_three = (shape.dilation, shape.window, shape.input_dilation) == ([1, 1], [3, 3], [2, 2]);
            return if is_three && is_beside { Self::ThreeApart } else { Self::Apart };
        }
        match (shape.dilation, shape.window, shape.stride) {
            ([1, 1], [3, 3], [1, 1]) => Self::Three,
            ([1, 1], [3, 3], [2, 2]) => Self::ThreeByTwo,
            ([1, 1], [5, 5], [1, 1]) => Self::Five,
            ([1, 1], [5, 5], [2, 2]) => Self::FiveByTwo,
            _ => Self::Any,
        }
    }

    /// Rows of the output that are computed together.
    pub(crate) fn rows(self) -> usize {
        match self {
            Self::Three | Self::ThreeByTwo => ROWS_OF_THREE,
            _ => ROWS_OF_FIVE,
        }
    }
}
