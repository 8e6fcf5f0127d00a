//! Arrays of any kind, described without copying them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyCapsule, PyDict, PyTuple, PyType};
use std::sync::Mutex;

use crate::ArrayError;
use crate::dlpack::{self, Exchange, Tensor, Versioned};

/// More dimensions than any tensor has.
pub const MOST_DIMS: usize = 16;

/// What an array is: where its first element lies, and how to get to the others.
pub struct View {
    pub data: *mut c_void,
    /// The type in the library's words.
    pub data_type: &'static str,
    pub rank: usize,
    pub dims: [i64; MOST_DIMS],
    /// In elements.
    pub strides: [i64; MOST_DIMS],
    pub read_only: bool,
    pub device: dlpack::Device,
    /// The stream that its producer works on, where it says so.
    pub stream: *mut c_void,
}

/// What keeps an array as it is described.
#[expect(dead_code, reason = "held, not used")]
pub enum Guard {
    /// The array itself, or its capsule.
    Object(Py<PyAny>),
    /// An exported buffer.
    Buffer(Box<Buffer>),
}

/// `Py_buffer`. Its layout and functions are part of Python's stable interface from 3.11 on, and were the same before.
#[repr(C)]
pub struct Buffer {
    buf: *mut c_void,
    obj: *mut ffi::PyObject,
    len: ffi::Py_ssize_t,
    itemsize: ffi::Py_ssize_t,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut ffi::Py_ssize_t,
    strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut c_void,
}

/// `PyBUF_STRIDES | PyBUF_FORMAT`, which read-only memory is given for as well.
const STRIDED_WITH_FORMAT: c_int = 0x0010 | 0x0008 | 0x0004;

unsafe extern "C" {
    fn PyObject_CheckBuffer(object: *mut ffi::PyObject) -> c_int;
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut Buffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut Buffer);
}

// SAFETY: a buffer is released with the interpreter's lock held, whichever thread that is.
unsafe impl Send for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Guards are dropped where the interpreter is attached; elsewhere the array is kept rather than released without the lock.
        Python::try_attach(|_| {
            // SAFETY: the buffer was filled by the interpreter and is released once.
            unsafe { PyBuffer_Release(self) };
        });
    }
}

/// Describes an array: by the exchange functions of its type, the buffer protocol, DLPack, or the array interface of NumPy or CUDA.
pub fn view(array: &Bound<'_, PyAny>, name: &dyn Fn() -> String) -> PyResult<(View, Guard)> {
    if let Some(exchange) = exchange(&array.get_type())? {
        return by_exchange(array, exchange, name);
    }
    // SAFETY: the object is alive.
    if unsafe { PyObject_CheckBuffer(array.as_ptr()) } == 1 {
        match by_buffer(array, name) {
            // Types that the protocol has no letter for, as bfloat16 of ml_dtypes.
            Err(error) if array.hasattr(intern!(array.py(), "__array_interface__"))? => {
                return by_interface(array, "__array_interface__", name).map_err(|_| error);
            }
            result => return result,
        }
    }
    if array.hasattr(intern!(array.py(), "__dlpack__"))? {
        return by_dlpack(array, name);
    }
    if array.hasattr(intern!(array.py(), "__cuda_array_interface__"))? {
        return by_interface(array, "__cuda_array_interface__", name);
    }
    let kind = array.get_type().qualname()?;
    Err(PyTypeError::new_err(format!(
        "{}: a {kind} is no array, expected one with DLPack, the buffer protocol or __cuda_array_interface__",
        name()
    )))
}

/// Types whose exchange functions were looked for, and what was found.
static KNOWN: Mutex<Vec<(Py<PyType>, usize)>> = Mutex::new(Vec::new());

/// More types than a program hands over; those beyond are looked at each time.
const MOST_TYPES: usize = 32;

/// The exchange functions of a type of arrays.
fn exchange(kind: &Bound<'_, PyType>) -> PyResult<Option<&'static Exchange>> {
    let py = kind.py();
    let to_exchange = |address: usize| {
        // SAFETY: the address is 0, or that of a table that lives as long as the process, as the protocol demands.
        unsafe { (address as *const Exchange).as_ref() }
    };
    let known = |types: &Vec<(Py<PyType>, usize)>| {
        types.iter().find(|(known, _)| known.as_ptr() == kind.as_ptr()).map(|(_, address)| *address)
    };
    if let Ok(types) = KNOWN.lock_py_attached(py)
        && let Some(address) = known(&types)
    {
        return Ok(to_exchange(address));
    }
    let address = match kind.getattr_opt(intern!(py, "__dlpack_c_exchange_api__"))? {
        Some(capsule) => match capsule.cast::<PyCapsule>() {
            Ok(capsule) => {
                let address = capsule.pointer_checked(Some(c"dlpack_exchange_api"))?;
                // SAFETY: a capsule of this name has such a table, whose header is the same in all versions.
                let version = unsafe { address.cast::<Exchange>().as_ref() }.version;
                if version.major == 1 { address.as_ptr() as usize } else { 0 }
            }
            Err(_) => 0,
        },
        None => 0,
    };
    if let Ok(mut types) = KNOWN.lock_py_attached(py)
        && types.len() < MOST_TYPES
    {
        // The type is kept, so that no other comes to lie at its address.
        types.push((kind.clone().unbind(), address));
    }
    Ok(to_exchange(address))
}

fn by_exchange(
    array: &Bound<'_, PyAny>,
    exchange: &Exchange,
    name: &dyn Fn() -> String,
) -> PyResult<(View, Guard)> {
    let Some(describe) = exchange.describe else { return by_dlpack(array, name) };
    // SAFETY: all zeros are a tensor without elements.
    let mut tensor: Tensor = unsafe { std::mem::zeroed() };
    // SAFETY: the object is of the type that the table is of, and the output is valid.
    if unsafe { describe(array.as_ptr().cast(), &raw mut tensor) } != 0 {
        return Err(refused(array.py(), name));
    }
    // SAFETY: the tensor was filled, and nothing else of its owner has run since.
    let mut view = unsafe { of_tensor(&tensor, false, name) }?;
    refuse_negated(array, &view, name)?;
    if view.device.kind != dlpack::CPU
        && let Some(stream) = exchange.stream
    {
        // SAFETY: the output is valid.
        if unsafe { stream(view.device.kind, view.device.id, &raw mut view.stream) } != 0 {
            return Err(refused(array.py(), name));
        }
    }
    Ok((view, Guard::Object(array.clone().unbind())))
}

/// What the array's own library said, with the tensor's name.
fn refused(py: Python<'_>, name: &dyn Fn() -> String) -> PyErr {
    let cause = PyErr::take(py);
    let error = ArrayError::new_err(format!(
        "{}: {}",
        name(),
        cause.as_ref().map_or_else(|| "the array cannot be described".to_owned(), ToString::to_string)
    ));
    error.set_cause(py, cause);
    error
}

/// PyTorch's views of the imaginary part of conjugates have the sign of their elements elsewhere, and DLPack does not tell. They lie
/// in complex numbers, so no other array than one without odd strides has to be asked.
fn refuse_negated(array: &Bound<'_, PyAny>, view: &View, name: &dyn Fn() -> String) -> PyResult<()> {
    let mut steps = view.dims.iter().zip(&view.strides).take(view.rank).filter(|(dim, _)| **dim != 1);
    if steps.any(|(_, stride)| stride % 2 != 0) {
        return Ok(());
    }
    match array.getattr_opt(intern!(array.py(), "is_neg"))? {
        Some(is_neg) if is_neg.call0()?.is_truthy()? => Err(ArrayError::new_err(format!(
            "{}: the array is a view that negates its elements, expected one of its own (resolve_neg makes it)",
            name()
        ))),
        _ => Ok(()),
    }
}

fn by_dlpack(array: &Bound<'_, PyAny>, name: &dyn Fn() -> String) -> PyResult<(View, Guard)> {
    let py = array.py();
    let method = intern!(py, "__dlpack__");
    let options = PyDict::new(py);
    options.set_item(intern!(py, "max_version"), (1, 0))?;
    let capsule = match array.call_method(method, (), Some(&options)) {
        // Producers from before versions know no such argument.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => array.call_method0(method),
        result => result,
    };
    let capsule = capsule.map_err(|cause| {
        let error = ArrayError::new_err(format!("{}: {cause}", name()));
        error.set_cause(py, Some(cause));
        error
    })?;
    let view = {
        let capsule = capsule
            .cast::<PyCapsule>()
            .map_err(|_| ArrayError::new_err(format!("{}: __dlpack__ answered no capsule", name())))?;
        if capsule.is_valid_checked(Some(c"dltensor_versioned")) {
            let managed = capsule.pointer_checked(Some(c"dltensor_versioned"))?.cast::<Versioned>();
            // SAFETY: a capsule of this name has such a tensor, alive as long as the capsule.
            let managed = unsafe { managed.as_ref() };
            if managed.version.major != 1 {
                let major = managed.version.major;
                return Err(ArrayError::new_err(format!(
                    "{}: DLPack {major} is not known, expected 1",
                    name()
                )));
            }
            // SAFETY: as above.
            unsafe { of_tensor(&managed.tensor, managed.flags & dlpack::READ_ONLY != 0, name) }
        } else {
            let tensor = capsule.pointer_checked(Some(c"dltensor"))?.cast::<Tensor>();
            // SAFETY: a capsule of this name begins with such a tensor, alive as long as the capsule.
            unsafe { of_tensor(tensor.as_ref(), false, name) }
        }
    }?;
    refuse_negated(array, &view, name)?;
    // A capsule that nobody took over ends what it describes when it goes.
    Ok((view, Guard::Object(capsule.unbind())))
}

/// # Safety
/// The tensor's arrays have as many numbers as it has dimensions.
unsafe fn of_tensor(tensor: &Tensor, read_only: bool, name: &dyn Fn() -> String) -> PyResult<View> {
    let data_type = tensor.dtype.name().ok_or_else(|| {
        let dlpack::DataType { code, bits, lanes } = tensor.dtype;
        ArrayError::new_err(format!(
            "{}: elements of type {code} with {bits} bits × {lanes} are not known",
            name()
        ))
    })?;
    let rank = rank(i64::from(tensor.ndim), name)?;
    let mut view = View {
        data: tensor.data.cast::<u8>().wrapping_add(usize::try_from(tensor.byte_offset).unwrap_or(0)).cast(),
        data_type,
        rank,
        dims: [1; MOST_DIMS],
        strides: [1; MOST_DIMS],
        read_only,
        device: tensor.device,
        stream: ptr::null_mut(),
    };
    if rank > 0 {
        if tensor.shape.is_null() {
            return Err(ArrayError::new_err(format!("{}: the array has no shape", name())));
        }
        // SAFETY: the caller's word.
        let dims = unsafe { std::slice::from_raw_parts(tensor.shape, rank) };
        view.dims.iter_mut().zip(dims).for_each(|(to, dim)| *to = *dim);
        if tensor.strides.is_null() {
            packed(&mut view);
        } else {
            // SAFETY: the caller's word.
            let strides = unsafe { std::slice::from_raw_parts(tensor.strides, rank) };
            view.strides.iter_mut().zip(strides).for_each(|(to, stride)| *to = *stride);
        }
    }
    Ok(view)
}

fn rank(rank: i64, name: &dyn Fn() -> String) -> PyResult<usize> {
    usize::try_from(rank).ok().filter(|rank| *rank <= MOST_DIMS).ok_or_else(|| {
        ArrayError::new_err(format!(
            "{}: the array has {rank} dimensions, expected at most {MOST_DIMS}",
            name()
        ))
    })
}

/// Strides of an array without gaps.
fn packed(view: &mut View) {
    let mut stride = 1_i64;
    for (to, dim) in view.strides.iter_mut().zip(view.dims).take(view.rank).rev() {
        *to = stride;
        stride = stride.saturating_mul(dim);
    }
}

fn by_buffer(array: &Bound<'_, PyAny>, name: &dyn Fn() -> String) -> PyResult<(View, Guard)> {
    let mut buffer = Box::new(Buffer {
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
    // SAFETY: the object is alive and the output valid. What is not filled has no owner, and releasing it does nothing.
    if unsafe { PyObject_GetBuffer(array.as_ptr(), &raw mut *buffer, STRIDED_WITH_FORMAT) } != 0 {
        return Err(refused(array.py(), name));
    }
    let size = i64::try_from(buffer.itemsize).unwrap_or(0);
    let format = if buffer.format.is_null() {
        b"B".as_slice()
    } else {
        // SAFETY: a format is a text that ends with a NUL and lives as long as the buffer.
        unsafe { CStr::from_ptr(buffer.format) }.to_bytes()
    };
    let letter = match format {
        [letter] | [b'@' | b'=' | b'<', letter] => *letter,
        _ => 0,
    };
    let data_type = match (letter, size) {
        (b'e', 2) => "half",
        (b'f', 4) => "float",
        (b'd', 8) => "double",
        (b'b', 1) => "int8",
        (b'B', 1) => "uint8",
        (b'?', 1) => "boolean",
        (b'i' | b'l', 4) => "int32",
        (b'l' | b'q' | b'n', 8) => "int64",
        _ => {
            let format = String::from_utf8_lossy(format).into_owned();
            return Err(ArrayError::new_err(format!(
                "{}: elements of format {format:?} with {size} bytes are not known",
                name()
            )));
        }
    };
    let rank = rank(i64::from(buffer.ndim), name)?;
    let mut view = View {
        data: buffer.buf,
        data_type,
        rank,
        dims: [1; MOST_DIMS],
        strides: [1; MOST_DIMS],
        read_only: buffer.readonly != 0,
        device: dlpack::Device { kind: dlpack::CPU, id: 0 },
        stream: ptr::null_mut(),
    };
    if rank > 0 {
        if buffer.shape.is_null() || buffer.strides.is_null() {
            return Err(ArrayError::new_err(format!("{}: the buffer has no shape or no strides", name())));
        }
        // SAFETY: a buffer that was asked for its strides has as many as dimensions.
        let (dims, strides) = unsafe {
            (std::slice::from_raw_parts(buffer.shape, rank), std::slice::from_raw_parts(buffer.strides, rank))
        };
        for (to, dim) in view.dims.iter_mut().zip(dims) {
            *to = *dim as i64;
        }
        for (to, stride) in view.strides.iter_mut().zip(strides) {
            *to = elements(*stride as i64, size, name)?;
        }
    }
    Ok((view, Guard::Buffer(buffer)))
}

/// A stride in elements.
fn elements(bytes: i64, size: i64, name: &dyn Fn() -> String) -> PyResult<i64> {
    if size <= 0 || bytes % size != 0 {
        return Err(ArrayError::new_err(format!(
            "{}: a stride is {bytes} bytes, which is no multiple of an element's {size}",
            name()
        )));
    }
    Ok(bytes / size)
}

/// By a dictionary with the address: `__array_interface__` or `__cuda_array_interface__`.
fn by_interface(
    array: &Bound<'_, PyAny>,
    attribute: &str,
    name: &dyn Fn() -> String,
) -> PyResult<(View, Guard)> {
    let py = array.py();
    let interface = array.getattr(attribute)?.cast_into::<PyDict>().map_err(PyErr::from)?;
    let item = |key: &str| -> PyResult<Bound<'_, PyAny>> {
        interface
            .get_item(key)?
            .ok_or_else(|| ArrayError::new_err(format!("{}: {attribute} has no {key}", name())))
    };
    let (address, read_only): (usize, bool) = item("data")?.extract()?;
    let dims: Vec<i64> = item("shape")?.extract()?;
    let typestr: String = item("typestr")?.extract()?;
    // Types that the interface has no name for have one in the array's own words.
    let dtype = array.getattr(intern!(py, "dtype")).and_then(|dtype| dtype.getattr(intern!(py, "name")));
    let dtype: String = dtype.and_then(|name| name.extract()).unwrap_or_default();
    let (data_type, size) = match (typestr.trim_start_matches(['<', '|', '=']), dtype.as_str()) {
        (_, "bfloat16") => ("bfloat16", 2),
        (_, "float8_e4m3fn") => ("fp8_e4m3", 1),
        (_, "float8_e5m2") => ("fp8_e5m2", 1),
        (_, "float8_e4m3fnuz") => ("fp8_e4m3_fnuz", 1),
        (_, "float8_e5m2fnuz") => ("fp8_e5m2_fnuz", 1),
        (_, "float8_e8m0fnu") => ("fp8_e8m0", 1),
        ("f2", _) => ("half", 2),
        ("f4", _) => ("float", 4),
        ("f8", _) => ("double", 8),
        ("i1", _) => ("int8", 1),
        ("u1", _) => ("uint8", 1),
        ("b1", _) => ("boolean", 1),
        ("i4", _) => ("int32", 4),
        ("i8", _) => ("int64", 8),
        _ => {
            return Err(ArrayError::new_err(format!(
                "{}: elements of type {typestr} ({dtype}) are not known",
                name()
            )));
        }
    };
    let rank = rank(i64::try_from(dims.len()).unwrap_or(i64::MAX), name)?;
    let is_cuda = attribute == "__cuda_array_interface__";
    let mut view = View {
        data: address as *mut c_void,
        data_type,
        rank,
        dims: [1; MOST_DIMS],
        strides: [1; MOST_DIMS],
        read_only,
        device: dlpack::Device { kind: if is_cuda { 2 } else { dlpack::CPU }, id: 0 },
        stream: ptr::null_mut(),
    };
    view.dims.iter_mut().zip(&dims).for_each(|(to, dim)| *to = *dim);
    packed(&mut view);
    if let Some(strides) = interface.get_item("strides")?.filter(|strides| !strides.is_none()) {
        let strides: Vec<i64> = strides.cast_into::<PyTuple>().map_err(PyErr::from)?.extract()?;
        if strides.len() != rank {
            return Err(PyBufferError::new_err(format!(
                "{}: as many strides as dimensions were expected",
                name()
            )));
        }
        for (to, stride) in view.strides.iter_mut().zip(strides) {
            *to = elements(stride, size, name)?;
        }
    }
    Ok((view, Guard::Object(array.clone().unbind())))
}

/// Shape, strides in elements, type, device and whether it is read-only.
type Description = (Vec<i64>, Vec<i64>, &'static str, (i32, i32), bool);

/// Shape, strides in elements, type, device and whether it is read-only, of an array of any kind.
#[pyfunction]
#[pyo3(signature = (array, /))]
pub fn describe(array: &Bound<'_, PyAny>) -> PyResult<Description> {
    let (view, _guard) = view(array, &|| "array".to_owned())?;
    let of = |numbers: [i64; MOST_DIMS]| numbers.into_iter().take(view.rank).collect();
    Ok((of(view.dims), of(view.strides), view.data_type, (view.device.kind, view.device.id), view.read_only))
}
