//! Files from untrusted sources: only plain files of a reasonable size are read.

use std::fs::File;
use std::io::Read;

use hipdnn_plugin_sdk::cancel;
pub use hipdnn_plugin_sdk::plain_file::open;

/// The maximum size of our files in bytes.
pub const MOST: u64 = 16 << 20;

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
