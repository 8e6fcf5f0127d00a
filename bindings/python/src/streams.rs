//! The stream of an execution: the program's choice, or determined by its arrays.

use std::cell::Cell;

use hipdnn_plugin_sdk::gpu::Gpu;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::device::{Place, Stream};
use crate::dlpack::Exchange;
use crate::error::{Error, Failure};

thread_local! {
    /// The stream set by the program for executions of this thread.
    static NAMED: Cell<Option<Stream>> = const { Cell::new(None) };
}

/// Calls a function whose executions on GPUs use the stream at this address.
#[pyfunction]
#[pyo3(signature = (stream, function, *args))]
pub fn on_stream<'py>(
    stream: usize,
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let before = NAMED.replace(Some(Stream::new(stream)));
    let result = function.call1(args);
    NAMED.set(before);
    result
}

/// An execution as seen by arrays: its stream, once an array has settled it.
pub struct Consumer {
    stream: Option<Stream>,
    /// The stream set by the program.
    named: Option<Stream>,
    /// The exchange functions that were last asked for their stream, with the place and the answer.
    asked: Option<(usize, Place, Stream)>,
}

impl Default for Consumer {
    fn default() -> Self {
        Self { stream: None, named: NAMED.get(), asked: None }
    }
}

impl Consumer {
    /// The stream that was settled; the default stream if none was.
    pub fn stream(&self) -> Stream {
        self.stream.unwrap_or_default()
    }

    /// Settles the execution's stream: the one settled before, else the program's, else the stream of this array's producer,
    /// else that of an imported library.
    pub fn settle(&mut self, py: Python<'_>, place: Place, producer: Option<Stream>) -> PyResult<Stream> {
        if let (None, Some(named)) = (self.stream, self.named) {
            // SAFETY: the program guarantees the stream that it set.
            unsafe { expect_of(named, place) }?;
            self.stream = Some(named);
        }
        let stream = match self.stream.or(producer) {
            Some(stream) => stream,
            None => of_imported(py, place)?.unwrap_or_default(),
        };
        self.stream = Some(stream);
        Ok(stream)
    }

    /// The current stream of the library with these exchange functions, if it can tell.
    pub fn of_exchange(&mut self, py: Python<'_>, exchange: &Exchange, place: Place) -> Option<Stream> {
        let address = std::ptr::from_ref(exchange).addr();
        match self.asked {
            Some((known, of, stream)) if (known, of) == (address, place) => Some(stream),
            _ => {
                let (device, mut raw) = (place.device(), std::ptr::null_mut());
                // SAFETY: the function writes only to the local `raw`.
                let status = unsafe { exchange.stream?(device.kind, device.id, &raw mut raw) };
                if status != 0 {
                    // The function has raised an error; clear it, so that it does not surface later.
                    drop(PyErr::take(py));
                    return None;
                }
                let stream = Stream::new(raw.expose_provenance());
                self.asked = Some((address, place, stream));
                Some(stream)
            }
        }
    }
}

/// Raises an error if a stream belongs to another device.
///
/// # Safety
/// The stream is a default stream or alive.
unsafe fn expect_of(stream: Stream, place: Place) -> PyResult<()> {
    if stream.is_default() {
        return Ok(());
    }
    // SAFETY: the stream is a default stream or alive, as this function requires; the stream determines the device.
    match unsafe { place.gpu(stream) }.map_err(Failure::into_py)? {
        Some(Gpu::Vulkan(_)) => Err(Error::new_err(format!(
            "handle: the stream {stream} is set, but the arrays are in {place}, whose work runs in order, expected no stream"
        ))),
        Some(Gpu::Cuda(device)) if Place::Cuda(device.number) != place => Err(Error::new_err(format!(
            "handle: the stream {stream} is of {}, but the arrays are in {place}, expected one device",
            Place::Cuda(device.number)
        ))),
        _ => Ok(()),
    }
}

/// The current stream of an array's library, for PyTorch and CuPy.
pub fn of_array(array: &Bound<'_, PyAny>, place: Place) -> PyResult<Option<Stream>> {
    let py = array.py();
    if matches!(place, Place::Vulkan(_)) {
        return Ok(None);
    }
    let module: String = match array.get_type().getattr_opt(intern!(py, "__module__"))? {
        Some(module) => module.extract().unwrap_or_default(),
        None => return Ok(None),
    };
    match module.split('.').next() {
        Some("torch") => of_torch(py, place),
        Some("cupy") => of_cupy(py, place),
        _ => Ok(None),
    }
}

/// The current stream of an imported library for GPUs.
pub fn of_imported(py: Python<'_>, place: Place) -> PyResult<Option<Stream>> {
    if matches!(place, Place::Vulkan(_)) {
        return Ok(None);
    }
    match of_torch(py, place)? {
        None => of_cupy(py, place),
        found => Ok(found),
    }
}

fn imported<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    modules.call_method1(intern!(py, "get"), (name,)).map(|module| (!module.is_none()).then_some(module))
}

/// PyTorch's, if it has initialized the GPU.
fn of_torch(py: Python<'_>, place: Place) -> PyResult<Option<Stream>> {
    let Some(torch) = imported(py, "torch")? else { return Ok(None) };
    let cuda = torch.getattr(intern!(py, "cuda"))?;
    // PyTorch calls AMD's devices "cuda", too.
    let is_amd = !torch.getattr(intern!(py, "version"))?.getattr(intern!(py, "hip"))?.is_none();
    if is_amd != matches!(place, Place::Rocm(_))
        || !cuda.call_method0(intern!(py, "is_initialized"))?.is_truthy()?
    {
        return Ok(None);
    }
    let stream = cuda.call_method1(intern!(py, "current_stream"), (place.device().id,))?;
    Ok(Some(Stream::new(stream.getattr(intern!(py, "cuda_stream"))?.extract()?)))
}

/// CuPy's.
fn of_cupy(py: Python<'_>, place: Place) -> PyResult<Option<Stream>> {
    let Some(cupy) = imported(py, "cupy")? else { return Ok(None) };
    let current = cupy.getattr(intern!(py, "cuda"))?.getattr(intern!(py, "get_current_stream"))?;
    let stream = match current.call1((place.device().id,)) {
        // Older versions only answer for the current device.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => current.call0()?,
        result => result?,
    };
    Ok(Some(Stream::new(stream.getattr(intern!(py, "ptr"))?.extract()?)))
}
