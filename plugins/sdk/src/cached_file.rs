//! Files that keep what was computed for a key.
//!
//! Files that are damaged, or belong to another key with the same file name, count as missing.

use std::fs::OpenOptions;
use std::io::Read;
use std::path::Path;

use crate::payload::Payload;
use crate::{plain_file, shared_file};

/// The content that was stored for a key, in a file of at most `most` bytes.
pub fn find(format: &Payload, path: &Path, key: &str, most: u64) -> Option<Vec<u8>> {
    let file = plain_file::open(path, OpenOptions::new().read(true)).ok()?;
    if file.metadata().ok()?.len() > most {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    let [known, content] = format.read(&bytes).ok()?;
    (known == key.as_bytes()).then(|| content.to_vec())
}

/// Stores the content of a key.
///
/// # Errors
/// Why it could not be stored.
pub fn store(format: &Payload, path: &Path, key: &str, content: &[u8]) -> Result<(), String> {
    let bytes = format.write(&[key.as_bytes(), content]).map_err(|error| error.to_string())?;
    shared_file::replace(path, &bytes, 0o666).map_err(|error| format!("{}: {error}", path.display()))
}
