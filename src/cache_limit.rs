//! How much the plan cache keeps.

use crate::lock::OnceLock;
use crate::log;

/// The variable with the most bytes that all caches have together, 0 for no caches.
const VARIABLE: &str = "HIPDNN_PLAN_CACHE_BYTES";

const DEFAULT_LIMIT: usize = 16 << 20;

/// The most that all caches may have.
pub fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    if let Some(limit) = LIMIT.get() {
        return *limit;
    }
    let value = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let number = value.as_ref().map(|value| value.to_str().and_then(|text| text.trim().parse().ok()));
    let limit = number.flatten().unwrap_or(DEFAULT_LIMIT);
    // Complained of once it is set: a callback of the log may come here again.
    if LIMIT.set(limit).is_ok() && number == Some(None) {
        log::warn(|| {
            let value = value.unwrap_or_default();
            format!("{VARIABLE} is {value:?}, expected a number of bytes; it is {DEFAULT_LIMIT}")
        });
    }
    limit
}
