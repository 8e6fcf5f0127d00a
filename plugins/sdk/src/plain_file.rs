//! Opens files whose names come from outside.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

use crate::cancel;
use crate::os::files;

/// Opens a plain file. Refuses pipes and devices, which could block: their error has the kind [`ErrorKind::InvalidInput`].
///
/// # Errors
/// Why the file cannot be opened.
pub fn open(path: &Path, options: &mut OpenOptions) -> Result<File> {
    let _off = cancel::disable();
    let file = files::open_at_once(path, options)?;
    if !file.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a plain file"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files_are_opened() {
        let mut options = OpenOptions::new();
        options.read(true);
        assert!(open(&std::env::current_exe().unwrap(), &mut options).is_ok());
        let missing = open(Path::new("no such file"), &mut options).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let device = Path::new("/dev/null");
        if device.exists() {
            let refused = open(device, &mut options).unwrap_err();
            assert_eq!(
                (refused.kind(), refused.to_string().as_str()),
                (ErrorKind::InvalidInput, "it is not a plain file")
            );
        }
    }
}
