//! macOS. The compiler has seen it, and no machine has run it.

pub mod clock;
pub mod environment;
pub mod futex;
pub mod library;
pub mod memory;
pub mod objects;
pub mod processors;
pub mod thread;

pub use crate::os::unix::{cancel, exceptions, files, frames, lines, paths, process};
