//! The profile of `HIPDNN_VERBOSE` and the trace of `HIPDNN_TRACE_FILE`: what runs when, and for how long.
//!
//! Both variables are read with the log's level, at the first call. While neither is on, a call costs only the load that it
//! shares with the log. A recording thread puts numbers and pointers into a buffer of fixed size; lines are made of them by that
//! thread when the buffer is full, or after a while by the `recorder`'s thread. So only unwritten records are lost in a crash,
//! and memory stays bounded.

pub mod device;
mod line;
mod nvtx;
pub mod plan;
mod profiler;
pub mod ranges;
pub mod recorder;

use std::ffi::{CStr, c_char};

pub use hipdnn_plugin_sdk::trace::now;
pub use plan::{About, Plan};
pub use recorder::{in_place, start};

use crate::ffi::hipdnnSeverity_t as Severity;
use crate::log;

/// A recorded event.
pub enum Event {
    /// A call of the C interface, with its status.
    Call(&'static str, i32),
    /// A part of a call, with a detail.
    Phase(&'static str, Box<str>),
    /// A plan was made.
    Planned(&'static Plan),
    /// A plan was executed, until its plugin returned; true if that failed.
    Executed(&'static Plan, bool),
    /// A plan's work on a device, from its beginning to its end there.
    OnDevice(&'static Plan),
    /// A step of an execution, in the plugin's words.
    Step(Text),
}

/// A plugin's text, cut to a fixed length.
#[derive(Clone, Copy)]
pub struct Text {
    length: u8,
    bytes: [u8; 47],
}

impl Text {
    fn of(bytes: &[u8]) -> Self {
        let mut text = Self { length: 0, bytes: [0; 47] };
        for (to, from) in text.bytes.iter_mut().zip(bytes) {
            *to = *from;
            text.length += 1;
        }
        text
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// An event with its thread and its time, in nanoseconds of the monotonic clock.
pub struct Record {
    thread: i32,
    begin: u64,
    end: u64,
    event: Event,
}

/// Whether recording may be on: the only cost of this module while it is off.
#[inline]
fn may_be_on() -> bool {
    log::is_watched(Severity::HIPDNN_SEV_INFO)
}

/// A running phase, recorded on drop; nothing if phases are not recorded.
#[derive(Default)]
pub struct Span(Option<Box<Running>>);

struct Running {
    begin: u64,
    event: Option<Event>,
    _range: Option<ranges::Range>,
}

/// Begins a phase of a call, if phases are recorded, with the detail that `detail` returns.
#[inline]
pub fn phase(name: &'static str, detail: impl FnOnce() -> String) -> Span {
    Span(if may_be_on() { begin_phase(name, detail) } else { None })
}

#[cold]
#[inline(never)]
fn begin_phase(name: &'static str, detail: impl FnOnce() -> String) -> Option<Box<Running>> {
    let records = in_place().is_some_and(|recorder| recorder.traces());
    let range = ranges::push(|| name.to_owned());
    if !records && range.is_none() {
        return None;
    }
    let event = records.then(|| Event::Phase(name, detail().into_boxed_str()));
    Some(Box::new(Running { begin: now(), event, _range: range }))
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            end_phase(*running);
        }
    }
}

#[cold]
#[inline(never)]
fn end_phase(running: Running) {
    if let Some((recorder, event)) = in_place().zip(running.event) {
        recorder.record(running.begin, now(), event);
    }
}

/// A call of the C interface that is being recorded.
pub struct Call {
    name: &'static str,
    begin: u64,
    _range: Option<ranges::Range>,
}

/// Begins a call, if calls are recorded.
#[cold]
pub fn call(name: &'static str) -> Option<Call> {
    let range = ranges::push(|| name.to_owned());
    let records = in_place().is_some_and(|recorder| recorder.traces());
    (records || range.is_some()).then(|| Call { name, begin: now(), _range: range })
}

impl Call {
    /// Records the call with its status.
    pub fn end(self, status: i32) {
        if let Some(recorder) = in_place().filter(|recorder| recorder.traces()) {
            recorder.record(self.begin, now(), Event::Call(self.name, status));
        }
    }
}

/// The current time, if plans and executions are recorded.
#[inline]
pub fn begin() -> Option<u64> {
    if may_be_on() { begin_if_on() } else { None }
}

#[cold]
fn begin_if_on() -> Option<u64> {
    in_place().map(|_| now())
}

/// Records an event that is over.
#[cold]
pub fn record(begin: u64, end: u64, event: Event) {
    if let Some(recorder) = in_place() {
        recorder.record(begin, end, event);
    }
}

/// The callback through which plugins report steps of executions: times in nanoseconds of the monotonic clock.
///
/// # Safety
/// `name` is null or a NUL terminated text.
pub unsafe extern "C" fn plugin_step(name: *const c_char, begin: u64, end: u64) {
    let Some(recorder) = in_place().filter(|recorder| recorder.traces()) else { return };
    // SAFETY: a text that is not null ends with a NUL, as this function requires.
    let name = if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } };
    recorder.record(begin, end, Event::Step(Text::of(name.to_bytes())));
}

/// Whether plugins should report their steps.
pub fn wants_steps() -> bool {
    may_be_on() && in_place().is_some_and(|recorder| recorder.traces())
}
