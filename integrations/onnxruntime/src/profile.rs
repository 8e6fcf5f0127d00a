//! Reports a subgraph's work as events in ONNX Runtime's profile (1.25 and newer).
//!
//! On each thread, ONNX Runtime tells a profiler when an event of its own begins and ends. Work done in between belongs to this profiler.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::ort::*;
use crate::threads::function;

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

/// The plugin's function that sets the callback for the steps of its executions.
const STEPS: &CStr = c"hipdnnEnginePluginSetStepCallback_ext";

/// The variable with the library's own trace, which has the same callback.
const TRACE: &str = "HIPDNN_TRACE_FILE";

type OnStep = unsafe extern "C" fn(*const c_char, u64, u64);

/// A step that the engine has reported: its name, and when it began and ended, in nanoseconds of the monotonic clock.
type Step = (String, u64, u64);

thread_local! {
    /// The steps of this thread's execution, while one is recorded.
    static REPORTED: RefCell<Option<Vec<Step>>> = const { RefCell::new(None) };
    /// The profilers whose events are open on this thread, the newest at the end.
    static OPEN: RefCell<Vec<Arc<Events>>> = const { RefCell::new(Vec::new()) };
}

/// Whether a profiler listens.
pub fn is_on() -> bool {
    OPEN.with(|open| !open.borrow().is_empty())
}

/// Keeps a step of an execution that is recorded.
///
/// # Safety
/// `name` is a text that ends with zero.
unsafe extern "C" fn on_step(name: *const c_char, begin: u64, end: u64) {
    let keep = |steps: &RefCell<Option<Vec<Step>>>| {
        // The engine may report from a thread that records nothing.
        if let Ok(mut steps) = steps.try_borrow_mut()
            && let Some(steps) = steps.as_mut()
        {
            steps.push((text_of(name), begin, end));
        }
    };
    // A thread that ends has no more steps.
    let _ = REPORTED.try_with(keep);
}

/// Asks the CPU engine for its steps; it goes on reporting them, at the cost of a call each.
fn ask_for_steps() {
    static ASKED: OnceLock<()> = OnceLock::new();
    if std::env::var_os(TRACE).is_some_and(|file| !file.is_empty()) {
        return;
    }
    ASKED.get_or_init(|| {
        let Some(set) = function(STEPS) else { return };
        // SAFETY: a function of this name has this type, and the callback stays as long as the process, like this library.
        unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(Option<OnStep>) -> c_int>(set)(Some(
                on_step,
            ));
        }
    });
}

/// The model's nodes that a step of the engine computes. Its name ends with `(nodes 0 1 2)`, which are indices into the graph.
fn nodes(step: &str, origins: &[Arc<str>]) -> (String, String) {
    let (algorithm, list) = step.rsplit_once(" (nodes ").unwrap_or((step, ""));
    let indices = list.trim_end_matches(')').split(' ').filter_map(|word| word.parse::<usize>().ok());
    let mut names: Vec<&str> = Vec::new();
    for origin in indices.filter_map(|at| origins.get(at)) {
        if !names.contains(&origin.as_ref()) {
            names.push(origin);
        }
    }
    (names.join(", "), algorithm.to_owned())
}

/// Runs the execution of a graph, and records each of its steps if a profiler listens: with the names of the model's nodes, one for each
/// node of the graph in `origins`. An engine that reports no steps has one event, with the title.
pub fn graph<R>((subgraph, title, origins): (&str, &str, &[Arc<str>]), f: impl FnOnce() -> R) -> R {
    let Some(events) = OPEN.with(|open| open.borrow().last().cloned()) else { return f() };
    ask_for_steps();
    REPORTED.with(|steps| *steps.borrow_mut() = Some(Vec::new()));
    let (begun, clock) = (Instant::now(), monotonic());
    let result = f();
    let spent = begun.elapsed();
    let steps = REPORTED.with(|steps| steps.borrow_mut().take()).unwrap_or_default();
    let whole = i64::try_from(spent.as_micros()).unwrap_or(i64::MAX);
    let mut made: Vec<Event> = Vec::with_capacity(steps.len().max(1));
    for (name, begin, end) in &steps {
        let (names, algorithm) = nodes(name, origins);
        made.push(Event {
            title: format!("{subgraph}: {names} [{algorithm}]"),
            thread: thread(),
            begun: begun + Duration::from_nanos(begin.saturating_sub(clock)),
            microseconds: i64::try_from(end.saturating_sub(*begin) / 1000).unwrap_or(i64::MAX),
        });
    }
    if made.is_empty() {
        made.push(Event { title: title.to_owned(), thread: thread(), begun, microseconds: whole });
    }
    events.list.lock().unwrap_or_else(PoisonError::into_inner).extend(made);
    result
}

/// Nanoseconds of the monotonic clock, by which engines time their steps.
fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the function writes only to the local `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let number = |of: i64| u64::try_from(of).unwrap_or(0);
    number(time.tv_sec).saturating_mul(1_000_000_000).saturating_add(number(time.tv_nsec))
}

/// The number of this thread.
fn thread() -> i32 {
    // SAFETY: the function takes no arguments and returns the thread's number.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

/// Runs `f`, and records it if a profiler listens.
pub fn event<R>(title: &str, f: impl FnOnce() -> R) -> R {
    let Some(events) = OPEN.with(|open| open.borrow().last().cloned()) else { return f() };
    let begun = Instant::now();
    let result = f();
    let microseconds = i64::try_from(begun.elapsed().as_micros()).unwrap_or(i64::MAX);
    let event = Event { title: title.to_owned(), thread: thread(), begun, microseconds };
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

/// # Safety
/// `profiler` is one that this library made, and lives as long as the result.
unsafe fn of<'a>(profiler: *mut OrtEpProfilerImpl) -> &'a Profiler {
    // SAFETY: ONNX Runtime passes what `create` made, until it releases it.
    unsafe { &*profiler.cast::<Profiler>() }
}

/// # Safety
/// ONNX Runtime calls this once, and uses `profiler` no more.
unsafe extern "C" fn release(profiler: *mut OrtEpProfilerImpl) {
    if !profiler.is_null() {
        // SAFETY: ONNX Runtime passes what `create` made, once.
        drop(unsafe { Box::from_raw(profiler.cast::<Profiler>()) });
    }
}

/// # Safety
/// ONNX Runtime calls this with a profiler of this library; other pointers are valid as its interface says.
unsafe extern "C" fn start_profiling(profiler: *mut OrtEpProfilerImpl, offset: i64) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its profiler.
    let of = unsafe { of(profiler) };
    guard(of.ort, "StartProfiling", || {
        *of.begun.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), offset);
        Ok(())
    })
}

/// # Safety
/// ONNX Runtime calls this with a profiler of this library; other pointers are valid as its interface says.
unsafe extern "C" fn start_event(profiler: *mut OrtEpProfilerImpl, _: u64) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its profiler.
    let of = unsafe { of(profiler) };
    guard(of.ort, "StartEvent", || {
        OPEN.with(|open| open.borrow_mut().push(of.events.clone()));
        Ok(())
    })
}

/// # Safety
/// ONNX Runtime calls this with a profiler of this library; other pointers are valid as its interface says.
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

/// # Safety
/// ONNX Runtime calls this with a profiler of this library; other pointers are valid as its interface says.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_the_names_of_the_model() {
        let origins = ["conv", "conv", "relu", "product"].map(Arc::from);
        assert_eq!(nodes("direct (nodes 0 1 2)", &origins), ("conv, relu".to_owned(), "direct".to_owned()));
        assert_eq!(nodes("gemm (nodes 3 9)", &origins), ("product".to_owned(), "gemm".to_owned()));
        assert_eq!(nodes("other", &origins), (String::new(), "other".to_owned()));
    }
}
