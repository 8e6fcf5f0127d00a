//! Where executions run: on the host, or on a stream of a GPU.

use std::ffi::c_void;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use hipdnn_plugin_sdk::cuda::{self, Cuda, EnteredContext};
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::hip::{EnteredDevice, Hip};
use hipdnn_plugin_sdk::vulkan;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::dlpack;
use crate::error::Failure;

/// The memory that arrays are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Host,
    /// A CUDA device, by number.
    Cuda(i32),
    /// A ROCm device, by number.
    Rocm(i32),
    /// A Vulkan device, by number, whose work runs in order.
    Vulkan(i32),
}

impl Place {
    /// The place of a DLPack device; none if no engine computes there.
    pub fn of(device: dlpack::Device) -> Option<Self> {
        Some(match device.kind {
            dlpack::CPU | dlpack::CUDA_HOST | dlpack::ROCM_HOST => Self::Host,
            dlpack::CUDA | dlpack::CUDA_MANAGED => Self::Cuda(device.id),
            dlpack::ROCM => Self::Rocm(device.id),
            dlpack::VULKAN => Self::Vulkan(device.id),
            _ => return None,
        })
    }

    /// The device in DLPack's terms.
    pub fn device(self) -> dlpack::Device {
        let (kind, id) = match self {
            Self::Host => (dlpack::CPU, 0),
            Self::Cuda(id) => (dlpack::CUDA, id),
            Self::Rocm(id) => (dlpack::ROCM, id),
            Self::Vulkan(id) => (dlpack::VULKAN, id),
        };
        dlpack::Device { kind, id }
    }

    /// Makes this the thread's current device until the result is dropped, unless the stream determines the device.
    pub fn enter(self, stream: Stream) -> Result<Entered, Failure> {
        match self {
            Self::Host | Self::Vulkan(_) => Ok(Entered::Nothing),
            Self::Cuda(_) if !stream.is_default() => Ok(Entered::Nothing),
            Self::Cuda(number) => {
                let device = primary(number)?;
                let (mut current, mut of_current) = (std::ptr::null_mut(), -1);
                // SAFETY: the functions write only to the locals `current` and `of_current`. Without a context the second function fails
                // and writes nothing.
                unsafe {
                    (device.cuda.cuCtxGetCurrent)(&raw mut current);
                    if current != device.context && !current.is_null() {
                        (device.cuda.cuCtxGetDevice)(&raw mut of_current);
                    }
                }
                // If the program has its own context on this device, its arrays are in that context.
                if current == device.context || of_current == number {
                    return Ok(Entered::Nothing);
                }
                Ok(Entered::Cuda(device.enter()?))
            }
            Self::Rocm(number) => Ok(Entered::Rocm(Hip::with_device()?.enter(number)?)),
        }
    }

    /// The GPU of work on the stream, already entered; none for the host.
    ///
    /// # Safety
    /// The stream is a default stream or alive.
    pub unsafe fn gpu(self, stream: Stream) -> Result<Option<Gpu>, Failure> {
        Ok(match self {
            Self::Host => None,
            Self::Cuda(_) => {
                let cuda = Cuda::with_device()?;
                // SAFETY: the stream is a default stream or alive, as this function requires.
                let context = unsafe { cuda::context_of(cuda, stream.raw()) }?;
                Some(Gpu::Cuda(cuda::Device::of_context(cuda, context)?))
            }
            Self::Rocm(_) => Some(Gpu::Hip(Hip::with_device()?)),
            Self::Vulkan(number) => Some(Gpu::Vulkan(opened(number)?)),
        })
    }

    /// Opens a Vulkan device through the library of a handle, which then computes there unless it has planned before.
    pub fn open(self, handle: &hipdnn::Handle) -> hipdnn::Result<()> {
        let Self::Vulkan(number) = self else { return Ok(()) };
        if let Gpu::Vulkan(device) = hipdnn::hardware::Gpu::vulkan(handle, number)?.raw() {
            let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
            opened.retain(|known| known.number != number);
            opened.push(device);
        }
        Ok(())
    }

    /// Refuses addresses that are not memory of a Vulkan device: kernels are not to read them.
    pub fn check(self, address: *const c_void) -> Result<(), Failure> {
        match self {
            Self::Vulkan(number) => Ok(opened(number)?.check_address(address.expose_provenance())?),
            _ => Ok(()),
        }
    }
}

/// The Vulkan devices used so far.
static OPENED: Mutex<Vec<vulkan::Device>> = Mutex::new(Vec::new());

fn opened(number: i32) -> Result<vulkan::Device, Failure> {
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let device = opened.iter().find(|device| device.number == number).copied();
    device.ok_or_else(|| {
        Failure::Device(format!("vulkan:{number} is not open, expected one that arrays or graphs use"))
    })
}

/// The CUDA devices used so far, with their primary contexts.
static PRIMARY: Mutex<Vec<cuda::Device>> = Mutex::new(Vec::new());

fn primary(number: i32) -> Result<cuda::Device, Failure> {
    let mut known = PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = known.iter().find(|device| device.number == number) {
        return Ok(*device);
    }
    let device = cuda::Device::primary(Cuda::with_device()?, number)?;
    known.push(device);
    Ok(device)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host memory"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Rocm(number) => write!(f, "rocm:{number}"),
            Self::Vulkan(number) => write!(f, "vulkan:{number}"),
        }
    }
}

/// From Python: kind and number of a device, as `__dlpack_device__` returns them.
impl FromPyObject<'_, '_> for Place {
    type Error = PyErr;

    fn extract(device: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let (kind, id) = device.extract()?;
        Self::of(dlpack::Device { kind, id }).ok_or_else(|| {
            PyValueError::new_err(format!(
                "device {kind}:{id} is not known, expected CPU, CUDA, ROCm or Vulkan"
            ))
        })
    }
}

/// Leaves the device when dropped.
pub enum Entered {
    Nothing,
    Cuda(EnteredContext),
    Rocm(EnteredDevice<'static>),
}

/// A GPU stream, by address; 0 is the default stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream(usize);

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Stream {
    /// The stream at an address. CUDA's sentinel 1 also means the default stream.
    pub fn new(address: usize) -> Self {
        Self(if address == 1 { 0 } else { address })
    }

    pub fn raw(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0)
    }

    /// Whether it is a default stream, which belongs to the current device. 2 is the per-thread one.
    pub fn is_default(self) -> bool {
        self.0 <= 2
    }

    /// The number to pass to `__dlpack__`: for CUDA, 0 is ambiguous and the default stream is 1.
    pub fn for_dlpack(self, place: Place) -> usize {
        if self.0 == 0 && matches!(place, Place::Cuda(_)) { 1 } else { self.0 }
    }

    /// Whether the stream is being captured into a graph. The default stream never is.
    ///
    /// # Safety
    /// The stream is alive, and its device was entered.
    pub unsafe fn is_captured(self, place: Place) -> bool {
        if self.0 == 0 {
            return false;
        }
        let gpu = match place {
            Place::Host | Place::Vulkan(_) => return false,
            Place::Cuda(number) => primary(number).map(Gpu::Cuda).ok(),
            Place::Rocm(_) => Hip::with_device().map(Gpu::Hip).ok(),
        };
        // SAFETY: the stream is alive, as this function requires. The driver needs no context for this.
        gpu.is_some_and(|gpu| unsafe { gpu.is_capturing(self.raw()) })
    }

    /// Makes later work of `after` wait for the work queued on this stream so far.
    ///
    /// # Safety
    /// Both streams are alive, and the device was entered.
    pub unsafe fn before(self, after: Self, place: Place) -> Result<(), Failure> {
        if self == after || matches!(place, Place::Vulkan(_)) {
            return Ok(());
        }
        // A default stream belongs to the current device.
        let _of_default = place.enter(self)?;
        // SAFETY: both streams are alive, as this function requires; the driver keeps a destroyed event until work that waits for it is done.
        unsafe {
            let Some(gpu) = place.gpu(self)? else { return Ok(()) };
            // An event belongs to the current context, which a stream does not determine.
            let _entered = match gpu {
                Gpu::Cuda(device) => Some(device.enter()?),
                Gpu::Hip(_) | Gpu::Vulkan(_) => None,
            };
            let event = gpu.create_event()?;
            let done = gpu.record(event, self.raw()).and_then(|()| gpu.wait_for(after.raw(), event));
            gpu.destroy_event(event);
            Ok(done?)
        }
    }
}
