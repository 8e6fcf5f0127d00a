//! Files that processes share without locking.
//!
//! A file is written under a unique name and renamed when complete: readers find the old content, the new or
//! none, and a process that is killed meanwhile leaves nothing that could be mistaken for the file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::os::{cancel, files};

/// How long a process may take to write a file. Older unfinished files are from killed processes.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Suffix of unfinished files.
const UNFINISHED: &str = ".unfinished";

/// Replaces a file's content, with permissions `mode` (less the umask). Creates its folder if needed. The
/// first call of a process also removes old files that killed processes left unfinished in the folder.
///
/// # Errors
/// Why it cannot be written; the file is unchanged then.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    static SWEPT: AtomicBool = AtomicBool::new(false);
    let _off = cancel::disable();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
        if !SWEPT.swap(true, Ordering::Relaxed) {
            sweep(folder);
        }
    }
    let own = own_name(path);
    let mut file = files::with_mode(OpenOptions::new().write(true).create_new(true), mode).open(&own)?;
    let written = file.write_all(bytes).and_then(|()| fs::rename(&own, path));
    if written.is_err() {
        // A half-written file is useless; a failure to remove it is ignored.
        let _ = fs::remove_file(&own);
    }
    written
}

/// A name that no other process uses, not even one with the same id in another container or at another time.
fn own_name(path: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{count}-{now:x}{UNFINISHED}", std::process::id()));
    name.into()
}

/// Removes unfinished files of killed processes.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_unfinished = entry.file_name().to_string_lossy().ends_with(UNFINISHED);
        let age = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = age.and_then(|time| SystemTime::now().duration_since(time).ok());
        if is_unfinished && age.is_some_and(|age| age > PATIENCE) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("hipdnn_shared_file_{name}_{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_file_is_replaced_atomically_without_leftovers() {
        let folder = scratch("whole");
        let path = folder.join("below/a.plan");
        replace(&path, b"one", 0o600).unwrap();
        replace(&path, b"another", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"another");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        // The name is taken by a folder: the unfinished file is removed.
        assert!(replace(path.parent().unwrap(), b"file", 0o600).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn no_two_files_have_one_name_while_they_are_written() {
        let names: Vec<_> = (0..100).map(|_| own_name(Path::new("/a.plan"))).collect();
        assert!((1..100).all(|at| !names[..at].contains(&names[at])));
    }

    #[test]
    fn leftovers_of_killed_processes_are_removed_later() {
        let folder = scratch("left");
        fs::create_dir_all(&folder).unwrap();
        let old = own_name(&folder.join("a.plan"));
        let (fresh, foreign) = (own_name(&folder.join("a.plan")), folder.join("a.tmp"));
        let then = SystemTime::now() - 2 * PATIENCE;
        for (path, is_old) in [(&old, true), (&fresh, false), (&foreign, true)] {
            fs::write(path, "half").unwrap();
            if is_old {
                fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
            }
        }
        sweep(&folder);
        assert!(!old.exists() && fresh.exists() && foreign.exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
