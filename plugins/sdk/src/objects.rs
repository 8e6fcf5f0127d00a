//! Programs and libraries that the process has loaded, found without the lock that the loader holds while it opens or closes a library.
//!
//! A library's destructor may wait for a thread, so a thread that might be waited for must not ask dlopen, dladdr or dlsym, and looks
//! here. A forked child may find the lock of the loader's list taken for good, so a fork waits for threads that look at it here.

use std::ffi::CStr;

pub use crate::os::objects::Object;

use crate::fork;
use crate::os::objects;

/// Calls `f` with each object until it answers, and gives the answer. `f` must not ask for objects itself.
pub fn find<R>(f: impl FnMut(Object<'_>) -> Option<R>) -> Option<R> {
    let _loader = fork::Loader::enter();
    objects::find(f)
}

/// Whether a library of this name is loaded: the name of its file, or the one that it gives itself.
pub fn is_loaded(name: &CStr) -> bool {
    find(|object| object.is_named(name).then_some(())).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        let system = std::ffi::CString::new(&*crate::os::library::vendor_name("libc.so.6")).unwrap();
        assert!(is_loaded(&system));
        assert!(!is_loaded(c"libc.so"));
        // No test of this process is in need of it.
        assert!(!is_loaded(c"libutil.so.1"));
    }
}
