//! What the system says of the program and its user.

/// Whether the program has more rights than its user, who must then not choose its files: the kernel says so of programs that are
/// set-uid or set-gid, or have capabilities.
pub fn is_secure() -> bool {
    // SAFETY: the call reads a number that the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

pub use crate::os::unix::home::{CACHE, HOME, home};

/// The files that are there where the machine has a GPU.
pub const GPU_FILES: [&str; 3] = ["/dev/kfd", "/dev/nvidiactl", "/dev/dxg"];

/// The file that takes whatever is written to it.
pub const NOWHERE: &str = "/dev/null";

/// What the system calls itself, with its version.
pub fn system() -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    let names = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = names.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name = name.unwrap_or("unknown").trim_matches('"');
    format!("{name}, Linux {}", read("/proc/sys/kernel/osrelease"))
}
