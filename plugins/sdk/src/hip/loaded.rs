//! HIP where the process has it anyway.

use std::ffi::CString;
use std::sync::OnceLock;

use super::Hip;
use crate::dynlib::Candidate;
use crate::dynlib::loaded::is_loaded;

impl Hip {
    /// The functions of HIP, if the process has it loaded by now. Nothing is loaded to find out: that takes long, starts
    /// threads, and a program that has no use for a GPU would notice.
    ///
    /// As long as it is not loaded, a call takes some microseconds. The first call after it was loaded takes the lock of the
    /// system's loader.
    pub fn loaded() -> Option<&'static Self> {
        static HIP: OnceLock<Option<Hip>> = OnceLock::new();
        if let Some(hip) = HIP.get() {
            return hip.as_ref();
        }
        // The very library that is loaded: another version beside it would see another world.
        let is_there =
            |library: &&Candidate<'_>| CString::new(library.file).is_ok_and(|name| is_loaded(&name));
        let library = Self::LIBRARIES.iter().find(is_there)?;
        HIP.get_or_init(|| Self::load_from(&[*library]).ok()).as_ref()
    }
}
