//! SIMD vectors: the processor's instruction set, and loads, stores, conversions and arithmetic of registers.
//!
//! `vector` has the traits that kernels use; the other files implement them. Nothing here knows of tensors,
//! threads or graphs.

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod array;
pub(crate) mod clip;
pub(crate) mod convert;
pub(crate) mod float;
#[cfg(target_arch = "x86_64")]
pub(crate) mod halves;
pub mod isa;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
#[cfg(test)]
mod partial_tests;
pub(crate) mod portable;
pub(crate) mod row;
pub(crate) mod stored;
pub(crate) mod stream;
pub(crate) mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_partial;

/// Bytes of a cache line.
pub(crate) const CACHE_LINE: usize = 64;
