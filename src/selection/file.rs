//! Files from untrusted sources: only plain files of a reasonable size are read.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;

use hipdnn_plugin_sdk::cancel;
use hipdnn_plugin_sdk::os::files;

/// The maximum size of our files in bytes.
pub const MOST: u64 = 16 << 20;

/// Opens a plain file. Refuses pipes and devices, which could block.
///
/// # Errors
/// The reason why it cannot be opened.
pub fn open(path: &Path, options: &mut OpenOptions) -> std::io::Result<File> {
    let _off = cancel::disable();
    let file = files::open_at_once(path, options)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a plain file"));
    }
    Ok(file)
}

/// Reads a whole file from its beginning.
///
/// # Errors
/// The file cannot be read or is larger than [`MOST`].
pub fn read(file: &mut File) -> std::io::Result<Vec<u8>> {
    let bytes = read_start(file, MOST + 1)?;
    if bytes.len() as u64 > MOST {
        return Err(std::io::Error::other(format!("it has more than {MOST} bytes")));
    }
    Ok(bytes)
}

/// Reads at most so many bytes of a file, from its beginning.
///
/// # Errors
/// The file cannot be read.
pub fn read_start(file: &mut File, most: u64) -> std::io::Result<Vec<u8>> {
    let _off = cancel::disable();
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
