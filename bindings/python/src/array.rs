//! Arrays of any kind, described without copying them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyCapsule, PyDict, PyType};
use std::sync::Mutex;

use crate::device::{Place, Stream};
use crate::dlpack::{self, Allocator, Exchange, Tensor, Versioned};
use crate::streams::{self, Consumer};
use crate::{ArrayError, interface, storage};

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
    pub stream: Option<Stream>,
    /// What allocates memory of the same kind.
    pub allocator: Option<Allocator>,
}

impl View {
    /// An array of one element in each of so many dimensions.
    pub fn new(data: *mut c_void, data_type: &'static str, rank: usize, device: dlpack::Device) -> Self {
        let (dims, strides) = ([1; MOST_DIMS], [1; MOST_DIMS]);
        Self { data, data_type, rank, dims, strides, read_only: false, device, stream: None, allocator: None }
    }

    /// Whose memory it is in; none where no engine computes.
    pub fn place(&self) -> Option<Place> {
        Place::of(self.device)
    }
}

/// What keeps an array as it is described.
#[expect(dead_code, reason = "held, not used")]
pub enum Guard {
    /// The array itself, or its capsule.
    Object(Py<PyAny>),
    /// An exported buffer.
    Buffer(Box<Buffer>),
}

impl Guard {
    /// The array itself.
    pub fn object(array: &Bound<'_, PyAny>) -> Self {
        Self::Object(array.clone().unbind())
    }
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
pub fn view(
    array: &Bound<'_, PyAny>,
    consumer: &mut Consumer,
    name: &dyn Fn() -> String,
) -> PyResult<(View, Guard)> {
    if let Some(exchange) = exchange(&array.get_type())? {
        return by_exchange(array, exchange, consumer, name);
    }
    // SAFETY: the object is alive.
    if unsafe { PyObject_CheckBuffer(array.as_ptr()) } == 1 {
        match by_buffer(array, name) {
            // Types that the protocol has no letter for, as bfloat16 of ml_dtypes.
            Err(error) if array.hasattr(interface::OF_HOST)? => {
                return interface::view(array, interface::OF_HOST, name).map_err(|_| error);
            }
            // As those of JAX.
            Err(error) if array.hasattr(intern!(array.py(), "__dlpack__"))? => {
                return by_dlpack(array, consumer, name).map_err(|_| error);
            }
            result => return result,
        }
    }
    if array.hasattr(intern!(array.py(), "__dlpack__"))? {
        return by_dlpack(array, consumer, name);
    }
    if array.hasattr(interface::OF_CUDA)? {
        return interface::view(array, interface::OF_CUDA, name);
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
pub fn exchange(kind: &Bound<'_, PyType>) -> PyResult<Option<&'static Exchange>> {
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

/// An array as its exchange functions describe it, for as long as nothing else of its owner runs.
pub struct Described {
    pub tensor: Tensor,
}

impl Described {
    /// The description of an array of the type that the functions are of; none where they refuse.
    pub fn new(array: &Bound<'_, PyAny>, exchange: &Exchange) -> Option<Self> {
        // SAFETY: all zeros are a tensor without elements.
        let mut tensor: Tensor = unsafe { std::mem::zeroed() };
        // SAFETY: the object is of the type that the table is of, and the output is valid.
        if unsafe { exchange.describe?(array.as_ptr().cast(), &raw mut tensor) } != 0 {
            drop(PyErr::take(array.py()));
            return None;
        }
        Some(Self { tensor })
    }

    fn numbers(&self, at: *const i64) -> Option<&[i64]> {
        let rank = usize::try_from(self.tensor.ndim).ok().filter(|rank| *rank <= MOST_DIMS)?;
        if rank == 0 {
            return Some(&[]);
        }
        // SAFETY: a description has as many numbers as dimensions.
        (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at, rank) })
    }

    pub fn dims(&self) -> Option<&[i64]> {
        self.numbers(self.tensor.shape)
    }

    pub fn strides(&self) -> Option<&[i64]> {
        self.numbers(self.tensor.strides)
    }

    /// Where the first element is.
    pub fn address(&self) -> usize {
        let offset = usize::try_from(self.tensor.byte_offset).unwrap_or(0);
        self.tensor.data.wrapping_byte_add(offset).expose_provenance()
    }
}

fn by_exchange(
    array: &Bound<'_, PyAny>,
    exchange: &Exchange,
    consumer: &mut Consumer,
    name: &dyn Fn() -> String,
) -> PyResult<(View, Guard)> {
    let Some(describe) = exchange.describe else { return by_dlpack(array, consumer, name) };
    // SAFETY: all zeros are a tensor without elements.
    let mut tensor: Tensor = unsafe { std::mem::zeroed() };
    // SAFETY: the object is of the type that the table is of, and the output is valid.
    if unsafe { describe(array.as_ptr().cast(), &raw mut tensor) } != 0 {
        return Err(refused(array.py(), name));
    }
    // SAFETY: the tensor was filled, and nothing else of its owner has run since.
    let mut view = unsafe { of_tensor(&tensor, false, name) }?;
    view.data = storage::address(array, &tensor)?;
    refuse_negated(array, &view, name)?;
    if let Some(place) = view.place().filter(|place| *place != Place::Host) {
        view.stream = consumer.of_exchange(array.py(), exchange, place);
        view.allocator = exchange.allocator;
    }
    Ok((view, Guard::object(array)))
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

/// Whether an array may be one of PyTorch's views of the imaginary part of conjugates, which have the sign of their elements
/// elsewhere. They lie in complex numbers, so an array with an odd stride is none.
pub fn may_negate<'a>(
    dims: impl IntoIterator<Item = &'a i64>,
    strides: impl IntoIterator<Item = &'a i64>,
) -> bool {
    !dims.into_iter().zip(strides).any(|(dim, stride)| *dim != 1 && stride % 2 != 0)
}

/// Refuses such a view, of which DLPack does not tell.
fn refuse_negated(array: &Bound<'_, PyAny>, view: &View, name: &dyn Fn() -> String) -> PyResult<()> {
    let (dims, strides) = (view.dims.iter().take(view.rank), view.strides.iter().take(view.rank));
    if !may_negate(dims, strides) {
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

fn by_dlpack(
    array: &Bound<'_, PyAny>,
    consumer: &mut Consumer,
    name: &dyn Fn() -> String,
) -> PyResult<(View, Guard)> {
    let py = array.py();
    let method = intern!(py, "__dlpack__");
    let options = PyDict::new(py);
    let mut producer = None;
    if let Some(device) = array.getattr_opt(intern!(py, "__dlpack_device__"))? {
        let (kind, id) = device.call0()?.extract()?;
        if let Some(place) = Place::of(dlpack::Device { kind, id }).filter(|place| *place != Place::Host) {
            producer = streams::of_array(array, place)?;
            options
                .set_item(intern!(py, "stream"), consumer.settle(py, place, producer)?.for_dlpack(place))?;
        }
    }
    options.set_item(intern!(py, "max_version"), (1, 0))?;
    let capsule = match array.call_method(method, (), Some(&options)) {
        // Producers from before versions know no such argument.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            options.del_item(intern!(py, "max_version"))?;
            array.call_method(method, (), Some(&options))
        }
        result => result,
    };
    let capsule = capsule.map_err(|cause| {
        let error = ArrayError::new_err(format!("{}: {cause}", name()));
        error.set_cause(py, Some(cause));
        error
    })?;
    let mut view = {
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
            // SAFETY: the capsule owns the tensor and is alive for the whole of this function.
            let view = unsafe { of_tensor(&managed.tensor, managed.flags & dlpack::READ_ONLY != 0, name) }?;
            View { data: storage::address(array, &managed.tensor)?, ..view }
        } else {
            let tensor = capsule.pointer_checked(Some(c"dltensor"))?.cast::<Tensor>();
            // SAFETY: a capsule of this name begins with such a tensor, alive as long as the capsule.
            let tensor = unsafe { tensor.as_ref() };
            // SAFETY: the tensor was filled by its owner.
            let view = unsafe { of_tensor(tensor, false, name) }?;
            View { data: storage::address(array, tensor)?, ..view }
        }
    };
    refuse_negated(array, &view, name)?;
    view.stream = producer;
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
    let data = tensor.data.wrapping_byte_add(usize::try_from(tensor.byte_offset).unwrap_or(0));
    let mut view = View::new(data, data_type, rank, tensor.device);
    view.read_only = read_only;
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

pub fn rank(rank: i64, name: &dyn Fn() -> String) -> PyResult<usize> {
    usize::try_from(rank).ok().filter(|rank| *rank <= MOST_DIMS).ok_or_else(|| {
        ArrayError::new_err(format!(
            "{}: the array has {rank} dimensions, expected at most {MOST_DIMS}",
            name()
        ))
    })
}

/// Strides of an array without gaps.
pub fn packed(view: &mut View) {
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
    let mut view = View::new(buffer.buf, data_type, rank, Place::Host.device());
    view.read_only = buffer.readonly != 0;
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
pub fn elements(bytes: i64, size: i64, name: &dyn Fn() -> String) -> PyResult<i64> {
    if size <= 0 || bytes % size != 0 {
        return Err(ArrayError::new_err(format!(
            "{}: a stride is {bytes} bytes, which is no multiple of an element's {size}",
            name()
        )));
    }
    Ok(bytes / size)
}

/// Shape, strides in elements, type, device and whether it is read-only.
type Description = (Vec<i64>, Vec<i64>, &'static str, (i32, i32), bool);

/// Shape, strides in elements, type, device and whether it is read-only, of an array of any kind.
#[pyfunction]
#[pyo3(signature = (array, /))]
pub fn describe(array: &Bound<'_, PyAny>) -> PyResult<Description> {
    let (view, _guard) = view(array, &mut Consumer::default(), &|| "array".to_owned())?;
    let of = |numbers: [i64; MOST_DIMS]| numbers.into_iter().take(view.rank).collect();
    Ok((of(view.dims), of(view.strides), view.data_type, (view.device.kind, view.device.id), view.read_only))
}
