//! Files that keep what was computed for a key.
//!
//! Files that are damaged, or belong to another key with the same file name, count as missing.

use std::fs::{self, OpenOptions};
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

/// Removes the oldest files of a folder if all of them have more than `most` bytes, until a quarter of that is free. Files that cannot be
/// read or removed stay.
pub fn trim(folder: &Path, most: u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| {
        let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((about.modified().ok()?, about.len(), entry.path()))
    });
    let mut files: Vec<_> = files.collect();
    let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    if bytes <= most {
        return;
    }
    files.sort();
    for (_, own, path) in files {
        if bytes <= most / 4 * 3 {
            return;
        }
        if fs::remove_file(path).is_ok() {
            bytes -= own;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_oldest_files_are_removed_if_there_are_too_many_bytes() {
        let folder = std::env::temp_dir().join(format!("hipdnn_trim_{}", std::process::id()));
        fs::create_dir_all(folder.join("other")).unwrap();
        for (place, name) in ["c", "a", "d", "b"].into_iter().enumerate() {
            fs::write(folder.join(name), [0; 100]).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + place as u64);
            fs::File::options().write(true).open(folder.join(name)).unwrap().set_modified(time).unwrap();
        }
        let left = || {
            let mut names: Vec<_> =
                fs::read_dir(&folder).unwrap().map(|own| own.unwrap().file_name()).collect();
            names.sort();
            names
        };
        trim(&folder, 400);
        assert_eq!(left(), ["a", "b", "c", "d", "other"]);
        trim(&folder, 399);
        assert_eq!(left(), ["b", "d", "other"]);
        trim(&folder.join("none"), 0);
        fs::remove_dir_all(folder).unwrap();
    }
}
