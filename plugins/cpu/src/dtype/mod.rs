//! Data types: compute types, and elements of every dtype.

pub mod element;
pub mod integer;
pub(crate) mod packed_bits;
pub(crate) mod sums;
