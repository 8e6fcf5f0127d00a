//! New PyTorch tensors.

use std::ffi::c_void;
use std::{fmt, ptr};

use super::arguments::dtype;
use super::functions::{Functions, RawTensor};
use super::recipe::Made;

/// Why a call was not computed here: PyTorch computes it.
#[derive(Debug)]
pub struct NotComputed(pub String);

impl fmt::Display for NotComputed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A new tensor, owned until PyTorch gets it.
pub struct Owned<'a> {
    f: &'a Functions,
    handle: RawTensor,
    pub data: *mut c_void,
}

impl<'a> Owned<'a> {
    pub fn new(f: &'a Functions, made: &Made, device: (i32, i32)) -> Result<Self, NotComputed> {
        let (rank, dims, strides) = (made.dims.len() as i64, made.dims.as_ptr(), made.strides.as_ptr());
        let (mut handle, mut data) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: there is one size and stride per dimension, and the function writes only to the local `handle`.
        let status = unsafe {
            (f.empty_strided)(rank, dims, strides, made.dtype, device.0, device.1, &raw mut handle)
        };
        if status != 0 {
            return Err(NotComputed(f.error()));
        }
        let mut made = Self { f, handle, data };
        // SAFETY: the tensor was just made, and the function writes only to the local `data`.
        if unsafe { (f.data)(handle, &raw mut data) } != 0 {
            return Err(NotComputed(f.error()));
        }
        made.data = data;
        Ok(made)
    }

    pub fn undefined(f: &'a Functions) -> Result<Self, NotComputed> {
        let mut handle = ptr::null_mut();
        // SAFETY: the function writes only to the local `handle`.
        if unsafe { (f.undefined)(&raw mut handle) } != 0 {
            return Err(NotComputed(f.error()));
        }
        Ok(Self { f, handle, data: ptr::null_mut() })
    }

    pub fn handle(&self) -> RawTensor {
        self.handle
    }

    /// Copies the elements to another PyTorch tensor, on its current stream.
    ///
    /// # Safety
    /// The tensor is alive.
    pub unsafe fn copy_to(&self, to: RawTensor) -> Result<(), NotComputed> {
        // SAFETY: both tensors are alive, the other one as this function requires.
        if unsafe { (self.f.copy)(to, self.handle, 1) } != 0 {
            return Err(NotComputed(self.f.error()));
        }
        Ok(())
    }

    /// Moves a C++ tensor into this undefined one; returns it as a value of the stack.
    ///
    /// # Safety
    /// This tensor is undefined, and the other one is a C++ tensor pointer, counted for the caller.
    pub unsafe fn become_tensor(self, tensor: *mut c_void) -> u64 {
        // SAFETY: a handle points to a tensor, which is one pointer.
        unsafe { self.handle.cast::<*mut c_void>().write(tensor) };
        self.give()
    }

    /// The tensor as a value of the stack, which then owns it.
    pub fn give(self) -> u64 {
        let handle = self.handle;
        std::mem::forget(self);
        handle.expose_provenance() as u64
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the tensor belongs to this object. A failure cannot be handled.
        unsafe { (self.f.delete_tensor)(self.handle) };
    }
}

/// PyTorch memory, as a tensor of bytes.
pub fn memory(f: &Functions, bytes: usize, device: (i32, i32)) -> Option<(RawTensor, *mut c_void)> {
    let made = Made { dtype: dtype::DOUBLE, dims: vec![bytes.div_ceil(8).max(1) as i64], strides: vec![1] };
    let owned = Owned::new(f, &made, device).ok()?;
    let data = owned.data;
    Some((std::ptr::with_exposed_provenance_mut(owned.give() as usize), data))
}
