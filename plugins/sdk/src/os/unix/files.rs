//! Files of which the system is asked more than the standard library does.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Has files that are made get permissions `mode`, less those that the process never gives.
pub fn with_mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
    options.mode(mode)
}

/// Options to open a file for reading, and for writing at its end.
pub fn to_append() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    options
}

/// Makes a folder, and those above it.
///
/// # Errors
/// Why it cannot be made.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Makes a folder that is not there yet, into which only this user may look and write.
///
/// # Errors
/// Why it cannot be made.
pub fn make_own_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Opens a file without waiting: a pipe that nothing writes to is opened, too.
///
/// # Errors
/// Why it cannot be opened.
pub fn open_at_once(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)
}

/// What tells a file from what it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp([u64; 3], [i64; 2]);

impl Stamp {
    /// That of a file with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        Self([metadata.dev(), metadata.ino(), metadata.size()], [metadata.mtime(), metadata.mtime_nsec()])
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

/// Locks a whole file until it is closed, unless another has it: then false.
///
/// The lock is one of the open file, which keeps out other processes and also another copy of this library in the same one;
/// where the system has none such, one of the process.
///
/// # Errors
/// Why it cannot be locked by anyone.
pub fn try_lock(file: &File, lock: Lock) -> io::Result<bool> {
    let kind = match lock {
        Lock::Shared => libc::F_RDLCK,
        Lock::Alone => libc::F_WRLCK,
    };
    let mut command = OWN_LOCK;
    loop {
        // SAFETY: all zeros are a value of the struct.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = kind as libc::c_short;
        range.l_whence = libc::SEEK_SET as libc::c_short;
        // SAFETY: the descriptor is open, and the struct lives during the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut range) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINVAL) if command == OWN_LOCK && OWN_LOCK != libc::F_SETLK => command = libc::F_SETLK,
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
            _ => return Err(error),
        }
    }
}

/// The command for a lock of the open file.
#[cfg(target_os = "linux")]
const OWN_LOCK: libc::c_int = libc::F_OFD_SETLK;
#[cfg(not(target_os = "linux"))]
const OWN_LOCK: libc::c_int = libc::F_SETLK;

/// What tests need of a system. None of it is there where a function answers that it is not.
#[doc(hidden)]
pub mod testing {
    use std::ffi::CString;
    use std::io::{self, PipeWriter};
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    /// Makes a symbolic link to a file.
    pub fn link(file: &Path, link: &Path) -> bool {
        std::os::unix::fs::symlink(file, link).is_ok()
    }

    /// Makes a pipe with a name.
    pub fn pipe(path: &Path) -> io::Result<bool> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the name ends with a NUL.
        match unsafe { libc::mkfifo(name.as_ptr(), 0o644) } {
            0 => Ok(true),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A file that takes no byte.
    pub fn full() -> Option<&'static str> {
        Path::new("/dev/full").exists().then_some("/dev/full")
    }

    /// The path of an end of a pipe.
    pub fn path_of(pipe: &PipeWriter) -> Option<PathBuf> {
        Some(PathBuf::from(format!("/dev/fd/{}", pipe.as_raw_fd())))
    }
}
