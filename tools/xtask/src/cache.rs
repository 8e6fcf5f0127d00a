//! Folders outside of the clone for what takes minutes to install, shared by all clones.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::Failure;

/// The folder that an environment variable names, else one of this name in the user's cache.
pub fn folder(variable: &str, name: &str) -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let in_cache = |cache: PathBuf| cache.join("hipdnn-backend").join(name);
    set(variable)
        .or_else(|| set("XDG_CACHE_HOME").map(in_cache))
        .or_else(|| set("HOME").map(|home| in_cache(home.join(".cache"))))
        .ok_or_else(|| {
            Failure::new(format!("{variable} and HOME are not set: no place for what is installed"))
        })
}

/// Locks the folder against other processes until the result is dropped. Creates the folder and its parents.
pub fn lock(folder: &Path, wanted_by: &str) -> Result<File, Failure> {
    fs::create_dir_all(folder)?;
    let lock = File::create(folder.with_extension("lock"))?;
    if lock.try_lock().is_err() {
        println!("{wanted_by}: waiting for another process that uses {}", folder.display());
        lock.lock()?;
    }
    Ok(lock)
}
