//! The functions of libraries that others load.
//!
//! What was found, or not found, is remembered, so that a forked child need not look ([`objects`](crate::objects)): it is looked for again
//! after this library has opened others, and where [`look_again`] says so.

use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::candidate::{Candidate, Error};
use crate::lock::OnceLock;
use crate::objects::is_loaded;
use crate::os::environment::GPU_FILES;
use crate::os::library;
use crate::process;

/// How often there was a reason to look what is loaded.
static REASONS: AtomicUsize = AtomicUsize::new(1);

/// Has everyone look again what is loaded: other libraries may have opened some.
pub fn look_again() {
    REASONS.fetch_add(1, Ordering::Relaxed);
}

/// Whether the program may load the library of a GPU at any time: the machine has one. A forked child does not look for that, and what
/// loads such a library there says [`look_again`].
fn has_gpu() -> bool {
    static FILES: OnceLock<bool> = OnceLock::new();
    let is_there = || GPU_FILES.iter().any(|file| Path::new(file).exists());
    *FILES.get_or_init(is_there) && !process::is_child()
}

/// The functions of a library that others load, once it was found.
pub struct Table<T> {
    table: OnceLock<Option<T>>,
    /// The last reason for which it was looked for.
    reason: AtomicUsize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Table<T> {
    /// Not looked for yet.
    pub const fn new() -> Self {
        Self { table: OnceLock::new(), reason: AtomicUsize::new(0) }
    }
}

/// The table of the first of these libraries that is loaded by now, kept in `table` once there is one. It is of the very library
/// that is loaded: another version beside it would see another world.
pub fn table_of_loaded<T>(
    table: &'static Table<T>,
    libraries: &[Candidate<'static>],
    load: impl FnOnce(Candidate<'static>) -> Result<T, Error>,
) -> Option<&'static T> {
    if let Some(found) = table.table.get() {
        return found.as_ref();
    }
    let reason = REASONS.load(Ordering::Relaxed);
    if table.reason.swap(reason, Ordering::Relaxed) == reason && !has_gpu() {
        return None;
    }
    let is_there = |library: &&Candidate<'_>| {
        CString::new(&*library::vendor_name(library.file)).is_ok_and(|name| is_loaded(&name))
    };
    let library = libraries.iter().find(is_there)?;
    table.table.get_or_init(|| load(*library).ok()).as_ref()
}
