//! Events, and whether a stream is being captured. Vulkan has neither here: work of a device runs in order.
//!
//! Where a context matters, the caller has entered the GPU.

use std::ffi::{c_int, c_uint};
use std::ptr::null_mut;

use crate::PluginError;
use crate::cuda::CUDA_SUCCESS;
use crate::ffi::hipStream_t;
use crate::gpu::{Event, Gpu, lacks};
use crate::hip::HIP_SUCCESS;

/// `hipEventDisableTiming` and `CU_EVENT_DISABLE_TIMING`
const WITHOUT_TIMES: c_uint = 2;

/// `CU_EVENT_DEFAULT`
const WITH_TIMES: c_uint = 0;

/// `hipStreamCaptureModeRelaxed` and `CU_STREAM_CAPTURE_MODE_RELAXED`
const RELAXED: c_int = 2;

/// What Vulkan devices lack.
const EVENTS: &str = "events";

/// `CU_STREAM_PER_THREAD`
const PER_THREAD: usize = 2;

impl Gpu {
    /// Creates an event without timing, to be passed to [`Gpu::destroy_event`] once.
    ///
    /// # Errors
    /// The library's.
    pub fn create_event(&self) -> Result<Event, PluginError> {
        self.create(WITHOUT_TIMES)
    }

    /// Creates an event with timing, to be passed to [`Gpu::destroy_event`] once.
    ///
    /// # Errors
    /// The library's.
    pub fn create_timed_event(&self) -> Result<Event, PluginError> {
        self.create(WITH_TIMES)
    }

    fn create(&self, flags: c_uint) -> Result<Event, PluginError> {
        let mut event = null_mut();
        // SAFETY: the functions write only to the local `event`.
        unsafe {
            match self {
                Self::Hip(hip) => match hip.hipEventCreateWithFlags.filter(|_| flags != WITH_TIMES) {
                    Some(create) => hip.check("hipEventCreateWithFlags", create(&mut event, flags))?,
                    None => hip.check("hipEventCreate", (hip.hipEventCreate)(&mut event))?,
                },
                Self::Cuda(device) => {
                    let cuda = device.cuda;
                    cuda.check("cuEventCreate", (cuda.cuEventCreate)(&mut event, flags))?;
                }
                Self::Vulkan(_) => return Err(lacks(EVENTS)),
            }
        }
        Ok(event)
    }

    /// Waits until an event has happened.
    ///
    /// # Errors
    /// The library's, including those of the work before the event.
    ///
    /// # Safety
    /// The event is alive and of this GPU.
    pub unsafe fn wait_until(&self, event: Event) -> Result<(), PluginError> {
        // SAFETY: the event is alive and of this GPU.
        unsafe {
            match self {
                Self::Hip(hip) => Ok(hip.check("hipEventSynchronize", (hip.hipEventSynchronize)(event))?),
                Self::Cuda(device) => {
                    let wait = device.cuda.cuEventSynchronize.ok_or_else(|| lacks("cuEventSynchronize"))?;
                    Ok(device.cuda.check("cuEventSynchronize", wait(event))?)
                }
                Self::Vulkan(_) => Err(lacks(EVENTS)),
            }
        }
    }

    /// Milliseconds between two events that have both happened.
    ///
    /// # Errors
    /// The library's, for instance if the events are of two devices.
    ///
    /// # Safety
    /// Both are alive and from [`Gpu::create_timed_event`] of a GPU of this library.
    pub unsafe fn milliseconds(&self, from: Event, to: Event) -> Result<f32, PluginError> {
        let mut milliseconds = 0.0;
        // SAFETY: the functions write only to the local `milliseconds`, and the events are alive.
        unsafe {
            match self {
                Self::Hip(hip) => {
                    let answer = (hip.hipEventElapsedTime)(&mut milliseconds, from, to);
                    hip.check("hipEventElapsedTime", answer)?;
                }
                Self::Cuda(device) => {
                    let ask = device.cuda.cuEventElapsedTime.ok_or_else(|| lacks("cuEventElapsedTime"))?;
                    device.cuda.check("cuEventElapsedTime", ask(&mut milliseconds, from, to))?;
                }
                Self::Vulkan(_) => return Err(lacks(EVENTS)),
            }
        }
        Ok(milliseconds)
    }

    /// Destroys an event. Failures are ignored.
    ///
    /// # Safety
    /// The event is from [`Gpu::create_event`] of this GPU and not destroyed.
    pub unsafe fn destroy_event(&self, event: Event) {
        // SAFETY: the event is of this GPU and not destroyed.
        unsafe {
            match self {
                Self::Hip(hip) => drop((hip.hipEventDestroy)(event)),
                Self::Cuda(device) => drop((device.cuda.cuEventDestroy_v2)(event)),
                Self::Vulkan(_) => {}
            }
        }
    }

    /// Records an event behind the work that the stream has so far.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// Event and stream are alive and of this GPU.
    pub unsafe fn record(&self, event: Event, stream: hipStream_t) -> Result<(), PluginError> {
        // SAFETY: event and stream are alive and of this GPU.
        unsafe {
            match self {
                Self::Hip(hip) => Ok(hip.check("hipEventRecord", (hip.hipEventRecord)(event, stream))?),
                Self::Cuda(device) => {
                    Ok(device.cuda.check("cuEventRecord", (device.cuda.cuEventRecord)(event, stream))?)
                }
                Self::Vulkan(_) => Err(lacks(EVENTS)),
            }
        }
    }

    /// Makes later work of the stream wait for an event.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// As for [`Gpu::record`].
    pub unsafe fn wait_for(&self, stream: hipStream_t, event: Event) -> Result<(), PluginError> {
        // SAFETY: event and stream are alive and of this GPU.
        unsafe {
            match self {
                Self::Hip(hip) => {
                    Ok(hip.check("hipStreamWaitEvent", (hip.hipStreamWaitEvent)(stream, event, 0))?)
                }
                Self::Cuda(device) => {
                    let cuda = device.cuda;
                    Ok(cuda.check("cuStreamWaitEvent", (cuda.cuStreamWaitEvent)(stream, event, 0))?)
                }
                Self::Vulkan(_) => Err(lacks(EVENTS)),
            }
        }
    }

    /// Whether an event has happened.
    ///
    /// # Safety
    /// The event is alive and of this GPU.
    pub unsafe fn has_happened(&self, event: Event) -> bool {
        // SAFETY: the event is alive and of this GPU.
        unsafe {
            match self {
                Self::Hip(hip) => hip.check("hipEventQuery", (hip.hipEventQuery)(event)).is_ok(),
                Self::Cuda(device) => (device.cuda.cuEventQuery)(event) == CUDA_SUCCESS,
                Self::Vulkan(_) => false,
            }
        }
    }

    /// Whether work on a stream becomes part of a graph. False for the default stream while another one is
    /// captured, when it cannot be queried.
    ///
    /// # Safety
    /// The stream is alive and of this GPU.
    pub unsafe fn is_capturing(&self, stream: hipStream_t) -> bool {
        // SAFETY: the stream is alive and of this GPU, as this function requires.
        unsafe { self.capture(stream) }.unwrap_or(false)
    }

    /// The same; none for the default stream while another one is captured, which using it would invalidate.
    ///
    /// # Safety
    /// The stream is alive and of this GPU.
    pub unsafe fn capture(&self, stream: hipStream_t) -> Option<bool> {
        let mut status = 0;
        // SAFETY: the functions write only to the local `status`, and the stream is alive and of this GPU.
        let answered = unsafe {
            match self {
                Self::Hip(hip) => match hip.hipStreamIsCapturing {
                    Some(ask) => hip.check("hipStreamIsCapturing", ask(stream, &mut status)).is_ok(),
                    None => true,
                },
                Self::Cuda(device) => (device.cuda.cuStreamIsCapturing)(stream, &mut status) == CUDA_SUCCESS,
                Self::Vulkan(_) => true,
            }
        };
        answered.then_some(status != 0)
    }

    /// The id of a stream, which distinguishes it from an earlier one at the same address. None if the
    /// library has none, and for the per-thread default stream, whose handle all threads share.
    ///
    /// # Safety
    /// The stream is alive and of this GPU.
    #[inline]
    pub unsafe fn stream_id(&self, stream: hipStream_t) -> Option<u64> {
        let Self::Cuda(device) = self else { return None };
        if stream.addr() == PER_THREAD {
            return None;
        }
        let mut id = 0;
        // SAFETY: the function writes only to the local `id`, and the stream is alive and of this GPU, as this function requires.
        let answer = unsafe { (device.cuda.cuStreamGetId?)(stream, &mut id) };
        (answer == CUDA_SUCCESS).then_some(id)
    }

    /// Lets this thread allocate or query events while a stream is being captured, by this thread or in
    /// global mode by another one, without ending that capture.
    pub fn beside_captures<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.set_capture_mode(RELAXED);
        let done = work();
        if let Some(before) = before {
            self.set_capture_mode(before);
        }
        done
    }

    /// Sets what this thread may do during a capture; returns the previous mode, none if unknown.
    fn set_capture_mode(&self, mut mode: c_int) -> Option<c_int> {
        // SAFETY: the mode is valid, and becomes the one before.
        let is_done = unsafe {
            match self {
                Self::Hip(hip) => hip
                    .hipThreadExchangeStreamCaptureMode
                    .is_some_and(|exchange| exchange(&mut mode) == HIP_SUCCESS),
                Self::Cuda(device) => {
                    (device.cuda.cuThreadExchangeStreamCaptureMode)(&mut mode) == CUDA_SUCCESS
                }
                Self::Vulkan(_) => false,
            }
        };
        is_done.then_some(mode)
    }
}
