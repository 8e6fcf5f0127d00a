//! Products of matrices with cuBLASLt.

pub mod algorithm;
pub mod library;
pub mod plan;
