//! Thread cancellation, which Windows does not have.

use std::marker::PhantomData;

/// While it lives, this thread cannot be cancelled.
#[must_use = "the thread can be cancelled again when this is dropped"]
pub struct Disabled(PhantomData<*const ()>);

/// Disables cancellation of this thread.
#[inline]
pub fn disable() -> Disabled {
    Disabled(PhantomData)
}
