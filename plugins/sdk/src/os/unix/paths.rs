//! Paths as the C interface has them.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The path that a text of C names.
pub fn from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// The text of C for a path.
pub fn bytes(path: &OsStr) -> Cow<'_, [u8]> {
    Cow::Borrowed(path.as_bytes())
}

/// The path of a file that exists, with links and dots resolved.
///
/// # Errors
/// Why that cannot be told.
pub fn canonical(path: &Path) -> std::io::Result<PathBuf> {
    path.canonicalize()
}
