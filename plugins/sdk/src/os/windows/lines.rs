//! Files that lines are written to for as long as the process runs. No lock is taken: several threads write whole lines at once.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::api;

/// A file that lines are appended to. Windows lets programs close only what they have opened, so it stays the same.
pub struct LogFile {
    /// From the root, so that it stays the same when the program goes elsewhere.
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens a file to which lines are appended, and makes its folders.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn open(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path)?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        // Another may read it, rename it or remove it meanwhile.
        let file = OpenOptions::new().create(true).append(true).share_mode(7).open(&path)?;
        Ok(Self { path, file })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is another one by now.
    ///
    /// # Errors
    /// None.
    pub fn renew(&self) -> Result<bool> {
        Ok(false)
    }

    /// Writes bytes at once, so that lines of several threads do not mix.
    ///
    /// # Errors
    /// Why not all could be written, with those that could not.
    pub fn write<'a>(&self, mut bytes: &'a [u8]) -> std::result::Result<(), (&'a [u8], Error)> {
        while !bytes.is_empty() {
            match (&self.file).write(bytes) {
                Ok(0) => return Err((bytes, ErrorKind::WriteZero.into())),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err((bytes, error)),
            }
        }
        Ok(())
    }

    /// Empties the file, through a handle that may: one that appends may not.
    pub fn empty(&self) {
        let _ = OpenOptions::new().write(true).truncate(true).open(&self.path);
    }
}

/// As many bytes as stay together in a pipe to which others write.
pub const TOGETHER: usize = 4096;

/// Writes bytes to standard error. What cannot be written there is lost.
pub fn write_to_stderr(mut bytes: &[u8]) {
    while let Ok(length @ 1..) = u32::try_from(bytes.len().min(1 << 20)) {
        let mut written = 0;
        // SAFETY: the bytes are there to be read; a handle that is not there is an error like any other.
        let is_written = unsafe {
            let file = api::GetStdHandle(api::STANDARD_ERROR);
            api::WriteFile(file, bytes.as_ptr(), length, &mut written, std::ptr::null_mut())
        };
        if is_written == 0 || written == 0 {
            return;
        }
        bytes = bytes.get(written as usize..).unwrap_or_default();
    }
}
