//! What each system does in a way of its own: one folder for each system, with the same modules and the same names in them.
//!
//! Nothing else in the project asks for which system it is compiled. The modules here know only what the system has; what the library
//! makes of that lies in the modules that use them.

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
