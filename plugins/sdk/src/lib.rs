//! What a hipDNN engine plugin is made of.
//!
//! [`graph`] is the one representation of an operation graph that the backend and every Rust plugin share, [`wire`] reads and
//! writes it as FlatBuffers in both generations of the format, and [`ffi`] holds the types of the plugin C ABI.

pub mod ffi;
pub mod graph;
pub mod wire;
