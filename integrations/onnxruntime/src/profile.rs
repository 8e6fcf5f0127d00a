//! Reports a subgraph's work as events in ONNX Runtime's profile (1.25 and newer).
//!
//! On each thread, ONNX Runtime tells a profiler when an event of its own begins and ends. Work done in between belongs to this profiler.

use std::cell::RefCell;
use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::ort::*;

/// `OrtProfilingEventCategory_KERNEL`.
const KERNEL: c_int = 2;

/// An event.
struct Event {
    title: String,
    thread: i32,
    begun: Instant,
    microseconds: i64,
}

/// The events of one profiler.
#[derive(Default)]
struct Events {
    list: Mutex<Vec<Event>>,
}

thread_local! {
    /// The profilers whose events are open on this thread, the newest at the end.
    static OPEN: RefCell<Vec<Arc<Events>>> = const { RefCell::new(Vec::new()) };
}

/// Whether a profiler listens.
pub fn is_on() -> bool {
    OPEN.with(|open| !open.borrow().is_empty())
}

/// Runs `f`, and records it if a profiler listens.
pub fn event<R>(title: &str, f: impl FnOnce() -> R) -> R {
    let Some(events) = OPEN.with(|open| open.borrow().last().cloned()) else { return f() };
    let begun = Instant::now();
    let result = f();
    let microseconds = i64::try_from(begun.elapsed().as_micros()).unwrap_or(i64::MAX);
    // SAFETY: the function takes no arguments and returns the thread's number.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t };
    let event = Event { title: title.to_owned(), thread, begun, microseconds };
    events.list.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    result
}

/// A profiler. ONNX Runtime accesses its first member.
#[repr(C)]
struct Profiler {
    base: OrtEpProfilerImpl,
    ort: Ort,
    events: Arc<Events>,
    /// The start of profiling, and its difference from ONNX Runtime's.
    begun: Mutex<(Instant, i64)>,
}

/// A profiler, released by ONNX Runtime.
pub fn create(ort: Ort) -> *mut OrtEpProfilerImpl {
    let base = OrtEpProfilerImpl {
        ort_version_supported: ort.version,
        release,
        start_profiling,
        start_event,
        stop_event,
        end_profiling,
    };
    let begun = Mutex::new((Instant::now(), 0));
    Box::into_raw(Box::new(Profiler { base, ort, events: Arc::default(), begun })).cast()
}

unsafe fn of<'a>(profiler: *mut OrtEpProfilerImpl) -> &'a Profiler {
    // SAFETY: ONNX Runtime passes what `create` made, until it releases it.
    unsafe { &*profiler.cast::<Profiler>() }
}

unsafe extern "C" fn release(profiler: *mut OrtEpProfilerImpl) {
    if !profiler.is_null() {
        // SAFETY: ONNX Runtime passes what `create` made, once.
        drop(unsafe { Box::from_raw(profiler.cast::<Profiler>()) });
    }
}

unsafe extern "C" fn start_profiling(profiler: *mut OrtEpProfilerImpl, offset: i64) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its profiler.
    let of = unsafe { of(profiler) };
    guard(of.ort, "StartProfiling", || {
        *of.begun.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), offset);
        Ok(())
    })
}

unsafe extern "C" fn start_event(profiler: *mut OrtEpProfilerImpl, _: u64) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its profiler.
    let of = unsafe { of(profiler) };
    guard(of.ort, "StartEvent", || {
        OPEN.with(|open| open.borrow_mut().push(of.events.clone()));
        Ok(())
    })
}

unsafe extern "C" fn stop_event(
    profiler: *mut OrtEpProfilerImpl,
    _: u64,
    _: *const OrtProfilingEvent,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its profiler.
    let of = unsafe { of(profiler) };
    guard(of.ort, "StopEvent", || {
        OPEN.with(|open| {
            let mut open = open.borrow_mut();
            // Events end in the opposite order, each on the thread that it began on.
            if let Some(at) = open.iter().rposition(|events| Arc::ptr_eq(events, &of.events)) {
                open.remove(at);
            }
        });
        Ok(())
    })
}

unsafe extern "C" fn end_profiling(
    profiler: *mut OrtEpProfilerImpl,
    container: *mut OrtProfilingEventsContainer,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its profiler.
    let of = unsafe { of(profiler) };
    guard(of.ort, "EndProfiling", || {
        let list = std::mem::take(&mut *of.events.list.lock().unwrap_or_else(PoisonError::into_inner));
        let (begun, offset) = *of.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let process = i32::try_from(std::process::id()).unwrap_or(-1);
        for event in list {
            let name = CString::new(event.title.replace('\0', " ")).unwrap_or_default();
            let since = event.begun.saturating_duration_since(begun).as_nanos();
            let at = i64::try_from(since).unwrap_or(i64::MAX).saturating_add(offset) / 1000;
            let made = of.ort.value("CreateProfilingEvent", ptr::null_mut(), |to| {
                // SAFETY: the name ends with a NUL and is copied; there are no arguments.
                unsafe {
                    let (keys, values) = (ptr::null(), ptr::null());
                    let ep = of.ort.ep;
                    ep.CreateProfilingEvent(
                        KERNEL,
                        process,
                        event.thread,
                        name.as_ptr(),
                        at,
                        event.microseconds,
                        keys,
                        values,
                        0,
                        to,
                    )
                }
            })?;
            let list = [made.cast_const()];
            // SAFETY: the container is alive during the call and copies the event, which we release.
            let status = unsafe {
                let status = of.ort.ep.ProfilingEventsContainer_AddEvents(container, list.as_ptr(), 1);
                of.ort.ep.ReleaseProfilingEvent(made);
                status
            };
            of.ort.check(status, "adding an event")?;
        }
        Ok(())
    })
}
