//! Variables of the environment that say which files are read, written or loaded.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether the program has more rights than its user, who must then not choose its files: the kernel says so of programs that are
/// set-uid or set-gid, or have capabilities.
pub fn is_secure() -> bool {
    // SAFETY: the call reads a number that the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The value of a variable that names a file or a folder, or says how such are used. None where it is unset or empty, or where the
/// program has more rights than its user.
///
/// A `~/` in front is the user's own folder, `HOME`: shells write that out only where they know that a path is meant.
pub fn path(name: &str) -> Option<OsString> {
    if is_secure() {
        return None;
    }
    let home = std::env::var_os("HOME");
    std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| in_home(value, home))
}

fn in_home(value: OsString, home: Option<OsString>) -> OsString {
    let rest = match value.as_bytes() {
        b"~" => Some(&b""[..]),
        bytes => bytes.strip_prefix(b"~/"),
    };
    match (rest, home.filter(|home| !home.is_empty())) {
        (Some(rest), Some(home)) => Path::new(&home).join(OsStr::from_bytes(rest)).into_os_string(),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tilde_in_front_is_the_users_folder() {
        let of = |value: &str, home: Option<&str>| in_home(value.into(), home.map(OsString::from));
        assert_eq!(of("~/plans", Some("/home/me")), "/home/me/plans");
        assert_eq!(of("~", Some("/home/me")), "/home/me/");
        for value in ["/plans", "plans/~/x", "~other/x", ""] {
            assert_eq!(of(value, Some("/home/me")), value);
        }
        assert_eq!((of("~/x", None), of("~/x", Some(""))), ("~/x".into(), "~/x".into()));
    }
}
