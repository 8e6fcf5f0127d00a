//! A MIOpen handle on the device of a plugin's handle.

use std::ptr;

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::gpu::handle::Entered;
use hipdnn_plugin_sdk::hip::Hip;
use hipdnn_plugin_sdk::{PluginError, Refusal, gpu};
use parking_lot::{Mutex, MutexGuard};

use crate::miopen::{Miopen, miopenHandle_t};
use crate::object::Object;

/// The plugin's handle. MIOpen's per-device state may only be used by one thread at a time.
pub type Handle = gpu::handle::Handle<Mutex<MiopenHandle>>;

/// The libraries, with at least one device.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// The HIP runtime.
    pub hip: &'static Hip,
    /// MIOpen.
    pub miopen: &'static Miopen,
}

impl Runtime {
    /// The process's libraries.
    ///
    /// # Errors
    /// Which library was not found, or that there is no device.
    pub fn get() -> Result<Self, Refusal> {
        Ok(Self { hip: Hip::with_device()?, miopen: Miopen::get()? })
    }
}

/// A MIOpen handle and its current stream.
#[derive(Debug)]
pub struct MiopenHandle {
    handle: Object,
    stream: hipStream_t,
}

// SAFETY: a stream is a name that any thread may use.
unsafe impl Send for MiopenHandle {}

/// MIOpen, ready for calls on this thread: its handle uses the plugin handle's stream, and the handle's
/// device is current. Both are released when this is dropped.
pub struct Ready<'a> {
    /// The libraries.
    pub runtime: Runtime,
    miopen: MutexGuard<'a, MiopenHandle>,
    /// The device and the stream. Last field, so that the device is left last.
    pub entered: Entered<'a, Mutex<MiopenHandle>>,
}

impl<'a> Ready<'a> {
    /// MIOpen, for this thread.
    ///
    /// # Errors
    /// When a library or a device is missing, MIOpen cannot be started, or the stream cannot be set.
    pub fn new(handle: &'a Handle) -> Result<Self, PluginError> {
        let runtime = Runtime::get()?;
        let entered = handle.enter_hip(runtime.hip, |stream| MiopenHandle::open(runtime.miopen, stream))?;
        let mut miopen = entered.device.own.lock();
        if miopen.stream != entered.stream {
            // SAFETY: the handle is alive, and the host keeps a stream alive while it is set, as the plugin interface asks.
            let status = unsafe { (runtime.miopen.miopenSetStream)(miopen.handle.get(), entered.stream) };
            runtime.miopen.check("miopenSetStream", status)?;
            miopen.stream = entered.stream;
        }
        Ok(Self { runtime, miopen, entered })
    }

    /// MIOpen's handle.
    #[inline]
    pub fn handle(&self) -> miopenHandle_t {
        self.miopen.handle.get()
    }
}

impl MiopenHandle {
    fn open(miopen: &'static Miopen, stream: hipStream_t) -> Result<Mutex<Self>, PluginError> {
        let mut handle = ptr::null_mut();
        // SAFETY: the function writes only to the local `handle`, the host keeps a stream alive while it is set, as the plugin interface
        // asks, and the new object is owned at once.
        let handle = unsafe {
            miopen.check("miopenCreateWithStream", (miopen.miopenCreateWithStream)(&mut handle, stream))?;
            Object::new(handle, miopen.miopenDestroy)
        };
        Ok(Mutex::new(Self { handle, stream }))
    }
}
