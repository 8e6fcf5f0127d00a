//! Background work: one thread does it item by item, and ends when nothing is left.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use crate::forks::Lock;

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    waiting: std::collections::VecDeque<Work>,
    /// Whether the thread will look at the queue again.
    is_worked_on: bool,
    thread: Option<JoinHandle<()>>,
}

/// A forked child starts with an empty queue and without the thread.
static QUEUE: LazyLock<Lock<Queue>> = LazyLock::new(Lock::default);
/// Set when the interpreter exits: library code must not run during the exit of the process.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// Queues work; drops it if no thread can be created.
pub fn queue(work: impl FnOnce() + Send + 'static) {
    let mut queue = QUEUE.lock();
    if HAS_ENDED.load(Ordering::Relaxed) {
        return;
    }
    queue.waiting.push_back(Box::new(work));
    if !queue.is_worked_on {
        queue.thread = Builder::new().name("hipdnn plans".to_owned()).spawn(work_off).ok();
        queue.is_worked_on = queue.thread.is_some();
    }
}

fn work_off() {
    loop {
        let next = {
            let mut queue = QUEUE.lock();
            let next = queue.waiting.pop_front();
            queue.is_worked_on = next.is_some();
            next
        };
        let Some(work) = next else { return };
        // If it panics, the call stays with PyTorch.
        drop(catch_unwind(AssertUnwindSafe(work)));
    }
}

/// Waits until everything queued so far is done.
pub fn wait() {
    let thread = QUEUE.lock().thread.take();
    if let Some(thread) = thread {
        drop(thread.join());
    }
}

/// Drops queued work, and waits for the work under way.
pub fn cancel() {
    let dropped = std::mem::take(&mut QUEUE.lock().waiting);
    drop(dropped);
    wait();
}

/// Ends the work for good.
pub fn end() {
    HAS_ENDED.store(true, Ordering::Relaxed);
    cancel();
}
