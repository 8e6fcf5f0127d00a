//! Log lines to the host.
//!
//! The host sets a callback and a level. Lines below the level are not even formatted; without a callback,
//! lines are dropped. A line is `NAME: text` with the plugin's name.

use std::ffi::CString;
use std::fmt::Display;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::ffi::{
    HIPDNN_SEV_ERROR, HIPDNN_SEV_INFO, HIPDNN_SEV_OFF, HIPDNN_SEV_WARN, hipdnnCallback_t, hipdnnSeverity_t,
};
use crate::lock::OnceLock;

static CALLBACK: AtomicPtr<()> = AtomicPtr::new(null_mut());
// Hosts of the first generation set no level and filter the lines themselves.
static LEVEL: AtomicI32 = AtomicI32::new(HIPDNN_SEV_INFO);
static NAME: OnceLock<&'static str> = OnceLock::new();

/// Logs information.
pub fn info(text: impl Display) {
    line(HIPDNN_SEV_INFO, text);
}

/// Logs a problem that the plugin can work around.
pub fn warn(text: impl Display) {
    line(HIPDNN_SEV_WARN, text);
}

/// Logs a failure.
pub fn error(text: impl Display) {
    line(HIPDNN_SEV_ERROR, text);
}

/// Whether a line of this severity would reach the host.
pub fn enabled(severity: hipdnnSeverity_t) -> bool {
    severity >= LEVEL.load(Ordering::Relaxed) && !CALLBACK.load(Ordering::Acquire).is_null()
}

fn line(severity: hipdnnSeverity_t, text: impl Display) {
    if enabled(severity) {
        send(severity, NAME.get().copied().unwrap_or("plugin"), text);
    }
}

/// Tells the host why an engine declines a graph. This ignores the level: hosts collect these lines to
/// explain why no engine was found, even if they log nothing.
pub(crate) fn refusal(engine: &str, reason: impl Display) {
    send(HIPDNN_SEV_INFO, engine, reason);
}

fn send(severity: hipdnnSeverity_t, speaker: &str, text: impl Display) {
    let callback = CALLBACK.load(Ordering::Acquire);
    if callback.is_null() {
        return;
    }
    let mut line = format!("{speaker}: {text}").into_bytes();
    for byte in &mut line {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    let Ok(line) = CString::new(line) else { return };
    // SAFETY: only `set_callback` stores here, and it stores a callback or null; null was sorted out above.
    let callback = unsafe { std::mem::transmute::<*mut (), hipdnnCallback_t>(callback) };
    if let Some(callback) = callback {
        // SAFETY: the host promises that its callback takes a severity and a NUL terminated text.
        unsafe { callback(severity, line.as_ptr()) };
    }
}

/// Sends lines to this callback from now on; null drops them.
pub(crate) fn set_callback(name: &'static str, callback: hipdnnCallback_t) {
    // A library contains one plugin, so a second call passes the same name.
    let _ = NAME.set(name);
    CALLBACK.store(callback.map_or(null_mut(), |callback| callback as *mut ()), Ordering::Release);
}

/// Drops lines below this severity from now on. Returns whether the severity is valid.
pub(crate) fn set_level(level: hipdnnSeverity_t) -> bool {
    let known = (HIPDNN_SEV_INFO..=HIPDNN_SEV_OFF).contains(&level);
    if known {
        LEVEL.store(level, Ordering::Relaxed);
    }
    known
}
