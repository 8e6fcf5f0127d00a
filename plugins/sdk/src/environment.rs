//! Variables of the environment that say which files are read, written or loaded.

use std::ffi::OsString;
use std::path::Path;

pub use crate::os::environment::{CACHE, HOME, home, is_secure};

/// The value of a variable that names a file or a folder, or says how such are used. None where it is unset or empty, or where the
/// program has more rights than its user.
///
/// A `~/` in front is the user's own [`home`]: shells write that out only where they know that a path is meant.
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
