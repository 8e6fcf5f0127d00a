//! Lets one thread at a time open or close libraries, without deadlocks.
//!
//! The loader runs a library's initializers and destructors under its own lock, and these may wait for threads that call this
//! library. Such a thread must not wait for the loader: so no thread opens a library while another one is being closed, and
//! calls that would have to wait fail, at once or after a while. Closing never waits: libraries that cannot be closed now are
//! left to the thread that opens or closes others.

use std::collections::VecDeque;
use std::time::Duration;

use hipdnn_plugin_sdk::dynlib::Library;

use crate::lock::{Condvar, Mutex};
use crate::log::receiver;
use crate::object::thread_number;
use crate::status::{Error, Result};

/// How long a thread waits for a library to be closed. The library's destructor may be waiting for this thread.
const CLOSING: Duration = Duration::from_secs(5);

/// How long a thread waits for plugins to be opened, which may take long. An initializer may be waiting for this thread.
const OPENING: Duration = Duration::from_secs(60);

/// How long closing waits for callbacks that are calling plugins before it is left to other threads.
const VISITS: Duration = Duration::from_secs(1);

/// The threads that use libraries.
#[derive(Default)]
pub struct State {
    /// The thread that opens or closes libraries, 0 for none.
    owner: usize,
    is_closing: bool,
    /// How often the owner changed, or closed another library.
    steps: u64,
    /// The number of log callbacks that are calling plugins.
    visitors: usize,
    /// The libraries to close.
    unused: VecDeque<Library>,
}

/// Locked only briefly, never while libraries are opened or closed.
pub static STATE: Mutex<State> =
    Mutex::new(State { owner: 0, is_closing: false, steps: 0, visitors: 0, unused: VecDeque::new() });
/// Notified of each step, and when a visitor leaves.
static CHANGED: Condvar = Condvar::new();

/// The right to open libraries, released on drop.
pub struct Opening(());

/// Waits for the right to open libraries. `what` is for the message: what cannot be done without it.
///
/// # Errors
/// NOT_SUPPORTED if this thread already has it, or in case of a possible deadlock: in a log callback, and after a while.
pub fn open(what: &'static str) -> Result<Opening> {
    let own = thread_number();
    let mut state = STATE.lock();
    while state.owner != 0 {
        let (is_closing, steps) = (state.is_closing, state.steps);
        if state.owner == own || receiver::in_callback() {
            return Err(refusal(what, is_closing));
        }
        let patience = if is_closing { CLOSING } else { OPENING };
        let waited_in_vain;
        (state, waited_in_vain) =
            CHANGED.wait_while_for(state, patience, |state| state.owner != 0 && state.steps == steps);
        if waited_in_vain {
            return Err(refusal(what, is_closing));
        }
    }
    state.owner = own;
    state.steps += 1;
    Ok(Opening(()))
}

fn refusal(what: &str, is_closing: bool) -> Error {
    let now = if is_closing { "unloaded" } else { "loaded" };
    Error::not_supported(format!("{what} while a plugin is being {now}"))
}

/// Prevents the closing of libraries while it lives.
pub struct Visit(());

/// Begins a call of plugins, which may open libraries; `what` is for the message. In a log callback, which a destructor may wait
/// for, no library is closed meanwhile; elsewhere this does nothing.
///
/// # Errors
/// NOT_SUPPORTED in a log callback while a library is being closed.
#[inline]
pub fn visit(what: &'static str) -> Result<Option<Visit>> {
    if receiver::in_callback() { visit_from_callback(what).map(Some) } else { Ok(None) }
}

#[cold]
fn visit_from_callback(what: &'static str) -> Result<Visit> {
    let mut state = STATE.lock();
    if state.is_closing {
        return Err(refusal(what, true));
    }
    state.visitors += 1;
    Ok(Visit(()))
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut state = STATE.lock();
        state.visitors = state.visitors.saturating_sub(1);
        drop(state);
        CHANGED.notify_all();
    }
}

/// In a forked child: the parent's other threads use no library here.
pub fn in_child() {
    let mut state = STATE.lock();
    if state.owner != thread_number() {
        (state.owner, state.is_closing) = (0, false);
    }
    // The forking thread may itself be visiting; its visit also ends here.
    state.visitors = state.visitors.min(usize::from(receiver::in_callback()));
}

/// Whether this thread is opening plugins.
pub fn is_opening() -> bool {
    let state = STATE.lock();
    state.owner == thread_number() && !state.is_closing
}

impl Drop for Opening {
    fn drop(&mut self) {
        close_unused();
    }
}

/// Closes an unused library: now, or when the thread that opens or closes libraries is done. In a log callback, which may run on
/// a thread of that very library, and while callbacks call plugins, it is left to the next thread that opens or closes one.
pub fn close(library: Library) {
    let mut state = STATE.lock();
    state.unused.push_back(library);
    if state.owner != 0 || receiver::in_callback() {
        return;
    }
    state.owner = thread_number();
    drop(state);
    close_unused();
}

/// Closes the unused libraries as the owner, then releases the ownership.
fn close_unused() {
    loop {
        let mut state = STATE.lock();
        let mut can_close = !receiver::in_callback();
        if can_close && state.visitors > 0 && !state.unused.is_empty() {
            // This prevents new visits, and running ones end, unless one waits for this thread.
            state.is_closing = true;
            let waited_in_vain;
            (state, waited_in_vain) = CHANGED.wait_while_for(state, VISITS, |state| state.visitors > 0);
            can_close = !waited_in_vain;
        }
        let next = if can_close { state.unused.pop_front() } else { None };
        state.is_closing = next.is_some();
        state.steps += 1;
        if next.is_none() {
            state.owner = 0;
        }
        drop(state);
        CHANGED.notify_all();
        // Runs foreign code.
        match next {
            Some(library) => drop(library),
            None => return,
        }
    }
}
