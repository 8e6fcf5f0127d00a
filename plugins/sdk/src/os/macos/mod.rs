//! macOS. The compiler has seen it, and no machine has run it.

pub mod environment;
pub mod futex;
pub mod library;
pub mod memory;
pub mod objects;
pub mod processors;
pub mod thread;

pub use crate::os::unix::{cancel, clock, exceptions, files, frames, lines, paths, process};
