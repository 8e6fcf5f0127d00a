//! Values that cross the C boundary as pointers and come back.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::ptr::{NonNull, null};

use super::{Result, null as null_argument};
use crate::error::PluginError;
use crate::ffi::hipdnnPluginConstData_t;

/// A value that the host refers to by a pointer to an opaque type `C`. The tag distinguishes kinds, and makes
/// pointers differ even if the value has no size: some hosts use the pointer as a key across all plugins.
#[repr(C)]
pub struct Owned<T, const TAG: u64> {
    tag: u64,
    value: T,
}

impl<T, const TAG: u64> Owned<T, TAG> {
    /// Hands the value to the host.
    pub fn give<C>(value: T) -> *mut C {
        Box::into_raw(Box::new(Self { tag: TAG, value })).cast()
    }

    /// Borrows a value that the host holds.
    ///
    /// # Safety
    /// `pointer` is null, or from `give` of this or another kind and not taken back for `'a`.
    #[inline]
    pub unsafe fn borrow<'a, C>(argument: &'static str, pointer: *mut C) -> Result<&'a T> {
        let pointer = pointer.cast::<Self>();
        if pointer.is_null() || !pointer.is_aligned() {
            return Err(not_ours(argument, pointer.cast()));
        }
        // SAFETY: every object of this plugin begins with its tag, and the pointer is one of them and alive.
        if unsafe { (&raw const (*pointer).tag).read() } != TAG {
            return Err(not_ours(argument, pointer.cast()));
        }
        // SAFETY: only objects of this kind have this tag, and this function requires one that lives for `'a`.
        Ok(unsafe { &(*pointer).value })
    }

    /// Takes a value back and drops it.
    ///
    /// # Safety
    /// As [`Owned::borrow`], and the caller alone uses the value.
    pub unsafe fn take<C>(argument: &'static str, pointer: *mut C) -> Result<()> {
        // SAFETY: `pointer` is null or a live object of this plugin that the caller alone uses.
        unsafe { Self::borrow(argument, pointer) }?;
        // SAFETY: it is of this kind, so it came from a box that was not taken back.
        let mut owned = unsafe { Box::from_raw(pointer.cast::<Self>()) };
        // Makes a use after free likely to be noticed.
        owned.tag = 0;
        Ok(())
    }
}

#[cold]
fn not_ours(argument: &'static str, pointer: *mut c_void) -> PluginError {
    match pointer.is_null() {
        true => null_argument(argument),
        false => PluginError::bad_param(format!("{argument} is {pointer:p}, which this plugin did not make")),
    }
}

/// Bytes made by the plugin and lent to the host, aligned for any FlatBuffers reader. Their size is stored in
/// front of them, so that changes to the host's copy of the struct do no harm.
pub struct Bytes;

const ALIGN: usize = 16;

impl Bytes {
    fn layout(size: usize) -> Result<Layout> {
        size.checked_add(ALIGN)
            .and_then(|all| Layout::from_size_align(all, ALIGN).ok())
            .ok_or_else(|| too_many(size))
    }

    /// Hands a copy of the bytes to the host.
    pub fn give(bytes: &[u8]) -> Result<hipdnnPluginConstData_t> {
        let layout = Self::layout(bytes.len())?;
        // SAFETY: the layout has the size of the front at least.
        let front = NonNull::new(unsafe { alloc(layout) }).ok_or_else(|| too_many(bytes.len()))?;
        // SAFETY: the allocation has a front of `ALIGN` bytes, which holds a size, and then room for the bytes.
        let ptr = unsafe {
            front.cast::<usize>().write(bytes.len());
            let ptr = front.add(ALIGN);
            ptr.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            ptr
        };
        Ok(hipdnnPluginConstData_t { ptr: ptr.as_ptr().cast(), size: bytes.len() })
    }

    /// Takes the bytes back and leaves the struct empty.
    ///
    /// # Safety
    /// `data` is valid, and what it points to is null or from `give` and not taken back.
    pub unsafe fn take(data: *mut hipdnnPluginConstData_t) -> Result<()> {
        // SAFETY: this function requires that `data` is valid; hosts may pass memory of any alignment.
        let ptr = unsafe { data.read_unaligned() }.ptr;
        if !ptr.is_null() {
            // SAFETY: `give` left the front before the bytes and the size in it.
            let (front, size) = unsafe {
                let front = ptr.cast_mut().cast::<u8>().sub(ALIGN);
                (front, front.cast::<usize>().read())
            };
            let layout = Self::layout(size)?;
            // SAFETY: this is the layout that `give` allocated with.
            unsafe { dealloc(front, layout) };
        }
        // SAFETY: this function requires that `data` is valid; hosts may pass memory of any alignment.
        unsafe { data.write_unaligned(hipdnnPluginConstData_t { ptr: null(), size: 0 }) };
        Ok(())
    }
}

#[cold]
fn too_many(size: usize) -> PluginError {
    PluginError::alloc_failed(format!("there is no memory for the {size} bytes of an answer"))
}
