//! macOS. Compiled, but never run on a machine.

pub mod clock;
pub mod environment;
pub mod futex;
pub mod library;
pub mod memory;
pub mod objects;
pub mod processors;
pub mod thread;

pub use crate::os::unix::{cancel, exceptions, files, frames, lines, paths, process};
