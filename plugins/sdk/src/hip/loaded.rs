//! HIP, if the process has already loaded it.

use super::Hip;
use crate::dynlib::loaded::{Table, table_of_loaded};

impl Hip {
    /// The functions of HIP, if the process has already loaded it. Loads nothing: loading is slow, starts
    /// threads, and a program that uses no GPU would notice.
    ///
    /// On a machine without a GPU this searches only when there is a reason
    /// ([`crate::dynlib::loaded::look_again`]). The first call after HIP was loaded takes the lock of the
    /// system's loader.
    pub fn loaded() -> Option<&'static Self> {
        static HIP: Table<Hip> = Table::new();
        table_of_loaded(&HIP, Self::LIBRARIES, |library| Self::load_from(&[library]))
    }
}
