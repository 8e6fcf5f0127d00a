//! The view of an array and what keeps it valid: plain data, whichever protocol it came by.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::OnceLock;

use hipdnn_plugin_sdk::objects;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::device::{Place, Stream};
use crate::dlpack::{self, Allocator};
use crate::error::{ArrayError, because, shown};

/// More dimensions than any tensor has.
pub const MOST_DIMS: usize = 16;

/// A view of an array: its first element, and how to reach the others.
pub struct View {
    pub data: *mut c_void,
    /// The type, by the library's name.
    pub data_type: &'static str,
    pub rank: usize,
    /// Entries beyond the rank are unused.
    pub dims: [i64; MOST_DIMS],
    /// In elements.
    pub strides: [i64; MOST_DIMS],
    pub read_only: bool,
    pub device: dlpack::Device,
    /// The stream of its producer, if known.
    pub stream: Option<Stream>,
    /// An allocator for memory of the same kind.
    pub allocator: Option<Allocator>,
}

impl Default for View {
    fn default() -> Self {
        let (data, dims, strides) = (ptr::null_mut(), [1; MOST_DIMS], [1; MOST_DIMS]);
        let (read_only, device) = (false, Place::Host.device());
        Self { data, data_type: "", rank: 0, dims, strides, read_only, device, stream: None, allocator: None }
    }
}

impl View {
    /// Resets the view for an array of this rank, whose shape and strides are set next. Views are large, so they are reused.
    pub fn begin(&mut self, data: *mut c_void, data_type: &'static str, rank: usize, device: dlpack::Device) {
        (self.data, self.data_type, self.rank, self.device) = (data, data_type, rank, device);
        (self.read_only, self.stream, self.allocator) = (false, None, None);
    }

    /// The shape.
    pub fn dims(&self) -> &[i64] {
        self.dims.get(..self.rank).unwrap_or_default()
    }

    /// The strides, in elements.
    pub fn strides(&self) -> &[i64] {
        self.strides.get(..self.rank).unwrap_or_default()
    }

    /// The place of its memory; none if no engine computes there.
    pub fn place(&self) -> Option<Place> {
        Place::of(self.device)
    }

    /// Sets packed strides.
    pub fn pack(&mut self) {
        let mut stride = 1_i64;
        for (to, dim) in self.strides.iter_mut().zip(self.dims).take(self.rank).rev() {
            *to = stride;
            stride = stride.saturating_mul(dim);
        }
    }
}

/// The rank of an array, if it is small enough.
pub fn rank(rank: i64, name: &dyn Fn() -> String) -> PyResult<usize> {
    usize::try_from(rank).ok().filter(|rank| *rank <= MOST_DIMS).ok_or_else(|| {
        ArrayError::new_err(format!(
            "{}: the array has {rank} dimensions, expected at most {MOST_DIMS}",
            name()
        ))
    })
}

/// A stride in elements.
pub fn elements(bytes: i64, size: i64, name: &dyn Fn() -> String) -> PyResult<i64> {
    if size <= 0 || bytes % size != 0 {
        return Err(ArrayError::new_err(format!(
            "{}: a stride is {bytes} bytes, expected a multiple of an element's {size}",
            name()
        )));
    }
    Ok(bytes / size)
}

/// Reads a shape or strides from any iterable of integers. Reads no more than a tensor may have dimensions, whatever length the iterable
/// reports.
pub struct Numbers(pub Vec<i64>);

impl FromPyObject<'_, '_> for Numbers {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let wrong = |cause| {
            because(value.py(), cause, |_| {
                ArrayError::new_err(format!("is {}, expected a tuple of integers", shown(&value)))
            })
        };
        let mut numbers = Vec::new();
        for item in value.try_iter().map_err(wrong)? {
            if numbers.len() == MOST_DIMS {
                let what = format!("is {}, expected at most {MOST_DIMS} numbers", shown(&value));
                return Err(ArrayError::new_err(what));
            }
            numbers.push(item.and_then(|item| item.extract::<i64>()).map_err(wrong)?);
        }
        Ok(Self(numbers))
    }
}

/// Keeps an array as described.
pub enum Guard {
    /// The array itself.
    Object(Py<PyAny>),
    /// Its capsule.
    Capsule(Taken),
    /// An exported buffer.
    Buffer(Box<Buffer>),
}

impl Guard {
    /// The array itself.
    pub fn object(array: &Bound<'_, PyAny>) -> Self {
        Self::Object(array.clone().unbind())
    }
}

/// A DLPack capsule in use: other consumers find it taken, and cannot free its content meanwhile. Its name is restored
/// at the end, and the capsule frees its content when it is destroyed.
pub struct Taken {
    capsule: Py<PyCapsule>,
    name: &'static CStr,
}

impl Taken {
    /// Takes a capsule with this name.
    pub fn new(capsule: &Bound<'_, PyCapsule>, name: &'static CStr, used: &'static CStr) -> PyResult<Self> {
        // SAFETY: the capsule is alive and the name lives as long as the process.
        if unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) } != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        Ok(Self { capsule: capsule.clone().unbind(), name })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // During interpreter shutdown, the tensor is leaked.
        Python::try_attach(|_| {
            // SAFETY: the capsule is alive and the name lives as long as the process.
            unsafe { ffi::PyCapsule_SetName(self.capsule.as_ptr(), self.name.as_ptr()) }
        });
    }
}

/// `Py_buffer`. Its layout and functions belong to Python's stable interface since 3.11, and were the same before.
#[repr(C)]
pub struct Buffer {
    pub buf: *mut c_void,
    obj: *mut ffi::PyObject,
    len: ffi::Py_ssize_t,
    pub itemsize: ffi::Py_ssize_t,
    pub readonly: c_int,
    pub ndim: c_int,
    pub format: *mut c_char,
    pub shape: *mut ffi::Py_ssize_t,
    pub strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut c_void,
}

/// `PyBUF_STRIDES | PyBUF_FORMAT`, which also allows read-only memory.
const STRIDED_WITH_FORMAT: c_int = 0x0010 | 0x0008 | 0x0004;

/// Functions that `python3.dll` exports only since 3.11, and each version's own library before: looked up in the interpreter itself.
pub struct Functions {
    check: unsafe extern "C" fn(*mut ffi::PyObject) -> c_int,
    get: unsafe extern "C" fn(*mut ffi::PyObject, *mut Buffer, c_int) -> c_int,
    release: unsafe extern "C" fn(*mut Buffer),
}

impl Functions {
    fn find() -> Option<Self> {
        let find = |name| objects::find(|object| object.function(name));
        let check = find(c"PyObject_CheckBuffer")?;
        let get = find(c"PyObject_GetBuffer")?;
        let release = find(c"PyBuffer_Release")?;
        Some(Self {
            // SAFETY: Python's headers declare the function of this name with one object and a number as its result.
            check: unsafe {
                transmute::<*const (), unsafe extern "C" fn(*mut ffi::PyObject) -> c_int>(check)
            },
            // SAFETY: they declare this one with an object, a buffer to fill and flags, and a number as its result.
            get: unsafe {
                transmute::<*const (), unsafe extern "C" fn(*mut ffi::PyObject, *mut Buffer, c_int) -> c_int>(
                    get,
                )
            },
            // SAFETY: they declare this one with a buffer, and without a result.
            release: unsafe { transmute::<*const (), unsafe extern "C" fn(*mut Buffer)>(release) },
        })
    }
}

/// The interpreter's functions, looked up when this module is imported; the interpreter outlives it.
pub fn functions() -> Option<&'static Functions> {
    static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
    FOUND.get_or_init(Functions::find).as_ref()
}

// SAFETY: a buffer is released with the interpreter's lock held, on any thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Whether an array supports the buffer protocol.
    pub fn is_of(array: &Bound<'_, PyAny>) -> bool {
        functions().is_some_and(|functions| {
            // SAFETY: `array` holds a reference to the object, and its type shows that the interpreter's lock is held.
            unsafe { (functions.check)(array.as_ptr()) == 1 }
        })
    }

    /// The buffer of an array, with strides and format.
    pub fn export(array: &Bound<'_, PyAny>) -> PyResult<Box<Self>> {
        let mut buffer = Box::new(Self {
            buf: ptr::null_mut(),
            obj: ptr::null_mut(),
            len: 0,
            itemsize: 0,
            readonly: 0,
            ndim: 0,
            format: ptr::null_mut(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            suboffsets: ptr::null_mut(),
            internal: ptr::null_mut(),
        });
        let functions =
            functions().ok_or_else(|| ArrayError::new_err("this Python exports no functions for buffers"))?;
        // SAFETY: the object is alive and the output valid. An unfilled buffer has no owner, and releasing it does nothing.
        if unsafe { (functions.get)(array.as_ptr(), &raw mut *buffer, STRIDED_WITH_FORMAT) } != 0 {
            return Err(PyErr::fetch(array.py()));
        }
        Ok(buffer)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Guards are dropped with the interpreter attached; otherwise leak the array rather than release it without the lock.
        Python::try_attach(|_| {
            if let Some(functions) = functions() {
                // SAFETY: the interpreter filled the buffer, and it is released once.
                unsafe { (functions.release)(self) };
            }
        });
    }
}
