//! Backward weights: the gradient of the weights.

pub(crate) mod channels;
pub(crate) mod division;
pub(crate) mod rows;
