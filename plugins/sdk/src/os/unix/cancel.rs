//! Keeps thread cancellation out of Rust code.
//!
//! `pthread_cancel` ends a thread at its next cancellation point in the C library (reading, writing, opening,
//! sleeping) by an exception, which must not unwind Rust frames: the process would abort. So code that
//! reaches such a point disables cancellation meanwhile; the thread ends at the program's own next
//! cancellation point.

use std::ffi::c_int;
use std::marker::PhantomData;

// macOS counts the two states the other way round.
const PTHREAD_CANCEL_DISABLE: c_int = if cfg!(target_os = "macos") { 0 } else { 1 };

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// While it lives, this thread cannot be cancelled. Restores the previous state on drop.
#[must_use = "the thread can be cancelled again when this is dropped"]
pub struct Disabled {
    before: c_int,
    not_send: PhantomData<*const ()>,
}

/// Disables cancellation of this thread.
#[inline]
pub fn disable() -> Disabled {
    let mut before = PTHREAD_CANCEL_DISABLE;
    // SAFETY: the call writes one number.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
    Disabled { before, not_send: PhantomData }
}

impl Drop for Disabled {
    #[inline]
    fn drop(&mut self) {
        // Setting the same state again would only cost time.
        if self.before != PTHREAD_CANCEL_DISABLE {
            let mut disabled = 0;
            // SAFETY: the state came from the system.
            unsafe { pthread_setcancelstate(self.before, &raw mut disabled) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_previous_state_is_restored() {
        let state = || {
            let probe = disable();
            let before = probe.before;
            drop(probe);
            before
        };
        let first = state();
        {
            let _outer = disable();
            drop(disable());
            assert_eq!(state(), PTHREAD_CANCEL_DISABLE);
        }
        assert_eq!(state(), first);
        assert_ne!(first, PTHREAD_CANCEL_DISABLE);
    }
}
