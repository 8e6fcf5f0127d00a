//! The size limit of the plan cache.

use crate::lock::OnceLock;
use crate::log;

/// The variable with the limit of all caches together in bytes; 0 disables caching.
const VARIABLE: &str = "HIPDNN_PLAN_CACHE_BYTES";

const DEFAULT_LIMIT: usize = 16 << 20;

/// The limit of all caches together in bytes.
pub fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    if let Some(limit) = LIMIT.get() {
        return *limit;
    }
    let value = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let number = value.as_ref().map(|value| value.to_str().and_then(|text| text.trim().parse().ok()));
    let limit = number.flatten().unwrap_or(DEFAULT_LIMIT);
    // Logged after it is set: a log callback may reenter this function.
    if LIMIT.set(limit).is_ok() && number == Some(None) {
        log::warn(|| {
            let value = value.unwrap_or_default();
            format!("{VARIABLE} is {value:?}, expected a number of bytes; it is {DEFAULT_LIMIT}")
        });
    }
    limit
}
