//! The part of ONNX Runtime's C interface that an execution provider uses: structs, function tables, and checked calls.

mod api;
mod structs;
mod table;

pub use api::Ort;
pub(crate) use api::{guard, text_of};
pub use structs::*;
pub use table::{OrtApi, OrtEpApi, OrtModelEditorApi};

/// The newest version of the interface that this library supports.
pub const NEWEST: u32 = 28;
/// The oldest version with everything that this library needs.
pub const OLDEST: u32 = 23;
