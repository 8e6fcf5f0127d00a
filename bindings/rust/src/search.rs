//! Search for a `libhipdnn_backend.so`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use hipdnn_plugin_sdk::os::library::file_name;

use crate::error::{Error, Result};
use crate::functions::Functions;

/// Its file name on this system.
fn library() -> OsString {
    file_name(OsStr::new("hipdnn_backend"))
}

/// The variable with another folder to search.
const VARIABLE: &str = "HIPDNN_BACKEND_LIBRARY_PATH";

/// Opens the given library, or else the first one found.
///
/// A folder means the library in it. Without a name these are tried: beside this program, `lib` and `lib64` beside its
/// folder and the folders in these, the folder in `HIPDNN_BACKEND_LIBRARY_PATH`, and the loader's own search. A file that exists but cannot
/// be opened ends the search: a later one would not be the installed one.
pub fn open(named: Option<&Path>) -> Result<Functions> {
    if let Some(path) = named {
        let path = if path.is_dir() { path.join(library()) } else { path.to_owned() };
        // Without a slash, the loader would search its path and ignore the working directory.
        let path = if path.is_file() { std::path::absolute(&path).unwrap_or(path) } else { path };
        return Functions::open(&path)
            .map_err(|error| Error::Library(format!("cannot open the backend: {error}")));
    }
    let program = std::env::current_exe().ok();
    let folder = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty());
    let places = places(program.as_deref(), folder.as_deref().map(Path::new));
    if let Some(path) = places.iter().find(|path| path.is_file()) {
        return Functions::open(path)
            .map_err(|error| Error::Library(format!("cannot open the backend: {error}")));
    }
    Functions::open(Path::new(&library())).map_err(|error| {
        let places: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
        Error::Library(format!(
            "no backend was found; looked for {}, and {error}; {VARIABLE} may name the folder that has it",
            places.join(", ")
        ))
    })
}

/// The files that are tried, in this order.
fn places(program: Option<&Path>, folder: Option<&Path>) -> Vec<PathBuf> {
    let beside = program.and_then(Path::parent);
    let above = beside.and_then(Path::parent);
    let siblings = above.into_iter().flat_map(|above| ["lib", "lib64"].map(|lib| above.join(lib)));
    let siblings = siblings.flat_map(|lib| {
        let inner = folders_in(&lib);
        std::iter::once(lib).chain(inner)
    });
    let folders = beside.map(Path::to_owned).into_iter().chain(siblings).chain(folder.map(Path::to_owned));
    folders.map(|folder| folder.join(library())).collect()
}

/// The folders in a library folder that have the library, for systems with the machine's name in the path.
fn folders_in(lib: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lib).into_iter().flatten().flatten();
    let mut folders: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| path.join(library()).is_file()).collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_installed_tree_comes_first() {
        let places = places(Some(Path::new("/opt/rocm/bin/hipdnn")), Some(Path::new("/other")));
        let folders = ["/opt/rocm/bin", "/opt/rocm/lib", "/opt/rocm/lib64", "/other"];
        assert_eq!(places, folders.map(|folder| Path::new(folder).join(library())));
    }

    #[test]
    fn a_named_library_that_is_not_there_is_named() {
        let error = open(Some(Path::new("/no/such/file.so"))).err().unwrap();
        assert!(error.to_string().starts_with("cannot open the backend: /no/such/file.so"), "{error}");
        assert!(matches!(error, Error::Library(_)));
    }
}
