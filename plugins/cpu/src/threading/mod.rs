//! Threads: the engine's pool ([`pool`]), the process's OpenMP runtime (`openmp`) or a pool lent by the
//! program (`lent`); the partition of work ([`partition`]), and processor affinity ([`affinity`]). Nothing
//! here knows of tensors.

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned; checks in the loops would hide nothing but cost time"
)]

pub mod affinity;
pub(crate) mod lent;
pub(crate) mod openmp;
pub mod partition;
pub mod pool;
pub mod queue;
pub(crate) mod sync;
