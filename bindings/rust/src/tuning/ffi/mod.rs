//! The C interface of tuning plugins, under its C names. `cargo xtask generate` makes the headers of these files.

pub mod functions;
pub mod types;
pub mod version;
