//! Memory of sizes that a caller decides: where there is none, that is a status and not the end of the process.

use crate::status::{Error, Result};

/// Smaller sizes are not asked for: they come from what the process has already, or it has no use for a status either.
const SMALL: usize = 1 << 20;

#[cold]
fn none(what: &str, bytes: usize) -> Error {
    Error::alloc_failed(format!("there is no memory for {what}, {bytes} bytes"))
}

/// Fails where so many bytes are not to be had now. For what is done by code that cannot say so itself, with as much as it
/// takes at most; another thread may still take them meanwhile.
#[inline]
pub fn require(what: &str, bytes: usize) -> Result<()> {
    if bytes < SMALL { Ok(()) } else { ask(what, bytes) }
}

#[cold]
fn ask(what: &str, bytes: usize) -> Result<()> {
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(bytes).map_err(|_| none(what, bytes))?;
    // Used, or the compiler would not ask at all.
    std::hint::black_box(room.as_ptr());
    Ok(())
}

/// The values in a list of their own.
#[inline]
pub fn collect<T>(what: &str, values: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let count = values.len();
    list.try_reserve_exact(count).map_err(|_| none(what, count.saturating_mul(size_of::<T>())))?;
    list.extend(values);
    Ok(list)
}

/// The bytes once more.
#[inline]
pub fn copy(what: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    collect(what, bytes.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    #[test]
    fn what_cannot_be_had_is_an_error_and_what_can_is_not() {
        // More than an address space has, and less than a count can say.
        const BEYOND: usize = 1 << 60;
        for error in [
            require("a test", BEYOND).unwrap_err(),
            collect("a test", (0..BEYOND).map(|_| 0_u8)).unwrap_err(),
        ] {
            assert_eq!(error.status, Status::HIPDNN_STATUS_ALLOC_FAILED);
            assert_eq!(error.message, format!("there is no memory for a test, {BEYOND} bytes"));
        }
        assert_eq!(require("a test", SMALL), Ok(()));
        assert_eq!(copy("a test", b"abc").unwrap(), b"abc");
    }
}
