//! The state of a plugin handle: a stream, and NVIDIA's libraries on its device.

use std::ffi::c_void;
use std::sync::OnceLock;

use hipdnn_plugin_sdk::cuda::{self, Cuda};
use hipdnn_plugin_sdk::dynlib::Object;
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::gpu::{self, Gpu};
use hipdnn_plugin_sdk::{PluginError, Refusal};
use parking_lot::{Mutex, MutexGuard};

use crate::compiled::{Maker, Target};
use crate::cudnn::{Cudnn, cudnnHandle_t};
use crate::lt::library::CublasLt;

/// The plugin's handle. The libraries are loaded when a graph is first queried.
pub type Handle = gpu::handle::Handle<OnDevice>;

/// The handle's device, current on this thread until this is dropped.
pub type Entered<'a> = gpu::handle::Entered<'a, OnDevice>;

/// A device with a handle's state on it.
#[derive(Debug)]
pub struct OnDevice {
    /// The device.
    pub device: cuda::Device,
    cudnn: OnceLock<&'static Mutex<OfCudnn>>,
}

/// A cuDNN handle, and the stream that was last set.
#[derive(Debug)]
struct OfCudnn {
    handle: Object,
    stream: Option<hipStream_t>,
}

// SAFETY: a stream is a name that any thread may use.
unsafe impl Send for OfCudnn {}

/// The process's cuDNN handles. They are never destroyed: plans may depend on them, and destroying one waits
/// for the device.
static POOL: Mutex<Vec<Pooled>> = Mutex::new(Vec::new());

/// A cuDNN handle with its context, and the number of plugin handles that share it: one, unless some were
/// created while a stream was captured.
struct Pooled {
    context: usize,
    of_cudnn: &'static Mutex<OfCudnn>,
    users: usize,
}

/// Checks that there are a driver, a device and cuDNN.
///
/// # Errors
/// What is missing.
pub fn check_cudnn() -> Result<(), Refusal> {
    Cuda::with_device()?;
    Cudnn::find()?;
    Ok(())
}

/// Checks that there are a driver, a device and cuBLASLt.
///
/// # Errors
/// What is missing.
pub fn check_lt() -> Result<(), Refusal> {
    Cuda::with_device()?;
    CublasLt::find()?;
    Ok(())
}

/// Makes the handle's device current.
///
/// # Errors
/// When the driver or a device is missing, or the driver fails.
pub fn enter(handle: &Handle) -> Result<Entered<'_>, PluginError> {
    let open = |device: &cuda::Device, _| Ok(OnDevice { device: *device, cudnn: OnceLock::new() });
    handle.enter_cuda(Cuda::with_device()?, open)
}

/// cuDNN on the entered device, for this thread alone.
pub struct Ready {
    /// cuDNN and the handle as the target of plans.
    pub maker: Maker,
    /// Its handle.
    pub handle: cudnnHandle_t,
    of_cudnn: MutexGuard<'static, OfCudnn>,
}

impl Ready {
    /// cuDNN with a handle on the device.
    ///
    /// # Errors
    /// Why it is not available.
    pub fn new(entered: &Entered<'_>) -> Result<Self, PluginError> {
        let cudnn = Cudnn::find()?;
        let own = &entered.device.own;
        let of_cudnn = match own.cudnn.get() {
            Some(known) => known,
            None => own.open(cudnn, entered.stream)?,
        };
        let of_cudnn = of_cudnn.lock();
        let handle = of_cudnn.handle.get();
        let (target, device) = (Target::Handle(handle, Gpu::Cuda(own.device)), &own.device);
        let maker = Maker { cudnn, target, device: device.number, context: device.context };
        Ok(Self { maker, handle, of_cudnn })
    }

    /// The same, with the handle working on the stream.
    ///
    /// # Errors
    /// As [`Ready::new`], or that the stream cannot be set.
    pub fn on_stream(entered: &Entered<'_>) -> Result<Self, PluginError> {
        let mut ready = Self::new(entered)?;
        let stream = entered.stream;
        if ready.of_cudnn.stream != Some(stream) {
            let (cudnn, handle) = (ready.maker.cudnn, ready.handle);
            ready.of_cudnn.stream = None;
            // SAFETY: the handle is alive, and the host keeps a stream alive while it is set, as the plugin interface asks.
            cudnn.check("cudnnSetStream", unsafe { (cudnn.cudnnSetStream)(handle, stream) })?;
            ready.of_cudnn.stream = Some(stream);
        }
        Ok(ready)
    }

    /// Copies bytes to the device before the work that cuDNN is given next.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// As for [`Gpu::upload_on`].
    pub unsafe fn upload(&self, to: *mut c_void, from: &[u8]) -> Result<(), PluginError> {
        let Target::Handle(_, gpu) = &self.maker.target else { return Ok(()) };
        let stream = self.of_cudnn.stream.unwrap_or(std::ptr::null_mut());
        // SAFETY: `to` has room for the bytes, as this function requires, and the stream is that of the host's handle, alive while it is
        // set.
        unsafe { gpu.upload_on(stream, to, from) }
    }
}

impl OnDevice {
    /// A cuDNN handle that no other plugin handle uses, else a new one. Creating one would end a capture of
    /// the stream: then an existing handle is shared, and executions take turns.
    #[cold]
    fn open(
        &self,
        cudnn: &'static Cudnn,
        stream: hipStream_t,
    ) -> Result<&'static Mutex<OfCudnn>, PluginError> {
        let (gpu, context) = (Gpu::Cuda(self.device), self.device.context.addr());
        let mut pool = POOL.lock();
        // Another thread may have been faster.
        if let Some(known) = self.cudnn.get() {
            return Ok(known);
        }
        let least_used = pool.iter_mut().filter(|pooled| pooled.context == context).min_by_key(|of| of.users);
        // SAFETY: the host keeps a stream alive while it is set, as the plugin interface asks.
        let is_taken = |pooled: &&mut Pooled| pooled.users == 0 || unsafe { gpu.is_capturing(stream) };
        let of_cudnn = match least_used.filter(is_taken) {
            Some(pooled) => {
                pooled.users += 1;
                pooled.of_cudnn
            }
            None => {
                let handle = gpu.beside_captures(|| cudnn.handle())?;
                let of_cudnn: &_ = Box::leak(Box::new(Mutex::new(OfCudnn { handle, stream: None })));
                pool.push(Pooled { context, of_cudnn, users: 1 });
                of_cudnn
            }
        };
        Ok(self.cudnn.get_or_init(|| of_cudnn))
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        let Some(own) = self.cudnn.get() else { return };
        // Another stream may get the same address later.
        own.lock().stream = None;
        let mut pool = POOL.lock();
        if let Some(pooled) = pool.iter_mut().find(|pooled| std::ptr::eq(pooled.of_cudnn, *own)) {
            pooled.users -= 1;
        }
    }
}
