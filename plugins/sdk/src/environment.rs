//! Environment variables that determine which files are read, written or loaded.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

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

/// Whether a value switches something on: 1, true, on, yes, enable or enabled, in any case.
pub fn is_true(value: &OsStr) -> bool {
    let value = value.to_string_lossy();
    ["1", "true", "on", "yes", "enable", "enabled"].iter().any(|word| value.trim().eq_ignore_ascii_case(word))
}

/// The root folder of all caches, if it can be determined from the values of variables.
pub fn cache_root(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let root = variable("HIPDNN_CACHE_DIR").map_or_else(|| PathBuf::from(CACHE), PathBuf::from);
    match root.strip_prefix("~") {
        Ok(rest) => Some(Path::new(&variable(HOME)?).join(rest)),
        Err(_) => Some(root),
    }
}

/// [`cache_root`], unless `HIPDNN_DISABLE_CACHE` switches caches off.
pub fn enabled_cache_root(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let is_off = variable("HIPDNN_DISABLE_CACHE").is_some_and(|value| is_true(&value));
    if is_off { None } else { cache_root(variable) }
}

fn in_home(value: OsString, home: Option<OsString>) -> OsString {
    match (Path::new(&value).strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest).into_os_string(),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn the_folder_is_that_of_caches_or_none() {
        let read = |variables: &[(&str, &str)]| {
            enabled_cache_root(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            })
        };
        assert_eq!(read(&[("HIPDNN_CACHE_DIR", "/a")]), Some(PathBuf::from("/a")));
        assert_eq!(read(&[(HOME, "/h")]), Some(Path::new("/h").join(CACHE.trim_start_matches("~/"))));
        assert_eq!(read(&[("HIPDNN_CACHE_DIR", "/a"), ("HIPDNN_DISABLE_CACHE", "Yes")]), None);
    }
}
