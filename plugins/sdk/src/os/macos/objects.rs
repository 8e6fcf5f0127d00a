//! Loaded programs and libraries.

use std::ffi::{CStr, c_char, c_void};

unsafe extern "C" {
    fn _dyld_image_count() -> u32;
    fn _dyld_get_image_name(index: u32) -> *const c_char;
}

/// A loaded program or library.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    name: &'a CStr,
}

/// Calls `f` with each object until it returns a value, which is the result.
pub fn find<R>(mut f: impl FnMut(Object<'_>) -> Option<R>) -> Option<R> {
    // SAFETY: the call has no arguments.
    let count = unsafe { _dyld_image_count() };
    (0..count).find_map(|index| {
        // SAFETY: an index that is too large gives null; else the text lives as long as the object is loaded.
        let name = unsafe {
            let name = _dyld_get_image_name(index);
            if name.is_null() {
                return None;
            }
            CStr::from_ptr(name)
        };
        f(Object { name })
    })
}

/// How many objects the loader has loaded so far; none: it does not say.
pub fn loads() -> Option<u64> {
    None
}

impl Object<'_> {
    /// Whether an address lies in the object.
    pub fn contains(&self, address: usize) -> bool {
        let address: *const c_void = std::ptr::with_exposed_provenance(address);
        let file = crate::os::unix::library::file_of(address);
        file.is_some_and(|file| file.as_os_str().as_encoded_bytes() == self.name.to_bytes())
    }

    /// Whether this is its file name.
    pub fn is_named(&self, name: &CStr) -> bool {
        self.name.to_bytes().rsplit(|byte| *byte == b'/').next() == Some(name.to_bytes())
    }

    /// The address of an exported function.
    pub fn function(&self, name: &CStr) -> Option<*const ()> {
        // SAFETY: both texts end with a NUL. The object is loaded already, so nothing of it runs, and it stays loaded.
        let address = unsafe {
            let library = libc::dlopen(self.name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            if library.is_null() {
                return None;
            }
            let address = libc::dlsym(library, name.as_ptr());
            libc::dlclose(library);
            address
        };
        (!address.is_null()).then_some(address.cast_const().cast())
    }
}
