//! Cancellation of threads, kept out of Rust.
//!
//! `pthread_cancel` ends a thread in the next function of the C library that is a cancellation point (reading, writing, opening, sleeping), by
//! an exception that no Rust code may be unwound by: the process would abort. So what comes to such a point switches cancellation off
//! for as long; the thread ends at the next such point of the program's own.

use std::ffi::c_int;
use std::marker::PhantomData;

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// While it lives this thread cannot be cancelled. Then it is as before.
#[must_use = "the thread can be cancelled again when this is dropped"]
pub struct Disabled {
    before: c_int,
    not_send: PhantomData<*const ()>,
}

/// Switches cancellation of this thread off.
pub fn disable() -> Disabled {
    let mut before = PTHREAD_CANCEL_DISABLE;
    // SAFETY: the call writes one number.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
    Disabled { before, not_send: PhantomData }
}

impl Drop for Disabled {
    fn drop(&mut self) {
        // Asking for what is there already would only cost time.
        if self.before != PTHREAD_CANCEL_DISABLE {
            let mut disabled = 0;
            // SAFETY: the state is one that the system gave.
            unsafe { pthread_setcancelstate(self.before, &raw mut disabled) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_as_before_in_the_end() {
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
