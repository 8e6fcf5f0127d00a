//! Calls on a GPU that are timed.

use std::time::Duration;

use hipdnn_plugin_sdk::gpu::{Event, Gpu};

use crate::device::Stream;

/// Who computes a call.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
pub enum Choice {
    /// Both in turns, until it is known who is faster.
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

/// A call whose events may still be to come.
pub struct Pending {
    pub events: Events,
    pub by: Choice,
    /// What the host needed to queue it.
    pub host: Duration,
    /// Whether the GPU had nothing else to do by then.
    pub is_awaited: bool,
}

// SAFETY: events are names that any thread may use.
unsafe impl Send for Events {}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: the events are this object's own. The driver keeps them until the work before them is done.
        unsafe {
            self.gpu.destroy_event(self.from);
            self.gpu.destroy_event(self.to);
        }
    }
}
