//! System-specific code: one folder per system, with the same modules and names in each.
//!
//! No other code of the project depends on the target system. These modules only wrap what the system offers;
//! the modules that use them decide what to do with it.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(target_os = "macos")]
pub use macos::*;
#[cfg(windows)]
pub use windows::*;
