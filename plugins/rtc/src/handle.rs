//! What a plugin handle stands for: a stream, and the device that its work is for.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use hipdnn_plugin_sdk::cuda::{self, Cuda, EnteredContext};
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::hip::EnteredDevice;
use hipdnn_plugin_sdk::{PluginError, Refusal};

use crate::compiler::Compiler;
use crate::module::Driver;
use crate::source::{CUDA, HIP};
use crate::{hip, hiprtc, nvrtc};

/// Whose devices an engine works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// AMD GPUs, through HIP and hipRTC.
    Hip,
    /// NVIDIA GPUs, through CUDA and NVRTC.
    Cuda,
}

impl Platform {
    /// The compiler.
    ///
    /// # Errors
    /// Which libraries were looked for.
    pub fn compiler(self) -> Result<Compiler, Refusal> {
        Ok(match self {
            Self::Hip => hiprtc::compiler()?,
            Self::Cuda => nvrtc::compiler()?,
        })
    }

    /// Whether there are a driver, a device and a compiler.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(self) -> Result<(), Refusal> {
        match self {
            Self::Hip => drop(hip::Runtime::get()?),
            Self::Cuda => drop(Cuda::with_device()?),
        }
        self.compiler().map(drop)
    }

    /// What the language of kernels calls what they need.
    pub fn language(self) -> &'static str {
        match self {
            Self::Hip => HIP,
            Self::Cuda => CUDA,
        }
    }
}

/// A device.
#[derive(Clone, Debug)]
pub struct Device {
    /// What loads code onto it.
    pub driver: Driver,
    /// The driver's number of the device.
    pub number: c_int,
    /// What code is compiled for.
    pub architecture: String,
    /// Its context, where it is CUDA's.
    context: Option<cuda::Device>,
}

/// A handle of the host's with this plugin.
///
/// A device of HIP comes into play when a graph is planned or run for the first time: the one that is current then, which
/// stays. A device of CUDA is that of the stream's context, or else of the thread's context, or else the first.
#[derive(Debug)]
pub struct Handle {
    stream: AtomicPtr<c_void>,
    hip: OnceLock<Device>,
    /// The device of CUDA that was used last; it lives as long as the process.
    cuda: AtomicPtr<Device>,
}

impl Default for Handle {
    fn default() -> Self {
        Self { stream: AtomicPtr::default(), hip: OnceLock::new(), cuda: AtomicPtr::new(ptr::null_mut()) }
    }
}

/// The handle's device is that of the thread until this is dropped.
#[derive(Debug)]
pub struct Entered<'a> {
    /// The device.
    pub device: &'a Device,
    /// The stream that work goes to.
    pub stream: hipStream_t,
    _left_when_dropped: Left<'a>,
}

#[derive(Debug)]
#[expect(dead_code, reason = "they are there to be dropped")]
enum Left<'a> {
    Hip(EnteredDevice<'a>),
    Cuda(EnteredContext),
}

/// Every device of CUDA that was used, each with its context. Programs have few, and hardly ever a new one.
static CUDA_DEVICES: Mutex<Vec<&'static Device>> = Mutex::new(Vec::new());

impl Handle {
    /// Sets the stream of later executions.
    pub fn set_stream(&self, stream: hipStream_t) {
        self.stream.store(stream, Ordering::Release);
    }

    /// Makes the handle's device that of the thread.
    ///
    /// # Errors
    /// When a library or a device is missing, or the driver fails.
    pub fn enter(&self, platform: Platform) -> Result<Entered<'_>, PluginError> {
        let stream = self.stream.load(Ordering::Acquire);
        match platform {
            Platform::Hip => {
                let runtime = hip::Runtime::get()?;
                let device = match self.hip.get() {
                    Some(device) => device,
                    None => {
                        let opened = Device::current(runtime)?;
                        self.hip.get_or_init(|| opened)
                    }
                };
                let entered = runtime.hip.enter(device.number)?;
                Ok(Entered { device, stream, _left_when_dropped: Left::Hip(entered) })
            }
            Platform::Cuda => {
                let cuda = Cuda::with_device()?;
                // SAFETY: the host vouches for the stream as long as it is set.
                let context = unsafe { cuda::context_of(cuda, stream) }?;
                // SAFETY: what is stored is null or a device that lives as long as the process.
                let known = unsafe { self.cuda.load(Ordering::Acquire).as_ref() };
                let device = match known.filter(|device| device.is_of(context)) {
                    Some(device) => device,
                    None => {
                        let device = Device::of_context(cuda, context)?;
                        self.cuda.store(ptr::from_ref(device).cast_mut(), Ordering::Release);
                        device
                    }
                };
                let own =
                    device.context.ok_or_else(|| PluginError::internal("a device without a context"))?;
                Ok(Entered { device, stream, _left_when_dropped: Left::Cuda(own.enter()?) })
            }
        }
    }
}

impl Device {
    fn current(runtime: hip::Runtime) -> Result<Self, PluginError> {
        let properties = runtime.hip.device_properties()?;
        let properties =
            properties.ok_or_else(|| PluginError::not_initialized("the HIP runtime finds no device"))?;
        Ok(Self {
            driver: Driver::Hip(runtime),
            number: properties.device_id,
            architecture: properties.architecture_name,
            context: None,
        })
    }

    /// The device, for memory.
    ///
    /// # Errors
    /// None: a device of CUDA has its context.
    pub fn gpu(&self) -> Result<Gpu, PluginError> {
        match (self.driver, self.context) {
            (Driver::Hip(runtime), _) => Ok(Gpu::Hip(runtime.hip)),
            (Driver::Cuda(_), Some(device)) => Ok(Gpu::Cuda(device)),
            (Driver::Cuda(_), None) => Err(PluginError::internal("a device without a context")),
        }
    }

    /// Refuses memory that a device of CUDA cannot reach; HIP is not asked.
    ///
    /// # Errors
    /// When the driver does not know the address, with the tensor's uid.
    #[inline]
    pub fn check_memory(&self, uid: i64, pointer: *const c_void) -> Result<(), PluginError> {
        match self.context {
            Some(device) if !device.cuda.is_device_memory(pointer) => Err(PluginError::bad_param(format!(
                "the buffer of tensor {uid} is at {pointer:?}, which the CUDA driver does not know, expected device memory"
            ))),
            _ => Ok(()),
        }
    }

    fn is_of(&self, context: cuda::CUcontext) -> bool {
        self.context.is_some_and(|own| own.context == context)
    }

    fn of_context(cuda: &'static Cuda, context: cuda::CUcontext) -> Result<&'static Self, PluginError> {
        let mut devices = CUDA_DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = devices.iter().find(|device| device.is_of(context)) {
            return Ok(device);
        }
        let own = cuda::Device::of_context(cuda, context)?;
        let device: &'static Self = Box::leak(Box::new(Self {
            driver: Driver::Cuda(cuda),
            number: own.number,
            architecture: own.architecture(),
            context: Some(own),
        }));
        devices.push(device);
        Ok(device)
    }
}
