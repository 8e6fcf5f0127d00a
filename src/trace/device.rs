//! When work on a device began and ended there, by events of its stream.
//!
//! For executions with memory of a HIP device. Nothing waits for them: the recorder's thread, and whoever destroys a handle, look which
//! are over. At the end of the process HIP may be gone already, so it is not asked any more.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::hip::{Hip, MemoryKind};

use super::{Event, Plan, in_place, now};
use crate::events::{Events, hip_with_device};
use crate::lock::Mutex;

/// More executions that are not over wait for the first one.
const MOST: usize = 4096;

/// Whether there is a device, found out once for each plan: asking where there is none takes microseconds.
static IS_THERE: AtomicBool = AtomicBool::new(false);

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
    if !IS_THERE.load(Ordering::Relaxed) {
        IS_THERE.store(hip_with_device().is_some(), Ordering::Relaxed);
    }
}

/// An execution whose work is being put on a stream.
pub struct Launch {
    events: Events,
    stream: hipStream_t,
}

/// Begins an execution with this memory, where it is a device's.
///
/// # Safety
/// The stream is null, or lives until the execution is over.
pub unsafe fn begin(stream: hipStream_t, memory: *const c_void) -> Option<Launch> {
    if !IS_THERE.load(Ordering::Relaxed) {
        return None;
    }
    let hip = Hip::loaded()?;
    let is_device = matches!(hip.memory_kind(memory), Ok(MemoryKind::Device));
    // What is captured runs later, and again.
    if !is_device || is_capturing(hip, stream) {
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
    let events = free.or_else(|| Events::new(hip).ok())?;
    // SAFETY: whoever set the handle's stream vouches for it.
    unsafe { events.start(stream) }.ok()?;
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
        if let Some(recorder) = in_place() {
            recorder.record(begin, begin + nanoseconds(milliseconds), Event::OnDevice(self.plan));
        }
    }
}

fn nanoseconds(milliseconds: f32) -> u64 {
    (f64::from(milliseconds) * 1e6) as u64
}

/// Records what devices have finished meanwhile.
pub fn collect() {
    if !IS_THERE.load(Ordering::Relaxed) {
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
