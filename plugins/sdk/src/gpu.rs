//! The process's GPU, whichever library drives it: memory, copies, events and waiting.
//!
//! Programs pass device memory to an engine; plans have a [`workspace`] in it, and [`plan_memory`] of their
//! own. A [`handle`] holds the stream and per-device state of a plugin, and makes a device current.

mod captured;
mod event;
pub mod handle;
pub mod plan_memory;
mod stream;
pub mod workspace;

use std::ffi::c_void;

use crate::cuda::{self, Cuda, CudaError, EnteredContext};
use crate::hip::{HIP_MEMCPY_DEVICE_TO_DEVICE, HIP_MEMCPY_DEVICE_TO_HOST, HIP_MEMCPY_HOST_TO_DEVICE, Hip};
use crate::{PluginError, Refusal, vulkan};

pub use captured::{CaptureStream, CapturedWork};

/// A point in the work of a stream.
pub type Event = *mut c_void;

/// A GPU and the library that drives it.
#[derive(Clone, Copy, Debug)]
pub enum Gpu {
    /// The thread's current device, through HIP.
    Hip(&'static Hip),
    /// A CUDA device with its context.
    Cuda(cuda::Device),
    /// A Vulkan device, whose work runs in order whatever the stream.
    Vulkan(vulkan::Device),
}

impl Gpu {
    /// The GPU that HIP finds, or else the one that CUDA finds.
    ///
    /// # Errors
    /// What was tried.
    pub fn find() -> Result<Self, Refusal> {
        let of_hip = match Hip::with_device() {
            Ok(hip) => return Ok(Self::Hip(hip)),
            Err(refusal) => refusal,
        };
        match Cuda::with_device() {
            Ok(cuda) => {
                // SAFETY: null is a default stream.
                let context = unsafe { cuda::context_of(cuda, std::ptr::null_mut()) }?;
                Ok(Self::Cuda(cuda::Device::of_context(cuda, context)?))
            }
            Err(of_cuda) => Err(Refusal::new(format!("{of_hip}; {of_cuda}"))),
        }
    }

    /// Makes a CUDA device current until the result is dropped; with HIP the thread's current device stays, and Vulkan has none.
    ///
    /// # Errors
    /// The driver's.
    pub fn enter(&self) -> Result<Option<EnteredContext>, CudaError> {
        match self {
            Self::Hip(_) | Self::Vulkan(_) => Ok(None),
            Self::Cuda(device) => device.enter().map(Some),
        }
    }

    /// Allocates device memory, to be passed to [`Gpu::free`] once.
    ///
    /// # Errors
    /// The library's.
    pub fn allocate(&self, bytes: usize) -> Result<*mut c_void, PluginError> {
        // Zero bytes get an address of their own as well.
        let bytes = bytes.max(1);
        match self {
            Self::Hip(hip) => {
                let mut pointer = std::ptr::null_mut();
                // SAFETY: the function writes only to the local `pointer`.
                hip.check("hipMalloc", unsafe { (hip.hipMalloc)(&mut pointer, bytes) })?;
                Ok(pointer)
            }
            Self::Cuda(device) => {
                let _entered = device.enter()?;
                let mut pointer = 0;
                // SAFETY: the function writes only to the local `pointer`.
                let answer = unsafe { (device.cuda.cuMemAlloc_v2)(&mut pointer, bytes) };
                device.cuda.check("cuMemAlloc", answer)?;
                Ok(std::ptr::with_exposed_provenance_mut(pointer as usize))
            }
            Self::Vulkan(device) => device.allocate(bytes),
        }
    }

    /// Frees device memory. Waits for work that uses it.
    ///
    /// # Safety
    /// `pointer` is from [`Gpu::allocate`] of this GPU and not freed.
    pub unsafe fn free(&self, pointer: *mut c_void) {
        match self {
            // SAFETY: the pointer is memory of this GPU that is not freed. Failures are ignored.
            Self::Hip(hip) => drop(unsafe { (hip.hipFree)(pointer) }),
            Self::Cuda(device) => {
                // If the context cannot be entered, the thread's own may do.
                let _entered = device.enter();
                // SAFETY: the pointer is memory of this GPU that is not freed.
                unsafe { (device.cuda.cuMemFree_v2)(pointer.expose_provenance() as u64) };
            }
            // SAFETY: the pointer is memory of this GPU that is not freed.
            Self::Vulkan(device) => unsafe { device.free(pointer) },
        }
    }

    /// Allocates page-locked host memory, which is copied faster; to be passed to [`Gpu::free_host`] once.
    ///
    /// # Errors
    /// The library's, or that it lacks this function.
    pub fn allocate_host(&self, bytes: usize) -> Result<*mut c_void, PluginError> {
        let (bytes, mut pointer) = (bytes.max(1), std::ptr::null_mut());
        match self {
            Self::Hip(hip) => {
                let allocate = hip.hipHostMalloc.ok_or_else(|| lacks("hipHostMalloc"))?;
                // SAFETY: the function writes only to the local `pointer`, and 0 sets none of the flags.
                hip.check("hipHostMalloc", unsafe { allocate(&mut pointer, bytes, 0) })?;
            }
            Self::Cuda(device) => {
                let _entered = device.enter()?;
                let allocate = device.cuda.cuMemHostAlloc.ok_or_else(|| lacks("cuMemHostAlloc"))?;
                // SAFETY: the function writes only to the local `pointer`, and 0 sets none of the flags.
                device.cuda.check("cuMemHostAlloc", unsafe { allocate(&mut pointer, bytes, 0) })?;
            }
            Self::Vulkan(_) => return Err(lacks("page-locked host memory")),
        }
        Ok(pointer)
    }

    /// Frees page-locked host memory.
    ///
    /// # Safety
    /// `pointer` is from [`Gpu::allocate_host`] of this GPU and not freed, and no work is left that uses it.
    pub unsafe fn free_host(&self, pointer: *mut c_void) {
        match self {
            Self::Hip(hip) => {
                if let Some(free) = hip.hipHostFree {
                    // SAFETY: the pointer is such memory that is not freed. Failures are ignored.
                    unsafe { free(pointer) };
                }
            }
            Self::Cuda(device) => {
                // If the context cannot be entered, the thread's own may do.
                let _entered = device.enter();
                if let Some(free) = device.cuda.cuMemFreeHost {
                    // SAFETY: the pointer is such memory that is not freed. Failures are ignored.
                    unsafe { free(pointer) };
                }
            }
            // It has allocated none.
            Self::Vulkan(_) => {}
        }
    }

    /// Copies bytes to the device and waits.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// `to` is device memory with room for the bytes.
    pub unsafe fn upload(&self, to: *mut c_void, from: &[u8]) -> Result<(), PluginError> {
        let bytes = from.as_ptr().cast();
        match self {
            Self::Hip(hip) => {
                // SAFETY: this function requires that `to` has room for the bytes of `from`.
                let answer = unsafe { (hip.hipMemcpy)(to, bytes, from.len(), HIP_MEMCPY_HOST_TO_DEVICE) };
                Ok(hip.check("hipMemcpy", answer)?)
            }
            Self::Cuda(device) => {
                let _entered = device.enter()?;
                let to = to.expose_provenance() as u64;
                // SAFETY: this function requires that `to` has room for the bytes of `from`.
                let answer = unsafe { (device.cuda.cuMemcpyHtoD_v2)(to, bytes, from.len()) };
                Ok(device.cuda.check("cuMemcpyHtoD", answer)?)
            }
            Self::Vulkan(device) => device.upload(to.expose_provenance(), from),
        }
    }

    /// Copies bytes to the device in stream order. The thread has entered the GPU.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// `to` is device memory with room for the bytes. Both are valid until the work of the stream is done; if
    /// it is captured, as long as the captured work may run.
    pub unsafe fn upload_on(
        &self,
        stream: *mut c_void,
        to: *mut c_void,
        from: &[u8],
    ) -> Result<(), PluginError> {
        let (bytes, len) = (from.as_ptr().cast(), from.len());
        match self {
            Self::Hip(hip) => {
                // SAFETY: both are valid for the length until the work is done.
                let answer =
                    unsafe { (hip.hipMemcpyAsync)(to, bytes, len, HIP_MEMCPY_HOST_TO_DEVICE, stream) };
                Ok(hip.check("hipMemcpyAsync", answer)?)
            }
            Self::Cuda(device) => {
                let to = to.expose_provenance() as u64;
                // SAFETY: both are valid for the length until the work is done.
                let answer = unsafe { (device.cuda.cuMemcpyHtoDAsync_v2)(to, bytes, len, stream) };
                Ok(device.cuda.check("cuMemcpyHtoDAsync", answer)?)
            }
            Self::Vulkan(device) => device.upload(to.expose_provenance(), from),
        }
    }

    /// Copies bytes from the device after earlier work is done.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// `from` is device memory with as many bytes.
    pub unsafe fn download(&self, to: &mut [u8], from: *const c_void) -> Result<(), PluginError> {
        let (room, bytes) = (to.as_mut_ptr().cast(), to.len());
        match self {
            Self::Hip(hip) => {
                // SAFETY: this function requires that `from` has as many bytes as `to`.
                let answer = unsafe { (hip.hipMemcpy)(room, from, bytes, HIP_MEMCPY_DEVICE_TO_HOST) };
                Ok(hip.check("hipMemcpy", answer)?)
            }
            Self::Cuda(device) => {
                let _entered = device.enter()?;
                let from = from.expose_provenance() as u64;
                // SAFETY: this function requires that `from` has as many bytes as `to`.
                let answer = unsafe { (device.cuda.cuMemcpyDtoH_v2)(room, from, bytes) };
                Ok(device.cuda.check("cuMemcpyDtoH", answer)?)
            }
            Self::Vulkan(device) => device.download(to, from.expose_provenance()),
        }
    }

    /// Copies bytes on the device, in order with its default stream. It may return before the copy is done.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// Both are device memory with as many bytes, which do not overlap.
    pub unsafe fn copy(&self, to: *mut c_void, from: *const c_void, bytes: usize) -> Result<(), PluginError> {
        match self {
            Self::Hip(hip) => {
                // SAFETY: this function requires two places of `bytes` bytes that do not overlap.
                let answer = unsafe { (hip.hipMemcpy)(to, from, bytes, HIP_MEMCPY_DEVICE_TO_DEVICE) };
                Ok(hip.check("hipMemcpy", answer)?)
            }
            Self::Cuda(device) => {
                let _entered = device.enter()?;
                let copy = device.cuda.cuMemcpyDtoD_v2.ok_or_else(|| lacks("cuMemcpyDtoD_v2"))?;
                let (to, from) = (to.expose_provenance() as u64, from.expose_provenance() as u64);
                // SAFETY: this function requires two places of `bytes` bytes that do not overlap.
                Ok(device.cuda.check("cuMemcpyDtoD", unsafe { copy(to, from, bytes) })?)
            }
            // SAFETY: both do not overlap, as this function requires.
            Self::Vulkan(device) => unsafe { device.copy(to, from, bytes) },
        }
    }

    /// Rejects a tensor's memory if the entered CUDA device cannot reach it; HIP is not asked.
    ///
    /// # Errors
    /// When kernels cannot use the address, with the tensor's uid.
    #[inline]
    pub fn check_memory(&self, uid: i64, pointer: *const c_void) -> Result<(), PluginError> {
        match self {
            Self::Cuda(device) if !device.cuda.is_device_memory(pointer) => {
                Err(PluginError::bad_param(format!(
                    "the buffer of tensor {uid} is at {pointer:?}, which CUDA device {} cannot reach, expected its memory",
                    device.number
                )))
            }
            _ => Ok(()),
        }
    }

    /// Waits for all work of the device.
    ///
    /// # Errors
    /// The library's, including those of the work.
    pub fn synchronize(&self) -> Result<(), PluginError> {
        match self {
            // SAFETY: the function takes nothing.
            Self::Hip(hip) => Ok(hip.check("hipDeviceSynchronize", unsafe { (hip.hipDeviceSynchronize)() })?),
            Self::Cuda(device) => {
                let _entered = device.enter()?;
                // SAFETY: the function takes nothing.
                let answer = unsafe { (device.cuda.cuCtxSynchronize)() };
                Ok(device.cuda.check("cuCtxSynchronize", answer)?)
            }
            Self::Vulkan(device) => device.synchronize(),
        }
    }
}

/// The error for a function that older versions of the GPU's library lack.
#[cold]
fn lacks(function: &str) -> PluginError {
    PluginError::internal(format!("the GPU's library has no {function}"))
}

/// Rejects a tensor's memory that is not aligned as a kernel needs it.
///
/// # Errors
/// When the address is not a multiple of the alignment, with the tensor's uid.
#[inline]
pub fn check_alignment(uid: i64, pointer: *const c_void, alignment: usize) -> Result<(), PluginError> {
    if pointer.addr().is_multiple_of(alignment) {
        return Ok(());
    }
    Err(PluginError::bad_param(format!(
        "the buffer of tensor {uid} is at {pointer:?}, expected a multiple of {alignment}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_the_device_or_the_reason_names_both_libraries() {
        match Gpu::find() {
            Ok(gpu) => {
                let sent: Vec<u8> = (0..=255).collect();
                let mut back = vec![0; 256];
                let [memory, copy] = [256, 256].map(|bytes| gpu.allocate(bytes).unwrap());
                if let Ok(pinned) = gpu.allocate_host(256) {
                    // SAFETY: the memory has 256 bytes, is the host's, and is freed once.
                    unsafe {
                        pinned.cast::<u8>().write_bytes(7, 256);
                        gpu.free_host(pinned);
                    }
                }
                if let Ok(stream) = gpu.create_stream() {
                    // SAFETY: the stream was just created, and is destroyed once.
                    unsafe {
                        gpu.synchronize_stream(stream).unwrap();
                        gpu.destroy_stream(stream);
                    }
                }
                // SAFETY: each memory has 256 bytes and is freed once.
                unsafe {
                    gpu.upload(memory, &sent).unwrap();
                    gpu.copy(copy, memory, 256).unwrap();
                    gpu.synchronize().unwrap();
                    gpu.download(&mut back, copy).unwrap();
                    gpu.free(memory);
                    gpu.free(copy);
                }
                assert_eq!(back, sent);
            }
            Err(refusal) => {
                let message = refusal.to_string();
                assert!(
                    message.contains("hip")
                        && message.contains(&*crate::os::library::vendor_name("libcuda.so.1")),
                    "{message}"
                );
            }
        }
    }
}
