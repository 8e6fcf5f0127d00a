//! GEMM whose right operand is copied from the input tile by tile (im2col).

pub(crate) mod choice;
pub(crate) mod copy;
pub(crate) mod exact;
pub(crate) mod kernel;
pub(crate) mod prefetch;
pub(crate) mod problem;
pub(crate) mod store;
