//! What the system knows about the program and its user.

pub use crate::os::unix::home::{CACHE, HOME, home};

/// Whether the program is privileged, so that its user must not choose its files.
pub fn is_secure() -> bool {
    unsafe extern "C" {
        fn issetugid() -> libc::c_int;
    }
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { issetugid() != 0 }
}

/// Files that exist if the machine has a GPU: none that engines know.
pub const GPU_FILES: [&str; 0] = [];

/// A file that discards whatever is written to it.
pub const NOWHERE: &str = "/dev/null";

/// The system's name.
pub fn system() -> String {
    "macOS".to_owned()
}
