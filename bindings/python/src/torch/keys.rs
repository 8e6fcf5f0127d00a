//! The dispatch keys that kernels are registered under, and which of them a thread includes.
//!
//! A thread begins with the key of all operations. Once it computes on a GPU it changes to the key of those operations that are faster
//! here on GPUs: PyTorch's dispatcher passes over a key without a kernel, so the other operations cost what they cost without hipDNN. Where
//! calls on GPUs gain less than it costs the host that they come here, it changes to neither, until it is switched on again.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, Ordering};

use super::functions::Functions;

/// A key's number, once it is known.
pub struct Key(AtomicU16);

/// The key of all operations.
pub static ALL: Key = Key(AtomicU16::new(0));
/// The key of operations that are faster on GPUs.
pub static GPU: Key = Key(AtomicU16::new(0));
/// The key that PyTorch's tracing has.
pub static TRACER: Key = Key(AtomicU16::new(0));

/// Whether kernels are on for the process.
static PROCESS: AtomicBool = AtomicBool::new(false);

/// What it costs the host that a call comes here, in nanoseconds: its arguments are boxed, and seldom in the processor's cache.
const COST: i64 = 5000;
/// Calls on GPUs after which their gain is known.
const WINDOW: u32 = 256;
/// How often a thread is switched on until calls on GPUs come here again, which may be others by then.
const AGAIN: u32 = 32;

/// Whether calls on GPUs gain too little.
static IS_QUIET: AtomicBool = AtomicBool::new(false);
/// What the calls of a window gained, less what they cost.
static GAIN: AtomicI64 = AtomicI64::new(0);
static CALLS: AtomicU32 = AtomicU32::new(0);
static SWITCHES: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether this thread includes a key because kernels are on for the process.
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
        // SAFETY: any key may be asked for.
        unsafe { (f.includes)(self.number()) && !(f.excludes)(self.number()) }
    }

    fn include(&self, f: &Functions, is_included: bool) {
        // SAFETY: the key has kernels, or a fallback that passes calls on.
        unsafe { (f.include)(self.number(), is_included) };
    }

    fn exclude(&self, f: &Functions, is_excluded: bool) {
        // SAFETY: the key has no kernels but those of this module.
        unsafe { (f.exclude)(self.number(), is_excluded) };
    }
}

/// Has this thread's calls come to a key, and no longer to the other one.
pub fn change(f: &Functions, to_gpu: bool) {
    if GPU.is_active(f) != to_gpu {
        ALL.include(f, !to_gpu);
        GPU.include(f, to_gpu && !IS_QUIET.load(Ordering::Relaxed));
    }
}

/// Notes the nanoseconds that a call on a GPU gains here, none while that is open. The thread changes its keys where calls gain too little.
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

/// Has calls on GPUs come here, and begins a window.
pub fn listen() {
    IS_QUIET.store(false, Ordering::Relaxed);
    GAIN.store(0, Ordering::Relaxed);
    CALLS.store(0, Ordering::Relaxed);
}

/// What excludes both keys until it is dropped.
struct Excluded<'a>(&'a Functions);

impl Drop for Excluded<'_> {
    fn drop(&mut self) {
        ALL.exclude(self.0, false);
        GPU.exclude(self.0, false);
    }
}

/// Runs `work`, whose calls pass over both keys. An error that it raises goes on.
pub fn without<T>(f: &Functions, work: impl FnOnce() -> T) -> T {
    ALL.exclude(f, true);
    GPU.exclude(f, true);
    let _excluded = Excluded(f);
    work()
}

/// Switches kernels on or off for this thread; `follows` says that the process wants them, not the thread.
pub fn switch(f: &Functions, is_on: bool, follows: bool) {
    FOLLOWS.set(is_on && follows);
    let is_quiet = IS_QUIET.load(Ordering::Relaxed);
    if is_on && is_quiet && SWITCHES.fetch_add(1, Ordering::Relaxed) % AGAIN == AGAIN - 1 {
        listen();
    }
    ALL.include(f, is_on);
    GPU.include(f, false);
}

/// Switches kernels on or off for the threads that follow the process.
pub fn switch_process(is_on: bool) {
    PROCESS.store(is_on, Ordering::Relaxed);
}

/// Switches kernels off in a thread that follows the process, once they are off there. Answers whether it did.
pub fn has_ended(f: &Functions) -> bool {
    let has_ended = FOLLOWS.get() && !PROCESS.load(Ordering::Relaxed);
    if has_ended {
        switch(f, false, false);
    }
    has_ended
}
