//! Matmuls with cuBLASLt.

pub mod algorithm;
pub mod description;
pub mod library;
pub mod step;
