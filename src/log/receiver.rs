//! The callbacks that users set to receive the log's lines.
//!
//! A line goes to synchronous receivers on the thread that logs it, and to asynchronous ones on a thread of the library, in
//! the order of the lines. Lines that a callback's own calls log are written to the log but passed to no callback, so a
//! callback may call any function.

use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::time::Duration;

use hipdnn_plugin_sdk::os::process;
use hipdnn_plugin_sdk::thread;

use crate::call;
use crate::ffi::{hipdnnLogCallbackMode_t as CallMode, hipdnnSeverity_t as Severity};
use crate::lock::{Condvar, Mutex};
use crate::status::{Error, Result};
use crate::thread_word::ThreadWord;

/// A callback as C passes it.
pub type Callback = unsafe extern "C" fn(*mut c_void, c_int, *const c_char);

/// The capacity of the queue of the library's thread, in lines.
const CAPACITY: usize = 8192;

/// How long a thread waits for room before it drops its line, if no line was delivered meanwhile: the running callback
/// may itself be waiting for that thread.
const STUCK: Duration = Duration::from_secs(1);

/// How long process exit waits for lines that are not yet delivered.
const LAST_LINES: Duration = Duration::from_secs(2);

const OFF: c_int = Severity::HIPDNN_SEV_OFF as c_int;

/// Identifies a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    callback: usize,
    user: usize,
}

impl Key {
    /// The key of a callback and its user pointer.
    pub fn new(callback: Callback, user: *mut c_void) -> Self {
        Self { callback: callback as usize, user: user.expose_provenance() }
    }
}

/// A callback with its settings.
struct Receiver {
    key: Key,
    /// The lowest severity that it receives.
    level: AtomicI32,
    asynchronous: AtomicBool,
    /// The number of running calls, and whether new ones are forbidden; both are written with [`STATE`] held.
    running: AtomicUsize,
    removed: AtomicBool,
}

/// The receivers and the queued lines. Locked only briefly, never during a call.
#[derive(Default)]
pub struct State {
    /// All receivers, in the order of registration. Replaced as a whole, so that a line goes to the receivers it found.
    receivers: Option<Arc<[Arc<Receiver>]>>,
    lines: VecDeque<Line>,
    /// The process whose worker takes lines out: a forked child has none.
    worker: Option<u32>,
    /// The number of lines taken out.
    taken: u64,
    /// Whether the worker is in a call.
    busy: bool,
}

/// The state of callbacks. Each line that goes to a callback locks it.
pub static STATE: Mutex<State> =
    Mutex::new(State { receivers: None, lines: VecDeque::new(), worker: None, taken: 0, busy: false });
/// Notified when a line is queued.
static FILLED: Condvar = Condvar::new();
/// Notified when a line was taken out or delivered.
static EMPTIED: Condvar = Condvar::new();
/// Notified when a call ends.
static ENDED: Condvar = Condvar::new();

/// Whether there may be a receiver: without one, a line costs only this load.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether there ever was a receiver: without one, a call costs only this load to know that it is not in a callback.
static EVER: AtomicBool = AtomicBool::new(false);

/// The receiver whose callback this thread is in, as an address.
static IN_CALLBACK: ThreadWord = ThreadWord::new();

/// Whether this thread is in a callback. If so, it must not wait for other threads, which may wait for the line's logger.
#[inline]
pub fn in_callback() -> bool {
    EVER.load(Ordering::Relaxed) && is_in_callback()
}

#[cold]
fn is_in_callback() -> bool {
    IN_CALLBACK.get().is_some_and(|receiver| receiver != 0)
}

impl Receiver {
    fn wants(&self, severity: c_int) -> bool {
        severity >= self.level.load(Ordering::Relaxed)
    }

    /// Calls the callback, unless it was removed.
    fn call(&self, severity: c_int, line: &CString) {
        {
            let _state = STATE.lock();
            if self.removed.load(Ordering::Relaxed) {
                return;
            }
            self.running.fetch_add(1, Ordering::Relaxed);
        }
        let inside = IN_CALLBACK.set(ptr::from_ref(self).addr());
        let words = [self.key.user, severity as usize, line.as_ptr().expose_provenance()];
        // SAFETY: a program that sets a callback keeps it and its pointer usable until it removes them, and removed receivers are not
        // called; the text lives during the call. The result is ignored, and `call` catches exceptions.
        let status = unsafe { call::call(self.key.callback as *const (), words) };
        // Clears an exception, so that the caller does not mistake it for its own.
        call::has_thrown(status);
        drop(inside);
        let state = STATE.lock();
        self.running.fetch_sub(1, Ordering::Relaxed);
        drop(state);
        ENDED.notify_all();
    }

    /// Prevents further calls and waits for running ones. A thread that is in a callback does not wait: it could be waiting
    /// for itself.
    fn remove(&self) {
        let mut state = STATE.lock();
        self.removed.store(true, Ordering::Relaxed);
        while !in_callback() && self.running.load(Ordering::Relaxed) > 0 {
            state = ENDED.wait(state);
        }
    }
}

/// Sets or changes a receiver, or removes it if `level` is OFF.
///
/// # Errors
/// BAD_PARAM when the receiver to remove is not set.
pub fn set(key: Key, level: Severity, mode: CallMode) -> Result<()> {
    let level = level as c_int;
    EVER.store(true, Ordering::Relaxed);
    let mut state = STATE.lock();
    if level != OFF && mode == CallMode::HIPDNN_LOG_CALLBACK_ASYNC {
        // Not with the first line, whose thread a plugin may be waiting for. If starting fails, a line tries again.
        start_worker(&mut state);
    }
    let present = state.receivers.as_deref().unwrap_or_default();
    let known = present.iter().find(|receiver| receiver.key == key).cloned();
    if level == OFF {
        let known = known.ok_or_else(|| {
            Error::bad_param("minLevel is HIPDNN_SEV_OFF, but this callback and userHandle are not set")
        })?;
        let rest: Arc<[_]> = present.iter().filter(|receiver| receiver.key != key).cloned().collect();
        ANY.store(!rest.is_empty(), Ordering::Relaxed);
        state.receivers = Some(rest);
        drop(state);
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
                running: AtomicUsize::new(0),
                removed: AtomicBool::new(false),
            });
            state.receivers = Some(present.iter().cloned().chain([new]).collect());
            ANY.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Passes a line at or above the log's own level to every receiver that wants it.
#[inline]
pub fn deliver(severity: c_int, line: &str) {
    if ANY.load(Ordering::Relaxed) {
        deliver_to_all(severity, line);
    }
}

#[cold]
fn deliver_to_all(severity: c_int, line: &str) {
    // Without a key, a callback could receive its own lines endlessly.
    if IN_CALLBACK.get() != Some(0) {
        return;
    }
    let Some(receivers) = STATE.lock().receivers.clone() else { return };
    if !receivers.iter().any(|receiver| receiver.wants(severity)) {
        return;
    }
    // A C string ends at the first NUL, so the line is cut there.
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

/// A queued line.
struct Line {
    receiver: Arc<Receiver>,
    severity: c_int,
    text: CString,
}

/// Starts the library's thread if this process has none. Returns whether it has one now.
fn start_worker(state: &mut State) -> bool {
    static AT_EXIT: AtomicBool = AtomicBool::new(false);
    if state.worker == Some(process::id()) {
        return true;
    }
    if !thread::start(c"hipdnn log", work) {
        return false;
    }
    if !AT_EXIT.swap(true, Ordering::Relaxed) {
        process::at_exit(at_exit);
    }
    state.worker = Some(process::id());
    true
}

fn queue(receiver: Arc<Receiver>, severity: c_int, text: CString) {
    let mut state = STATE.lock();
    // It exists, except in a forked child.
    if !start_worker(&mut state) {
        return;
    }
    while state.lines.len() >= CAPACITY {
        let taken = state.taken;
        let stuck;
        (state, stuck) = EMPTIED
            .wait_while_for(state, STUCK, |state| state.taken == taken && state.lines.len() >= CAPACITY);
        if stuck {
            return;
        }
    }
    state.lines.push_back(Line { receiver, severity, text });
    drop(state);
    FILLED.notify_one();
}

/// The loop of the library's thread.
fn work() {
    let mut state = STATE.lock();
    loop {
        match state.lines.pop_front() {
            Some(Line { receiver, severity, text }) => {
                state.taken += 1;
                state.busy = true;
                drop(state);
                EMPTIED.notify_all();
                receiver.call(severity, &text);
                drop(receiver);
                state = STATE.lock();
                state.busy = false;
                if state.lines.is_empty() {
                    EMPTIED.notify_all();
                }
            }
            None => state = FILLED.wait(state),
        }
    }
}

/// Drops the lines that wait for a receiver.
fn forget_lines(receiver: &Arc<Receiver>) {
    let mut state = STATE.lock();
    if state.lines.is_empty() {
        return;
    }
    state.lines.retain(|line| !Arc::ptr_eq(&line.receiver, receiver));
    drop(state);
    EMPTIED.notify_all();
}

/// Lets the thread deliver queued lines at a regular process exit, but not those that threads keep adding.
extern "C" fn at_exit() {
    if in_callback() {
        return;
    }
    let state = STATE.lock();
    if state.worker == Some(process::id()) {
        let last = state.taken + state.lines.len() as u64;
        let _state = EMPTIED.wait_while_for(state, LAST_LINES, |state| match state.taken {
            taken if taken < last => state.busy || !state.lines.is_empty(),
            taken => taken == last && state.busy,
        });
    }
}

/// In a forked child: drops the queued lines, which the parent delivers.
pub fn in_child() {
    let mut state = STATE.lock();
    state.lines.clear();
    state.busy = false;
    for receiver in state.receivers.as_deref().unwrap_or_default() {
        // Calls of other threads do not exist here; this thread may be in one.
        let own = IN_CALLBACK.get() == Some(Arc::as_ptr(receiver).addr());
        receiver.running.store(usize::from(own), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    /// Lines that the test's callback received.
    struct Lines(Mutex<Vec<(c_int, String)>>);

    /// # Safety
    /// `user` is `Lines` that are alive, and `line` ends with a NUL.
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
        // A full queue makes loggers wait, so at most the queued lines, and one taken out but not delivered, are missing.
        assert!(got.len() >= 2 * CAPACITY - 1, "{}", got.len());
        for (number, (_, line)) in got.iter().enumerate() {
            assert_eq!(*line, format!("async {number}"));
        }
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(of(&lines, "async").len(), got.len());
    }
}
