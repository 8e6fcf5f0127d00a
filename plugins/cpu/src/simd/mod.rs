//! Vectors of one instruction set: what the processor has, loads, stores, conversions and arithmetic of whole registers.
//!
//! Nothing here knows of tensors, threads or graphs.

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned; checks in the loops would hide nothing but cost time"
)]

pub(crate) mod convert;
pub(crate) mod halves;
pub(crate) mod isa;
pub(crate) mod partial;
pub(crate) mod real;
pub(crate) mod stream;
pub(crate) mod vector;
