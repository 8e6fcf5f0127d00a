//! Synchronization primitives of the pool and the queues. `tools/model` compiles those files with its own
//! versions of these, to run every interleaving of their steps.

use std::ffi::CString;
use std::time::{Duration, Instant};

use hipdnn_plugin_sdk::thread;

pub(crate) use hipdnn_plugin_sdk::lock::{Condvar, Mutex, MutexGuard};

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// How long idle threads poll before they sleep, and callers poll for their threads' work. Waking takes up to
/// 50 µs in a virtual machine: a thread should stay awake for the next step of a graph, and for the next
/// small graph, but not after a program is done. Training a small network takes 8 % less time than with a
/// quarter of this.
const LOOK: Duration = Duration::from_micros(200);

/// The most workers that a team computes together: more processors than that are rarely used by one step.
pub(crate) const MOST_WORKERS: usize = 256;

#[cfg(test)]
thread_local! {
    /// How often this thread has polled.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Polls a condition briefly, and returns whether it became true.
pub(crate) fn look(mut is_there: impl FnMut() -> bool) -> bool {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
    let begun = Instant::now();
    while !is_there() {
        if begun.elapsed() > LOOK {
            return false;
        }
        std::hint::spin_loop();
    }
    true
}

/// Starts thread number `index` of the pool; returns whether that succeeded.
pub(crate) fn start(index: usize, work: impl FnOnce() + Send + 'static) -> bool {
    let name = CString::new(format!("hipdnn-cpu-{index}")).unwrap_or_default();
    thread::start(&name, work)
}

/// Whether the pool's threads keep waiting for work: as long as the process runs.
pub(crate) const fn goes_on() -> bool {
    true
}
