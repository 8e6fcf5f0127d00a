//! Two points of a stream of a GPU, and the time between them.

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

/// Looks which libraries of GPUs the process has loaded by now and find a device. Answers how many.
pub fn look() -> usize {
    let hip = || Hip::loaded().filter(|hip| hip.device_count().is_ok_and(|count| count > 0));
    let cuda = || Cuda::loaded().filter(|cuda| cuda.device_count().is_ok_and(|count| count > 0));
    usize::from(keep(&HIP, hip)) + usize::from(keep(&CUDA, cuda))
}

fn keep<T>(kept: &OnceLock<&'static T>, find: impl FnOnce() -> Option<&'static T>) -> bool {
    kept.get().is_some() || find().is_some_and(|found| std::ptr::eq(*kept.get_or_init(|| found), found))
}

/// The GPU that work on a stream goes to: HIP's, or else that of CUDA, where it is in use. Of libraries that were found by [`look`].
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

/// The GPU that has any of this memory, where work on the stream goes.
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
    /// Events that have not happened.
    ///
    /// # Errors
    /// When the library makes none.
    pub fn new(gpu: Gpu) -> Result<Self> {
        let _entered = gpu.enter()?;
        let mut events = Self { gpu, start: std::ptr::null_mut(), stop: std::ptr::null_mut() };
        events.start = gpu.create_timed_event()?;
        events.stop = gpu.create_timed_event()?;
        Ok(events)
    }

    /// Whether they are of this GPU; those of HIP may be of another device of its own.
    pub fn are_of(&self, gpu: &Gpu) -> bool {
        match (&self.gpu, gpu) {
            (Gpu::Hip(_), Gpu::Hip(_)) => true,
            (Gpu::Cuda(own), Gpu::Cuda(other)) => own.context == other.context,
            _ => false,
        }
    }

    /// Lets the first event happen when the stream gets there.
    ///
    /// # Safety
    /// The stream is null or alive, and of the GPU.
    pub unsafe fn start(&self, stream: hipStream_t) -> Result<()> {
        let _entered = self.gpu.enter()?;
        // SAFETY: the event is alive, and the caller vouches for the stream.
        unsafe { self.gpu.record(self.start, stream) }
    }

    /// The same for the second event.
    ///
    /// # Safety
    /// As for [`Events::start`].
    pub unsafe fn stop(&self, stream: hipStream_t) -> Result<()> {
        let _entered = self.gpu.enter()?;
        // SAFETY: the event is alive, and so is the stream, as `start` requires.
        unsafe { self.gpu.record(self.stop, stream) }
    }

    /// Whether the second event has happened, after it was put on a stream.
    pub fn is_over(&self) -> bool {
        let Ok(_entered) = self.gpu.enter() else { return false };
        // SAFETY: the event is alive.
        self.gpu.beside_captures(|| unsafe { self.gpu.has_happened(self.stop) })
    }

    /// Milliseconds between the two, after both were put on a stream. Waits for the second.
    ///
    /// # Errors
    /// What the library says.
    pub fn elapsed(&self) -> Result<f32> {
        let _entered = self.gpu.enter()?;
        // SAFETY: the event is alive.
        self.gpu.beside_captures(|| unsafe { self.gpu.wait_until(self.stop) })?;
        self.between(self.start, self.stop)
    }

    /// Milliseconds from the second event of others to the first of these. All have happened.
    ///
    /// # Errors
    /// What the library says, for instance where they are of two devices.
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
        // Where the context is gone its events are, too.
        let Ok(_entered) = self.gpu.enter() else { return };
        for event in [self.start, self.stop] {
            if !event.is_null() {
                // SAFETY: the event is this one's own.
                unsafe { self.gpu.destroy_event(event) };
            }
        }
    }
}
