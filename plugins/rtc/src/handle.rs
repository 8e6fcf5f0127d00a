//! What a plugin handle stands for: a stream, and a device.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::hip::{EnteredDevice, Hip};
use hipdnn_plugin_sdk::{PluginError, Refusal};

use crate::module::{Modules, Runtime};

impl Runtime {
    /// The libraries of this process, with at least one device to work on. Once there is one the answer stays the same; HIP is
    /// asked again after an error.
    ///
    /// # Errors
    /// Which library was not found, or that there is no device.
    pub fn get() -> Result<Self, Refusal> {
        static MODULES: OnceLock<Modules> = OnceLock::new();
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        if let Some(runtime) = RUNTIME.get() {
            return Ok(*runtime);
        }
        let hip = Hip::with_device()?;
        // The same library, whichever it was.
        let modules = Modules::load_from(&[hip.library().name()])?;
        let found = Self { hip, modules: MODULES.get_or_init(|| modules) };
        Ok(*RUNTIME.get_or_init(|| found))
    }
}

/// A device.
#[derive(Clone, Debug)]
pub struct Device {
    /// The libraries.
    pub runtime: Runtime,
    /// HIP's number of the device.
    pub number: c_int,
    /// What code objects are compiled for.
    pub architecture: String,
}

/// A handle of the host's with this plugin.
///
/// The device comes into play when a graph is planned or run for the first time: the one that is current then, which stays.
#[derive(Debug, Default)]
pub struct Handle {
    stream: AtomicPtr<c_void>,
    device: OnceLock<Device>,
}

/// The handle's device is that of the thread until this is dropped.
#[derive(Debug)]
pub struct Entered<'a> {
    /// The device.
    pub device: &'a Device,
    /// The stream that work goes to.
    pub stream: hipStream_t,
    _entered: EnteredDevice<'a>,
}

impl Handle {
    /// Sets the stream of later executions.
    pub fn set_stream(&self, stream: hipStream_t) {
        self.stream.store(stream, Ordering::Release);
    }

    fn device(&self) -> Result<&Device, PluginError> {
        if let Some(device) = self.device.get() {
            return Ok(device);
        }
        let opened = Device::current(Runtime::get()?)?;
        Ok(self.device.get_or_init(|| opened))
    }

    /// Makes the handle's device that of the thread.
    ///
    /// # Errors
    /// When a library or a device is missing, or HIP fails.
    pub fn enter(&self) -> Result<Entered<'_>, PluginError> {
        let device = self.device()?;
        let entered = device.runtime.hip.enter(device.number)?;
        Ok(Entered { device, stream: self.stream.load(Ordering::Acquire), _entered: entered })
    }
}

impl Device {
    fn current(runtime: Runtime) -> Result<Self, PluginError> {
        let properties = runtime.hip.device_properties()?;
        let properties =
            properties.ok_or_else(|| PluginError::not_initialized("the HIP runtime finds no device"))?;
        Ok(Self { runtime, number: properties.device_id, architecture: properties.architecture_name })
    }
}
