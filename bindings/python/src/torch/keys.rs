//! The dispatch keys that kernels are registered under, and which of them a thread includes.
//!
//! A thread starts with the key of all operations. When it computes on a GPU, it switches to the key of operations that are faster
//! here on GPUs: PyTorch's dispatcher skips a key without a kernel, so other operations cost the same as without hipDNN. If
//! calls on GPUs gain less than the host's cost of handling them, it drops both keys until it is enabled again.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, Ordering};

use super::functions::Functions;

/// A key's number, once it is known.
pub struct Key(AtomicU16);

/// The key of all operations.
pub static ALL: Key = Key(AtomicU16::new(0));
/// The key of operations that are faster on GPUs.
pub static GPU: Key = Key(AtomicU16::new(0));
/// The key of PyTorch's tracing.
pub static TRACER: Key = Key(AtomicU16::new(0));
/// That of modes in Python, which see every call of a thread and may replace its tensors.
pub static PYTHON: Key = Key(AtomicU16::new(0));

/// Whether kernels are enabled for the process.
static PROCESS: AtomicBool = AtomicBool::new(false);

/// The host's cost of a call that comes here, in nanoseconds: its arguments are boxed, and seldom in the cache.
const COST: i64 = 5000;
/// The number of GPU calls in a window, after which their gain is judged.
const WINDOW: u32 = 256;
/// How often threads are enabled until GPU calls come here again, as they may have changed.
const AGAIN: u32 = 32;

/// Whether GPU calls gain too little.
static IS_QUIET: AtomicBool = AtomicBool::new(false);
/// The gain of the calls in a window, less their cost.
static GAIN: AtomicI64 = AtomicI64::new(0);
static CALLS: AtomicU32 = AtomicU32::new(0);
static SWITCHES: AtomicU32 = AtomicU32::new(0);

/// Incremented to let quiet threads come here again.
static AGE: AtomicU32 = AtomicU32::new(0);

/// A thread whose calls on CPUs gain nothing.
#[derive(Clone, Copy)]
struct Quiet {
    age: u32,
    /// How often it was enabled since then.
    switches: u32,
}

thread_local! {
    static QUIET: Cell<Option<Quiet>> = const { Cell::new(None) };
    /// Whether this thread includes a key because kernels are enabled for the process.
    static FOLLOWS: Cell<bool> = const { Cell::new(false) };
}

impl Key {
    pub fn set(&self, number: u16) {
        self.0.store(number, Ordering::Relaxed);
    }

    fn number(&self) -> u16 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether this thread's calls come to the key.
    pub fn is_active(&self, f: &Functions) -> bool {
        // SAFETY: any key may be queried.
        unsafe { (f.includes)(self.number()) && !(f.excludes)(self.number()) }
    }

    fn include(&self, f: &Functions, is_included: bool) {
        // SAFETY: the key has kernels, or a fallback that passes calls on.
        unsafe { (f.include)(self.number(), is_included) };
    }

    fn exclude(&self, f: &Functions, is_excluded: bool) {
        // SAFETY: only this module's kernels have the key.
        unsafe { (f.exclude)(self.number(), is_excluded) };
    }
}

/// Switches this thread between both keys.
pub fn change(f: &Functions, to_gpu: bool) {
    if GPU.is_active(f) != to_gpu {
        ALL.include(f, !to_gpu);
        GPU.include(f, to_gpu && !IS_QUIET.load(Ordering::Relaxed));
    }
}

/// Adds the nanoseconds that a GPU call gains here, none if not known yet. Drops the thread's key if calls gain too little.
pub fn gains(f: &Functions, nanoseconds: Option<i64>) {
    let Some(nanoseconds) = nanoseconds else { return listen() };
    let gain = GAIN.fetch_add(nanoseconds - COST, Ordering::Relaxed) + nanoseconds - COST;
    if CALLS.fetch_add(1, Ordering::Relaxed) + 1 >= WINDOW {
        listen();
        IS_QUIET.store(gain < 0, Ordering::Relaxed);
        if gain < 0 {
            GPU.include(f, false);
        }
    }
}

/// Lets no call of this thread come here until it is enabled again, as they gain nothing.
pub fn hush(f: &Functions) {
    QUIET.set(Some(Quiet { age: AGE.load(Ordering::Relaxed), switches: 0 }));
    ALL.include(f, false);
}

/// Whether this thread, which is enabled, stays quiet: it looks again from time to time, as calls may have changed.
fn stays_quiet() -> bool {
    let Some(mut quiet) = QUIET.get() else { return false };
    quiet.switches += 1;
    let is_over = quiet.age != AGE.load(Ordering::Relaxed) || quiet.switches.is_multiple_of(AGAIN);
    QUIET.set((quiet.age == AGE.load(Ordering::Relaxed)).then_some(quiet));
    !is_over
}

/// Lets the calls of all quiet threads come here again.
pub fn listen_to_all() {
    AGE.fetch_add(1, Ordering::Relaxed);
}

/// Lets GPU calls come here, and starts a new window.
pub fn listen() {
    IS_QUIET.store(false, Ordering::Relaxed);
    GAIN.store(0, Ordering::Relaxed);
    CALLS.store(0, Ordering::Relaxed);
}

/// Excludes both keys until it is dropped.
struct Excluded<'a>(&'a Functions);

impl Drop for Excluded<'_> {
    fn drop(&mut self) {
        ALL.exclude(self.0, false);
        GPU.exclude(self.0, false);
    }
}

/// Runs `work` with both keys excluded. Its errors are passed on.
pub fn without<T>(f: &Functions, work: impl FnOnce() -> T) -> T {
    ALL.exclude(f, true);
    GPU.exclude(f, true);
    let _excluded = Excluded(f);
    work()
}

/// Enables or disables kernels for this thread; `follows` means on behalf of the process, not the thread.
pub fn switch(f: &Functions, is_on: bool, follows: bool, is_always: bool) {
    FOLLOWS.set(is_on && follows);
    let is_quiet = IS_QUIET.load(Ordering::Relaxed);
    if is_on && is_quiet && SWITCHES.fetch_add(1, Ordering::Relaxed) % AGAIN == AGAIN - 1 {
        listen();
    }
    ALL.include(f, is_on && (is_always || !stays_quiet()));
    GPU.include(f, false);
}

/// Enables or disables kernels for the threads that follow the process.
pub fn switch_process(is_on: bool) {
    PROCESS.store(is_on, Ordering::Relaxed);
}

/// Disables kernels in a thread that follows the process, if they are disabled there. Returns whether it did.
pub fn has_ended(f: &Functions) -> bool {
    let has_ended = FOLLOWS.get() && !PROCESS.load(Ordering::Relaxed);
    if has_ended {
        switch(f, false, false, false);
    }
    has_ended
}
