//! hipDNN's backend C ABI in Rust.

pub mod ffi;
