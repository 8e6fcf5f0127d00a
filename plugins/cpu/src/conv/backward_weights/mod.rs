//! Backward weights, on vectors of output channels ([`channels`]) or as dot products along rows ([`rows`]).

pub(crate) mod channels;
pub(crate) mod partition;
pub(crate) mod rows;
pub(crate) mod tile;
