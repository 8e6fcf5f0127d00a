//! Pairs of events on a GPU stream, and the time between them.

use std::ffi::c_void;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::cuda::{self, Cuda};
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::gpu::{Event, Gpu};
use hipdnn_plugin_sdk::hip::{Hip, MemoryKind};

use crate::lock::OnceLock;

type Result<T> = std::result::Result<T, PluginError>;

static HIP: OnceLock<&Hip> = OnceLock::new();
static CUDA: OnceLock<&Cuda> = OnceLock::new();

/// Looks for GPU libraries that the process has loaded and that find a device. Returns how many.
pub fn look() -> usize {
    let hip = || Hip::loaded().filter(|hip| hip.device_count().is_ok_and(|count| count > 0));
    let cuda = || Cuda::loaded().filter(|cuda| cuda.device_count().is_ok_and(|count| count > 0));
    usize::from(keep(&HIP, hip)) + usize::from(keep(&CUDA, cuda))
}

fn keep<T>(kept: &OnceLock<&'static T>, find: impl FnOnce() -> Option<&'static T>) -> bool {
    kept.get().is_some() || find().is_some_and(|found| std::ptr::eq(*kept.get_or_init(|| found), found))
}

/// The GPU that work on a stream goes to: HIP's, else CUDA's if in use, of the libraries that [`look`] found.
///
/// # Safety
/// The stream is null, one of CUDA's other default streams or alive.
pub unsafe fn gpu_of_stream(stream: hipStream_t) -> Option<Gpu> {
    if let Some(hip) = HIP.get() {
        return Some(Gpu::Hip(hip));
    }
    // SAFETY: the stream is a default stream or alive, as this function requires.
    unsafe { cuda::device_in_use(CUDA.get()?, stream) }.ok().flatten().map(Gpu::Cuda)
}

/// The GPU that owns any of this memory, if work on the stream goes there.
///
/// # Safety
/// As for [`gpu_of_stream`].
pub unsafe fn gpu_of_memory(
    stream: hipStream_t,
    mut memory: impl Iterator<Item = *const c_void> + Clone,
) -> Option<Gpu> {
    if let Some(hip) = HIP.get()
        && memory.clone().any(|address| matches!(hip.memory_kind(address), Ok(MemoryKind::Device)))
    {
        return Some(Gpu::Hip(hip));
    }
    let cuda = CUDA.get()?;
    memory.any(|address| cuda.is_beyond_host(address)).then_some(())?;
    // SAFETY: the stream is a default stream or alive, as this function requires.
    unsafe { cuda::device_in_use(cuda, stream) }.ok().flatten().map(Gpu::Cuda)
}

/// Two events of a device.
pub struct Events {
    gpu: Gpu,
    start: Event,
    stop: Event,
}

// SAFETY: events belong to no thread.
unsafe impl Send for Events {}
// SAFETY: the libraries take an event from several threads.
unsafe impl Sync for Events {}

impl Events {
    /// Creates two events that have not occurred.
    ///
    /// # Errors
    /// The library cannot create events.
    pub fn new(gpu: Gpu) -> Result<Self> {
        let _entered = gpu.enter()?;
        let mut events = Self { gpu, start: std::ptr::null_mut(), stop: std::ptr::null_mut() };
        events.start = gpu.create_timed_event()?;
        events.stop = gpu.create_timed_event()?;
        Ok(events)
    }

    /// Whether the events belong to this GPU's library; HIP's may belong to another of its devices.
    pub fn are_of(&self, gpu: &Gpu) -> bool {
        match (&self.gpu, gpu) {
            (Gpu::Hip(_), Gpu::Hip(_)) => true,
            (Gpu::Cuda(own), Gpu::Cuda(other)) => own.context == other.context,
            _ => false,
        }
    }

    /// Records the first event on the stream.
    ///
    /// # Safety
    /// The stream is null or alive, and of the GPU.
    pub unsafe fn start(&self, stream: hipStream_t) -> Result<()> {
        let _entered = self.gpu.enter()?;
        // SAFETY: the event is alive, and the stream is null or alive and of the GPU, as this function requires.
        unsafe { self.gpu.record(self.start, stream) }
    }

    /// Records the second event on the stream.
    ///
    /// # Safety
    /// As for [`Events::start`].
    pub unsafe fn stop(&self, stream: hipStream_t) -> Result<()> {
        let _entered = self.gpu.enter()?;
        // SAFETY: the event is alive, and so is the stream, as `start` requires.
        unsafe { self.gpu.record(self.stop, stream) }
    }

    /// Whether the second event has occurred, after it was recorded.
    pub fn is_over(&self) -> bool {
        let Ok(_entered) = self.gpu.enter() else { return false };
        // SAFETY: this object owns both events and destroys them when it is dropped.
        self.gpu.beside_captures(|| unsafe { self.gpu.has_happened(self.stop) })
    }

    /// Milliseconds between the two events, after both were recorded. Waits for the second.
    ///
    /// # Errors
    /// The library's error.
    pub fn elapsed(&self) -> Result<f32> {
        let _entered = self.gpu.enter()?;
        // SAFETY: this object owns both events and destroys them when it is dropped.
        self.gpu.beside_captures(|| unsafe { self.gpu.wait_until(self.stop) })?;
        self.between(self.start, self.stop)
    }

    /// Milliseconds from the second event of `others` to the first of these. All must have occurred.
    ///
    /// # Errors
    /// The library's error, for instance if they belong to two devices.
    pub fn since(&self, others: &Self) -> Result<f32> {
        let _entered = self.gpu.enter()?;
        self.between(others.stop, self.start)
    }

    fn between(&self, from: Event, to: Event) -> Result<f32> {
        // SAFETY: both events are alive and have times.
        unsafe { self.gpu.milliseconds(from, to) }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // If the context is gone, so are its events.
        let Ok(_entered) = self.gpu.enter() else { return };
        for event in [self.start, self.stop] {
            if !event.is_null() {
                // SAFETY: the event is this one's own.
                unsafe { self.gpu.destroy_event(event) };
            }
        }
    }
}
