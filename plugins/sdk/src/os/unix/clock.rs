//! The monotonic clock, and the time of day.

/// Nanoseconds of the monotonic clock.
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of a clock that the system has; 0 of any other.
pub fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the output is valid, and any number may be asked about.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The seconds by which the time of day is before that of UTC; none where the system keeps a database of time zones.
pub fn offset() -> Option<i32> {
    None
}
