//! Data types: compute types, and elements of every dtype.

pub mod element;
pub mod integer;
pub(crate) mod small_float;
pub(crate) mod sums;
