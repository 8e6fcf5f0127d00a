//! Shared libraries: their names, and the loader's own functions.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};

pub use crate::os::unix::library::{Library, address, file_of, loaded, open};

/// File name extension of libraries.
pub const EXTENSION: &str = "dylib";

/// A library's file name.
pub fn file_name(name: &OsStr) -> OsString {
    let mut file = OsString::from("lib");
    file.push(name);
    file.push(".dylib");
    file
}

/// This system's name of a vendor's library, given its name on Linux.
pub fn vendor_name(name: &str) -> Cow<'_, str> {
    Cow::Borrowed(name)
}

/// The library folders within a toolkit's folder; Python packages have the last one.
pub const VENDOR_FOLDERS: [&str; 3] = ["", "lib64", "lib"];

/// The files that are mapped into this process: not listed.
pub fn mapped_files() -> String {
    String::new()
}

/// Accepts any file: the loader itself rejects truncated libraries.
///
/// # Errors
/// None.
pub fn check(_: &OsStr) -> Result<(), String> {
    Ok(())
}
