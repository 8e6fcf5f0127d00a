//! HIP where the process has it anyway.

use super::Hip;
use crate::dynlib::loaded::{Table, table_of_loaded};

impl Hip {
    /// The functions of HIP, if the process has it loaded by now. Nothing is loaded to find out: that takes long, starts
    /// threads, and a program that has no use for a GPU would notice.
    ///
    /// On a machine without a GPU this looks only where there is a reason ([`crate::dynlib::loaded::look_again`]). The first call after it
    /// was loaded takes the lock of the system's loader.
    pub fn loaded() -> Option<&'static Self> {
        static HIP: Table<Hip> = Table::new();
        table_of_loaded(&HIP, Self::LIBRARIES, |library| Self::load_from(&[library]))
    }
}
