//! Sizes and strides.

use hipdnn_plugin_planner::layout::Layout;
use hipdnn_plugin_sdk::graph::packed_strides;

/// The sizes and strides of a tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Size of each dimension.
    pub dims: Vec<i64>,
    /// Stride of each dimension in elements.
    pub strides: Vec<i64>,
}

/// A dense shape.
pub fn packed(dims: &[i64]) -> Shape {
    Shape { dims: dims.to_vec(), strides: packed_strides(dims) }
}

impl Shape {
    /// The last two dimensions swapped.
    pub fn transposed(mut self) -> Self {
        let last = self.dims.len();
        if last >= 2 {
            self.dims.swap(last - 2, last - 1);
            self.strides.swap(last - 2, last - 1);
        }
        self
    }

    pub(super) fn of(layout: &Layout) -> Self {
        // A layout's numbers fit the address space.
        let numbers = |values: &[usize]| values.iter().map(|value| *value as i64).collect();
        let mut shape = Self { dims: numbers(layout.dims()), strides: numbers(layout.strides()) };
        let extent = shape.extent();
        for (dim, stride) in shape.dims.iter().zip(&mut shape.strides) {
            if *dim == 1 && *stride == 0 {
                *stride = extent;
            }
        }
        shape
    }

    /// The stride of an additional outermost dimension.
    pub(super) fn extent(&self) -> i64 {
        let ends = self.dims.iter().zip(&self.strides).map(|(dim, stride)| dim * stride);
        ends.max().unwrap_or(1).max(1)
    }

    /// The dimensions selected by `axes`, in that order.
    pub(super) fn picked(&self, axes: &[usize]) -> Self {
        let pick = |values: &[i64]| axes.iter().filter_map(|axis| values.get(*axis).copied()).collect();
        if self.dims.len() != axes.len() {
            return self.clone();
        }
        Self { dims: pick(&self.dims), strides: pick(&self.strides) }
    }

    /// An image whose dimensions of 1 get the strides that this layout implies: cuDNN uses them to tell
    /// layouts apart.
    pub(super) fn lying(mut self, channels_last: bool) -> Self {
        let rank = self.dims.len();
        let mut axes: Vec<usize> = (0..rank).rev().collect();
        if channels_last && rank > 2 {
            // Channels innermost, batch outermost.
            axes.retain(|axis| *axis != 1);
            axes.insert(0, 1);
        }
        let mut next = 1;
        for axis in axes {
            if let (Some(dim), Some(stride)) = (self.dims.get(axis), self.strides.get_mut(axis)) {
                if *dim == 1 {
                    *stride = next;
                } else {
                    next = next.max(dim * *stride);
                }
            }
        }
        self
    }

    /// Matrices as images, with columns as channels.
    pub(super) fn into_image(self) -> Self {
        match (self.dims.as_slice(), self.strides.as_slice()) {
            (&[batch, rows, columns], &[step, row, column]) => {
                Self { dims: vec![batch, columns, rows, 1], strides: vec![step, column, row, row] }
            }
            _ => self,
        }
    }

    /// Prepends ones up to this rank.
    pub(super) fn lead(mut self, rank: usize) -> Self {
        let extent = self.extent();
        while self.dims.len() < rank {
            self.dims.insert(0, 1);
            self.strides.insert(0, extent);
        }
        self
    }
}
