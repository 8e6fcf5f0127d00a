//! Failures that pass: no free file descriptor, or no memory. What fails for such a reason is tried again by the next handle.

use std::io::{Error as IoError, ErrorKind};

use crate::memory;
use crate::status::{Error, Status};

/// Errors of the system without a kind in the standard library: too many open files, in this process or on the machine.
const DESCRIPTORS: [i32; 2] = [libc::EMFILE, libc::ENFILE];

/// Whether this error of the system passes.
pub fn is_one(error: &IoError) -> bool {
    error.kind() == ErrorKind::OutOfMemory
        || error.raw_os_error().is_some_and(|code| DESCRIPTORS.contains(&code))
}

/// The error to return if a plugin failed for a reason that passes. The loader and plugins have only words for that; the loader's
/// are the system's.
pub fn of_words(reason: &str) -> Option<Error> {
    let says = |code: i32| {
        let words = IoError::from_raw_os_error(code).to_string();
        reason.contains(words.split(" (os error").next().unwrap_or(&words))
    };
    let status = if says(libc::ENOMEM) || reason.contains(memory::NONE) {
        Status::HIPDNN_STATUS_ALLOC_FAILED
    } else if DESCRIPTORS.into_iter().any(says) {
        Status::HIPDNN_STATUS_INTERNAL_ERROR
    } else {
        return None;
    };
    Some(Error::new(status, reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_told_from_a_defect() {
        for code in [libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
            let error = IoError::from_raw_os_error(code);
            assert!(is_one(&error), "{error}");
            assert!(of_words(&format!("liba.so: cannot open: {error}")).is_some(), "{error}");
        }
        for code in [libc::ENOENT, libc::EACCES, libc::EIO] {
            let error = IoError::from_raw_os_error(code);
            assert!(!is_one(&error) && of_words(&error.to_string()).is_none(), "{error}");
        }
        assert!(of_words(&memory::require("a plugin", 1 << 60).unwrap_err().message).is_some());
        // What glibc says about a library that never fits.
        assert!(of_words("liba.so: cannot allocate memory in static TLS block").is_none());
    }
}
