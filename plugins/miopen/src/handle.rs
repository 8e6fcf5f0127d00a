//! What a plugin handle stands for: a stream, and a MIOpen handle on one device.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::hip::{EnteredDevice, Hip};
use hipdnn_plugin_sdk::{PluginError, Refusal};
use parking_lot::{Mutex, MutexGuard};

use crate::miopen::{Miopen, miopenHandle_t};
use crate::object::Object;

/// The libraries, with at least one device to work on.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// The HIP runtime.
    pub hip: &'static Hip,
    /// MIOpen.
    pub miopen: &'static Miopen,
}

impl Runtime {
    /// The libraries of this process. Once there is a device the answer stays the same; HIP is asked again after an error.
    ///
    /// # Errors
    /// Which library was not found, or that there is no device.
    pub fn get() -> Result<Self, Refusal> {
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        if let Some(runtime) = RUNTIME.get() {
            return Ok(*runtime);
        }
        let found = Self { hip: Hip::with_device()?, miopen: Miopen::get()? };
        Ok(*RUNTIME.get_or_init(|| found))
    }
}

/// A handle of the host's with this plugin.
///
/// MIOpen and its device come into play when a graph is planned or run for the first time: until then a handle costs nothing
/// on a machine without a GPU. The device is the one that is current then, and stays.
#[derive(Debug, Default)]
pub struct Handle {
    stream: AtomicPtr<c_void>,
    device: OnceLock<Device>,
    opening: Mutex<()>,
}

/// A device with MIOpen ready on it.
#[derive(Debug)]
pub struct Device {
    /// The libraries.
    pub runtime: Runtime,
    /// HIP's number of the device.
    pub number: c_int,
    /// MIOpen lets one thread at a time use a handle.
    miopen: Mutex<MiopenHandle>,
}

/// A MIOpen handle and the stream that it works on.
#[derive(Debug)]
struct MiopenHandle {
    handle: Object,
    stream: hipStream_t,
}

// SAFETY: a stream is a name that any thread may use.
unsafe impl Send for MiopenHandle {}

/// MIOpen, ready to be called by this thread: its handle works on the stream of the plugin handle, and the device of the
/// thread is the handle's. Both are given back when this is dropped.
pub struct Ready<'a> {
    /// The libraries.
    pub runtime: Runtime,
    /// HIP's number of the device.
    pub device: c_int,
    /// The stream that work goes to.
    pub stream: hipStream_t,
    miopen: MutexGuard<'a, MiopenHandle>,
    /// Last, so that the device is left last.
    _entered: EnteredDevice<'a>,
}

impl Handle {
    /// Sets the stream of later executions.
    pub fn set_stream(&self, stream: hipStream_t) {
        self.stream.store(stream, Ordering::Release);
    }

    /// The device of the handle.
    ///
    /// # Errors
    /// When a library or a device is missing, or MIOpen cannot be started.
    pub fn device(&self) -> Result<&Device, PluginError> {
        if let Some(device) = self.device.get() {
            return Ok(device);
        }
        let _one_at_a_time = self.opening.lock();
        if let Some(device) = self.device.get() {
            return Ok(device);
        }
        let opened = Device::open(Runtime::get()?, self.stream.load(Ordering::Acquire))?;
        Ok(self.device.get_or_init(|| opened))
    }

    /// MIOpen, for this thread.
    ///
    /// # Errors
    /// As [`Handle::device`], or when the stream cannot be set.
    pub fn ready(&self) -> Result<Ready<'_>, PluginError> {
        let device = self.device()?;
        let runtime = device.runtime;
        let entered = runtime.hip.enter(device.number)?;
        let mut ready = Ready {
            runtime,
            device: device.number,
            stream: ptr::null_mut(),
            miopen: device.miopen.lock(),
            _entered: entered,
        };
        let stream = self.stream.load(Ordering::Acquire);
        if ready.miopen.stream != stream {
            // SAFETY: the handle is alive, and the host vouches for the stream.
            let status = unsafe { (runtime.miopen.miopenSetStream)(ready.miopen.handle.get(), stream) };
            runtime.miopen.check("miopenSetStream", status)?;
            ready.miopen.stream = stream;
        }
        ready.stream = stream;
        Ok(ready)
    }
}

impl Device {
    fn open(runtime: Runtime, stream: hipStream_t) -> Result<Self, PluginError> {
        let number = runtime.hip.current_device()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the output is valid, the host vouches for the stream, and what is made is taken over at once.
        let handle = unsafe {
            let status = (runtime.miopen.miopenCreateWithStream)(&mut handle, stream);
            runtime.miopen.check("miopenCreateWithStream", status)?;
            Object::new(handle, runtime.miopen.miopenDestroy)
        };
        Ok(Self { runtime, number, miopen: Mutex::new(MiopenHandle { handle, stream }) })
    }
}

impl Ready<'_> {
    /// MIOpen's handle.
    #[inline]
    pub fn handle(&self) -> miopenHandle_t {
        self.miopen.handle.get()
    }
}
