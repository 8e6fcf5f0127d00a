//! Data types: the types to compute in, and the elements of every other type.

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned; checks in the loops would hide nothing but cost time"
)]

pub mod element;
pub(crate) mod small_float;
