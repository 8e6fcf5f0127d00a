//! The monotonic clock, and the time of day.

use std::sync::atomic::{AtomicI64, Ordering};

use super::api;

/// Nanoseconds of the monotonic clock.
pub fn now() -> u64 {
    static FREQUENCY: AtomicI64 = AtomicI64::new(0);
    let (mut count, mut frequency) = (0, FREQUENCY.load(Ordering::Relaxed));
    // SAFETY: both outputs are valid, and every system has this clock.
    unsafe {
        if frequency == 0 {
            api::QueryPerformanceFrequency(&mut frequency);
            FREQUENCY.store(frequency, Ordering::Relaxed);
        }
        api::QueryPerformanceCounter(&mut count);
    }
    let nanoseconds = i128::from(count) * 1_000_000_000 / i128::from(frequency.max(1));
    u64::try_from(nanoseconds).unwrap_or(0)
}

/// Nanoseconds of a clock with a resolution of a few milliseconds; reading it takes a few nanoseconds.
pub fn coarse() -> u64 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { api::GetTickCount64() }.wrapping_mul(1_000_000)
}

/// Seconds that local time is ahead of UTC; none if the system has a time zone database.
pub fn offset() -> Option<i32> {
    let mut zone = api::TimeZone {
        bias: 0,
        standard_name: [0; 32],
        standard_date: api::SystemTime::default(),
        standard_bias: 0,
        daylight_name: [0; 32],
        daylight_date: api::SystemTime::default(),
        daylight_bias: 0,
    };
    // SAFETY: the function writes only to the local `zone`.
    let season = unsafe { api::GetTimeZoneInformation(&mut zone) };
    let of_season = if season == api::IN_DAYLIGHT_TIME { zone.daylight_bias } else { zone.standard_bias };
    Some(-60 * zone.bias.saturating_add(of_season).clamp(-1440, 1440))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_counts_nanoseconds() {
        for clock in [now, coarse] {
            let begin = clock();
            std::thread::sleep(std::time::Duration::from_millis(50));
            let passed = clock() - begin;
            assert!((15_000_000..5_000_000_000).contains(&passed), "{passed}");
        }
    }
}
