//! hipDNN's backend C ABI in Rust.
