//! Files that somebody else may have written: read only when they are plain files of a reasonable size.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;

use hipdnn_plugin_sdk::cancel;
use hipdnn_plugin_sdk::os::files;

/// More bytes than any file of ours has.
pub const MOST: u64 = 16 << 20;

/// Opens a plain file; a pipe or a device, which could make the caller wait, is refused.
///
/// # Errors
/// Why it cannot be opened.
pub fn open(path: &Path, options: &mut OpenOptions) -> std::io::Result<File> {
    let _off = cancel::disable();
    let file = files::open_at_once(path, options)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a plain file"));
    }
    Ok(file)
}

/// Everything in a file, from its beginning on.
///
/// # Errors
/// When it cannot be read or is larger than any file of ours.
pub fn read(file: &mut File) -> std::io::Result<Vec<u8>> {
    let bytes = read_start(file, MOST + 1)?;
    if bytes.len() as u64 > MOST {
        return Err(std::io::Error::other(format!("it has more than {MOST} bytes")));
    }
    Ok(bytes)
}

/// At most so many bytes of a file, from its beginning on.
///
/// # Errors
/// When it cannot be read.
pub fn read_start(file: &mut File, most: u64) -> std::io::Result<Vec<u8>> {
    let _off = cancel::disable();
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
