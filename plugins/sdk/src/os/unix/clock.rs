//! The monotonic clock, and the time of day.

/// Nanoseconds of the monotonic clock.
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of this clock; 0 if the system does not have it.
pub fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the function writes only to the local `time`, and any number may be passed.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Seconds that local time is ahead of UTC; none if the system has a time zone database.
pub fn offset() -> Option<i32> {
    None
}
