//! Winograd's algorithm for filters of 3 × 3.

pub(crate) mod channels_last;
pub(crate) mod choice;
pub(crate) mod exact;
pub(crate) mod filter;
pub(crate) mod gemm;
pub(crate) mod kernel;
pub(crate) mod problem;
pub(crate) mod transform;
