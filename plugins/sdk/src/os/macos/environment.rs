//! What the system says of the program and its user.

pub use crate::os::unix::home::{CACHE, HOME, home};

/// Whether the program has more rights than its user, who must then not choose its files.
pub fn is_secure() -> bool {
    unsafe extern "C" {
        fn issetugid() -> libc::c_int;
    }
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { issetugid() != 0 }
}

/// The files that are there where the machine has a GPU: none of those that engines know.
pub const GPU_FILES: [&str; 0] = [];

/// The file that takes whatever is written to it.
pub const NOWHERE: &str = "/dev/null";

/// What the system calls itself.
pub fn system() -> String {
    "macOS".to_owned()
}
