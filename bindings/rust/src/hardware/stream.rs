//! GPU streams, and captured work.

use std::ffi::c_void;

use hipdnn_plugin_sdk::gpu;

use crate::error::{Error, Result};
use crate::hardware::Gpu;
use crate::hardware::memory::failed;

/// A GPU stream: its work runs in order, concurrently with other streams, but in order with the default stream. Vulkan devices have
/// the default stream alone, and copies return when they are done.
pub struct Stream {
    gpu: Gpu,
    raw: *mut c_void,
}

// SAFETY: HIP and CUDA may be called about a stream on any thread.
unsafe impl Send for Stream {}
// SAFETY: a shared reference only queues work and waits for it, which threads may do concurrently.
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

    /// The C handle, for [`Handle::set_stream`](crate::Handle::set_stream).
    pub fn as_ptr(&self) -> *mut c_void {
        self.raw
    }

    /// Waits for its work.
    ///
    /// # Errors
    /// The driver's, including errors of the work.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream belongs to this object.
        let waited = unsafe { self.gpu.0.synchronize_stream(self.raw) };
        waited.map_err(|error| failed("waiting for a stream of the GPU", &error))
    }

    /// Copies bytes to GPU memory, after the stream's earlier work. May return before the copy is done.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `to` is GPU memory with room for the bytes. Both stay alive, and the bytes unchanged, until the stream was waited for.
    pub unsafe fn upload(&self, to: *mut c_void, from: &[u8]) -> Result<()> {
        let during = "copying to the GPU";
        let _entered = self.gpu.0.enter().map_err(|error| failed(during, &error))?;
        // SAFETY: this function requires that memory and bytes stay until the stream was waited for; the stream is this
        // object's.
        unsafe { self.gpu.0.upload_on(self.raw, to, from) }.map_err(|error| failed(during, &error))
    }

    /// Copies bytes from GPU memory, after the stream's earlier work. May return before the copy is done.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `from` is GPU memory with as many bytes. Both stay alive, and nothing else accesses `to`, until the stream was waited for.
    pub unsafe fn download(&self, to: &mut [u8], from: *const c_void) -> Result<()> {
        let during = "copying from the GPU";
        let _entered = self.gpu.0.enter().map_err(|error| failed(during, &error))?;
        // SAFETY: this function requires that memory and bytes stay until the stream was waited for; the stream is this
        // object's.
        unsafe { self.gpu.0.download_on(self.raw, to, from) }.map_err(|error| failed(during, &error))
    }

    /// Copies bytes within GPU memory, after the stream's earlier work. May return before the copy is done.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// Both are GPU memory with as many bytes, which do not overlap, until the stream was waited for.
    pub unsafe fn copy(&self, to: *mut c_void, from: *const c_void, bytes: usize) -> Result<()> {
        let during = "copying on the GPU";
        let _entered = self.gpu.0.enter().map_err(|error| failed(during, &error))?;
        // SAFETY: this function requires that both stay until the stream was waited for; the stream is this object's.
        unsafe { self.gpu.0.copy_on(self.raw, to, from, bytes) }.map_err(|error| failed(during, &error))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream belongs to this object, and this is its last use.
        unsafe { self.gpu.0.destroy_stream(self.raw) };
    }
}

/// A stream whose work is captured rather than executed; only with CUDA.
pub struct CaptureStream(gpu::CaptureStream);

/// Captured work: kernels and copies with their addresses.
pub struct CapturedWork(gpu::CapturedWork);

impl CaptureStream {
    /// A new one.
    ///
    /// # Errors
    /// The driver's, or that HIP's graphs are unsupported.
    pub fn new(gpu: Gpu) -> Result<Self> {
        gpu::CaptureStream::new(&gpu.0)
            .map(Self)
            .map_err(|error| failed("making a stream to capture", &error))
    }

    /// The C handle, for [`Handle::set_stream`](crate::Handle::set_stream).
    pub fn as_ptr(&self) -> *mut c_void {
        self.0.as_ptr()
    }

    /// Captures the work that `work` queues on the stream, without executing it. Engines that support capture say so in their
    /// [behavior notes](crate::Engine::behavior_notes); work of other engines may be missing in the capture.
    ///
    /// # Errors
    /// Those of `work`, and the driver's, for example if `work` waits for the GPU.
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
    /// Queues the work on a stream.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The stream belongs to the same GPU. The work's memory and plans stay alive until it is done.
    pub unsafe fn start(&self, stream: &Stream) -> Result<()> {
        // SAFETY: this function requires a stream of the same GPU, and that what the work uses stays alive until it is done.
        unsafe { self.0.start(stream.raw) }.map_err(|error| failed("starting captured work", &error))
    }
}
