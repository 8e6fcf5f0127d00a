//! NVIDIA's libraries, found where the SDK looks for them.

use hipdnn_plugin_sdk::cuda::search::candidates;
use hipdnn_plugin_sdk::dynlib::{self, Candidate, Library};

/// A table from the first of the files of these names.
///
/// # Errors
/// What was looked for.
pub fn load<T>(
    names: &[Candidate<'_>],
    from: impl FnOnce(&[Candidate<'_>]) -> Result<T, dynlib::Error>,
) -> Result<T, dynlib::Error> {
    let names: Vec<&str> = names.iter().map(|candidate| candidate.file).collect();
    let paths = candidates(&names);
    from(&paths.iter().map(|path| Candidate::from(path.as_str())).collect::<Vec<_>>())
}

/// Opens the first of these that there is, for as long as the process lives, and says whether there is one.
pub fn keep_open(names: &[&str]) -> bool {
    let library = candidates(names).iter().find_map(|path| Library::open(path).ok());
    // Whoever asks for it by name later gets this one.
    library.map(std::mem::forget).is_some()
}
