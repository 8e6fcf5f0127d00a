//! The thread pool and the division of work among its workers. Nothing here knows of tensors.

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned; checks in the loops would hide nothing but cost time"
)]

pub mod affinity;
pub mod partition;
pub mod pool;
