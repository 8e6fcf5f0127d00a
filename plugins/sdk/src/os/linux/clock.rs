//! The monotonic clock, and the time of day.

pub use crate::os::unix::clock::{now, offset};

/// Nanoseconds of a clock with steps of some milliseconds, which costs a few nanoseconds.
pub fn coarse() -> u64 {
    crate::os::unix::clock::read(libc::CLOCK_MONOTONIC_COARSE)
}
