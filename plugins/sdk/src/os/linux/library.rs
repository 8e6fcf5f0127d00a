//! Shared libraries: their names, and the loader's own functions.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

use crate::os::linux::{elf, search};
pub use crate::os::unix::library::{Library, address, file_of, loaded, open};
use crate::os::unix::paths;

/// File name extension of libraries.
pub const EXTENSION: &str = "so";

/// A library's file name.
pub fn file_name(name: &OsStr) -> std::ffi::OsString {
    let mut file = std::ffi::OsString::from("lib");
    file.push(name);
    file.push(".so");
    file
}

/// This system's name of a vendor's library, given its name on Linux.
pub fn vendor_name(name: &str) -> Cow<'_, str> {
    Cow::Borrowed(name)
}

/// The library folders within a toolkit's folder; Python packages have the last one.
pub const VENDOR_FOLDERS: [&str; 3] = ["", "lib64", "lib"];

/// The files that are mapped into this process, as the kernel lists them.
pub fn mapped_files() -> String {
    std::fs::read_to_string("/proc/self/maps").unwrap_or_default()
}

/// Checks that a library file is complete: mapping a truncated one would crash the process.
///
/// # Errors
/// The actual and the expected number of bytes.
pub fn check(name: &OsStr) -> Result<(), String> {
    if paths::bytes(name).contains(&b'/') {
        return elf::check(Path::new(name));
    }
    search::file_of(name).map_or(Ok(()), |path| elf::check(&path))
}
