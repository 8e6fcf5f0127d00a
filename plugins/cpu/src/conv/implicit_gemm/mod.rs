//! Implicit GEMM: output channels times outputs, with operand B read in place from planes of the input.

pub(crate) mod exact;
pub(crate) mod kernel;
mod order;
