//! Streams of a GPU, and work that was captured.

use std::ffi::c_void;

use hipdnn_plugin_sdk::gpu;

use crate::error::{Error, Result};
use crate::hardware::Gpu;
use crate::hardware::memory::failed;

/// A stream of a GPU: what is put on it is done in order, beside other streams. The default stream and it wait for each other.
pub struct Stream {
    gpu: Gpu,
    raw: *mut c_void,
}

// SAFETY: HIP and CUDA take calls about a stream from any thread.
unsafe impl Send for Stream {}
// SAFETY: through a shared reference work is put on the stream and waited for, which any threads may do at once.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(gpu: Gpu) -> Result<Self> {
        let raw = gpu.0.create_stream().map_err(|error| failed("making a stream of the GPU", &error))?;
        Ok(Self { gpu, raw })
    }

    /// What C calls it, for [`Handle::set_stream`](crate::Handle::set_stream).
    pub fn as_ptr(&self) -> *mut c_void {
        self.raw
    }

    /// Waits for its work.
    ///
    /// # Errors
    /// The driver's, those of the work among them.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is this object's.
        let waited = unsafe { self.gpu.0.synchronize_stream(self.raw) };
        waited.map_err(|error| failed("waiting for a stream of the GPU", &error))
    }

    /// Copies bytes to the GPU's memory, behind the work before. It need not be done when this returns.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `to` is memory of the GPU with room for the bytes. Both are there, and the bytes do not change, until the stream was waited for.
    pub unsafe fn upload(&self, to: *mut c_void, from: &[u8]) -> Result<()> {
        let during = "copying to the GPU";
        let _entered = self.gpu.0.enter().map_err(|error| failed(during, &error))?;
        // SAFETY: the caller vouches for both, and the stream is this object's.
        unsafe { self.gpu.0.upload_on(self.raw, to, from) }.map_err(|error| failed(during, &error))
    }

    /// Copies bytes from the GPU's memory, behind the work before. It need not be done when this returns.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `from` is memory of the GPU with as many bytes. Both are there, and nothing else reads or writes `to`, until the stream was waited for.
    pub unsafe fn download(&self, to: &mut [u8], from: *const c_void) -> Result<()> {
        let during = "copying from the GPU";
        let _entered = self.gpu.0.enter().map_err(|error| failed(during, &error))?;
        // SAFETY: the caller vouches for both, and the stream is this object's.
        unsafe { self.gpu.0.download_on(self.raw, to, from) }.map_err(|error| failed(during, &error))
    }

    /// Copies bytes inside of the GPU's memory, behind the work before. It need not be done when this returns.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// Both are memory of the GPU with as many bytes, which do not overlap, until the stream was waited for.
    pub unsafe fn copy(&self, to: *mut c_void, from: *const c_void, bytes: usize) -> Result<()> {
        let during = "copying on the GPU";
        let _entered = self.gpu.0.enter().map_err(|error| failed(during, &error))?;
        // SAFETY: the caller vouches for both, and the stream is this object's.
        unsafe { self.gpu.0.copy_on(self.raw, to, from, bytes) }.map_err(|error| failed(during, &error))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is this object's, and this is its last use.
        unsafe { self.gpu.0.destroy_stream(self.raw) };
    }
}

/// A stream whose work is captured in place of being done; with CUDA alone.
pub struct CaptureStream(gpu::CaptureStream);

/// Work that was captured: kernels and copies with the addresses that they had.
pub struct CapturedWork(gpu::CapturedWork);

impl CaptureStream {
    /// A new one.
    ///
    /// # Errors
    /// The driver's, and that HIP's graphs are not used.
    pub fn new(gpu: Gpu) -> Result<Self> {
        gpu::CaptureStream::new(&gpu.0)
            .map(Self)
            .map_err(|error| failed("making a stream to capture", &error))
    }

    /// What C calls it, for [`Handle::set_stream`](crate::Handle::set_stream).
    pub fn as_ptr(&self) -> *mut c_void {
        self.0.as_ptr()
    }

    /// Captures what `work` puts on the stream, which is not done then. Engines that can be captured say so in their
    /// [behavior notes](crate::Engine::behavior_notes); what others do may be missing in the captured work.
    ///
    /// # Errors
    /// Those of `work`, and the driver's, for instance where `work` waits for the GPU.
    pub fn capture<E: From<Error>>(
        &self,
        work: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<CapturedWork, E> {
        let failed = |error| failed("capturing the work of a stream", &error);
        let (done, captured) = self.0.capture(work).map_err(failed)?;
        done?;
        Ok(captured.map(CapturedWork).map_err(failed)?)
    }
}

impl CapturedWork {
    /// Puts the work on a stream.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The stream is of the same GPU. The memory and the plans of the work are there until it is done.
    pub unsafe fn start(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the caller vouches for all.
        unsafe { self.0.start(stream.raw) }.map_err(|error| failed("starting captured work", &error))
    }
}
