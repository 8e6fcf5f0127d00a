//! The parts of forward attention that a worker computes at a time.

use std::ops::Range;

use crate::attention::scores::VisibleKeys;
use crate::attention::shared::sequences::Sequence;
use crate::attention::softmax::RowStatistics;

/// Queries of a head that are computed together.
pub(crate) struct Panel<T> {
    /// The queries.
    pub(crate) queries: Range<usize>,
    /// How many there are, rounded up to whole vectors.
    pub(crate) columns: usize,
    pub(crate) seen: VisibleKeys,
    /// The queries as columns.
    pub(crate) q: *mut T,
    pub(crate) results: *mut T,
    pub(crate) statistics: RowStatistics<T>,
}

/// Panels of a head that share blocks of keys.
pub(crate) struct Part<'a> {
    pub(crate) tensors: &'a [*mut u8],
    pub(crate) sequence: Sequence,
    pub(crate) head: usize,
    pub(crate) panels: Range<usize>,
}
