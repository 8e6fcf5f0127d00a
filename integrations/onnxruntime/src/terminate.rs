//! Whether the application has told a run to end, with `RunOptions.terminate`.
//!
//! ONNX Runtime's interface has functions that set and clear this flag, and none that reads it. Its position in the options is found
//! once, by setting and clearing it in options made for that; if that is not clear, runs go on to their end.

use std::cell::Cell;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::failure::{Code, Failure};
use crate::ort::*;

/// `ORT_FAIL`.
const FAIL: i32 = 1;

/// The bytes of the options that are searched: every version's options have more.
const SEARCHED: usize = 64;

/// The position of the flag in options, if it was found.
static POSITION: OnceLock<Option<usize>> = OnceLock::new();

thread_local! {
    /// The options of this thread's run.
    static RUN: Cell<*const OrtRunOptions> = const { Cell::new(ptr::null()) };
}

/// Searches for the flag; the first call of a process does.
pub fn find(ort: Ort) {
    POSITION.get_or_init(|| search(ort).ok().flatten());
}

fn search(ort: Ort) -> crate::failure::Result<Option<usize>> {
    let api = ort.api;
    // SAFETY: `value` passes the address of a local, the only place that the function writes to.
    let options = ort.value("CreateRunOptions", ptr::null_mut(), |to| unsafe { api.CreateRunOptions(to) })?;
    // SAFETY: the options are ours and have at least this many bytes, which this thread alone writes, by ONNX Runtime's functions.
    let read = || unsafe { std::slice::from_raw_parts(options.cast::<AtomicU8>(), SEARCHED) };
    let bytes = || read().iter().map(|byte| byte.load(Ordering::Relaxed)).collect::<Vec<u8>>();
    let states = || -> crate::failure::Result<[Vec<u8>; 3]> {
        let before = bytes();
        // SAFETY: the options are ours.
        ort.check(unsafe { api.RunOptionsSetTerminate(options) }, "RunOptionsSetTerminate")?;
        let set = bytes();
        // SAFETY: the options are ours.
        ort.check(unsafe { api.RunOptionsUnsetTerminate(options) }, "RunOptionsUnsetTerminate")?;
        Ok([before, set, bytes()])
    };
    let states = states();
    // SAFETY: the options are ours, and this is their last use.
    unsafe { api.ReleaseRunOptions(options) };
    states.map(|[before, set, cleared]| position(&before, &set, &cleared))
}

/// The only byte that differs, if it is 0, then 1, then 0 again.
fn position(before: &[u8], set: &[u8], cleared: &[u8]) -> Option<usize> {
    let mut changed = before.iter().zip(set).enumerate().filter(|(_, (old, new))| old != new);
    let (at, states) = changed.next()?;
    (changed.next().is_none() && states == (&0, &1) && cleared == before).then_some(at)
}

/// Notes that this thread begins or ends a run.
pub fn set_run(options: *const OrtRunOptions) {
    RUN.with(|run| run.set(options));
}

/// The options of this thread's run; null without one.
pub fn run() -> *const OrtRunOptions {
    RUN.with(Cell::get)
}

/// The error of a run that was told to end, if this thread's run was.
pub fn check() -> Result<(), Failure> {
    check_run(run())
}

/// The same for a run with these options, which may be another thread's.
pub fn check_run(options: *const OrtRunOptions) -> Result<(), Failure> {
    let Some(position) = POSITION.get().copied().flatten().filter(|_| !options.is_null()) else {
        return Ok(());
    };
    let flag = options.cast::<u8>().wrapping_add(position).cast_mut();
    // SAFETY: ONNX Runtime keeps the options of a run until it has told that the run ends, and the flag is inside of them. Other threads
    // may write it meanwhile, as a whole.
    let flag = unsafe { AtomicU8::from_ptr(flag) };
    if flag.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    // The words of ONNX Runtime.
    Err(Failure::new(Code::Number(FAIL), "Exiting due to terminate flag being set to true."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_the_only_byte_that_changes() {
        assert_eq!(position(&[7, 0, 0], &[7, 0, 1], &[7, 0, 0]), Some(2));
        assert_eq!(position(&[7, 0, 0], &[7, 0, 0], &[7, 0, 0]), None);
        assert_eq!(position(&[7, 0, 0], &[7, 1, 1], &[7, 0, 0]), None);
        assert_eq!(position(&[7, 0, 0], &[7, 0, 1], &[7, 0, 1]), None);
        assert_eq!(position(&[7, 0, 2], &[7, 0, 1], &[7, 0, 2]), None);
    }

    #[test]
    fn without_a_run_nothing_ends() {
        assert_eq!(check(), Ok(()));
    }
}
