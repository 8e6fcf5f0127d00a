//! Shared libraries: what they are called, and the loader's own functions.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};

pub use crate::os::unix::library::{Library, address, file_of, loaded, open};

/// What the names of libraries end with.
pub const EXTENSION: &str = "dylib";

/// The name of the file of a library.
pub fn file_name(name: &OsStr) -> OsString {
    let mut file = OsString::from("lib");
    file.push(name);
    file.push(".dylib");
    file
}

/// What the system calls a vendor's library, which is named as on Linux.
pub fn vendor_name(name: &str) -> Cow<'_, str> {
    Cow::Borrowed(name)
}

/// The folders with libraries in that of a toolkit; packages of Python have the last.
pub const VENDOR_FOLDERS: [&str; 3] = ["", "lib64", "lib"];

/// The files that are mapped into this process: not listed.
pub fn mapped_files() -> String {
    String::new()
}

/// Leaves it to the loader to refuse a library that is cut short.
///
/// # Errors
/// None: the loader compares a file's headers with its size itself.
pub fn check(_: &OsStr) -> Result<(), String> {
    Ok(())
}
