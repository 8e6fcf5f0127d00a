//! Memory that the C library keeps: between plans, which stay, freed tensors of changing sizes leave holes.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use hipdnn_plugin_sdk::os::memory;

/// Memory is looked at after this many new plans: that takes some 20 µs.
const EVERY: u64 = 16;

/// The same where the system does not say how much memory the process has: then it is given back each time.
const BLIND: u64 = 128;

/// The KiB by which the process grows before memory is given back: that takes milliseconds.
const LEAST: u64 = 48 << 10;

/// One over the share by which it grows, too.
const SHARE: u64 = 16;

/// The resident KiB after memory was last given back; 0 before.
static BEFORE: AtomicU64 = AtomicU64::new(0);

/// Gives freed memory back if the process grew; `count` plans were made so far.
pub fn close(count: u64) {
    if !count.is_multiple_of(EVERY) {
        return;
    }
    let Some(now) = resident() else {
        if count.is_multiple_of(BLIND) {
            memory::give_back();
        }
        return;
    };
    let before = BEFORE.load(Ordering::Relaxed);
    if is_grown(before, now) {
        memory::give_back();
        BEFORE.store(resident().unwrap_or(now), Ordering::Relaxed);
    } else if before == 0 || now < before {
        BEFORE.store(now, Ordering::Relaxed);
    }
}

fn is_grown(before: u64, now: u64) -> bool {
    before > 0 && now >= before + LEAST.max(before / SHARE)
}

/// The process's resident memory in KiB, if the system says it.
fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
