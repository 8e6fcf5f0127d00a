//! Memory for workspaces.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::ptr;

/// No engine asks for more; the largest vectors of processors need 64.
const ALIGNMENT: usize = 256;

/// Host memory whose contents mean nothing.
pub struct Workspace {
    address: *mut u8,
    layout: Option<Layout>,
}

// SAFETY: the memory is this object's own.
unsafe impl Send for Workspace {}

impl Workspace {
    /// So many bytes, or none where memory runs out. Nothing is allocated for 0.
    pub fn new(size: usize) -> Option<Self> {
        if size == 0 {
            return Some(Self { address: ptr::null_mut(), layout: None });
        }
        let layout = Layout::from_size_align(size, ALIGNMENT).ok()?;
        // SAFETY: the size is not zero.
        let address = unsafe { alloc(layout) };
        (!address.is_null()).then_some(Self { address, layout: Some(layout) })
    }

    /// Where it is.
    pub fn address(&self) -> *mut c_void {
        self.address.cast()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: it was allocated with this layout.
            unsafe { dealloc(self.address, layout) };
        }
    }
}
