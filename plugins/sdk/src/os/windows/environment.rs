//! What the system says of the program and its user.

use std::ffi::OsString;

use super::api;

/// Whether the program has more rights than its user, who must then not choose its files. Windows starts no such program with the
/// user's environment.
pub fn is_secure() -> bool {
    false
}

/// The variable that names the user's own folder.
pub const HOME: &str = "USERPROFILE";

/// Where what is cached lies unless the user says otherwise.
pub const CACHE: &str = "~/.hipdnn/cache";

/// The user's own folder.
pub fn home() -> Option<OsString> {
    std::env::var_os(HOME).filter(|home| !home.is_empty())
}

/// The files that are there where the machine has a GPU: those that the drivers install.
pub const GPU_FILES: [&str; 3] = [
    r"C:\Windows\System32\amdhip64_7.dll",
    r"C:\Windows\System32\amdhip64_6.dll",
    r"C:\Windows\System32\nvcuda.dll",
];

/// The file that takes whatever is written to it.
pub const NOWHERE: &str = "NUL";

/// What the system calls itself, with its version.
pub fn system() -> String {
    let mut version = api::Version { size: size_of::<api::Version>() as u32, ..api::Version::default() };
    // SAFETY: the struct says its size and is written.
    unsafe { api::RtlGetVersion(&mut version) };
    format!("Windows {}.{}.{}", version.major, version.minor, version.build)
}
