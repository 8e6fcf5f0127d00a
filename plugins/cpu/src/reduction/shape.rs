//! A planned reduction.

use hipdnn_plugin_sdk::graph::ReductionMode;

use crate::dtype::element::{Compute, Element};
use crate::gemm::pack::Pack;
use crate::simd::isa::Isa;
use crate::tensor::loop_nest::LoopNest;
use crate::tensor::row_converter::RowConverter;
use crate::threading::partition::Workers;

/// Values of a buffer for elements not read in place, and columns that are reduced together.
pub(crate) const BUFFER: usize = 1024;

/// Values that begin with a cache line: vectors that cross two lines take twice as long.
#[repr(align(64))]
pub(crate) struct Buffer<T, const N: usize>(pub(crate) [T; N]);

/// A planned reduction.
pub(crate) struct Shape<T> {
    pub(crate) isa: Isa,
    pub(crate) workers: Workers,
    pub(crate) mode: ReductionMode,
    /// Elements per result.
    pub(crate) count: usize,
    pub(crate) x_slot: usize,
    pub(crate) run: RowConverter<T>,
    /// Whether the fastest dimension is reduced.
    pub(crate) by_rows: bool,
    /// Transposes short rows.
    pub(crate) pack: Option<Pack<T>>,
    /// How many results of a task are computed together, if not row by row.
    pub(crate) block: usize,
    /// Whether the innermost elements are read in place.
    pub(crate) direct: bool,
    /// Whether they are contiguous values of single precision, and totals are not.
    pub(crate) widens: bool,
    pub(crate) y_slot: usize,
    /// The type to which results are rounded before they are stored.
    pub(crate) compute: Compute,
    /// Writes elements of y from single and from double precision.
    pub(crate) y_single: Element<f32>,
    pub(crate) y_double: Element<f64>,
    /// The loops over the results, in x and y.
    pub(crate) kept: LoopNest<2>,
    /// The loops over the elements of one result, in x.
    pub(crate) reduced: LoopNest<2>,
    pub(crate) outputs: usize,
    /// Tasks of each part.
    pub(crate) tasks: usize,
    /// Parts into which the elements of a result are divided.
    pub(crate) parts: usize,
}

/// Some results or blocks of columns, or parts of them.
pub(crate) struct Task<'a, T> {
    pub(crate) shape: &'a Shape<T>,
    pub(crate) tensors: &'a [*mut u8],
    pub(crate) scratch: *mut f64,
    pub(crate) tasks: std::ops::Range<usize>,
}
