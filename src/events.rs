//! Two points of a stream of a HIP device, and the time between them.

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::hip::{Hip, HipError, hipEvent_t};

type Result<T> = std::result::Result<T, HipError>;

/// HIP, where it is loaded and has a device.
pub fn hip_with_device() -> Option<&'static Hip> {
    Hip::loaded().filter(|hip| hip.device_count().is_ok_and(|count| count > 0))
}

/// Two events of a device.
pub struct Events {
    hip: &'static Hip,
    start: hipEvent_t,
    stop: hipEvent_t,
}

// SAFETY: events belong to no thread.
unsafe impl Send for Events {}
// SAFETY: HIP's functions take an event from several threads.
unsafe impl Sync for Events {}

impl Events {
    /// Events that have not happened.
    ///
    /// # Errors
    /// When HIP makes none.
    pub fn new(hip: &'static Hip) -> Result<Self> {
        let mut events = Self { hip, start: std::ptr::null_mut(), stop: std::ptr::null_mut() };
        // SAFETY: the outputs are valid.
        unsafe {
            hip.check("hipEventCreate", (hip.hipEventCreate)(&raw mut events.start))?;
            hip.check("hipEventCreate", (hip.hipEventCreate)(&raw mut events.stop))?;
        }
        Ok(events)
    }

    /// Lets the first event happen when the stream gets there.
    ///
    /// # Safety
    /// The stream is null or alive.
    pub unsafe fn start(&self, stream: hipStream_t) -> Result<()> {
        // SAFETY: the event is alive, and the caller vouches for the stream.
        self.hip.check("hipEventRecord", unsafe { (self.hip.hipEventRecord)(self.start, stream) })
    }

    /// The same for the second event.
    ///
    /// # Safety
    /// As for [`Events::start`].
    pub unsafe fn stop(&self, stream: hipStream_t) -> Result<()> {
        // SAFETY: the event is alive, and so is the stream, as `start` requires.
        self.hip.check("hipEventRecord", unsafe { (self.hip.hipEventRecord)(self.stop, stream) })
    }

    /// Whether the second event has happened, after it was put on a stream.
    pub fn is_over(&self) -> bool {
        // SAFETY: the event is alive.
        let is_over = unsafe { (self.hip.hipEventQuery)(self.stop) == 0 };
        if !is_over {
            // SAFETY: nothing is passed. That it is not over is no error of this thread's.
            unsafe { (self.hip.hipGetLastError)() };
        }
        is_over
    }

    /// Milliseconds between the two, after both were put on a stream. Waits for the second.
    ///
    /// # Errors
    /// What HIP says.
    pub fn elapsed(&self) -> Result<f32> {
        // SAFETY: the event is alive.
        let waited = unsafe { (self.hip.hipEventSynchronize)(self.stop) };
        self.hip.check("hipEventSynchronize", waited)?;
        self.between(self.start, self.stop)
    }

    /// Milliseconds from the second event of others to the first of these. All have happened.
    ///
    /// # Errors
    /// What HIP says, for instance where they are of two devices.
    pub fn since(&self, others: &Self) -> Result<f32> {
        self.between(others.stop, self.start)
    }

    fn between(&self, from: hipEvent_t, to: hipEvent_t) -> Result<f32> {
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive, and the output is valid.
        let answer = unsafe { (self.hip.hipEventElapsedTime)(&raw mut milliseconds, from, to) };
        self.hip.check("hipEventElapsedTime", answer)?;
        Ok(milliseconds)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        for event in [self.start, self.stop] {
            if !event.is_null() {
                // SAFETY: the event is this one's own. A failure leaves nothing to do.
                unsafe { (self.hip.hipEventDestroy)(event) };
            }
        }
    }
}
