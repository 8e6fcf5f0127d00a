//! Environment variables that determine which files are read, written or loaded.

use std::ffi::OsString;
use std::path::Path;

pub use crate::os::environment::{CACHE, HOME, home, is_secure};

/// The value of a variable that names a file or folder, or controls their use. None if it is unset or empty,
/// or if the process is privileged (setuid).
///
/// A leading `~/` is replaced with the user's [`home`]: shells expand it only where they expect a path.
pub fn path(name: &str) -> Option<OsString> {
    if is_secure() {
        return None;
    }
    std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| in_home(value, home()))
}

fn in_home(value: OsString, home: Option<OsString>) -> OsString {
    match (Path::new(&value).strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest).into_os_string(),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_tilde_in_front_is_the_users_folder() {
        let of =
            |value: &str, home: Option<&str>| PathBuf::from(in_home(value.into(), home.map(OsString::from)));
        assert_eq!(of("~/plans", Some("/home/me")), Path::new("/home/me/plans"));
        assert_eq!(of("~", Some("/home/me")), Path::new("/home/me/"));
        for value in ["/plans", "plans/~/x", "~other/x", ""] {
            assert_eq!(of(value, Some("/home/me")), Path::new(value));
        }
        assert_eq!(of("~/x", None), Path::new("~/x"));
    }
}
