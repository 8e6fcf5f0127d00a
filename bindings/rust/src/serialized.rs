//! Bytes that functions return in two calls, and the contents of bytes.

use std::ptr;

use crate::Backend;
use crate::constants::{HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN, HIPDNN_SERIALIZED_CONTENT_GRAPH};
use crate::error::{Error, Result};
use crate::functions::Status;

/// Larger sizes are rejected.
const LARGEST: usize = 1 << 34;

/// Asks for the number of bytes, then for the bytes.
pub(crate) fn two_calls(
    backend: &Backend,
    what: &str,
    mut call: impl FnMut(usize, *mut usize, *mut u8) -> Status,
) -> Result<Vec<u8>> {
    let mut size = 0;
    let status = call(0, &raw mut size, ptr::null_mut());
    backend.check(what, status)?;
    if size > LARGEST {
        return Err(Error::answer(format!("{what} is said to need {size} bytes")));
    }
    let mut bytes = vec![0; size];
    let mut written = size;
    let status = call(size, &raw mut written, bytes.as_mut_ptr());
    backend.check(what, status)?;
    bytes.truncate(written);
    Ok(bytes)
}

/// The contents of serialized bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// A graph, or bytes that are not a container.
    pub graph: bool,
    /// A plan in a container.
    pub plan: bool,
}

impl Contents {
    /// Asks the library.
    pub fn of(backend: &Backend, bytes: &[u8]) -> Result<Self> {
        let contents = backend.functions.hipdnnBackendGetSerializedBinaryContents_ext()?;
        let mut flags = 0;
        // SAFETY: the bytes have the length that is given, and the function writes only to the local `flags`.
        let status = unsafe { contents(bytes.as_ptr(), bytes.len(), &raw mut flags) };
        backend.check("reading what the file contains", status)?;
        Ok(Self {
            graph: flags & HIPDNN_SERIALIZED_CONTENT_GRAPH != 0,
            plan: flags & HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN != 0,
        })
    }
}
