//! The thread pool ([`pool`]), that of the process's OpenMP runtime (`openmp`) or one that a program lends (`lent`), the division of
//! work among workers ([`partition`]), and the processors that they run on ([`affinity`]). Nothing here knows of tensors.

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
