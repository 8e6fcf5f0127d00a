//! Windows.

mod api;
pub mod cancel;
pub mod clock;
pub mod environment;
pub mod exceptions;
pub mod files;
pub mod frames;
pub mod futex;
mod key;
pub mod library;
pub mod lines;
pub mod memory;
pub mod objects;
pub mod paths;
pub mod process;
pub mod processors;
pub mod thread;
