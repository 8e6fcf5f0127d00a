//! PyTorch's own function of an operation, once it is proven to compute what the stable interface computes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::direct::Direct;
use super::functions::Functions;
use super::keys;

pub struct Proof {
    found: OnceLock<Direct>,
    calls: AtomicU32,
}

impl Proof {
    pub const fn new() -> Self {
        Self { found: OnceLock::new(), calls: AtomicU32::new(0) }
    }

    /// The function; `prove` returns it if it is proven now. Under a mode in Python samples are not what they are otherwise; if a
    /// proof fails for another reason, it is tried again after twice as many calls.
    pub fn get(&self, f: &Functions, prove: impl FnOnce() -> Option<Direct>) -> Option<&Direct> {
        if let Some(found) = self.found.get() {
            return Some(found);
        }
        if keys::PYTHON.is_active(f) {
            return None;
        }
        let calls = self.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let direct = calls.is_power_of_two().then(prove).flatten()?;
        Some(self.found.get_or_init(|| direct))
    }
}
