//! Executions on the host that answer an interrupt: a thread of their own computes, while the main thread waits and looks for signals. Python
//! delivers signals to its main thread only, and a library's call returns when the work is done.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hipdnn_plugin_sdk::os::{clock, thread};
use pyo3::prelude::*;

use crate::error::Error;
use crate::forks;

/// How long the main thread waits before it looks for signals.
pub const TICK: Duration = Duration::from_millis(50);

/// What an execution takes at least that gets a thread: short of what a person notices.
const LONG: Duration = Duration::from_millis(100);

/// The stack of such a thread, as large as that of a main thread by default.
const STACK: usize = 8 << 20;

/// The identity of the main thread; 0 until it is known.
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// Notes which thread is the main one.
pub fn find_main_thread(py: Python<'_>) -> PyResult<()> {
    let main = py.import("threading")?.call_method0("main_thread")?.getattr("ident")?;
    MAIN.store(main.extract().unwrap_or(0), Ordering::Relaxed);
    Ok(())
}

/// Notes that this thread is the main one, in a child that was just forked.
pub fn become_main_thread() {
    MAIN.store(thread::own(), Ordering::Relaxed);
}

/// Whether signals are delivered to this thread.
pub fn is_main_thread() -> bool {
    thread::own() == MAIN.load(Ordering::Relaxed)
}

/// How long the executions of a plan take, as the last one showed.
#[derive(Default)]
pub struct Pace(AtomicU8);

impl Pace {
    const UNKNOWN: u8 = 0;
    const SHORT: u8 = 1;
    const LONG: u8 = 2;

    /// Whether an execution of the main thread is to get a thread: a long one, and the first one.
    pub fn is_long(&self) -> bool {
        matches!(self.0.load(Ordering::Relaxed), Self::UNKNOWN | Self::LONG)
    }

    /// Notes how long an execution took.
    pub fn note(&self, taken: Duration) {
        self.0.store(if taken < LONG { Self::SHORT } else { Self::LONG }, Ordering::Relaxed);
    }
}

/// A clock with steps of some milliseconds, which costs a few nanoseconds.
pub fn coarse_time() -> Duration {
    Duration::from_nanos(clock::coarse())
}

/// Work of another thread, whatever it answers.
pub trait Work: Send + Sync {
    /// Waits for its end, but not longer than so; whether it has ended.
    fn wait(&self, most: Duration) -> bool;
}

/// Work of another thread.
pub struct Job<R> {
    result: Mutex<Option<Result<R, Box<dyn Any + Send>>>>,
    ended: Condvar,
}

impl<R: Send> Job<R> {
    fn result(&self) -> MutexGuard<'_, Option<Result<R, Box<dyn Any + Send>>>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Send> Work for Job<R> {
    fn wait(&self, most: Duration) -> bool {
        let waited = self.ended.wait_timeout_while(self.result(), most, |result| result.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }
}

/// Has a new thread do this; an error where there can be none. The thread has the calling one's rounding and processors.
pub fn start<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> std::io::Result<Arc<Job<R>>> {
    let job = Arc::new(Job { result: Mutex::new(None), ended: Condvar::new() });
    let of_thread = Arc::clone(&job);
    std::thread::Builder::new().name("hipdnn execute".to_owned()).stack_size(STACK).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        *of_thread.result() = Some(result);
        of_thread.ended.notify_all();
    })?;
    Ok(job)
}

/// Waits for the end of a job, and answers its result; an error where a signal's handler raised one.
pub fn finish<R: Send>(py: Python<'_>, job: &Job<R>) -> PyResult<R> {
    let forks = forks::count();
    loop {
        py.detach(|| job.wait(TICK));
        if let Some(result) = job.result().take() {
            return Ok(result.unwrap_or_else(|panic| resume_unwind(panic)));
        }
        py.check_signals()?;
        if forks::count() != forks {
            return Err(Error::new_err(
                "the process was forked by a signal's handler during the execution, whose thread the child lacks",
            ));
        }
    }
}
