//! When work on a device began and ended there, by events of its stream.
//!
//! For executions with memory of a HIP device. Nothing waits for them: the recorder's thread, and whoever destroys a handle, look which
//! are over. From the end of the process on HIP is not asked any more, since it may be gone; nor in a forked child, since HIP does
//! not survive a fork.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::hip::{Hip, MemoryKind};

use super::{Event, Plan, now, record};
use crate::events::{Events, hip_with_device};
use crate::lock::Mutex;

/// More executions that are not over wait for the first one.
const MOST: usize = 4096;

/// How long the end of the process waits for a thread that looks what is over, and such a thread for another.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether there is a device, found out once for each plan: asking where there is none takes microseconds.
static IS_THERE: AtomicBool = AtomicBool::new(false);

/// Whether HIP is not to be asked any more.
static IS_GONE: AtomicBool = AtomicBool::new(false);

/// Held while a thread looks what is over. Nobody waits for it without end: what runs in HIP may wait for this library.
static COLLECTING: Mutex<()> = Mutex::new(());

/// What is on its way, and what is there to be used again.
struct Waiting {
    runs: VecDeque<Run>,
    free: Vec<Events>,
    /// A point of a stream, and when it was reached: what the others are counted from.
    origin: Option<Arc<Origin>>,
}

type Origin = (Events, u64);

static WAITING: Mutex<Waiting> =
    Mutex::new(Waiting { runs: VecDeque::new(), free: Vec::new(), origin: None });

struct Run {
    events: Events,
    plan: &'static Plan,
    /// When the execution began on the processor.
    begin: u64,
}

/// Looks for a device.
pub fn look() {
    if IS_THERE.load(Ordering::Relaxed)
        || hip_with_device().is_none()
        || IS_THERE.swap(true, Ordering::Relaxed)
    {
        return;
    }
    // Such functions run from the last to the first, so this one before those that HIP has registered by now.
    // SAFETY: the function may be called until the process has ended: this library stays.
    unsafe { libc::atexit(at_exit) };
}

extern "C" fn at_exit() {
    if !IS_GONE.swap(true, Ordering::Relaxed) {
        // Whoever gets the lock after this sees that HIP is gone.
        drop(COLLECTING.try_lock_for(PATIENCE));
    }
}

/// A forked child leaves alone what its parent has on a device, with locks that nobody may be left to open.
pub fn in_child() {
    if IS_THERE.load(Ordering::Relaxed) {
        IS_GONE.store(true, Ordering::Relaxed);
    }
}

fn may_ask() -> bool {
    IS_THERE.load(Ordering::Relaxed) && !IS_GONE.load(Ordering::Relaxed)
}

/// An execution whose work is being put on a stream.
pub struct Launch {
    events: Events,
    stream: hipStream_t,
}

/// Begins an execution with this memory, where any of it is a device's.
///
/// # Safety
/// The stream is null, or lives until the execution is over.
pub unsafe fn begin(stream: hipStream_t, mut memory: impl Iterator<Item = *const c_void>) -> Option<Launch> {
    if !may_ask() {
        return None;
    }
    let hip = Hip::loaded()?;
    let is_device = |address| matches!(hip.memory_kind(address), Ok(MemoryKind::Device));
    // What is captured runs later, and again.
    if !memory.any(is_device) || is_capturing(hip, stream) {
        return None;
    }
    // HIP is not called with the lock held: what runs there may wait for this library.
    let (free, has_origin) = {
        let mut waiting = WAITING.lock();
        (waiting.free.pop(), waiting.origin.is_some())
    };
    if !has_origin {
        let origin = origin(hip, stream).map(Arc::new);
        let mut waiting = WAITING.lock();
        waiting.origin = waiting.origin.take().or(origin);
    }
    // SAFETY: whoever set the handle's stream vouches for it.
    let start = |events: Events| unsafe { events.start(stream) }.ok().map(|()| events);
    // Those that were used before may be of another device.
    let events = free.and_then(start).or_else(|| Events::new(hip).ok().and_then(start))?;
    Some(Launch { events, stream })
}

fn is_capturing(hip: &Hip, stream: hipStream_t) -> bool {
    let mut status = 0;
    // SAFETY: the output is valid, and whoever set the stream vouches for it.
    hip.hipStreamIsCapturing.is_some_and(|ask| unsafe { ask(stream, &raw mut status) } == 0 && status != 0)
}

/// Waits, this once, for the stream to get to a point.
fn origin(hip: &'static Hip, stream: hipStream_t) -> Option<Origin> {
    let events = Events::new(hip).ok()?;
    // SAFETY: whoever set the handle's stream vouches for it.
    unsafe {
        events.start(stream).ok()?;
        events.stop(stream).ok()?;
    }
    events.elapsed().ok()?;
    Some((events, now()))
}

impl Launch {
    /// The work is on the stream.
    pub fn end(self, plan: &'static Plan, begin: u64) {
        let Self { events, stream } = self;
        if !may_ask() {
            // Ending events asks HIP, too.
            std::mem::forget(events);
            return;
        }
        // SAFETY: whoever set the handle's stream vouches for it.
        if unsafe { events.stop(stream) }.is_err() {
            return;
        }
        let mut waiting = WAITING.lock();
        waiting.runs.push_back(Run { events, plan, begin });
        let first = if waiting.runs.len() > MOST { waiting.runs.pop_front() } else { None };
        drop(waiting);
        if let Some(run) = first {
            run.record();
        }
    }
}

impl Run {
    /// Records the run. Waits for it where it is not over.
    fn record(self) {
        let Ok(milliseconds) = self.events.elapsed() else { return };
        let origin = WAITING.lock().origin.clone();
        let since = |origin: Arc<Origin>| Some(origin.1 + nanoseconds(self.events.since(&origin.0).ok()?));
        let begin = origin.and_then(since).unwrap_or(self.begin);
        WAITING.lock().free.push(self.events);
        record(begin, begin + nanoseconds(milliseconds), Event::OnDevice(self.plan));
    }
}

fn nanoseconds(milliseconds: f32) -> u64 {
    (f64::from(milliseconds) * 1e6) as u64
}

/// Records what devices have finished meanwhile.
pub fn collect() {
    if !may_ask() {
        return;
    }
    let Some(_collecting) = COLLECTING.try_lock_for(PATIENCE) else { return };
    // The process may have come to its end meanwhile.
    if !may_ask() {
        return;
    }
    let runs = std::mem::take(&mut WAITING.lock().runs);
    let (over, running): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| run.events.is_over());
    let mut waiting = WAITING.lock();
    let newer = std::mem::replace(&mut waiting.runs, running.into());
    waiting.runs.extend(newer);
    drop(waiting);
    over.into_iter().for_each(Run::record);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::recorder;

    #[test]
    fn hip_is_left_alone_in_a_forked_child_and_from_the_end_of_the_process_on() {
        let held = (COLLECTING.lock(), WAITING.lock());
        let is_well = crate::trace::tests::in_fork(held, || {
            IS_THERE.store(true, Ordering::Relaxed);
            recorder::in_child();
            let may_ask = may_ask();
            collect();
            at_exit();
            !may_ask
        });
        assert!(is_well);

        // The end of the process waits for whoever asks HIP, and nobody asks later. In the same test, since the lock must be open now.
        let is_well = crate::trace::tests::in_fork((), || {
            IS_THERE.store(true, Ordering::Relaxed);
            let collecting = COLLECTING.lock();
            let asks = AtomicBool::new(true);
            std::thread::scope(|scope| {
                let end = scope.spawn(|| {
                    at_exit();
                    !asks.load(Ordering::Relaxed)
                });
                std::thread::sleep(Duration::from_millis(50));
                asks.store(false, Ordering::Relaxed);
                drop(collecting);
                end.join().unwrap() && !may_ask()
            })
        });
        assert!(is_well);
    }
}
