//! Folders of the user.

use std::ffi::OsString;

/// The variable that names the user's own folder.
pub const HOME: &str = "HOME";

/// Where what is cached lies unless the user says otherwise.
pub const CACHE: &str = "~/.cache/hipdnn";

/// The user's own folder.
pub fn home() -> Option<OsString> {
    std::env::var_os(HOME).filter(|home| !home.is_empty())
}
