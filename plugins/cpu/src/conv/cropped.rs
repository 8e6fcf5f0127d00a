//! Crops filters that only partly meet the image: drops elements that lie in the padding for every output.

use hipdnn_plugin_sdk::graph::Tensor;

use crate::conv::shifted::Shifted;
use crate::kernel::{Kernel, MAX_TENSORS, Refusal};
use crate::layout::{Layout, element_bits};
use crate::problem::convolution::{Convolution, Direction};

/// A convolution with the part of its filter that meets the image.
pub(crate) struct Crop {
    pub(crate) convolution: Convolution,
    /// Bytes from the filter's first element to that of the cropped filter.
    offset: usize,
}

/// The elements of the window along a dimension that meet the image at some output.
fn part(c: &Convolution, axis: usize) -> std::ops::Range<usize> {
    let (pre, stride, dilation) = (c.pre_padding[axis], c.stride[axis], c.dilation[axis]);
    let last = (c.output[axis] - 1).saturating_mul(stride);
    let first = pre.saturating_sub(last).div_ceil(dilation).min(pre / dilation);
    let end = (c.input[axis] - 1).saturating_add(pre) / dilation + 1;
    // At least one element, even if it only meets padding.
    let first = first.min(c.window[axis] - 1);
    first..end.clamp(first + 1, c.window[axis])
}

impl Crop {
    /// The convolution with the cropped filter; `None` if every element meets the image.
    pub(crate) fn of(c: &Convolution) -> Result<Option<Self>, Refusal> {
        let bits = element_bits(c.w.data_type)?;
        let is_whole = (0..c.spatial).all(|axis| part(c, axis) == (0..c.window[axis]));
        // Backward weights must write zeros in the rest.
        if is_whole || c.direction == Direction::BackwardFilter || bits < 8 {
            return Ok(None);
        }
        let mut convolution = *c;
        let strides = c.w.layout.strides();
        let mut dims: Vec<i64> = c.w.layout.dims().iter().map(|dim| *dim as i64).collect();
        let mut elements = 0;
        for axis in 0..c.spatial {
            let part = part(c, axis);
            let in_memory = if c.mirrored { c.window[axis] - part.end } else { part.start };
            elements += in_memory * strides[2 + axis];
            dims[2 + axis] = part.len() as i64;
            convolution.window[axis] = part.len();
            convolution.pre_padding[axis] -= part.start * c.dilation[axis];
        }
        let strides: Vec<i64> = strides.iter().map(|stride| *stride as i64).collect();
        convolution.w.layout = Layout::of(&Tensor::new(0, c.w.data_type, &dims, &strides))?;
        Ok(Some(Self { convolution, offset: elements * (bits / 8) }))
    }

    /// Wraps the kernel of the cropped convolution for the whole one.
    pub(crate) fn around(&self, kernel: Box<dyn Kernel>) -> Box<dyn Kernel> {
        let mut offsets = [0; MAX_TENSORS];
        offsets[self.convolution.w.slot] = self.offset;
        Box::new(Shifted { kernels: vec![kernel], runs: vec![(0, offsets)], parts: String::new() })
    }
}
