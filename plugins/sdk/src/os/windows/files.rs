//! Files of which the system is asked more than the standard library does.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::api;

/// Leaves permissions to the folder: files get those that it hands down.
pub fn with_mode(options: &mut OpenOptions, _: u32) -> &mut OpenOptions {
    options
}

/// Options to open a file for reading, and for writing behind what was read. One that is opened only to append cannot be emptied.
pub fn to_append() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).access_mode(api::GENERIC_READ | api::GENERIC_WRITE);
    options
}

/// Makes a folder, and those above it.
///
/// # Errors
/// Why it cannot be made.
pub fn make_folder(path: &Path, _: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path)
}

/// Makes a folder that is not there yet. What it inherits says who may write into it: below the user's own folder, the user.
///
/// # Errors
/// Why it cannot be made.
pub fn make_own_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().create(path)
}

/// Opens a file without waiting.
///
/// # Errors
/// Why it cannot be opened.
pub fn open_at_once(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.open(path)
}

/// What tells a file from what it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp([u64; 3]);

impl Stamp {
    /// That of a file with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        Self([metadata.creation_time(), metadata.last_write_time(), metadata.file_size()])
    }
}

/// Who may be at a file that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// All who read.
    Shared,
    /// One who writes.
    Alone,
}

/// Locks a whole file until it is closed, unless another has it: then false. The lock is one of the open file.
///
/// # Errors
/// Why it cannot be locked by anyone.
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

/// What tests need of a system. None of it is there where a function answers that it is not.
#[doc(hidden)]
pub mod testing {
    use std::io::{self, PipeWriter};
    use std::path::{Path, PathBuf};

    /// Makes a symbolic link to a file, where the user may.
    pub fn link(file: &Path, link: &Path) -> bool {
        std::os::windows::fs::symlink_file(file, link).is_ok() && link.exists() == file.exists()
    }

    /// Makes no pipe: those with names lie in no folder.
    pub fn pipe(_: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// A file that takes no byte: Windows has no such.
    pub fn full() -> Option<&'static str> {
        None
    }

    /// The path of an end of a pipe: it has none.
    pub fn path_of(_: &PipeWriter) -> Option<PathBuf> {
        None
    }
}
