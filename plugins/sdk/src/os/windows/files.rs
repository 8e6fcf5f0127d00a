//! File operations beyond those of the standard library.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::api;

/// Ignores the mode: files inherit their folder's permissions.
pub fn with_mode(options: &mut OpenOptions, _: u32) -> &mut OpenOptions {
    options
}

/// Options to open a file for reading and writing at the end. A file that is opened only for appending cannot
/// be truncated.
pub fn to_append() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).access_mode(api::GENERIC_READ | api::GENERIC_WRITE);
    options
}

/// Creates a folder and its parents.
///
/// # Errors
/// Why it cannot be created.
pub fn make_folder(path: &Path, _: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path)
}

/// Creates a new folder. It inherits its permissions: below the user's home folder only the user may write.
///
/// # Errors
/// Why it cannot be created.
pub fn make_own_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().create(path)
}

/// Opens a file without blocking.
///
/// # Errors
/// Why it cannot be opened.
pub fn open_at_once(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.open(path)
}

/// Detects that a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp([u64; 3]);

impl Stamp {
    /// The stamp of a file with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        Self([metadata.creation_time(), metadata.last_write_time(), metadata.file_size()])
    }
}

/// Kinds of file locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Shared by readers.
    Shared,
    /// Exclusive to one writer.
    Alone,
}

/// Locks a whole file until it is closed; false if another lock prevents it. The lock belongs to the open
/// file.
///
/// # Errors
/// Why the file cannot be locked at all.
pub fn try_lock(file: &File, lock: Lock) -> io::Result<bool> {
    let locked = match lock {
        Lock::Shared => file.try_lock_shared(),
        Lock::Alone => file.try_lock(),
    };
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// System features for tests. Each function's result tells if the system lacks it.
#[doc(hidden)]
pub mod testing {
    use std::io::{self, PipeWriter};
    use std::path::{Path, PathBuf};

    /// Creates a symbolic link to a file, if the user may.
    pub fn link(file: &Path, link: &Path) -> bool {
        std::os::windows::fs::symlink_file(file, link).is_ok() && link.exists() == file.exists()
    }

    /// Does nothing: named pipes are not in folders.
    pub fn pipe(_: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// A file that is always full: Windows has none.
    pub fn full() -> Option<&'static str> {
        None
    }

    /// The path of one end of a pipe: it has none.
    pub fn path_of(_: &PipeWriter) -> Option<PathBuf> {
        None
    }
}
