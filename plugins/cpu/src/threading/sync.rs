//! What the pool and the queues are made of where threads meet. `tools/model` compiles these files with other types and functions of the
//! same names, to run them in every order of their steps.

use std::ffi::CString;
use std::time::{Duration, Instant};

use hipdnn_plugin_sdk::thread;

pub(crate) use hipdnn_plugin_sdk::lock::{Condvar, Mutex, MutexGuard};

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// How long an idle thread polls before it sleeps, and a caller polls for the end of its threads' work. Waking
/// takes up to 50 µs in a virtual machine: a thread stays awake for the next step of a graph, and for the next of
/// some small graphs, but not for a program that is done. Training a small network takes 8 % less time than with a
/// quarter of this.
const LOOK: Duration = Duration::from_micros(200);

/// Polls a condition for a little while, and returns whether it became true.
pub(crate) fn look(is_there: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_there() {
        if begun.elapsed() > LOOK {
            return false;
        }
        std::hint::spin_loop();
    }
    true
}

/// Starts thread number `index` of the pool, and says whether that was possible.
pub(crate) fn start(index: usize, work: impl FnOnce() + Send + 'static) -> bool {
    let name = CString::new(format!("hipdnn-cpu-{index}")).unwrap_or_default();
    thread::start(&name, work)
}

/// Whether threads of the pool wait for more work: as long as the process runs.
pub(crate) const fn goes_on() -> bool {
    true
}
