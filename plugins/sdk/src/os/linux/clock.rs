//! The monotonic clock, and the time of day.

pub use crate::os::unix::clock::{now, offset};

/// Nanoseconds of a clock with a resolution of a few milliseconds; reading it takes a few nanoseconds.
pub fn coarse() -> u64 {
    crate::os::unix::clock::read(libc::CLOCK_MONOTONIC_COARSE)
}
