//! The wrapper of every C function: catches failures and panics, and logs and traces the call.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ffi::{CEnum, hipdnnSeverity_t as Severity, raw};
use crate::status::{Error, Result, Status};
use crate::{fork, last_error, log, trace};

const SUCCESS: raw::hipdnnStatus_t = Status::HIPDNN_STATUS_SUCCESS as raw::hipdnnStatus_t;

/// Runs the body of the C function `name`. A failure or a panic becomes a status, and its text this thread's last error.
/// `describe` gives the arguments for the log.
#[inline]
pub fn guard(
    name: &'static str,
    describe: impl FnOnce() -> String,
    body: impl FnOnce() -> Result<()>,
) -> raw::hipdnnStatus_t {
    guard_with_results(name, describe, body, String::new)
}

/// The same; after success, `results` gives for the log what the call returned or read.
#[inline]
pub fn guard_with_results(
    name: &'static str,
    describe: impl FnOnce() -> String,
    body: impl FnOnce() -> Result<()>,
    results: impl FnOnce() -> String,
) -> raw::hipdnnStatus_t {
    // One call of `body`, so that it is inlined into the C function.
    run(log::is_watched(Severity::HIPDNN_SEV_INFO), name, describe, body, results)
}

#[inline(always)]
fn run(
    is_told: bool,
    name: &'static str,
    describe: impl FnOnce() -> String,
    body: impl FnOnce() -> Result<()>,
    results: impl FnOnce() -> String,
) -> raw::hipdnnStatus_t {
    let mut call = None;
    if is_told {
        call = tell_call(name, describe);
    }
    let result = catch_unwind(AssertUnwindSafe(body));
    if is_told && let Some(call) = call {
        end_call(call, &result);
    }
    match result {
        Ok(Ok(())) => {
            if is_told {
                tell_success(name, results);
            }
            SUCCESS
        }
        Ok(Err(error)) => fail(name, &error),
        Err(panic) => fail(name, &panicked(&*panic)),
    }
}

/// A call that is not logged, for [`guard_often`].
#[inline(always)]
pub fn untold(name: &'static str, body: impl FnOnce() -> Result<()>) -> raw::hipdnnStatus_t {
    run(false, name, String::new, body, String::new)
}

/// A call that is logged or traced, for [`guard_often`].
#[cold]
#[inline(never)]
pub fn told(
    name: &'static str,
    describe: impl FnOnce() -> String,
    body: impl FnOnce() -> Result<()>,
    results: impl FnOnce() -> String,
) -> raw::hipdnnStatus_t {
    run(true, name, describe, body, results)
}

/// [`guard_with_results`] for functions that programs call most. The body is compiled twice: a call that is not logged stores no
/// arguments for the log.
macro_rules! guard_often {
    ($name:literal, $describe:expr, $body:expr, $results:expr $(,)?) => {
        if $crate::log::is_watched($crate::ffi::hipdnnSeverity_t::HIPDNN_SEV_INFO) {
            $crate::c_api::guard::told($name, $describe, $body, $results)
        } else {
            $crate::c_api::guard::untold($name, $body)
        }
    };
}

/// Installs fork protection and starts the trace before the first line is logged, so that the trace misses no call.
pub fn begin() {
    fork::protect();
    trace::start();
}

#[cold]
#[inline(never)]
fn tell_call(name: &'static str, describe: impl FnOnce() -> String) -> Option<trace::Call> {
    // The first call of a process comes here.
    begin();
    log::info(|| format!("API called: [{name}] {}", describe()));
    trace::call(name)
}

#[cold]
#[inline(never)]
fn end_call(call: trace::Call, result: &std::thread::Result<Result<()>>) {
    call.end(match result {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(error)) => error.status.raw(),
        Err(_) => Status::HIPDNN_STATUS_INTERNAL_ERROR as raw::hipdnnStatus_t,
    });
}

#[cold]
#[inline(never)]
fn tell_success(name: &'static str, results: impl FnOnce() -> String) {
    log::info(|| match results() {
        results if results.is_empty() => format!("API success: [{name}]"),
        results => format!("API success: [{name}] {results}"),
    });
}

#[cold]
fn fail(name: &'static str, error: &Error) -> raw::hipdnnStatus_t {
    log::error(|| {
        format!("Error occurred in [{name}] status:{} message:{}", error.status.name(), error.message)
    });
    // After the line is logged: a log callback may itself call functions that set the last error.
    last_error::set(&error.message);
    error.status.raw()
}

/// A panic is a defect of this library; its message says where to look.
fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::internal(format!("internal defect: {}", text.unwrap_or("a panic without a message")))
}

/// Fails when a pointer that a function writes to or reads from is null.
macro_rules! require {
    ($pointer:ident) => {
        if $pointer.is_null() {
            return Err($crate::status::Error::null_pointer(concat!(stringify!($pointer), " is null")));
        }
    };
}

pub(super) use {guard_often, require};
