//! Shared libraries: what they are called, and the loader's own functions.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

use crate::os::linux::{elf, search};
pub use crate::os::unix::library::{Library, address, file_of, loaded, open};
use crate::os::unix::paths;

/// What the names of libraries end with.
pub const EXTENSION: &str = "so";

/// The name of the file of a library.
pub fn file_name(name: &OsStr) -> std::ffi::OsString {
    let mut file = std::ffi::OsString::from("lib");
    file.push(name);
    file.push(".so");
    file
}

/// What the system calls a vendor's library, which is named as on Linux.
pub fn vendor_name(name: &str) -> Cow<'_, str> {
    Cow::Borrowed(name)
}

/// The folders with libraries in that of a toolkit; packages of Python have the last.
pub const VENDOR_FOLDERS: [&str; 3] = ["", "lib64", "lib"];

/// The files that are mapped into this process, as the kernel lists them.
pub fn mapped_files() -> String {
    std::fs::read_to_string("/proc/self/maps").unwrap_or_default()
}

/// Whether the loader will find all that it maps of a library: one that is cut short would end the process.
///
/// # Errors
/// How many bytes there are, and how many are expected.
pub fn check(name: &OsStr) -> Result<(), String> {
    if paths::bytes(name).contains(&b'/') {
        return elf::check(Path::new(name));
    }
    search::file_of(name).map_or(Ok(()), |path| elf::check(&path))
}
