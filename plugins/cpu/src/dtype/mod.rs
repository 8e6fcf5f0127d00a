//! Data types: the types to compute in, and the elements of every other type.

pub mod element;
pub mod integer;
pub(crate) mod small_float;
