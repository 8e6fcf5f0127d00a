//! Files that lines are appended to for as long as the process runs.
//!
//! The program does not know their descriptors: a daemon that closes all of them lets their numbers be reused
//! for other files. So before each write the file is recognized by its device and inode, and reopened if the
//! descriptor is another file's. No lock is taken: several threads may write whole lines at once.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, IntoRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::os::cancel;
use crate::os::unix::pipe::Ignored;

/// A file, and how it is recognized.
pub struct LogFile {
    /// Absolute, so that it stays valid when the program changes its folder.
    path: PathBuf,
    /// Never null and never freed, because threads may be using it. One is allocated each time the file is
    /// opened.
    opened: AtomicPtr<Opened>,
}

struct Opened {
    file: RawFd,
    device: libc::dev_t,
    inode: libc::ino_t,
    is_pipe: bool,
}

impl Opened {
    fn new(path: &Path) -> Result<&'static Self> {
        // Fail instead of blocking on a pipe that nothing reads.
        let file = OpenOptions::new().create(true).append(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let file = file.into_raw_fd();
        let stat = stat(file)?;
        // SAFETY: the descriptor is open. Writing blocks, so that a slow reader loses no lines.
        unsafe { libc::fcntl(file, libc::F_SETFL, libc::O_APPEND) };
        let is_pipe = stat.st_mode & libc::S_IFMT == libc::S_IFIFO;
        let opened = Self { file, device: stat.st_dev, inode: stat.st_ino, is_pipe };
        Ok(Box::leak(Box::new(opened)))
    }

    /// Whether the descriptor still refers to the file.
    fn is_there(&self) -> bool {
        stat(self.file).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (self.device, self.inode))
    }
}

fn stat(file: RawFd) -> Result<libc::stat> {
    let mut stat = MaybeUninit::uninit();
    // SAFETY: the struct is written by the call where that succeeds.
    match unsafe { libc::fstat(file, stat.as_mut_ptr()) } {
        // SAFETY: the call has succeeded.
        0 => Ok(unsafe { stat.assume_init() }),
        _ => Err(Error::last_os_error()),
    }
}

impl LogFile {
    /// Opens a file for appending lines, and creates its folders.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn open(path: &Path) -> Result<Self> {
        let _off = cancel::disable();
        let path = std::path::absolute(path)?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let opened = Opened::new(&path)?;
        Ok(Self { path, opened: AtomicPtr::new(ptr::from_ref(opened).cast_mut()) })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn opened(&self) -> &'static Opened {
        // SAFETY: it was leaked, whole, before it was stored.
        unsafe { &*self.opened.load(Ordering::Acquire) }
    }

    /// Reopens the file if the program has closed it. Returns whether it is a different file now because the
    /// old one was moved.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn renew(&self) -> Result<bool> {
        let old = self.opened();
        if old.is_there() {
            return Ok(false);
        }
        let _off = cancel::disable();
        let new = Opened::new(&self.path)?;
        let (from, to) = (ptr::from_ref(old).cast_mut(), ptr::from_ref(new).cast_mut());
        if self.opened.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: another thread was faster, and the descriptor is this call's own.
            drop(unsafe { File::from_raw_fd(new.file) });
        }
        Ok((new.device, new.inode) != (old.device, old.inode))
    }

    /// Writes bytes in one call, so that lines of several threads do not mix.
    ///
    /// # Errors
    /// Why not all could be written, with the rest.
    pub fn write<'a>(&self, bytes: &'a [u8]) -> std::result::Result<(), (&'a [u8], Error)> {
        let _off = cancel::disable();
        self.renew().map_err(|error| (bytes, error))?;
        let opened = self.opened();
        let _ignored = opened.is_pipe.then(Ignored::begin);
        write_to(opened.file, bytes)
    }

    /// Empties the file. Does nothing if it is not a regular file.
    pub fn empty(&self) {
        // SAFETY: the call takes any number for a descriptor.
        unsafe { libc::ftruncate(self.opened().file, 0) };
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let opened = self.opened();
        if opened.is_there() {
            let _off = cancel::disable();
            // SAFETY: the descriptor is this file's, and no write to it follows.
            drop(unsafe { File::from_raw_fd(opened.file) });
        }
    }
}

/// Number of bytes that are written to a shared pipe atomically.
pub const TOGETHER: usize = libc::PIPE_BUF;

/// Writes bytes to standard error. Failures are ignored.
pub fn write_to_stderr(bytes: &[u8]) {
    let _ = write_to(libc::STDERR_FILENO, bytes);
}

fn write_to(file: RawFd, mut bytes: &[u8]) -> std::result::Result<(), (&[u8], Error)> {
    while !bytes.is_empty() {
        // SAFETY: the bytes are readable. A file that the program has closed is an ordinary error.
        let written = unsafe { libc::write(file, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(0) => return Err((bytes, ErrorKind::WriteZero.into())),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(_) => match Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => {}
                error => return Err((bytes, error)),
            },
        }
    }
    Ok(())
}
