//! Direct convolution with vectors of output channels.

pub(crate) mod choice;
pub(crate) mod correct;
pub(crate) mod kernel;
pub(crate) mod pack;
pub(crate) mod problem;
pub(crate) mod rows;
pub(crate) mod scheme;
pub(crate) mod store;
pub(crate) mod tile;
pub(crate) mod tiles;
