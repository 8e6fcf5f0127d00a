//! The shape of a depthwise convolution.

use crate::problem::convolution::Convolution;
use crate::tensor::image::{Image, two};

/// The most spatial dimensions.
pub(crate) const SPATIAL: usize = 2;

/// The most elements of a filter.
pub(crate) const MAX_TAPS: usize = 1 << 10;

/// The most filters per channel for their gradients.
pub(crate) const MAX_MULTIPLIER: usize = 4;

/// The longest side of a filter for backward data with strides.
pub(crate) const MAX_SIDE: usize = 32;

/// The longest side of a padded image, so that no position overflows.
pub(crate) const LONGEST: usize = 1 << 28;

/// A convolution with two spatial dimensions; the first is 1 if there is only one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) batch: usize,
    /// Channels of the output, and their number per channel of the input.
    pub(crate) channels: usize,
    pub(crate) multiplier: usize,
    pub(crate) input: [usize; 2],
    pub(crate) output: [usize; 2],
    pub(crate) window: [usize; 2],
    pub(crate) stride: [usize; 2],
    /// The dilation of the input: in a backward pass, the convolution's strides.
    pub(crate) input_dilation: [usize; 2],
    pub(crate) dilation: [usize; 2],
    /// Rows and columns before the image; negative if the first windows begin inside.
    pub(crate) padding: [isize; 2],
    pub(crate) mirrored: bool,
    /// Spatial dimensions of the tensors.
    pub(crate) spatial: usize,
}

impl Shape {
    pub(crate) fn of(c: &Convolution) -> Self {
        let s = c.spatial;
        Self {
            batch: c.batch,
            channels: c.groups * c.out_channels,
            multiplier: c.out_channels,
            input: two(s, 1, &c.input),
            output: two(s, 1, &c.output),
            window: two(s, 1, &c.window),
            stride: two(s, 1, &c.stride),
            input_dilation: [1, 1],
            dilation: two(s, 1, &c.dilation),
            padding: two(s, 0, &c.pre_padding).map(|n| n as isize),
            mirrored: c.mirrored,
            spatial: s,
        }
    }

    /// The convolution for backward data: dy as its input, dilated by the strides, and strides of 1.
    pub(crate) fn backward_data(self) -> Self {
        let reach = |i: usize| ((self.window[i] - 1) * self.dilation[i]) as isize;
        Self {
            input: self.output,
            output: self.input,
            stride: [1, 1],
            input_dilation: self.stride,
            padding: [reach(0) - self.padding[0], reach(1) - self.padding[1]],
            mirrored: !self.mirrored,
            ..self
        }
    }

    /// Elements of a filter.
    pub(crate) fn taps(&self) -> usize {
        self.window[0] * self.window[1]
    }

    /// Offsets in bytes of the elements of a channel's filter, in image order, row by row.
    pub(crate) fn offsets<T>(&self, w: &Image<T>) -> Vec<usize> {
        let [rows, columns] = self.window;
        let position = |at: usize, len: usize| if self.mirrored { len - 1 - at } else { at };
        let offset =
            |i: usize, j: usize| position(i, rows) * w.strides[2] + position(j, columns) * w.strides[3];
        (0..self.taps()).map(|tap| offset(tap / columns, tap % columns) * w.run.size).collect()
    }

    /// The first row of the window for this row of the output, in the dilated input.
    pub(crate) fn first_row(&self, row: usize) -> isize {
        (row * self.stride[0]) as isize - self.padding[0]
    }

    /// The rows of the input that these rows of the output read.
    pub(crate) fn rows(&self, rows: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        let row =
            |position: isize| (position.max(0) as usize).div_ceil(self.input_dilation[0]).min(self.input[0]);
        let first = row(self.first_row(rows.start));
        let last = self.first_row(rows.end - 1) + ((self.window[0] - 1) * self.dilation[0]) as isize + 1;
        first..row(last).max(first)
    }

    /// The most input rows that this many output rows read.
    pub(crate) fn most_lines(&self, rows: usize) -> usize {
        ((rows - 1) * self.stride[0] + (self.window[0] - 1) * self.dilation[0] + 1).min(self.input[0])
    }

    /// Whether some window contains padding or gaps of dilated input.
    pub(crate) fn is_padded(&self) -> bool {
        (0..2).any(|i| {
            let last =
                ((self.output[i] - 1) * self.stride[i] + (self.window[i] - 1) * self.dilation[i]) as isize;
            self.input_dilation[i] > 1
                || self.padding[i] > 0
                || last - self.padding[i] >= self.input[i] as isize
        })
    }
}

/// The row or column of the image at a position in the dilated input; `None` in gaps and padding.
#[inline(always)]
pub(crate) fn index_of(position: isize, input_dilation: usize, len: usize) -> Option<usize> {
    if position < 0 {
        return None;
    }
    let index = position as usize / input_dilation;
    (index * input_dilation == position as usize && index < len).then_some(index)
}
