//! Atomics and threads that loom runs in every order.
//!
//! Values are created on first use in an execution, so that statics start each execution with their initial value.
//!
//! loom treats sequentially consistent accesses as acquire and release, and would report impossible orders. So a sequentially
//! consistent fence follows each such store and exchange, as compilers emit for x86, and none is at loads.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize as Number;

pub use loom::sync::atomic::{Ordering, fence};

pub use crate::thread_local_of_model as thread_local;

/// Groups that records of threads are in, and slots that threads take at one time: more would only repeat steps.
pub const GROUPS: usize = 2;
/// As above.
pub const BATCH: usize = 2;
/// Free slots that a thread keeps outside of its list: one, so that a model of two objects reaches both.
pub const SPARES: usize = 1;

/// Slots in a chunk, as few for the same reason.
pub const fn slots_of_chunk(_: usize) -> usize {
    2
}

/// So many new values, which are never freed.
///
/// # Safety
/// As outside of models: a value whose bytes are zero is as good as one that `new` makes.
pub unsafe fn leak_zeroed<T>(count: usize, new: impl Fn() -> T) -> *mut T {
    let values: Box<[T]> = (0..count).map(|_| new()).collect();
    Box::into_raw(values).cast()
}

/// The number of the execution.
static EXECUTION: Number = Number::new(0);

/// One model at a time: loom runs all its threads on one system thread, and they share the statics.
static RUNNING: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Runs a model in every order of its steps with up to `interruptions` preemptions.
pub fn check(interruptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 50_000;
    let before = executions();
    builder.check(move || {
        EXECUTION.fetch_add(1, Ordering::Relaxed);
        WORDS.get(Words::new);
        model();
        end_thread();
    });
    println!("{} executions", executions() - before);
}

/// The number of executions of all models.
pub fn executions() -> usize {
    EXECUTION.load(Ordering::Relaxed)
}

/// Starts a thread of a model.
pub fn spawn<T: 'static>(work: impl FnOnce() -> T + 'static) -> loom::thread::JoinHandle<T> {
    loom::thread::spawn(move || {
        let result = work();
        end_thread();
        result
    })
}

/// A value that is recreated in each execution.
pub(crate) struct Each<T>(UnsafeCell<Option<(usize, Box<T>)>>);

// SAFETY: only the system thread that holds `RUNNING` uses it, and no reference outlives its execution.
unsafe impl<T> Send for Each<T> {}
// SAFETY: only the system thread that holds `RUNNING` uses it.
unsafe impl<T> Sync for Each<T> {}

impl<T> Each<T> {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(None))
    }

    pub(crate) fn get(&self, make: impl FnOnce() -> T) -> &T {
        let now = executions();
        // SAFETY: this thread holds `RUNNING`, so no other uses it; `make` does not reenter, and a value is replaced only in the next execution.
        unsafe {
            let held = &mut *self.0.get();
            if held.as_ref().is_none_or(|(made, _)| *made != now) {
                *held = Some((now, Box::new(make())));
            }
            &(*self.0.get()).as_ref().unwrap_unchecked().1
        }
    }
}

fn behind(order: Ordering) {
    if order == Ordering::SeqCst {
        fence(order);
    }
}

fn acquiring(order: Ordering) -> Ordering {
    if order == Ordering::SeqCst { Ordering::Acquire } else { order }
}

fn releasing(order: Ordering) -> Ordering {
    if order == Ordering::SeqCst { Ordering::Release } else { order }
}

/// Words for all atomics of an execution. loom requires atomics to be created before the threads that use them.
static WORDS: Each<Words> = Each::new();

/// More than any model needs.
const MOST: usize = 256;

struct Words {
    all: Vec<loom::sync::atomic::AtomicU64>,
    next: Number,
}

impl Words {
    fn new() -> Self {
        let all = (0..MOST).map(|_| loom::sync::atomic::AtomicU64::new(0)).collect();
        Self { all, next: Number::new(0) }
    }

    fn take(&self) -> &loom::sync::atomic::AtomicU64 {
        self.all
            .get(self.next.fetch_add(1, Ordering::Relaxed))
            .expect("the model has more atomics than words")
    }
}

/// An atomic: a word that starts at 0 and holds the difference from the initial value.
struct Word(Each<&'static loom::sync::atomic::AtomicU64>);

impl Word {
    fn word(&self) -> &loom::sync::atomic::AtomicU64 {
        // SAFETY: the words live until the execution ends, and so does this value.
        self.0.get(|| unsafe { &*std::ptr::from_ref(WORDS.get(Words::new).take()) })
    }

    fn load(&self, order: Ordering) -> u64 {
        self.word().load(acquiring(order))
    }

    fn store(&self, value: u64, order: Ordering) {
        self.word().store(value, releasing(order));
        behind(order);
    }

    fn change<R>(
        &self,
        order: Ordering,
        change: impl FnOnce(&loom::sync::atomic::AtomicU64, Ordering) -> R,
    ) -> R {
        let weaker = if order == Ordering::SeqCst { Ordering::AcqRel } else { order };
        let result = change(self.word(), weaker);
        behind(order);
        result
    }
}

macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $value:ty, $to_bits:expr, $of_bits:expr) => {
        /// The atomic of this name.
        pub struct $name $(<$t>)? {
            initial: $value,
            word: Word,
        }

        // SAFETY: the value is reached through the atomic alone.
        unsafe impl $(<$t>)? Send for $name $(<$t>)? {}
        // SAFETY: the value is reached through the atomic alone.
        unsafe impl $(<$t>)? Sync for $name $(<$t>)? {}

        #[expect(missing_docs, reason = "they are those of the standard library")]
        impl $(<$t>)? $name $(<$t>)? {
            pub const fn new(initial: $value) -> Self {
                Self { initial, word: Word(Each::new()) }
            }

            fn bits(&self, value: $value) -> u64 {
                let to_bits: fn($value) -> u64 = $to_bits;
                to_bits(value).wrapping_sub(to_bits(self.initial))
            }

            fn value(&self, bits: u64) -> $value {
                let (to_bits, of_bits): (fn($value) -> u64, fn(u64) -> $value) = ($to_bits, $of_bits);
                of_bits(bits.wrapping_add(to_bits(self.initial)))
            }

            pub fn load(&self, order: Ordering) -> $value {
                self.value(self.word.load(order))
            }

            pub fn into_inner(self) -> $value {
                self.load(Ordering::Relaxed)
            }

            pub fn store(&self, value: $value, order: Ordering) {
                self.word.store(self.bits(value), order);
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                let bits = self.bits(value);
                self.value(self.word.change(order, |word, order| word.swap(bits, order)))
            }

            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let (current, new) = (self.bits(current), self.bits(new));
                let exchanged = self.word.change(success, |word, order| {
                    word.compare_exchange(current, new, order, acquiring(failure))
                });
                exchanged.map(|bits| self.value(bits)).map_err(|bits| self.value(bits))
            }

            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }
        }
    };
}

macro_rules! number {
    ($($name:ident, $value:ty;)+) => {$(
        atomic!($name, $value, |value| value as u64, |bits| bits as $value);

        impl Default for $name {
            fn default() -> Self {
                Self::new(0)
            }
        }

        #[expect(missing_docs, reason = "they are those of the standard library")]
        impl $name {
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.value(self.word.change(order, |word, order| word.fetch_add(value as u64, order)))
            }

            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.value(self.word.change(order, |word, order| word.fetch_sub(value as u64, order)))
            }

            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                assert_eq!(self.initial, 0, "a difference has other bits than the value");
                self.value(self.word.change(order, |word, order| word.fetch_or(value as u64, order)))
            }
        }
    )+};
}

atomic!(AtomicBool, bool, u64::from, |bits| bits & 1 != 0);
atomic!(AtomicPtr<T>, *mut T, |pointer| pointer.expose_provenance() as u64, |bits| {
    std::ptr::with_exposed_provenance_mut(bits as usize)
});
number! {
    AtomicU32, u32;
    AtomicU64, u64;
    AtomicUsize, usize;
}

/// A value per thread of an execution.
pub struct Local<T: 'static> {
    make: fn() -> T,
    all: Each<UnsafeCell<Vec<(loom::thread::ThreadId, &'static T)>>>,
}

impl<T> Local<T> {
    /// With the function that creates each thread's value.
    pub const fn new(make: fn() -> T) -> Self {
        Self { make, all: Each::new() }
    }

    fn own(&self) -> &'static T {
        let thread = loom::thread::current().id();
        let all = self.all.get(|| UnsafeCell::new(Vec::new()));
        // SAFETY: no other thread of the model runs meanwhile.
        let all = unsafe { &mut *all.get() };
        if let Some((_, own)) = all.iter().find(|(of, _)| *of == thread) {
            return own;
        }
        let own: &'static T = Box::leak(Box::new((self.make)()));
        all.push((thread, own));
        own
    }
}

#[expect(missing_docs, reason = "they are those of the standard library")]
impl<T: Copy> Local<Cell<Option<T>>> {
    pub fn get(&self) -> Option<T> {
        self.own().get()
    }

    pub fn set(&self, value: Option<T>) {
        self.own().set(value);
    }

    pub fn take(&self) -> Option<T> {
        self.own().take()
    }
}

/// The standard library's macro, for threads of a model.
#[macro_export]
macro_rules! thread_local_of_model {
    ($(#[$meta:meta])* static $name:ident: $t:ty = $value:expr;) => {
        $(#[$meta])*
        static $name: $crate::sync::Local<$t> = $crate::sync::Local::new(|| $value);
    };
}

type End = unsafe extern "C" fn(*mut c_void);

static ENDS: Local<Cell<Option<(End, *mut c_void)>>> = Local::new(|| Cell::new(None));

/// Nothing is done: threads of a model are not cancelled.
pub fn prepare_thread() {}

/// Has `end` called with this pointer when this thread ends.
pub fn at_thread_end(end: End, word: *mut c_void) {
    ENDS.set(Some((end, word)));
}

/// The pointer last passed to [`at_thread_end`] on this thread.
pub fn left_for_thread_end() -> *mut c_void {
    ENDS.get().map_or(std::ptr::null_mut(), |(_, word)| word)
}

fn end_thread() {
    if let Some((end, word)) = ENDS.take() {
        // SAFETY: the pointer was registered for this function.
        unsafe { end(word) };
    }
}
