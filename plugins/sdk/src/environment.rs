//! Variables of the environment that say which files are read, written or loaded.

use std::ffi::OsString;

/// Whether the program has more rights than its user, who must then not choose its files: the kernel says so of programs that are
/// set-uid or set-gid, or have capabilities.
pub fn is_secure() -> bool {
    // SAFETY: the call reads a number that the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The value of a variable that names a file or a folder, or says how such are used. None where it is unset or empty, or where the
/// program has more rights than its user.
pub fn path(name: &str) -> Option<OsString> {
    if is_secure() { None } else { std::env::var_os(name).filter(|value| !value.is_empty()) }
}
