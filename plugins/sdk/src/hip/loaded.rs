//! HIP where the process has it anyway.

use std::ffi::CString;
use std::sync::OnceLock;

use super::Hip;

impl Hip {
    /// The functions of HIP, if the process has it loaded by now. Nothing is loaded to find out: that takes long, starts
    /// threads, and a program that has no use for a GPU would notice.
    ///
    /// As long as it is not loaded, a call takes some microseconds and the lock of the system's loader.
    pub fn loaded() -> Option<&'static Self> {
        static HIP: OnceLock<Option<Hip>> = OnceLock::new();
        if let Some(hip) = HIP.get() {
            return hip.as_ref();
        }
        // The very library that is loaded: another version beside it would see another world.
        let library = Self::LIBRARIES.iter().find(|library| is_loaded(library.file))?;
        HIP.get_or_init(|| Self::load_from(&[*library]).ok()).as_ref()
    }
}

fn is_loaded(library: &str) -> bool {
    let Ok(name) = CString::new(library) else { return false };
    // SAFETY: the name is a NUL terminated text; nothing is loaded that is not.
    unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        !library.is_null() && libc::dlclose(library) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_loaded_is_not_loaded_by_asking() {
        assert!(is_loaded("libc.so.6"));
        assert!(!is_loaded("libno_such_library.so.1"));
        // No test of this process is in need of it.
        assert!(!is_loaded("libutil.so.1") && !is_loaded("libutil.so.1"));
    }
}
