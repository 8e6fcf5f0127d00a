//! Loads NVIDIA's libraries from the SDK's search paths.

use hipdnn_plugin_sdk::cuda::search::candidates;
use hipdnn_plugin_sdk::dynlib::{self, Candidate, Library};

/// A table from the first of the files with these names.
///
/// # Errors
/// What was tried.
pub fn load<T>(
    names: &[Candidate<'_>],
    from: impl FnOnce(&[Candidate<'_>]) -> Result<T, dynlib::Error>,
) -> Result<T, dynlib::Error> {
    let names: Vec<&str> = names.iter().map(|candidate| candidate.file).collect();
    let paths = candidates(&names);
    from(&paths.iter().map(|path| Candidate::from(path.as_str())).collect::<Vec<_>>())
}

/// Opens the first of these libraries that exists, for the life of the process; returns whether one was
/// found.
pub fn keep_open(names: &[&str]) -> bool {
    let library = candidates(names).iter().find_map(|path| Library::open(path).ok());
    // Later requests by name get this one.
    library.map(std::mem::forget).is_some()
}
