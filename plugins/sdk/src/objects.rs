//! Finds loaded programs and libraries without the lock that the loader holds while it opens or closes a
//! library.
//!
//! A library's destructor may wait for a thread, so a thread that might be waited for must not call dlopen,
//! dladdr or dlsym, and searches here. A forked child may inherit the loader's list lock taken for good, so a
//! fork waits for threads that are walking the list here.

use std::ffi::CStr;

pub use crate::os::objects::Object;

use crate::fork;
use crate::os::objects;

/// Calls `f` with each object until it returns a value, which is the result. `f` must not call `find` itself.
pub fn find<R>(f: impl FnMut(Object<'_>) -> Option<R>) -> Option<R> {
    let _loader = fork::Loader::enter();
    objects::find(f)
}

/// Whether a library of this name is loaded, by file name or soname.
pub fn is_loaded(name: &CStr) -> bool {
    find(|object| object.is_named(name).then_some(())).is_some()
}

/// How many objects the loader has loaded so far; none if it does not say.
pub fn loads() -> Option<u64> {
    let _loader = fork::Loader::enter();
    objects::loads()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        let system = std::ffi::CString::new(&*crate::os::library::vendor_name("libc.so.6")).unwrap();
        assert!(is_loaded(&system));
        assert!(!is_loaded(c"libc.so"));
        // Nothing is loaded meanwhile, unless by another test.
        assert!(loads() <= loads());
        // No test of this process needs it.
        assert!(!is_loaded(c"libutil.so.1"));
    }
}
