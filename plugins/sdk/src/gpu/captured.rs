//! Work that is captured from a stream once and launched many times.
//!
//! CUDA only: HIP has graphs as well, but this project cannot test them yet.

use std::ffi::{c_int, c_uint};
use std::ptr::null_mut;

use crate::PluginError;
use crate::cuda::{self, CUgraph, CUgraphExec};
use crate::ffi::hipStream_t;
use crate::gpu::{Gpu, lacks};

/// `CU_STREAM_NON_BLOCKING`: does not synchronize with the default stream, which other threads may use
/// meanwhile.
const WITHOUT_DEFAULT_STREAM: c_uint = 1;

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: calls of other threads do not affect the capture.
const THREAD_LOCAL: c_int = 1;

/// A stream for capturing work.
#[derive(Debug)]
pub struct CaptureStream {
    device: cuda::Device,
    stream: hipStream_t,
}

// SAFETY: CUDA takes calls about a stream from any thread.
unsafe impl Send for CaptureStream {}

/// Kernels and copies with the addresses they had when captured.
#[derive(Debug)]
pub struct CapturedWork {
    device: cuda::Device,
    graph: CUgraphExec,
}

// SAFETY: CUDA takes calls about a graph from any thread, of which one at a time has this object.
unsafe impl Send for CapturedWork {}

impl CaptureStream {
    /// Creates one.
    ///
    /// # Errors
    /// The driver's, or that the GPU's library cannot capture.
    pub fn new(gpu: &Gpu) -> Result<Self, PluginError> {
        let Gpu::Cuda(device) = *gpu else { return Err(lacks("tested graph functions")) };
        let _entered = device.enter()?;
        let create = device.cuda.cuStreamCreate.ok_or_else(|| lacks("cuStreamCreate"))?;
        let mut stream = null_mut();
        // SAFETY: the function writes only to the local `stream`.
        device.cuda.check("cuStreamCreate", unsafe { create(&mut stream, WITHOUT_DEFAULT_STREAM) })?;
        Ok(Self { device, stream })
    }

    /// The C handle.
    pub fn as_ptr(&self) -> hipStream_t {
        self.stream
    }

    /// Captures what `work` puts on the stream, without running it.
    ///
    /// # Errors
    /// The driver's, for instance if `work` waits for the device; the result of `work` is returned beside it.
    pub fn capture<R>(
        &self,
        work: impl FnOnce() -> R,
    ) -> Result<(R, Result<CapturedWork, PluginError>), PluginError> {
        let cuda = self.device.cuda;
        let begin = cuda.cuStreamBeginCapture_v2.ok_or_else(|| lacks("cuStreamBeginCapture_v2"))?;
        let end = cuda.cuStreamEndCapture.ok_or_else(|| lacks("cuStreamEndCapture"))?;
        let _entered = self.device.enter()?;
        // SAFETY: the stream is this object's.
        cuda.check("cuStreamBeginCapture", unsafe { begin(self.stream, THREAD_LOCAL) })?;
        let done = work();
        let mut graph = null_mut();
        // SAFETY: the stream is this object's, this thread began, and the function writes only to the local `graph`.
        let ended = cuda.check("cuStreamEndCapture", unsafe { end(self.stream, &mut graph) });
        Ok((done, ended.map_err(PluginError::from).and_then(|()| self.prepare(graph))))
    }

    /// Instantiates a graph, and destroys it.
    fn prepare(&self, graph: CUgraph) -> Result<CapturedWork, PluginError> {
        let cuda = self.device.cuda;
        let destroy = cuda.cuGraphDestroy.ok_or_else(|| lacks("cuGraphDestroy"))?;
        let prepare = cuda.cuGraphInstantiateWithFlags.ok_or_else(|| lacks("cuGraphInstantiateWithFlags"));
        let mut started = null_mut();
        let answer = prepare.and_then(|prepare| {
            // SAFETY: the graph is alive until it is destroyed below, and the function writes only to the local `started`.
            Ok(cuda.check("cuGraphInstantiate", unsafe { prepare(&mut started, graph, 0) })?)
        });
        // SAFETY: what was prepared does not need the graph.
        unsafe { destroy(graph) };
        answer.map(|()| CapturedWork { device: self.device, graph: started })
    }
}

impl Drop for CaptureStream {
    fn drop(&mut self) {
        // SAFETY: the stream is this object's, and this is its last use.
        unsafe { Gpu::Cuda(self.device).destroy_stream(self.stream) };
    }
}

impl CapturedWork {
    /// Launches the work on a stream.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The stream is of the same GPU. All memory and kernels of the work stay valid until it is done.
    pub unsafe fn start(&self, stream: hipStream_t) -> Result<(), PluginError> {
        let _entered = self.device.enter()?;
        let launch = self.device.cuda.cuGraphLaunch.ok_or_else(|| lacks("cuGraphLaunch"))?;
        // SAFETY: the graph is this object's; the stream is of its GPU, and what the work uses stays valid, as this function requires.
        Ok(self.device.cuda.check("cuGraphLaunch", unsafe { launch(self.graph, stream) })?)
    }
}

impl Drop for CapturedWork {
    fn drop(&mut self) {
        // If the context cannot be entered, the thread's own may do.
        let _entered = self.device.enter();
        if let Some(destroy) = self.device.cuda.cuGraphExecDestroy {
            // SAFETY: the graph is this object's, and this is its last use. Failures are ignored.
            unsafe { destroy(self.graph) };
        }
    }
}
