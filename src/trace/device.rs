//! Times work on a device by events on its stream.
//!
//! Used for executions with memory of a HIP or CUDA device. Nothing waits for the events: the recorder's thread, and threads that
//! destroy a handle, poll them. The libraries are not called during process exit, when they may be gone, nor in a forked child,
//! since they do not survive a fork.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::os::process;

use super::{Event, Plan, now, record};
use crate::events::{self, Events};
use crate::lock::Mutex;

/// With more unfinished executions, a new one waits for the first.
const MOST: usize = 4096;

/// How long process exit waits for a polling thread, and such a thread for another.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether there is a device, checked once for each plan, since a failing check takes microseconds.
static IS_THERE: AtomicBool = AtomicBool::new(false);

/// Whether devices must no longer be called.
static IS_GONE: AtomicBool = AtomicBool::new(false);

/// Held while a thread polls. Threads wait for it only for a limited time: HIP or CUDA may wait for this library.
static COLLECTING: Mutex<()> = Mutex::new(());

/// The unfinished runs, and the events to reuse.
#[derive(Default)]
struct Waiting {
    runs: VecDeque<Run>,
    free: Vec<Events>,
    /// For each device, the origin of its times: a point of a stream, and when it was reached.
    origins: Vec<Arc<Origin>>,
}

type Origin = (Events, u64);

static WAITING: Mutex<Waiting> =
    Mutex::new(Waiting { runs: VecDeque::new(), free: Vec::new(), origins: Vec::new() });

struct Run {
    events: Events,
    /// The origin of its device.
    origin: Option<Arc<Origin>>,
    plan: &'static Plan,
    /// When the execution began on the processor.
    begin: u64,
}

/// Looks for devices.
pub fn look() {
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    let found = events::look();
    if found <= FOUND.fetch_max(found, Ordering::Relaxed) {
        return;
    }
    IS_THERE.store(true, Ordering::Relaxed);
    // Exit functions run in reverse order, so this one runs before those of HIP and CUDA.
    process::at_exit(at_exit);
}

extern "C" fn at_exit() {
    if !IS_GONE.swap(true, Ordering::Relaxed) {
        // A thread that gets the lock afterwards sees that devices are gone.
        drop(COLLECTING.try_lock_for(PATIENCE));
    }
}

/// A forked child does not touch its parent's device objects, whose locks no thread of the child can open.
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
    origin: Option<Arc<Origin>>,
    stream: hipStream_t,
}

/// Begins timing an execution, if any of this memory is a device's.
///
/// # Safety
/// The stream is null, or lives until the execution is over.
pub unsafe fn begin(
    stream: hipStream_t,
    memory: impl Iterator<Item = *const c_void> + Clone,
) -> Option<Launch> {
    if !may_ask() {
        return None;
    }
    // SAFETY: `hipdnnSetStream` requires that the stream stays alive while the handle has it.
    let gpu = unsafe { events::gpu_of_memory(stream, memory) }?;
    let _entered = gpu.enter().ok()?;
    // Captured work runs later, possibly repeatedly; and recording would invalidate another stream's capture.
    // SAFETY: `hipdnnSetStream` requires that the stream stays alive while the handle has it.
    if unsafe { gpu.capture(stream) } != Some(false) {
        return None;
    }
    // The libraries are not called with the lock held: they may wait for this library.
    let (free, known) = {
        let mut waiting = WAITING.lock();
        let free = waiting.free.iter().rposition(|events| events.are_of(&gpu));
        (free.map(|at| waiting.free.swap_remove(at)), waiting.origin(&gpu))
    };
    let origin = known.or_else(|| {
        let made = origin(gpu, stream).map(Arc::new)?;
        let mut waiting = WAITING.lock();
        let first = waiting.origin(&gpu);
        Some(first.unwrap_or_else(|| {
            waiting.origins.push(Arc::clone(&made));
            made
        }))
    });
    // SAFETY: the caller that set the stream keeps it alive, and the events are of its GPU.
    let start = |events: Events| unsafe { events.start(stream) }.ok().map(|()| events);
    // Reused events may belong to another HIP device.
    let events = free.and_then(start).or_else(|| Events::new(gpu).ok().and_then(start))?;
    Some(Launch { events, origin, stream })
}

impl Waiting {
    fn origin(&self, gpu: &Gpu) -> Option<Arc<Origin>> {
        self.origins.iter().find(|origin| origin.0.are_of(gpu)).cloned()
    }
}

/// Creates an origin, waiting once for the stream to reach it.
fn origin(gpu: Gpu, stream: hipStream_t) -> Option<Origin> {
    let events = Events::new(gpu).ok()?;
    // SAFETY: `hipdnnSetStream` requires that the stream stays alive while the handle has it.
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
        let Self { events, origin, stream } = self;
        if !may_ask() {
            // Destroying events would call the device's library.
            std::mem::forget(events);
            return;
        }
        // SAFETY: `hipdnnSetStream` requires that the stream stays alive while the handle has it.
        if unsafe { events.stop(stream) }.is_err() {
            return;
        }
        let mut waiting = WAITING.lock();
        waiting.runs.push_back(Run { events, origin, plan, begin });
        let first = if waiting.runs.len() > MOST { waiting.runs.pop_front() } else { None };
        drop(waiting);
        if let Some(run) = first {
            run.record();
        }
    }
}

impl Run {
    /// Records the run, waiting for it if necessary.
    fn record(self) {
        let Ok(milliseconds) = self.events.elapsed() else { return };
        let since = |origin: &Arc<Origin>| Some(origin.1 + nanoseconds(self.events.since(&origin.0).ok()?));
        let begin = self.origin.as_ref().and_then(since).unwrap_or(self.begin);
        WAITING.lock().free.push(self.events);
        record(begin, begin + nanoseconds(milliseconds), Event::OnDevice(self.plan));
    }
}

fn nanoseconds(milliseconds: f32) -> u64 {
    (f64::from(milliseconds) * 1e6) as u64
}

/// Records the runs that devices have finished.
pub fn collect() {
    if !may_ask() {
        return;
    }
    let Some(_collecting) = COLLECTING.try_lock_for(PATIENCE) else { return };
    // Process exit may have begun meanwhile.
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
    fn devices_are_left_alone_in_a_forked_child_and_from_the_end_of_the_process_on() {
        crate::fork::protect();
        let held = (COLLECTING.lock(), WAITING.lock());
        let is_well = process::in_fork(held, || {
            IS_THERE.store(true, Ordering::Relaxed);
            recorder::in_child();
            let may_ask = may_ask();
            collect();
            at_exit();
            !may_ask
        });
        assert_ne!(is_well, Some(false));

        // Process exit waits for threads that call a device, and none calls later. In the same test, since the lock must be open now.
        let is_well = process::in_fork((), || {
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
        assert_ne!(is_well, Some(false));
    }
}
