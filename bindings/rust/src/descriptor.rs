//! Descriptors, with their attributes as Rust values.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::Backend;
use crate::backend::text_of;
use crate::constants::{
    HIPDNN_TYPE_BACKEND_DESCRIPTOR, HIPDNN_TYPE_BOOLEAN, HIPDNN_TYPE_CHAR, HIPDNN_TYPE_DOUBLE,
    HIPDNN_TYPE_INT32, HIPDNN_TYPE_INT64,
};
use crate::error::{Error, Result};
use crate::functions::RawDescriptor;

/// More elements than any attribute read here has; larger counts are rejected.
const MOST_ELEMENTS: i64 = 1 << 24;

/// A `hipdnnBackendDescriptor_t`, destroyed when it is dropped.
pub struct Descriptor {
    backend: Backend,
    raw: RawDescriptor,
}

// SAFETY: the library identifies a descriptor by a number, on any thread; changes take `&self` on one thread only, because this
// type is not `Sync`.
unsafe impl Send for Descriptor {}

impl Descriptor {
    /// A new descriptor of a type.
    pub fn new(backend: &Backend, kind: c_int) -> Result<Self> {
        let create = backend.functions.hipdnnBackendCreateDescriptor()?;
        Self::made_by(backend, &format!("creating descriptor kind {kind}"), |to| {
            // SAFETY: `made_by` passes the address of a local, the only place that the function writes to.
            unsafe { create(kind, to) }
        })
    }

    /// A descriptor returned by a function.
    pub(crate) fn made_by(
        backend: &Backend,
        what: &str,
        make: impl FnOnce(*mut RawDescriptor) -> c_int,
    ) -> Result<Self> {
        let mut raw = ptr::null_mut();
        let status = make(&raw mut raw);
        backend.check(what, status)?;
        if raw.is_null() {
            return Err(Error::answer(format!("{what} gave a null descriptor")));
        }
        Ok(Self { backend: backend.clone(), raw })
    }

    /// The C handle.
    pub fn raw(&self) -> RawDescriptor {
        self.raw
    }

    /// Its library.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Finalizes it.
    pub fn finalize(&self, what: &str) -> Result<()> {
        let finalize = self.backend.functions.hipdnnBackendFinalize()?;
        // SAFETY: the descriptor is alive; the library checks its state.
        self.backend.check(what, unsafe { finalize(self.raw) })
    }

    /// Sets an attribute from an array.
    ///
    /// # Safety
    /// `T` is the element type of `kind`, the attribute's type.
    pub(crate) unsafe fn set_array<T>(&self, name: c_int, kind: c_int, values: &[T]) -> Result<()> {
        let set = self.backend.functions.hipdnnBackendSetAttribute()?;
        let count = i64::try_from(values.len()).map_err(|_| Error::answer("too many elements"))?;
        // SAFETY: `values` has `count` elements of `T`, which this function requires to be the type of `kind`.
        let status = unsafe { set(self.raw, name, kind, count, values.as_ptr().cast()) };
        self.backend.check(&format!("setting attribute {name}"), status)
    }

    /// Sets integers.
    pub fn set_i64s(&self, name: c_int, values: &[i64]) -> Result<()> {
        // SAFETY: INT64 elements are `i64`.
        unsafe { self.set_array(name, HIPDNN_TYPE_INT64, values) }
    }

    /// Sets a double.
    pub fn set_f64(&self, name: c_int, value: f64) -> Result<()> {
        // SAFETY: DOUBLE elements are `f64`.
        unsafe { self.set_array(name, HIPDNN_TYPE_DOUBLE, &[value]) }
    }

    /// Sets a string.
    pub fn set_text(&self, name: c_int, text: &str) -> Result<()> {
        // SAFETY: CHAR elements are bytes.
        unsafe { self.set_array(name, HIPDNN_TYPE_CHAR, text.as_bytes()) }
    }

    /// Sets other descriptors.
    pub fn set_descriptors(&self, name: c_int, values: &[&Descriptor]) -> Result<()> {
        let raw: Vec<RawDescriptor> = values.iter().map(|value| value.raw).collect();
        // SAFETY: BACKEND_DESCRIPTOR elements are C's descriptor pointers.
        unsafe { self.set_array(name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, &raw) }
    }

    /// The number of elements of an attribute.
    pub(crate) fn count(&self, name: c_int, kind: c_int) -> Result<usize> {
        let get = self.backend.functions.hipdnnBackendGetAttribute()?;
        let mut count = 0;
        // SAFETY: without an array only the count is written.
        let status = unsafe { get(self.raw, name, kind, 0, &raw mut count, ptr::null_mut()) };
        self.backend.check(&format!("reading the size of attribute {name}"), status)?;
        match count {
            0..=MOST_ELEMENTS => Ok(usize::try_from(count).unwrap_or(0)),
            _ => Err(Error::answer(format!("attribute {name} is said to have {count} elements"))),
        }
    }

    /// Reads as many elements as fit, and returns how many were written.
    ///
    /// # Safety
    /// `T` is the element type of `kind`.
    pub(crate) unsafe fn get_into<T>(&self, name: c_int, kind: c_int, to: &mut [T]) -> Result<usize> {
        let get = self.backend.functions.hipdnnBackendGetAttribute()?;
        let room = i64::try_from(to.len()).unwrap_or(i64::MAX);
        let mut count = 0;
        // SAFETY: `to` has room for `room` elements of `T`, which this function requires to be the type of `kind`.
        let status =
            unsafe { get(self.raw, name, kind, room, &raw mut count, to.as_mut_ptr().cast::<c_void>()) };
        self.backend.check(&format!("reading attribute {name}"), status)?;
        Ok(usize::try_from(count).unwrap_or(0).min(to.len()))
    }

    /// Reads all elements.
    ///
    /// # Safety
    /// `T` is the element type of `kind`.
    pub(crate) unsafe fn get_all<T: Copy + Default>(&self, name: c_int, kind: c_int) -> Result<Vec<T>> {
        let mut values = vec![T::default(); self.count(name, kind)?];
        if !values.is_empty() {
            // SAFETY: `T` is the element type of `kind`.
            let got = unsafe { self.get_into(name, kind, &mut values) }?;
            values.truncate(got);
        }
        Ok(values)
    }

    /// Reads the integers of an attribute.
    pub fn i64s(&self, name: c_int) -> Result<Vec<i64>> {
        // SAFETY: INT64 elements are `i64`.
        unsafe { self.get_all(name, HIPDNN_TYPE_INT64) }
    }

    /// Reads one integer without asking for the count first, as some attributes require.
    pub fn i64(&self, name: c_int) -> Result<i64> {
        let mut value = [0_i64];
        // SAFETY: INT64 elements are `i64`.
        unsafe { self.get_into(name, HIPDNN_TYPE_INT64, &mut value) }?;
        let [value] = value;
        Ok(value)
    }

    /// Reads one integer of 32 bits.
    pub fn i32(&self, name: c_int) -> Result<i32> {
        let mut value = [0_i32];
        // SAFETY: INT32 elements are `i32`.
        unsafe { self.get_into(name, HIPDNN_TYPE_INT32, &mut value) }?;
        let [value] = value;
        Ok(value)
    }

    /// Reads one double.
    pub fn f64(&self, name: c_int) -> Result<f64> {
        let mut value = [0_f64];
        // SAFETY: DOUBLE elements are `f64`.
        unsafe { self.get_into(name, HIPDNN_TYPE_DOUBLE, &mut value) }?;
        let [value] = value;
        Ok(value)
    }

    /// Reads one boolean, as a byte: a library may write any value.
    pub fn bool(&self, name: c_int) -> Result<bool> {
        let mut value = [0_u8];
        // SAFETY: BOOLEAN elements are one byte.
        unsafe { self.get_into(name, HIPDNN_TYPE_BOOLEAN, &mut value) }?;
        Ok(value != [0])
    }

    /// Reads the bytes of a string attribute, including NULs.
    pub fn bytes(&self, name: c_int) -> Result<Vec<u8>> {
        // SAFETY: CHAR elements are bytes.
        unsafe { self.get_all(name, HIPDNN_TYPE_CHAR) }
    }

    /// Reads a string.
    pub fn text(&self, name: c_int) -> Result<String> {
        self.bytes(name).map(|bytes| text_of(&bytes))
    }

    /// Reads the descriptors of an attribute that returns new ones.
    pub fn descriptors(&self, name: c_int) -> Result<Vec<Descriptor>> {
        let mut raw: Vec<RawDescriptor> =
            vec![ptr::null_mut(); self.count(name, HIPDNN_TYPE_BACKEND_DESCRIPTOR)?];
        if raw.is_empty() {
            return Ok(Vec::new());
        }
        // SAFETY: BACKEND_DESCRIPTOR elements are C's descriptor pointers.
        let got = unsafe { self.get_into(name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, &mut raw) }?;
        raw.truncate(got);
        raw.retain(|raw| !raw.is_null());
        Ok(raw.into_iter().map(|raw| Descriptor { backend: self.backend.clone(), raw }).collect())
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if let Ok(destroy) = self.backend.functions.hipdnnBackendDestroyDescriptor() {
            // SAFETY: the descriptor is ours, and this is its last use. If the library refuses, it keeps the descriptor.
            unsafe { destroy(self.raw) };
        }
    }
}
