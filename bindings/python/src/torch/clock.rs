//! Times calls: on the host by its clock, on a GPU by events of the stream, which are read later.

use std::time::{Duration, Instant};

use super::budget;
use super::choices;
use super::events::{Choice, Events, Pending};
use super::functions::functions;
use super::steps;
use super::table::Entry;
use crate::device::{Place, Stream};

/// A call that is being timed.
pub enum Clock {
    /// On the host; whether the time counts.
    Host(Instant, bool),
    /// Includes the host's time.
    Gpu(Events, Instant),
}

impl Clock {
    /// Starts timing a call; none if the stream is being captured, or its driver lacks events.
    pub fn start(place: Place, stream: Stream, counts: bool) -> Option<Self> {
        if place == Place::Host {
            return Some(Self::Host(Instant::now(), counts));
        }
        if !counts {
            return None;
        }
        let _entered = place.enter(stream).ok()?;
        // SAFETY: the stream is PyTorch's current one, whose device was entered.
        let gpu = unsafe { place.gpu(stream) }.ok()??;
        let from = gpu.create_timed_event().ok()?;
        let Ok(to) = gpu.create_timed_event() else {
            // SAFETY: nothing uses the event.
            unsafe { gpu.destroy_event(from) };
            return None;
        };
        let events = Events { gpu, stream, from, to };
        // SAFETY: `events` owns the event, and a caller's stream is alive while PyTorch makes the call.
        unsafe { gpu.record(from, stream.raw()) }.ok()?;
        Some(Self::Gpu(events, Instant::now()))
    }

    /// Stops timing a call, and records its time now or later.
    pub fn stop(self, entry: &Entry, by: Choice) {
        match self {
            Self::Host(start, counts) => {
                let time = start.elapsed();
                if by == Choice::Ours {
                    let theirs = Duration::from_nanos(entry.times().theirs);
                    budget::spend(time.saturating_sub(theirs));
                }
                if counts {
                    note(entry, by, time);
                }
            }
            Self::Gpu(events, start) => {
                let host = start.elapsed();
                // SAFETY: `events` owns both events and destroys them when it is dropped.
                let is_awaited = unsafe { events.gpu.has_happened(events.from) };
                // SAFETY: `events` owns the event, and the stream was alive when the call began, which ends only now.
                if unsafe { events.gpu.record(events.to, events.stream.raw()) }.is_ok() {
                    entry.pending.lock().push(Pending { events, by, host, is_awaited });
                }
            }
        }
    }
}

/// Records the times of calls that are done by now.
pub fn read(entry: &Entry) {
    let (done, pending): (Vec<_>, Vec<_>) =
        std::mem::take(&mut *entry.pending.lock()).into_iter().partition(|of: &Pending| {
            // SAFETY: `of.events` owns both events and destroys them when it is dropped.
            unsafe { of.events.gpu.has_happened(of.events.to) }
        });
    entry.pending.lock().extend(pending);
    for of in done {
        // SAFETY: both events are alive and have happened.
        if let Ok(time) = unsafe { of.events.gpu.milliseconds(of.events.from, of.events.to) } {
            entry.queued(of.by, of.host, of.is_awaited);
            note(entry, of.by, Duration::from_secs_f32(time.max(0.0) / 1000.0));
        }
    }
}

/// Records a call's time; stores the choice if this makes one.
fn note(entry: &Entry, by: Choice, time: Duration) {
    if let Some(times) = entry.took(by, time)
        && let Ok(f) = functions()
    {
        steps::decided();
        let (words, device) = entry.arguments();
        choices::store(f, entry.name, words, device, times);
    }
}
