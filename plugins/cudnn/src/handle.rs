//! What a plugin handle stands for: a stream, and NVIDIA's libraries on its device.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

use hipdnn_plugin_sdk::cuda::{self, Cuda, EnteredContext};
use hipdnn_plugin_sdk::dynlib::Object;
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::{PluginError, Refusal};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::compiled::Maker;
use crate::cudnn::Cudnn;
use crate::lt::library::CublasLt;

/// A handle of the host's with this plugin.
///
/// The device is that of the stream's context, or else of the thread's context, or else the first. The libraries come into play
/// when a graph is asked about for the first time.
#[derive(Debug, Default)]
pub struct Handle {
    stream: AtomicPtr<c_void>,
    opened: Mutex<Vec<Opened>>,
}

/// A device with what was opened on it.
#[derive(Debug)]
struct Opened {
    device: cuda::Device,
    cudnn: Option<OfCudnn>,
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

/// The handle's device is that of the thread until this is dropped, and its libraries are this thread's alone.
#[derive(Debug)]
pub struct Entered<'a> {
    /// The device.
    pub device: cuda::Device,
    /// The stream that work goes to.
    pub stream: hipStream_t,
    opened: MappedMutexGuard<'a, Opened>,
    /// Last, so that the context is left last.
    _left_when_dropped: EnteredContext,
}

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

impl Handle {
    /// Sets the stream of later executions.
    pub fn set_stream(&self, stream: hipStream_t) {
        self.stream.store(stream, Ordering::Release);
    }

    /// Makes the handle's device that of the thread.
    ///
    /// # Errors
    /// When the driver or a device is missing, or the driver fails.
    pub fn enter(&self) -> Result<Entered<'_>, PluginError> {
        let cuda = Cuda::with_device()?;
        let stream = self.stream.load(Ordering::Acquire);
        // SAFETY: the host vouches for the stream as long as it is set.
        let context = unsafe { cuda::context_of(cuda, stream) }?;
        let opened = MutexGuard::try_map(self.opened.lock(), |opened| {
            opened.iter_mut().find(|opened| opened.device.context == context)
        });
        let opened = match opened {
            Ok(opened) => opened,
            Err(opened) => {
                let device = cuda::Device::of_context(cuda, context)?;
                MutexGuard::map(opened, |opened| {
                    opened.insert(0, Opened { device, cudnn: None });
                    #[expect(clippy::indexing_slicing, reason = "it was put there just now")]
                    &mut opened[0]
                })
            }
        };
        let device = opened.device;
        let left = device.enter()?;
        Ok(Entered { device, stream, opened, _left_when_dropped: left })
    }
}

impl Entered<'_> {
    /// cuDNN with a handle on the device.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn maker(&mut self) -> Result<Maker, PluginError> {
        let cudnn = Cudnn::find()?;
        let device = self.device;
        let of_cudnn = match &mut self.opened.cudnn {
            Some(of_cudnn) => of_cudnn,
            none => none.insert(OfCudnn::take(cudnn, device.context)?),
        };
        let handle = of_cudnn.handle.get();
        Ok(Maker { cudnn, handle, device: device.number, context: device.context })
    }

    /// The same where the handle works on the stream.
    ///
    /// # Errors
    /// As [`Entered::maker`], and that the stream cannot be set.
    pub fn on_stream(&mut self) -> Result<Maker, PluginError> {
        let maker = self.maker()?;
        let stream = self.stream;
        if let Some(of_cudnn) = &mut self.opened.cudnn
            && of_cudnn.stream != Some(stream)
        {
            of_cudnn.stream = None;
            // SAFETY: the handle is alive, and the host vouches for the stream.
            let status = unsafe { (maker.cudnn.cudnnSetStream)(maker.handle, stream) };
            maker.cudnn.check("cudnnSetStream", status)?;
            of_cudnn.stream = Some(stream);
        }
        Ok(maker)
    }
}

impl OfCudnn {
    fn take(cudnn: &'static Cudnn, context: *mut c_void) -> Result<Self, PluginError> {
        let mut free = FREE.lock();
        match free.iter().position(|(of, _)| *of == context.addr()) {
            Some(place) => Ok(free.swap_remove(place).1),
            None => Ok(Self { handle: cudnn.handle()?, stream: None }),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(of_cudnn) = self.cudnn.take() {
            FREE.lock().push((self.device.context.addr(), OfCudnn { stream: None, ..of_cudnn }));
        }
    }
}
