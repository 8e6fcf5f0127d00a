//! Byte buffers exchanged with the caller.

use crate::status::{Error, Result, Status};

/// Fails when the size is 0 or more than a slice can have.
pub fn check_size(argument: &str, size: usize) -> Result<()> {
    if size == 0 || isize::try_from(size).is_err() {
        return Err(Error::bad_param(format!(
            "{argument} is {size}, expected the number of bytes in the argument before it"
        )));
    }
    Ok(())
}

/// Answers a two-call query: always writes the number of bytes, and the bytes if `to` has room for them.
///
/// # Safety
/// `size` is writable, and `to` null or writable for `room` bytes.
pub unsafe fn give_bytes(bytes: &[u8], room: usize, size: *mut usize, to: *mut u8) -> Result<()> {
    // SAFETY: `size` is writable, as this function requires.
    unsafe { size.write_unaligned(bytes.len()) };
    if to.is_null() {
        return Ok(());
    }
    if room < bytes.len() {
        return Err(Error::new(
            Status::HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
            format!("requestedByteSize is {room}, expected at least {}", bytes.len()),
        ));
    }
    // SAFETY: this function requires that `to` is writable for `room` bytes, which is enough as was just checked.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}
