//! What a plugin handle stands for: a stream, and NVIDIA's libraries on its device.

use hipdnn_plugin_sdk::cuda::{self, Cuda};
use hipdnn_plugin_sdk::dynlib::Object;
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::gpu::{self, Gpu};
use hipdnn_plugin_sdk::{PluginError, Refusal};
use parking_lot::{Mutex, MutexGuard};

use crate::compiled::{Maker, Target};
use crate::cudnn::{Cudnn, cudnnHandle_t};
use crate::lt::library::CublasLt;

/// A handle of the host's with this plugin. The libraries come into play when a graph is asked about for the first time.
pub type Handle = gpu::handle::Handle<OnDevice>;

/// The handle's device, which is that of the thread until this is dropped.
pub type Entered<'a> = gpu::handle::Entered<'a, OnDevice>;

/// A device with what a handle has on it.
#[derive(Debug)]
pub struct OnDevice {
    /// The device.
    pub device: cuda::Device,
    cudnn: Mutex<Option<OfCudnn>>,
}

/// A handle of cuDNN's, and the stream that it was last told.
#[derive(Debug)]
struct OfCudnn {
    handle: Object,
    stream: Option<hipStream_t>,
}

// SAFETY: a stream is a name that any thread may use.
unsafe impl Send for OfCudnn {}

/// Handles of cuDNN's that no handle of the host's has, with their contexts. They are not ended: plans may have been made with them, and
/// ending one waits for the device.
static FREE: Mutex<Vec<(usize, OfCudnn)>> = Mutex::new(Vec::new());

/// Whether there are a driver, a device and cuDNN.
///
/// # Errors
/// What is missing.
pub fn check_cudnn() -> Result<(), Refusal> {
    Cuda::with_device()?;
    Cudnn::find()?;
    Ok(())
}

/// Whether there are a driver, a device and cuBLASLt.
///
/// # Errors
/// What is missing.
pub fn check_lt() -> Result<(), Refusal> {
    Cuda::with_device()?;
    CublasLt::find()?;
    Ok(())
}

/// Makes the handle's device that of the thread.
///
/// # Errors
/// When the driver or a device is missing, or the driver fails.
pub fn enter(handle: &Handle) -> Result<Entered<'_>, PluginError> {
    let open = |device: &cuda::Device, _| Ok(OnDevice { device: *device, cudnn: Mutex::new(None) });
    handle.enter_cuda(Cuda::with_device()?, open)
}

/// cuDNN on the device that was entered, for this thread alone.
pub struct Ready<'a> {
    /// cuDNN, which makes plans with the handle.
    pub maker: Maker,
    /// Its handle.
    pub handle: cudnnHandle_t,
    of_cudnn: MutexGuard<'a, Option<OfCudnn>>,
}

impl<'a> Ready<'a> {
    /// cuDNN with a handle on the device.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn new(entered: &Entered<'a>) -> Result<Self, PluginError> {
        let cudnn = Cudnn::find()?;
        let OnDevice { device, cudnn: of_cudnn } = &entered.device.own;
        let mut of_cudnn = of_cudnn.lock();
        let opened = match &mut *of_cudnn {
            Some(opened) => opened,
            none => none.insert(OfCudnn::take(cudnn, device)?),
        };
        let handle = opened.handle.get();
        let target = Target::Handle(handle, Gpu::Cuda(*device));
        let maker = Maker { cudnn, target, device: device.number, context: device.context };
        Ok(Self { maker, handle, of_cudnn })
    }

    /// The same where the handle works on the stream.
    ///
    /// # Errors
    /// As [`Ready::new`], and that the stream cannot be set.
    pub fn on_stream(entered: &Entered<'a>) -> Result<Self, PluginError> {
        let mut ready = Self::new(entered)?;
        let stream = entered.stream;
        if let Some(of_cudnn) = &mut *ready.of_cudnn
            && of_cudnn.stream != Some(stream)
        {
            let (cudnn, handle) = (ready.maker.cudnn, ready.handle);
            of_cudnn.stream = None;
            // SAFETY: the handle is alive, and the host vouches for the stream.
            cudnn.check("cudnnSetStream", unsafe { (cudnn.cudnnSetStream)(handle, stream) })?;
            of_cudnn.stream = Some(stream);
        }
        Ok(ready)
    }
}

impl OfCudnn {
    fn take(cudnn: &'static Cudnn, device: &cuda::Device) -> Result<Self, PluginError> {
        let mut free = FREE.lock();
        match free.iter().position(|(of, _)| *of == device.context.addr()) {
            Some(place) => Ok(free.swap_remove(place).1),
            None => Ok(Self { handle: cudnn.handle()?, stream: None }),
        }
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        if let Some(of_cudnn) = self.cudnn.get_mut().take() {
            FREE.lock().push((self.device.context.addr(), OfCudnn { stream: None, ..of_cudnn }));
        }
    }
}
