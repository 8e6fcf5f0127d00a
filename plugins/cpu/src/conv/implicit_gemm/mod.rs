//! Implicit GEMM: output channels times outputs, the right operand read from planes of the input where it lies.

pub(crate) mod exact;
pub(crate) mod kernel;
