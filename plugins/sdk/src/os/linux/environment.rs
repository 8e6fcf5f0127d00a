//! What the system knows about the program and its user.

/// Whether the program is privileged, so that its user must not choose its files: set-uid, set-gid or with
/// capabilities.
pub fn is_secure() -> bool {
    // SAFETY: the call reads a number that the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

pub use crate::os::unix::home::{CACHE, HOME, home};

/// Files that exist if the machine has a GPU.
pub const GPU_FILES: [&str; 3] = ["/dev/kfd", "/dev/nvidiactl", "/dev/dxg"];

/// A file that discards whatever is written to it.
pub const NOWHERE: &str = "/dev/null";

/// The system's name and version.
pub fn system() -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    let names = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = names.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name = name.unwrap_or("unknown").trim_matches('"');
    format!("{name}, Linux {}", read("/proc/sys/kernel/osrelease"))
}
