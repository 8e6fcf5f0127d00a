//! Loops of a program on the threads that executions use.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::threading::lent::Work;
use crate::threading::partition;

/// Calls `work` with `data` and each index below `count`, on up to `threads` of the threads that executions of this
/// thread use, 0 for all, and returns 0 when all calls have returned; 1 if one of them panicked.
///
/// A program's own loops between executions then need no second pool, whose threads would poll beside the engine's.
///
/// # Safety
/// `work` may be called with the data from any thread until this function returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnCpuPluginRunParallel_ext(
    work: Option<Work>,
    data: *mut c_void,
    count: usize,
    threads: usize,
) -> i32 {
    let Some(work) = work else { return 1 };
    let data = Data(data);
    let all = || {
        // SAFETY: this function requires that the work may be called with the data.
        partition::each(count, threads, |index| unsafe { work(data.pointer(), index) });
    };
    i32::from(catch_unwind(AssertUnwindSafe(all)).is_err())
}

/// The data of a program's loop.
struct Data(*mut c_void);

// SAFETY: the program lets any thread call its work with the data.
unsafe impl Sync for Data {}

impl Data {
    fn pointer(&self) -> *mut c_void {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts a call.
    ///
    /// # Safety
    /// `data` are the counters of the test.
    unsafe extern "C" fn count_up(data: *mut c_void, index: usize) {
        // SAFETY: the test passes its counters.
        let counts = unsafe { &*data.cast::<[AtomicUsize; 5]>() };
        counts[index].fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn each_index_is_worked_on_once() {
        let counts = [const { AtomicUsize::new(0) }; 5];
        let data = (&raw const counts).cast_mut().cast();
        // SAFETY: the work counts in the data.
        let run = |threads| unsafe { hipdnnCpuPluginRunParallel_ext(Some(count_up), data, 5, threads) };
        assert_eq!([run(0), run(1), run(2)], [0; 3]);
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 3));
    }

    #[test]
    fn a_loop_without_work_and_one_that_panics_fail() {
        // SAFETY: there is no work.
        assert_eq!(unsafe { hipdnnCpuPluginRunParallel_ext(None, ptr::null_mut(), 5, 0) }, 1);
    }
}
