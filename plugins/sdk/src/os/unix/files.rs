//! File operations beyond those of the standard library.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Creates files with permissions `mode`, less the umask.
pub fn with_mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
    options.mode(mode)
}

/// Options to open a file for reading, and for writing at its end.
pub fn to_append() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    options
}

/// Creates a folder and its parents.
///
/// # Errors
/// Why it cannot be created.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Creates a new folder that only this user may read and write.
///
/// # Errors
/// Why it cannot be created.
pub fn make_own_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Opens a file without blocking, even a pipe that nothing writes to.
///
/// # Errors
/// Why it cannot be opened.
pub fn open_at_once(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)
}

/// Detects that a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp([u64; 3], [i64; 2]);

impl Stamp {
    /// The stamp of a file with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        Self([metadata.dev(), metadata.ino(), metadata.size()], [metadata.mtime(), metadata.mtime_nsec()])
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

/// Locks a whole file until it is closed; false if another lock prevents it.
///
/// The lock belongs to the open file, so it also excludes another copy of this library in the same process;
/// on systems without such locks it belongs to the process.
///
/// # Errors
/// Why the file cannot be locked at all.
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

/// The command for a lock owned by the open file.
#[cfg(target_os = "linux")]
const OWN_LOCK: libc::c_int = libc::F_OFD_SETLK;
#[cfg(not(target_os = "linux"))]
const OWN_LOCK: libc::c_int = libc::F_SETLK;

/// System features for tests. Each function's result tells if the system lacks it.
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

    /// Creates a named pipe.
    pub fn pipe(path: &Path) -> io::Result<bool> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the name ends with a NUL.
        match unsafe { libc::mkfifo(name.as_ptr(), 0o644) } {
            0 => Ok(true),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A file that is always full.
    pub fn full() -> Option<&'static str> {
        Path::new("/dev/full").exists().then_some("/dev/full")
    }

    /// The path of one end of a pipe.
    pub fn path_of(pipe: &PipeWriter) -> Option<PathBuf> {
        Some(PathBuf::from(format!("/dev/fd/{}", pipe.as_raw_fd())))
    }
}
