//! Streams of programs that have none of their own.

use std::ffi::c_uint;
use std::ptr::null_mut;

use crate::PluginError;
use crate::ffi::hipStream_t;
use crate::gpu::{Gpu, lacks};

/// `CU_STREAM_DEFAULT`: the stream and the default stream wait for each other, as streams of `hipStreamCreate` do.
const WITH_DEFAULT_STREAM: c_uint = 0;

impl Gpu {
    /// Makes a stream, to be given to [`Gpu::destroy_stream`] once. What is put on the default stream comes behind what is on it before, and
    /// before what is put on it later.
    ///
    /// # Errors
    /// The library's, and that it has no such function.
    pub fn create_stream(&self) -> Result<hipStream_t, PluginError> {
        let mut stream = null_mut();
        match self {
            Self::Hip(hip) => {
                let create = hip.hipStreamCreate.ok_or_else(|| lacks("hipStreamCreate"))?;
                // SAFETY: the output is valid.
                hip.check("hipStreamCreate", unsafe { create(&mut stream) })?;
            }
            Self::Cuda(device) => {
                let _entered = device.enter()?;
                let create = device.cuda.cuStreamCreate.ok_or_else(|| lacks("cuStreamCreate"))?;
                // SAFETY: the output is valid.
                let answer = unsafe { create(&mut stream, WITH_DEFAULT_STREAM) };
                device.cuda.check("cuStreamCreate", answer)?;
            }
        }
        Ok(stream)
    }

    /// Waits for the work of a stream.
    ///
    /// # Errors
    /// The library's, those of the work among them.
    ///
    /// # Safety
    /// The stream is from [`Gpu::create_stream`] of this GPU and not ended.
    pub unsafe fn synchronize_stream(&self, stream: hipStream_t) -> Result<(), PluginError> {
        match self {
            Self::Hip(hip) => {
                // SAFETY: the stream is there.
                Ok(hip.check("hipStreamSynchronize", unsafe { (hip.hipStreamSynchronize)(stream) })?)
            }
            Self::Cuda(device) => {
                let _entered = device.enter()?;
                let wait = device.cuda.cuStreamSynchronize.ok_or_else(|| lacks("cuStreamSynchronize"))?;
                // SAFETY: the stream is there.
                Ok(device.cuda.check("cuStreamSynchronize", unsafe { wait(stream) })?)
            }
        }
    }

    /// Ends a stream.
    ///
    /// # Safety
    /// The stream is from [`Gpu::create_stream`] of this GPU, and this is its last use.
    pub unsafe fn destroy_stream(&self, stream: hipStream_t) {
        match self {
            Self::Hip(hip) => {
                if let Some(destroy) = hip.hipStreamDestroy {
                    // SAFETY: the stream is there. A failure leaves nothing to do.
                    unsafe { destroy(stream) };
                }
            }
            Self::Cuda(device) => {
                // Where the context cannot be entered, the thread's own may do.
                let _entered = device.enter();
                if let Some(destroy) = device.cuda.cuStreamDestroy_v2 {
                    // SAFETY: the stream is there. A failure leaves nothing to do.
                    unsafe { destroy(stream) };
                }
            }
        }
    }
}
