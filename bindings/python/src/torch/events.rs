//! Calls on a GPU that are being timed.

use std::time::Duration;

use hipdnn_plugin_sdk::gpu::{Event, Gpu};

use crate::device::Stream;

/// Who computes a call.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
pub enum Choice {
    /// Both in turns, until the faster one is known.
    Open = 0,
    Ours = 1,
    Theirs = 2,
}

/// Events before and after a call on a GPU.
pub struct Events {
    pub gpu: Gpu,
    pub stream: Stream,
    pub from: Event,
    pub to: Event,
}

/// A call whose events may not have happened yet.
pub struct Pending {
    pub events: Events,
    pub by: Choice,
    /// The host's time to queue it.
    pub host: Duration,
    /// Whether the GPU was idle by then.
    pub is_awaited: bool,
}

// SAFETY: any thread may use events.
unsafe impl Send for Events {}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: the events belong to this object. The driver keeps them until the work before them is done.
        unsafe {
            self.gpu.destroy_event(self.from);
            self.gpu.destroy_event(self.to);
        }
    }
}
