//! Cancellation of threads: Windows has none that a thread could keep off.

use std::marker::PhantomData;

/// While it lives this thread cannot be cancelled.
#[must_use = "the thread can be cancelled again when this is dropped"]
pub struct Disabled(PhantomData<*const ()>);

/// Switches cancellation of this thread off.
#[inline]
pub fn disable() -> Disabled {
    Disabled(PhantomData)
}
