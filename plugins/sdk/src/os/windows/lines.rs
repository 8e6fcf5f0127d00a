//! Files that lines are appended to for as long as the process runs. No lock is taken: several threads may
//! write whole lines at once.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::api;

/// A file that lines are appended to. On Windows programs can only close handles that they know, so it stays
/// open.
pub struct LogFile {
    /// Absolute, so that it stays valid when the program changes its folder.
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens a file for appending lines, and creates its folders.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn open(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path)?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        // Others may read, rename or remove it meanwhile.
        let file = OpenOptions::new().create(true).append(true).share_mode(7).open(&path)?;
        Ok(Self { path, file })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is a different file now.
    ///
    /// # Errors
    /// None.
    pub fn renew(&self) -> Result<bool> {
        Ok(false)
    }

    /// Writes bytes in one call, so that lines of several threads do not mix.
    ///
    /// # Errors
    /// Why not all could be written, with the rest.
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

    /// Empties the file through a second handle, because an appending one cannot.
    pub fn empty(&self) {
        let _ = OpenOptions::new().write(true).truncate(true).open(&self.path);
    }
}

/// Number of bytes that are written to a shared pipe atomically.
pub const TOGETHER: usize = 4096;

/// Writes bytes to standard error. Failures are ignored.
pub fn write_to_stderr(mut bytes: &[u8]) {
    while let Ok(length @ 1..) = u32::try_from(bytes.len().min(1 << 20)) {
        let mut written = 0;
        // SAFETY: the bytes are readable; an invalid handle is an ordinary error.
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
