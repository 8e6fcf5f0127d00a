//! The definition of attention, independent of kernels: where sequences are, and which scores dropout drops.
//!
//! Shared by the fast kernels and the reference, so it uses neither.

pub(crate) mod philox;
pub(crate) mod sequences;
