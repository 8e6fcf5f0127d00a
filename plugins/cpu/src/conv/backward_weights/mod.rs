//! Backward weights: the gradient of the weights.

pub(crate) mod channels;
pub(crate) mod partition;
pub(crate) mod rows;
pub(crate) mod tile;
