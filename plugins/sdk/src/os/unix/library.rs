//! The loader's functions.

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use libloading::os::unix;

/// The loader's library.
pub type Library = unix::Library;

/// Opens a library by its path or, if the name has no slash, through the loader's search. All symbols are
/// bound now, and none is visible to other libraries.
///
/// # Safety
/// Running the library's initializers, and its finalizers when it is closed, is sound.
///
/// # Errors
/// The loader's message.
pub unsafe fn open(name: &OsStr) -> Result<Library, String> {
    // SAFETY: this function requires that running the library's initializers is sound.
    let opened = unsafe { unix::Library::open(Some(name), unix::RTLD_NOW | unix::RTLD_LOCAL) };
    opened.map_err(|error| words_of(&error))
}

/// A library that the process has already loaded under this name; keeps it loaded.
///
/// # Errors
/// The loader's message.
pub fn loaded(name: &OsStr) -> Result<Library, String> {
    let flags = unix::RTLD_NOW | unix::RTLD_LOCAL | libc::RTLD_NOLOAD;
    // SAFETY: nothing is loaded, so no initializer runs.
    unsafe { unix::Library::open(Some(name), flags) }.map_err(|error| words_of(&error))
}

/// The error only says that it failed; its source has the loader's message.
fn words_of(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The address of a symbol. A symbol may exist and be null.
pub fn address(library: &Library, name: &str) -> Option<*const ()> {
    // SAFETY: what is at the address is not touched.
    unsafe { library.get::<*const ()>(name) }.ok().map(|symbol| *symbol).filter(|address| !address.is_null())
}

/// The file that contains an address, as the loader resolved it.
pub fn file_of(address: *const c_void) -> Option<PathBuf> {
    // The loader only looks at the number.
    let address = std::ptr::without_provenance::<c_void>(address.addr());
    let nothing = std::ptr::null();
    let mut found = libc::Dl_info {
        dli_fname: nothing,
        dli_fbase: std::ptr::null_mut(),
        dli_sname: nothing,
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the function writes only to the local `found`, and any address may be passed.
    if unsafe { libc::dladdr(address, &mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's text ends with a NUL and lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}
