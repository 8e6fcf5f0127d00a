//! What the pool is made of, for a model.

use std::sync::atomic::AtomicBool as Flag;

pub use loom::sync::{Condvar, Mutex, MutexGuard};

pub use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Whether the condition is true. There is no time in a model: whoever waits for longer sleeps.
pub fn look(is_there: impl Fn() -> bool) -> bool {
    is_there()
}

/// Starts a thread of the pool.
pub fn start(_: usize, work: impl FnOnce() + Send + 'static) -> bool {
    crate::sync::spawn(work);
    true
}

/// Whether threads of the pool wait for more work. Not part of what is run in every order.
pub static GOES_ON: Flag = Flag::new(true);

/// The same: in a model threads have to end.
pub fn goes_on() -> bool {
    GOES_ON.load(Ordering::Relaxed)
}
