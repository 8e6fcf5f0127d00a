//! Where a `libhipdnn_backend.so` is looked for.

use std::path::{Path, PathBuf};

use super::functions::Functions;
use crate::failure::{Failure, Result};

const LIBRARY: &str = "libhipdnn_backend.so";

/// Opens the library that was named, or else the first that is there.
///
/// A folder stands for the library in it. Without a name these are tried: beside this program, `lib` and `lib64` beside its
/// folder and the folders in these, the folder in `HIPDNN_BACKEND_LIBRARY_PATH`, and the loader's own search. A file that is there and cannot be
/// opened ends the search: what comes after it is not what was installed.
pub fn open(named: Option<&Path>) -> Result<Functions> {
    if let Some(path) = named {
        let path = if path.is_dir() { path.join(LIBRARY) } else { path.to_owned() };
        // Without a slash the loader would search, and not find what lies in the working directory.
        let path = if path.is_file() { std::path::absolute(&path).unwrap_or(path) } else { path };
        return Functions::open(&path).map_err(|failure| failure.during("cannot open the backend"));
    }
    let program = std::env::current_exe().ok();
    let folder = std::env::var_os("HIPDNN_BACKEND_LIBRARY_PATH").filter(|folder| !folder.is_empty());
    let places = places(program.as_deref(), folder.as_deref().map(Path::new));
    if let Some(path) = places.iter().find(|path| path.is_file()) {
        return Functions::open(path).map_err(|failure| failure.during("cannot open the backend"));
    }
    Functions::open(Path::new(LIBRARY)).map_err(|failure| {
        let places: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
        Failure::input(format!("no backend was found; looked for {}, and {failure}", places.join(", ")))
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
    folders.map(|folder| folder.join(LIBRARY)).collect()
}

/// The folders in a library folder that have the library, as where the system names its machine in the path.
fn folders_in(lib: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lib).into_iter().flatten().flatten();
    let mut folders: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| path.join(LIBRARY).is_file()).collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_installed_tree_comes_first() {
        let places = places(Some(Path::new("/opt/rocm/bin/hipdnn")), Some(Path::new("/other")));
        let texts: Vec<_> = places.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(
            texts,
            [
                "/opt/rocm/bin/libhipdnn_backend.so",
                "/opt/rocm/lib/libhipdnn_backend.so",
                "/opt/rocm/lib64/libhipdnn_backend.so",
                "/other/libhipdnn_backend.so"
            ]
        );
    }

    #[test]
    fn a_named_library_that_is_not_there_is_an_input_error() {
        let failure = open(Some(Path::new("/no/such/file.so"))).err().unwrap();
        assert!(failure.to_string().starts_with("cannot open the backend: /no/such/file.so"), "{failure}");
        assert_eq!(failure.exit_code(), std::process::ExitCode::from(2));
    }
}
