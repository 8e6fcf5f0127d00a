//! Linux.

pub mod clock;
pub mod elf;
pub mod environment;
pub mod futex;
pub mod library;
pub mod memory;
pub mod objects;
pub mod processors;
mod search;
pub mod thread;

pub use crate::os::unix::{cancel, exceptions, files, frames, lines, paths, process};
