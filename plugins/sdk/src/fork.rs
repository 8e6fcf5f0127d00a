//! What a forked child finds of a library or plugin whose other threads kept running while the process
//! forked.
//!
//! The child has one thread and a copy of memory as it was at that moment. So the thread that forks first
//! takes every lock of a list, always in the same order, and releases them in parent and child: the data
//! behind them is consistent. Before that it waits for threads that are in the system's loader, which has
//! locks of its own. The child recognizes unlisted locks, those inside objects, as taken by its parent
//! ([`lock`](crate::lock)).
//!
//! Each library has its own list and calls [`protect`] once, plugins when their first handle is created. From
//! then on it stays loaded. The system calls plugins' handlers before those of the library that loaded them,
//! so a plugin may log while it holds its locks.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use crate::lock::{Condvar, Held, Mutex, OnceLock};
use crate::os;
use crate::process;

/// How long a fork waits for threads in the loader: one of them may be waiting for the forking thread.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is held during a fork. A lock is listed before those that a thread may take while holding it.
pub struct List {
    /// The locks, in the order in which they are taken.
    pub locks: &'static [&'static dyn Held],
    /// Called in the child afterwards, in this order.
    pub in_child: &'static [fn()],
}

impl List {
    /// No locks.
    pub const EMPTY: Self = Self { locks: &[], in_child: &[] };
}

static LIST: AtomicPtr<List> = AtomicPtr::new(ptr::null_mut());

/// Makes every fork from now on hold the list. Later calls do nothing. If the system has no memory for the
/// handlers, forks are unprotected.
pub fn protect(list: &'static List) {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        LIST.store(ptr::from_ref(list).cast_mut(), Ordering::Release);
        os::process::at_fork(before, in_parent, in_child);
        // Its threads, and handlers registered with the system, outlive a dlclose by the program.
        os::process::keep_loaded(protect as *const c_void);
    });
}

fn list() -> Option<&'static List> {
    // SAFETY: it is null or what `protect` was given, which is there for ever.
    unsafe { LIST.load(Ordering::Acquire).as_ref() }
}

fn locks() -> impl DoubleEndedIterator<Item = &'static dyn Held> {
    list().into_iter().flat_map(|list| list.locks.iter().copied())
}

extern "C" fn before() {
    // Called again in a child if another thread of its parent was in `protect`.
    if process::is_forking() {
        return;
    }
    hold_loader();
    locks().for_each(Held::hold);
    process::begin_fork();
}

extern "C" fn in_parent() {
    after(false);
}

extern "C" fn in_child() {
    if !after(true) {
        return;
    }
    // Other threads do not exist in this process.
    let own = os::thread::own();
    IN_LOADER.lock().retain(|thread| *thread == own);
    list().into_iter().flat_map(|list| list.in_child).for_each(|hook| hook());
}

/// Releases everything that `before` holds; returns whether it held anything.
fn after(is_in_child: bool) -> bool {
    if !process::is_forking() {
        return false;
    }
    process::end_fork(is_in_child);
    locks().rev().for_each(Held::release);
    Held::release(&IN_LOADER);
    true
}

/// The threads in the loader.
static IN_LOADER: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// Notified when a thread leaves the loader.
static LEFT: Condvar = Condvar::new();

/// While it lives, this thread is in the loader, and no other thread forks.
pub(crate) struct Loader(());

impl Loader {
    /// Enters the loader. The thread must hold no listed lock.
    pub(crate) fn enter() -> Self {
        IN_LOADER.lock().push(os::thread::own());
        Self(())
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        let own = os::thread::own();
        let mut threads = IN_LOADER.lock();
        if let Some(place) = threads.iter().rposition(|thread| *thread == own) {
            threads.swap_remove(place);
        }
        drop(threads);
        LEFT.notify_all();
    }
}

/// Waits until no other thread is in the loader, and keeps them out.
fn hold_loader() {
    let own = os::thread::own();
    let threads = IN_LOADER.lock();
    let others = |threads: &mut Vec<usize>| threads.iter().any(|thread| *thread != own);
    let (threads, _) = LEFT.wait_while_for(threads, PATIENCE, others);
    threads.hold();
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::process::is_child;

    #[derive(Debug, Default, PartialEq)]
    struct Text(String);

    static LISTED: Mutex<Text> = Mutex::new(Text(String::new()));
    static OBJECT: Mutex<Text> = Mutex::new(Text(String::new()));
    static VALUE: OnceLock<u32> = OnceLock::new();
    static CHILDREN: AtomicUsize = AtomicUsize::new(0);
    static TESTED: List =
        List { locks: &[&LISTED], in_child: &[|| _ = CHILDREN.fetch_add(1, Ordering::Relaxed)] };

    /// The result of a forked child; false if it hangs. Always true on systems without fork.
    fn in_fork(f: impl FnOnce() -> bool) -> bool {
        os::process::in_fork((), f) != Some(false)
    }

    /// Runs `f` while another thread holds what `hold` takes.
    fn beside<T>(hold: impl FnOnce() -> T + Send, f: impl FnOnce()) {
        let (there, over) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _held = hold();
                there.wait();
                over.wait();
            });
            there.wait();
            f();
            over.wait();
        });
    }

    #[test]
    fn a_child_finds_listed_data_consistent_and_the_rest_reset() {
        protect(&TESTED);
        let change = || {
            let mut text = LISTED.lock();
            text.0.push_str("half ");
            std::thread::sleep(Duration::from_millis(100));
            text.0.push_str("whole");
        };
        std::thread::scope(|scope| {
            let (mut began, begins) = std::io::pipe().unwrap();
            scope.spawn(move || {
                drop(begins);
                change();
            });
            // Fork while the text is half written.
            let _ = began.read(&mut [0]);
            std::thread::sleep(Duration::from_millis(20));
            assert!(in_fork(|| LISTED.lock().0 == "half whole" && CHILDREN.load(Ordering::Relaxed) == 1));
        });
        OBJECT.lock().0.push_str("half");
        beside(
            || OBJECT.lock(),
            || {
                assert!(in_fork(
                    || is_child() && OBJECT.try_lock().is_some_and(|text| *text == Text::default())
                ))
            },
        );
        assert_eq!(OBJECT.lock().0, "half");
        // Also a grandchild.
        beside(|| OBJECT.lock(), || assert!(in_fork(|| in_fork(|| OBJECT.lock().0.is_empty()))));
        // A value whose initializing thread is not in the child.
        std::thread::scope(|scope| {
            let (mut made, makes) = std::io::pipe().unwrap();
            scope.spawn(|| {
                VALUE.get_or_init(|| {
                    drop(makes);
                    std::thread::sleep(Duration::from_millis(200));
                    1
                })
            });
            let _ = made.read(&mut [0]);
            assert!(in_fork(|| VALUE.get().is_none() && *VALUE.get_or_init(|| 2) == 2));
            assert_eq!(VALUE.get_or_init(|| 3), &1);
        });
        assert!(!is_child());
    }

    #[test]
    fn handlers_of_a_fork_use_what_it_holds_and_no_lock_of_another_call() {
        protect(&TESTED);
        // In a child, where no other test forks.
        assert!(in_fork(|| {
            let guard = OBJECT.lock();
            process::begin_fork();
            let others = OBJECT.try_lock().is_none();
            guard.hold();
            let own = OBJECT.try_lock().is_some() && OBJECT.try_lock().is_some();
            process::end_fork(false);
            let held = OBJECT.try_lock().is_none();
            OBJECT.release();
            others && own && held && OBJECT.try_lock().is_some()
        }));
    }

    #[test]
    fn a_fork_waits_for_the_loader_and_keeps_others_out() {
        if os::process::in_fork((), || true).is_none() {
            // The system does not fork.
            return;
        }
        protect(&TESTED);
        std::thread::scope(|scope| {
            let loader = Loader::enter();
            let forks = scope.spawn(|| in_fork(|| IN_LOADER.lock().is_empty()));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!forks.is_finished());
            drop(loader);
            assert!(forks.join().unwrap());
        });
        // The thread that forks may be in it.
        let _loader = Loader::enter();
        assert!(in_fork(|| IN_LOADER.lock().len() == 1));
    }
}
