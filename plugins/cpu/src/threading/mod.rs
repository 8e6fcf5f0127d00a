//! Threads: the engine's pool ([`pool`]), the process's OpenMP runtime (`openmp`) or a pool lent by the
//! program (`lent`), which may run its own loops on all of them (`run_parallel`) and stop executions (`stop`); the partition of work ([`partition`]), and processor affinity ([`affinity`]). Nothing
//! here knows of tensors.

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub mod affinity;
pub(crate) mod lent;
pub(crate) mod openmp;
pub mod partition;
pub mod pool;
pub mod queue;
pub(crate) mod region;
pub(crate) mod run_parallel;
pub(crate) mod stop;
pub(crate) mod subnormals;
pub(crate) mod sync;
pub mod team;
