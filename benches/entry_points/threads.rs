//! Concurrent calls.

use std::ffi::c_void;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::api::{Api, Descriptor, ok};
use crate::processors::keep_to_one;

/// The executions per second of threads that share a plan, each with its own handle and pack.
pub fn executions(api: &Api, plan: Descriptor, pointers: &[*mut c_void; 3], threads: usize) -> f64 {
    let (plan, pointers) = (Shared(plan), Shared(*pointers));
    together(threads, || {
        let plan = plan.get();
        let handle = api.handle();
        let pack = api.pack(&pointers.get());
        let execute = move || {
            for _ in 0..1000 {
                // SAFETY: the plugin does nothing with the memory.
                ok(unsafe { (api.execute)(handle, plan, pack) });
            }
            1000
        };
        let end = move || {
            api.drop(pack);
            // SAFETY: any value may be passed.
            ok(unsafe { (api.destroy)(handle) });
        };
        (execute, end)
    })
}

/// The calls per second of so many threads. `prepare` returns for each thread the repeated work, which returns its number of calls,
/// and the cleanup.
pub fn together<W: FnMut() -> u64, E: FnOnce()>(threads: usize, prepare: impl Fn() -> (W, E) + Sync) -> f64 {
    let (barrier, prepare) = (&Barrier::new(threads), &prepare);
    std::thread::scope(|scope| {
        let work = move |number| {
            keep_to_one(number);
            let (mut work, end) = prepare();
            barrier.wait();
            let (start, mut count) = (Instant::now(), 0);
            while start.elapsed() < Duration::from_millis(100) {
                count += work();
            }
            let rate = count as f64 / start.elapsed().as_secs_f64();
            barrier.wait();
            end();
            rate
        };
        let workers: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        workers.into_iter().map(|worker| worker.join().expect("the thread ends well")).sum()
    })
}

/// A value that threads share.
#[derive(Clone, Copy)]
pub struct Shared<T>(pub T);
// SAFETY: the values are opaque handles and addresses that nothing is written to, which any thread may use.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: threads only read the handles and addresses.
unsafe impl<T> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    pub fn get(&self) -> T {
        self.0
    }
}
