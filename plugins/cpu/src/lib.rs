//! The CPU engines of hipDNN, as an engine plugin.

pub mod kernel;
