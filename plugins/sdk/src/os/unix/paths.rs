//! Paths in the C interface.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The path in a C string.
pub fn from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// A path as a C string.
pub fn bytes(path: &OsStr) -> Cow<'_, [u8]> {
    Cow::Borrowed(path.as_bytes())
}

/// The absolute path of an existing file, with links and dots resolved.
///
/// # Errors
/// Why it cannot be resolved.
pub fn canonical(path: &Path) -> std::io::Result<PathBuf> {
    path.canonicalize()
}
