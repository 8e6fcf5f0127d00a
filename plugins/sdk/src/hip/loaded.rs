//! HIP where the process has it anyway.

use std::sync::OnceLock;

use super::Hip;
use crate::dynlib::loaded::table_of_loaded;

impl Hip {
    /// The functions of HIP, if the process has it loaded by now. Nothing is loaded to find out: that takes long, starts
    /// threads, and a program that has no use for a GPU would notice.
    ///
    /// As long as it is not loaded, a call takes some microseconds. The first call after it was loaded takes the lock of the
    /// system's loader.
    pub fn loaded() -> Option<&'static Self> {
        static HIP: OnceLock<Option<Hip>> = OnceLock::new();
        table_of_loaded(&HIP, Self::LIBRARIES, |library| Self::load_from(&[library]))
    }
}
