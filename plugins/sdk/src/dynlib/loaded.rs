//! The functions of libraries that somebody else loads.
//!
//! The outcome of a search is remembered, so that a forked child need not search
//! ([`objects`](crate::objects)). The search is repeated after this library has opened others, and on
//! [`look_again`].

use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::candidate::{Candidate, Error};
use crate::lock::OnceLock;
use crate::objects::{is_loaded, loads};
use crate::os::environment::GPU_FILES;
use crate::os::library;
use crate::process;

/// Counts the reasons to search again.
static REASONS: AtomicUsize = AtomicUsize::new(1);

/// The loader's count of loaded libraries when everyone was last made to search again.
static LOADS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Makes everyone search again, if libraries have been loaded since the last time.
pub fn look_again() {
    // A search walks all libraries, and plans of new sizes each ask for one.
    let is_same = loads().is_some_and(|now| LOADS.swap(now, Ordering::Relaxed) == now);
    if !is_same {
        REASONS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether the machine has a GPU, so that the program may load its library at any time. A forked child does
/// not search for that; code that loads such a library there calls [`look_again`].
fn has_gpu() -> bool {
    static FILES: OnceLock<bool> = OnceLock::new();
    let is_there = || GPU_FILES.iter().any(|file| Path::new(file).exists());
    *FILES.get_or_init(is_there) && !process::is_child()
}

/// The functions of a library that somebody else loads, once found.
pub struct Table<T> {
    table: OnceLock<Option<T>>,
    /// The count of reasons at the last search.
    reason: AtomicUsize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Table<T> {
    /// Not searched yet.
    pub const fn new() -> Self {
        Self { table: OnceLock::new(), reason: AtomicUsize::new(0) }
    }
}

/// The table of the first of these libraries that is loaded, kept in `table` once found. It uses the loaded
/// copy itself: a second version would have state of its own.
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
