//! Allocations whose size the caller controls: if they fail, the call returns a status instead of ending the process.

use crate::status::{Error, Result};

/// Smaller allocations are not checked: if those fail, a status does not help the process either.
const SMALL: usize = 1 << 20;

/// How the messages begin.
pub const NONE: &str = "there is no memory for ";

#[cold]
fn none(what: &str, bytes: usize) -> Error {
    Error::alloc_failed(format!("{NONE}{what}, {bytes} bytes"))
}

/// Fails if so many bytes cannot be allocated now. Call it with an upper bound before code that cannot report a failed
/// allocation; another thread may still take the memory meanwhile.
#[inline]
pub fn require(what: &str, bytes: usize) -> Result<()> {
    if bytes < SMALL { Ok(()) } else { ask(what, bytes) }
}

#[cold]
fn ask(what: &str, bytes: usize) -> Result<()> {
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(bytes).map_err(|_| none(what, bytes))?;
    // Otherwise the compiler removes the allocation.
    std::hint::black_box(room.as_ptr());
    Ok(())
}

/// Collects the values into a list.
#[inline]
pub fn collect<T>(what: &str, values: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let count = values.len();
    list.try_reserve_exact(count).map_err(|_| none(what, count.saturating_mul(size_of::<T>())))?;
    list.extend(values);
    Ok(list)
}

/// Copies the bytes.
#[inline]
pub fn copy(what: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    collect(what, bytes.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    #[test]
    fn sizes_that_cannot_be_allocated_are_errors() {
        // More than an address space, and less than the maximum of usize.
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
