//! Printers: a kernel's form in a language that a compiler or driver takes.

pub mod c;
#[cfg(feature = "spirv")]
pub mod spirv;
