//! What Linux and macOS have in common.

pub mod cancel;
pub mod clock;
pub mod exceptions;
pub mod files;
pub mod frames;
pub mod home;
pub mod key;
pub mod library;
pub mod lines;
pub mod paths;
mod pipe;
pub mod process;
pub mod thread;
