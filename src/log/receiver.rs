//! The callbacks that users set to receive the log's lines.
//!
//! A line goes to synchronous receivers on the thread that logs it, and to asynchronous ones on a thread of the library, in
//! the order of the lines. What a callback's own calls log is written to the log but given to no callback, so a callback may
//! call any function.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::call;
use crate::ffi::{hipdnnLogCallbackMode_t as CallMode, hipdnnSeverity_t as Severity};
use crate::status::{Error, Result};

/// A callback as C passes it.
pub type Callback = unsafe extern "C" fn(*mut c_void, c_int, *const c_char);

/// The most lines that wait for the library's thread.
const CAPACITY: usize = 8192;

/// How long a thread waits for room before it gives its line up, when no line at all was delivered meanwhile: the callback
/// that is running may itself be waiting for that thread.
const STUCK: Duration = Duration::from_secs(1);

/// How long the end of the process waits for lines that are not yet delivered.
const LAST_LINES: Duration = Duration::from_secs(2);

const OFF: c_int = Severity::HIPDNN_SEV_OFF as c_int;

/// What tells receivers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    callback: usize,
    user: usize,
}

impl Key {
    /// The key of a callback and the pointer that it is called with.
    pub fn new(callback: Callback, user: *mut c_void) -> Self {
        Self { callback: callback as usize, user: user.expose_provenance() }
    }
}

/// A callback with its settings.
struct Receiver {
    key: Key,
    /// The lowest severity that it is given.
    level: AtomicI32,
    asynchronous: AtomicBool,
    calls: Mutex<Calls>,
    /// Told when a call ends.
    ended: Condvar,
}

#[derive(Default)]
struct Calls {
    running: usize,
    removed: bool,
}

/// Everybody who is set, in the order of setting. Replaced as a whole, so that a line is given to whom it found.
static RECEIVERS: Mutex<Option<Arc<[Arc<Receiver>]>>> = Mutex::new(None);

/// Whether there may be a receiver: what a line pays where there is none.
static ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread is in a callback.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// A thread whose storage is gone is ending: its lines go to the log alone.
fn in_callback() -> bool {
    IN_CALLBACK.try_with(Cell::get).unwrap_or(true)
}

impl Receiver {
    fn wants(&self, severity: c_int) -> bool {
        severity >= self.level.load(Ordering::Relaxed)
    }

    /// Calls the callback, unless it was removed.
    fn call(&self, severity: c_int, line: &CString) {
        {
            let mut calls = self.calls.lock();
            if calls.removed {
                return;
            }
            calls.running += 1;
        }
        let _ = IN_CALLBACK.try_with(|inside| inside.set(true));
        let words = [self.key.user, severity as usize, line.as_ptr().expose_provenance()];
        // SAFETY: whoever set the callback vouches for it and its pointer; the text lives during the call. What it returns is
        // not looked at, and an exception that it throws ends in the frame around it.
        let status = unsafe { call::call(self.key.callback as *const (), words) };
        // An exception is forgotten here, so that nobody takes it for theirs.
        call::has_thrown(status);
        let _ = IN_CALLBACK.try_with(|inside| inside.set(false));
        self.calls.lock().running -= 1;
        self.ended.notify_all();
    }

    /// Sees to it that no further call begins, and waits for those that run. A thread that is in a callback does not wait: it
    /// could be waiting for itself.
    fn remove(&self) {
        let mut calls = self.calls.lock();
        calls.removed = true;
        if !in_callback() {
            self.ended.wait_while(&mut calls, |calls| calls.running > 0);
        }
    }
}

/// Sets or changes a receiver, or removes it where `level` is OFF.
///
/// # Errors
/// BAD_PARAM for the removal of what is not set.
pub fn set(key: Key, level: Severity, mode: CallMode) -> Result<()> {
    let level = level as c_int;
    let mut receivers = RECEIVERS.lock();
    let present = receivers.as_deref().unwrap_or_default();
    let known = present.iter().find(|receiver| receiver.key == key).cloned();
    if level == OFF {
        let known = known.ok_or_else(|| {
            Error::bad_param("minLevel is HIPDNN_SEV_OFF, but this callback and userHandle are not set")
        })?;
        let rest: Arc<[_]> = present.iter().filter(|receiver| receiver.key != key).cloned().collect();
        ANY.store(!rest.is_empty(), Ordering::Relaxed);
        *receivers = Some(rest);
        // Outside the lock: a call that runs may set callbacks.
        drop(receivers);
        forget_lines(&known);
        known.remove();
        return Ok(());
    }
    let asynchronous = mode == CallMode::HIPDNN_LOG_CALLBACK_ASYNC;
    match known {
        Some(known) => {
            known.level.store(level, Ordering::Relaxed);
            known.asynchronous.store(asynchronous, Ordering::Relaxed);
        }
        None => {
            let new = Arc::new(Receiver {
                key,
                level: AtomicI32::new(level),
                asynchronous: AtomicBool::new(asynchronous),
                calls: Mutex::default(),
                ended: Condvar::new(),
            });
            *receivers = Some(present.iter().cloned().chain([new]).collect());
            ANY.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Gives a line that passed the log's own level to every receiver that wants it.
#[inline]
pub fn deliver(severity: c_int, line: &str) {
    if ANY.load(Ordering::Relaxed) {
        deliver_to_all(severity, line);
    }
}

#[cold]
fn deliver_to_all(severity: c_int, line: &str) {
    if in_callback() {
        return;
    }
    let Some(receivers) = RECEIVERS.lock().clone() else { return };
    if !receivers.iter().any(|receiver| receiver.wants(severity)) {
        return;
    }
    // C's texts end at a NUL; so does what it is given of this one.
    let text = line.split('\0').next().unwrap_or_default();
    let Ok(text) = CString::new(text) else { return };
    for receiver in receivers.iter().filter(|receiver| receiver.wants(severity)) {
        if receiver.asynchronous.load(Ordering::Relaxed) {
            queue(Arc::clone(receiver), severity, text.clone());
        } else {
            receiver.call(severity, &text);
        }
    }
}

/// A line on its way.
struct Line {
    receiver: Arc<Receiver>,
    severity: c_int,
    text: CString,
}

struct Queue {
    lines: VecDeque<Line>,
    /// The process whose thread takes lines out: a forked child has none.
    worker: Option<libc::pid_t>,
    /// How many lines were taken out.
    taken: u64,
    /// Whether the worker is in a call.
    busy: bool,
}

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { lines: VecDeque::new(), worker: None, taken: 0, busy: false });
/// Told when a line comes.
static FILLED: Condvar = Condvar::new();
/// Told when a line was taken out or delivered.
static EMPTIED: Condvar = Condvar::new();

fn own_process() -> libc::pid_t {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::getpid() }
}

fn queue(receiver: Arc<Receiver>, severity: c_int, text: CString) {
    let mut queue = QUEUE.lock();
    if queue.worker != Some(own_process()) {
        // What a parent's thread has not delivered, it delivers itself.
        queue.lines.clear();
        queue.busy = false;
        if std::thread::Builder::new().name("hipdnn log".to_owned()).spawn(work).is_err() {
            return;
        }
        if queue.worker.is_none() {
            // SAFETY: the function may run at any time until the process has ended.
            unsafe { libc::atexit(at_exit) };
        }
        queue.worker = Some(own_process());
    }
    while queue.lines.len() >= CAPACITY {
        let taken = queue.taken;
        if EMPTIED.wait_for(&mut queue, STUCK).timed_out() && queue.taken == taken {
            return;
        }
    }
    queue.lines.push_back(Line { receiver, severity, text });
    drop(queue);
    FILLED.notify_one();
}

/// What the library's thread does.
fn work() {
    let mut queue = QUEUE.lock();
    loop {
        match queue.lines.pop_front() {
            Some(Line { receiver, severity, text }) => {
                queue.taken += 1;
                queue.busy = true;
                drop(queue);
                EMPTIED.notify_all();
                receiver.call(severity, &text);
                drop(receiver);
                queue = QUEUE.lock();
                queue.busy = false;
                if queue.lines.is_empty() {
                    EMPTIED.notify_all();
                }
            }
            None => FILLED.wait(&mut queue),
        }
    }
}

/// Drops the lines that wait for a receiver.
fn forget_lines(receiver: &Arc<Receiver>) {
    let mut queue = QUEUE.lock();
    if queue.lines.is_empty() {
        return;
    }
    queue.lines.retain(|line| !Arc::ptr_eq(&line.receiver, receiver));
    drop(queue);
    EMPTIED.notify_all();
}

/// Lets the thread deliver what waits when the process ends in the ordinary way.
extern "C" fn at_exit() {
    if in_callback() {
        return;
    }
    let mut queue = QUEUE.lock();
    if queue.worker == Some(own_process()) {
        EMPTIED.wait_while_for(&mut queue, |queue| queue.busy || !queue.lines.is_empty(), LAST_LINES);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    /// Lines that the test's callback received.
    struct Lines(Mutex<Vec<(c_int, String)>>);

    unsafe extern "C" fn keep(user: *mut c_void, severity: c_int, line: *const c_char) {
        // SAFETY: the tests pass a pointer to lines that outlive the receiver, and the log a text.
        let (lines, line) = unsafe { (&*user.cast::<Lines>(), CStr::from_ptr(line)) };
        // What a callback logs reaches no callback.
        deliver(severity, "from within");
        lines.0.lock().push((severity, line.to_string_lossy().into_owned()));
    }

    fn key(lines: &Lines) -> Key {
        Key::new(keep, (&raw const *lines).cast_mut().cast())
    }

    fn of(lines: &Lines, mark: &str) -> Vec<(c_int, String)> {
        lines.0.lock().iter().filter(|(_, line)| line.contains(mark)).cloned().collect()
    }

    #[test]
    fn lines_arrive_by_level_until_the_receiver_goes() {
        let lines = Lines(Mutex::default());
        let sync = CallMode::HIPDNN_LOG_CALLBACK_SYNC;
        set(key(&lines), Severity::HIPDNN_SEV_WARN, sync).unwrap();
        deliver(0, "sync info");
        deliver(1, "sync warn");
        set(key(&lines), Severity::HIPDNN_SEV_ERROR, sync).unwrap();
        deliver(1, "sync late warn");
        deliver(2, "sync error\0rest");
        set(key(&lines), Severity::HIPDNN_SEV_OFF, sync).unwrap();
        deliver(2, "sync too late");
        let got = of(&lines, "sync");
        assert_eq!(got, [(1, "sync warn".to_owned()), (2, "sync error".to_owned())]);
        assert!(of(&lines, "from within").is_empty());
        assert!(set(key(&lines), Severity::HIPDNN_SEV_OFF, sync).is_err());
    }

    #[test]
    fn queued_lines_keep_their_order_and_are_dropped_with_the_receiver() {
        let lines = Lines(Mutex::default());
        let mode = CallMode::HIPDNN_LOG_CALLBACK_ASYNC;
        set(key(&lines), Severity::HIPDNN_SEV_INFO, mode).unwrap();
        for number in 0..3 * CAPACITY {
            deliver(0, &format!("async {number}"));
        }
        set(key(&lines), Severity::HIPDNN_SEV_OFF, mode).unwrap();
        let got = of(&lines, "async");
        // All but those that were waiting, since a full queue made the others wait for room, and one that was taken out and
        // not yet given.
        assert!(got.len() >= 2 * CAPACITY - 1, "{}", got.len());
        for (number, (_, line)) in got.iter().enumerate() {
            assert_eq!(*line, format!("async {number}"));
        }
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(of(&lines, "async").len(), got.len());
    }
}
