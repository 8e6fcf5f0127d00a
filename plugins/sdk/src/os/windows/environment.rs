//! What the system knows about the program and its user.

use std::ffi::OsString;

use super::api;

/// Whether the program is privileged, so that its user must not choose its files. Windows starts no such
/// program with the user's environment.
pub fn is_secure() -> bool {
    false
}

/// The variable that names the user's home folder.
pub const HOME: &str = "USERPROFILE";

/// The default cache folder.
pub const CACHE: &str = "~/.hipdnn/cache";

/// The user's home folder.
pub fn home() -> Option<OsString> {
    std::env::var_os(HOME).filter(|home| !home.is_empty())
}

/// Files that exist if the machine has a GPU: those that the drivers install.
pub const GPU_FILES: [&str; 3] = [
    r"C:\Windows\System32\amdhip64_7.dll",
    r"C:\Windows\System32\amdhip64_6.dll",
    r"C:\Windows\System32\nvcuda.dll",
];

/// A file that discards whatever is written to it.
pub const NOWHERE: &str = "NUL";

/// The system's name and version.
pub fn system() -> String {
    let mut version = api::Version { size: size_of::<api::Version>() as u32, ..api::Version::default() };
    // SAFETY: the struct says its size and is written.
    unsafe { api::RtlGetVersion(&mut version) };
    format!("Windows {}.{}.{}", version.major, version.minor, version.build)
}
