//! The user's folders.

use std::ffi::OsString;

/// The variable that names the user's home folder.
pub const HOME: &str = "HOME";

/// The default cache folder.
pub const CACHE: &str = "~/.cache/hipdnn";

/// The user's home folder.
pub fn home() -> Option<OsString> {
    std::env::var_os(HOME).filter(|home| !home.is_empty())
}
