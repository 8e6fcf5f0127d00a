//! What attention means, whoever computes it: where sequences lie, which scores dropout drops, and ALiBi's slopes.
//!
//! The fast kernels and the reference share it, so it uses neither.

pub(crate) mod alibi;
pub(crate) mod philox;
pub(crate) mod sequences;
