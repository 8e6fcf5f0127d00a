//! Streams for programs that have none of their own.

use std::ffi::{c_uint, c_void};
use std::ptr::null_mut;

use crate::PluginError;
use crate::ffi::hipStream_t;
use crate::gpu::{Gpu, lacks};
use crate::hip::{HIP_MEMCPY_DEVICE_TO_DEVICE, HIP_MEMCPY_DEVICE_TO_HOST};

/// `CU_STREAM_DEFAULT`: synchronizes with the default stream, as streams of `hipStreamCreate` do.
const WITH_DEFAULT_STREAM: c_uint = 0;

impl Gpu {
    /// Creates a stream, to be passed to [`Gpu::destroy_stream`] once. It synchronizes with the default
    /// stream in both directions. With Vulkan, whose devices run all work in order, it is the default stream.
    ///
    /// # Errors
    /// The library's, or that it lacks this function.
    pub fn create_stream(&self) -> Result<hipStream_t, PluginError> {
        let mut stream = null_mut();
        match self {
            Self::Hip(hip) => {
                let create = hip.hipStreamCreate.ok_or_else(|| lacks("hipStreamCreate"))?;
                // SAFETY: the function writes only to the local `stream`.
                hip.check("hipStreamCreate", unsafe { create(&mut stream) })?;
            }
            Self::Cuda(device) => {
                let _entered = device.enter()?;
                let create = device.cuda.cuStreamCreate.ok_or_else(|| lacks("cuStreamCreate"))?;
                // SAFETY: the function writes only to the local `stream`.
                let answer = unsafe { create(&mut stream, WITH_DEFAULT_STREAM) };
                device.cuda.check("cuStreamCreate", answer)?;
            }
            Self::Vulkan(_) => {}
        }
        Ok(stream)
    }

    /// Waits for the work of a stream.
    ///
    /// # Errors
    /// The library's, including those of the work.
    ///
    /// # Safety
    /// The stream is from [`Gpu::create_stream`] of this GPU and not destroyed.
    pub unsafe fn synchronize_stream(&self, stream: hipStream_t) -> Result<(), PluginError> {
        match self {
            Self::Hip(hip) => {
                // SAFETY: this function requires a stream of this GPU that is not destroyed.
                Ok(hip.check("hipStreamSynchronize", unsafe { (hip.hipStreamSynchronize)(stream) })?)
            }
            Self::Cuda(device) => {
                let _entered = device.enter()?;
                let wait = device.cuda.cuStreamSynchronize.ok_or_else(|| lacks("cuStreamSynchronize"))?;
                // SAFETY: this function requires a stream of this GPU that is not destroyed.
                Ok(device.cuda.check("cuStreamSynchronize", unsafe { wait(stream) })?)
            }
            Self::Vulkan(device) => device.synchronize(),
        }
    }

    /// Copies bytes from the device in stream order. The thread has entered the GPU.
    ///
    /// # Errors
    /// The library's, or that it lacks this function.
    ///
    /// # Safety
    /// `from` is device memory with as many bytes. Both are valid until the work of the stream is done.
    pub unsafe fn download_on(
        &self,
        stream: hipStream_t,
        to: &mut [u8],
        from: *const c_void,
    ) -> Result<(), PluginError> {
        let (room, bytes) = (to.as_mut_ptr().cast(), to.len());
        match self {
            Self::Hip(hip) => {
                // SAFETY: both are valid for the length until the work is done.
                let answer =
                    unsafe { (hip.hipMemcpyAsync)(room, from, bytes, HIP_MEMCPY_DEVICE_TO_HOST, stream) };
                Ok(hip.check("hipMemcpyAsync", answer)?)
            }
            Self::Cuda(device) => {
                let copy = device.cuda.cuMemcpyDtoHAsync_v2.ok_or_else(|| lacks("cuMemcpyDtoHAsync_v2"))?;
                let from = from.expose_provenance() as u64;
                // SAFETY: both are valid for the length until the work is done.
                Ok(device.cuda.check("cuMemcpyDtoHAsync", unsafe { copy(room, from, bytes, stream) })?)
            }
            Self::Vulkan(device) => device.download(to, from.expose_provenance()),
        }
    }

    /// Copies bytes on the device in stream order. The thread has entered the GPU.
    ///
    /// # Errors
    /// The library's, or that it lacks this function.
    ///
    /// # Safety
    /// Both are device memory with as many bytes, which do not overlap, until the work of the stream is done.
    pub unsafe fn copy_on(
        &self,
        stream: hipStream_t,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
    ) -> Result<(), PluginError> {
        match self {
            Self::Hip(hip) => {
                // SAFETY: both are valid for the length until the work is done.
                let answer =
                    unsafe { (hip.hipMemcpyAsync)(to, from, bytes, HIP_MEMCPY_DEVICE_TO_DEVICE, stream) };
                Ok(hip.check("hipMemcpyAsync", answer)?)
            }
            Self::Cuda(device) => {
                let copy = device.cuda.cuMemcpyDtoDAsync_v2.ok_or_else(|| lacks("cuMemcpyDtoDAsync_v2"))?;
                let (to, from) = (to.expose_provenance() as u64, from.expose_provenance() as u64);
                // SAFETY: both are valid for the length until the work is done.
                Ok(device.cuda.check("cuMemcpyDtoDAsync", unsafe { copy(to, from, bytes, stream) })?)
            }
            // SAFETY: both do not overlap, as this function requires.
            Self::Vulkan(device) => unsafe { device.copy(to, from, bytes) },
        }
    }

    /// Destroys a stream.
    ///
    /// # Safety
    /// The stream is from [`Gpu::create_stream`] of this GPU, and this is its last use.
    pub unsafe fn destroy_stream(&self, stream: hipStream_t) {
        match self {
            Self::Hip(hip) => {
                if let Some(destroy) = hip.hipStreamDestroy {
                    // SAFETY: the stream is there. Failures are ignored.
                    unsafe { destroy(stream) };
                }
            }
            Self::Cuda(device) => {
                // If the context cannot be entered, the thread's own may do.
                let _entered = device.enter();
                if let Some(destroy) = device.cuda.cuStreamDestroy_v2 {
                    // SAFETY: the stream is there. Failures are ignored.
                    unsafe { destroy(stream) };
                }
            }
            Self::Vulkan(_) => {}
        }
    }
}
