//! Threads: one pool for the process, and work that is dealt out to lanes.
//!
//! A plan decides how many lanes its work is worth. Lane 0 is always the calling thread, so that work of one lane never
//! leaves it and a caller of larger work does not wait for a thread to wake before anything happens.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::pool::Pool;

/// The environment variable with the number of threads that a computation may use, the caller's included.
const THREADS_VARIABLE: &str = "HIPDNN_CPU_THREADS";

/// Below this many nanoseconds of work a further lane does not pay: waking a thread costs several microseconds.
const NANOSECONDS_PER_LANE: f64 = 25_000.0;

/// The threads besides the calling one; none where there is one processor.
fn helpers() -> Option<&'static Pool> {
    static POOL: OnceLock<Option<&'static Pool>> = OnceLock::new();
    *POOL.get_or_init(|| {
        let threads = std::env::var(THREADS_VARIABLE)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .filter(|threads| *threads > 0)
            .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
            .unwrap_or(1);
        (threads > 1).then(|| Pool::start(threads - 1))
    })
}

/// How many lanes work is spread over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lanes(usize);

impl Lanes {
    /// The calling thread alone.
    pub(crate) const ONE: Self = Self(1);

    /// Lanes for work that one thread does in this time and that falls into `parts`. Starts the pool if it is needed, so
    /// this is for plans, not for runs.
    pub(crate) fn for_work(nanoseconds: f64, parts: usize) -> Self {
        let worth = (nanoseconds / NANOSECONDS_PER_LANE) as usize;
        if worth.min(parts) < 2 {
            return Self::ONE;
        }
        let threads = helpers().map_or(1, |pool| pool.threads() + 1);
        Self(threads.min(worth).min(parts))
    }

    /// The number of lanes, at least 1.
    pub(crate) fn count(self) -> usize {
        self.0
    }

    /// Calls `work` once with each lane's number, lane 0 on this thread, and returns when all have returned. Allocates
    /// nothing.
    pub(crate) fn run(self, work: impl Fn(usize) + Sync) {
        match helpers() {
            Some(pool) if self.0 > 1 => pool.run(self.0, &work),
            _ => (0..self.0).for_each(work),
        }
    }

    /// Deals the numbers below `parts` out to the lanes as they get ready: `work` gets the lane's number and the part's.
    pub(crate) fn deal(self, parts: usize, work: impl Fn(usize, usize) + Sync) {
        let next = AtomicUsize::new(0);
        self.run(|lane| {
            loop {
                let part = next.fetch_add(1, Ordering::Relaxed);
                if part >= parts {
                    break;
                }
                work(lane, part);
            }
        });
    }

    /// The numbers below `total` that belong to this lane when each lane gets one run of them.
    pub(crate) fn share(self, lane: usize, total: usize) -> std::ops::Range<usize> {
        total * lane / self.0..total * (lane + 1) / self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_work_stays_on_the_calling_thread() {
        assert_eq!(Lanes::for_work(20_000.0, 1000), Lanes::ONE);
        assert_eq!(Lanes::for_work(1e9, 1), Lanes::ONE);
    }

    #[test]
    fn every_part_is_dealt_once() {
        for lanes in [Lanes::ONE, Lanes(2), Lanes(7)] {
            let seen: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
            lanes.deal(100, |lane, part| {
                assert!(lane < lanes.count());
                seen[part].fetch_add(1, Ordering::Relaxed);
            });
            assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            let shares: Vec<usize> = (0..lanes.count()).flat_map(|lane| lanes.share(lane, 100)).collect();
            assert_eq!(shares, (0..100).collect::<Vec<_>>());
        }
    }
}
