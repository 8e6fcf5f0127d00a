//! What attention means, whoever computes it: where sequences lie, and which scores dropout drops.
//!
//! The fast kernels and the reference share it, so it uses neither.

pub(crate) mod philox;
pub(crate) mod sequences;
