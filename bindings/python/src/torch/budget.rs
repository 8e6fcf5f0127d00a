//! The time that a process may lose while it finds out who is faster: a fixed amount, and a share of the time since then.
//!
//! Plans and slower turns are paid from it, so that the first steps of a network with hundreds of shapes cost little more than PyTorch's.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What may be lost at once.
const FIRST: Duration = Duration::from_millis(1200);
/// One over the share of the time since then.
const SHARE: u32 = 20;

static SPENT: AtomicU64 = AtomicU64::new(0);
static BEGIN: OnceLock<Instant> = OnceLock::new();

/// Whether something may be tried now.
pub fn allows() -> bool {
    let begin = BEGIN.get_or_init(Instant::now);
    Duration::from_nanos(SPENT.load(Ordering::Relaxed)) <= FIRST + begin.elapsed() / SHARE
}

/// Counts time that PyTorch alone would not have taken.
pub fn spend(time: Duration) {
    SPENT.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2), Ordering::Relaxed);
}

/// Forgets what was spent.
pub fn reset() {
    SPENT.store(0, Ordering::Relaxed);
}
