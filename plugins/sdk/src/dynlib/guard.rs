//! The entries of a function table: frames that stop C++ exceptions.
//!
//! A table holds not the library's function but an entry of `entries`, one per function. The entry jumps to
//! `frame`, which finds the function in the entry's `Slot`, calls it with the same arguments and lets no
//! exception through: see [`crate::exception`].

use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::exception::{self, Exception};
use crate::lock::Mutex;

/// The result of a function that threw, if its result is an integer; [`thrown`] tells it from the library's
/// own value.
pub const THREW: c_int = c_int::MIN;

/// The message for a function that threw, if `answer` says that the last call on this thread did.
#[cold]
pub fn thrown(function: &str, answer: c_int) -> Option<String> {
    (answer == THREW)
        .then(exception::take)
        .flatten()
        .map(|what| format!("{function} threw a C++ exception: {what}"))
}

/// The result type of a function of a table.
pub trait Answer {
    /// The result if the function threw.
    const THREW: usize;
}

impl Answer for () {
    const THREW: usize = 0;
}

impl Answer for c_int {
    const THREW: usize = THREW as u32 as usize;
}

impl<T> Answer for *const T {
    const THREW: usize = 0;
}

impl<T> Answer for *mut T {
    const THREW: usize = 0;
}

/// A version or a size: 0.
impl Answer for usize {
    const THREW: usize = 0;
}

/// Whatever the result register holds.
impl Answer for f32 {
    const THREW: usize = 0;
}

/// As for `f32`.
impl Answer for f64 {
    const THREW: usize = 0;
}

/// What belongs to an entry, at the offsets that [`frame`] uses.
#[repr(C)]
struct Slot {
    function: AtomicPtr<()>,
    /// Number of words on the stack that may be arguments, always even.
    stack: AtomicUsize,
    /// Result if the function throws.
    threw: AtomicUsize,
}

/// More than the functions of all tables in a process.
const COUNT: usize = 1024;

static SLOTS: [Slot; COUNT] = [const {
    Slot {
        function: AtomicPtr::new(std::ptr::null_mut()),
        stack: AtomicUsize::new(0),
        threw: AtomicUsize::new(0),
    }
}; COUNT];

/// Held while a slot is searched. A forked child that takes it over finds each slot complete or without a
/// function, which is written last.
static TAKING: Mutex<()> = Mutex::new(());

/// The entry for a function with that many arguments of at most one word each, which returns `threw` if it
/// throws; none when all entries are taken. A slot keeps its function for ever, so asking again for the same
/// one yields the same slot.
pub fn entry(function: *const (), arguments: usize, threw: usize) -> Option<*const ()> {
    let stack = arguments.saturating_sub(REGISTERS).next_multiple_of(2);
    let _taking = TAKING.lock();
    let index = SLOTS.iter().position(|slot| {
        let known = slot.function.load(Ordering::Relaxed).cast_const();
        let says = || (slot.stack.load(Ordering::Relaxed), slot.threw.load(Ordering::Relaxed));
        known.is_null() || (known == function && says() == (stack, threw))
    })?;
    let slot = SLOTS.get(index)?;
    slot.stack.store(stack, Ordering::Relaxed);
    slot.threw.store(threw, Ordering::Relaxed);
    slot.function.store(function.cast_mut(), Ordering::Release);
    Some((entries as *const ()).wrapping_byte_add(index * ENTRY))
}

/// Destroys an exception that was stopped.
///
/// # Safety
/// `exception` is one that the unwinder handed to the caller's frame, and that nothing else ends.
unsafe extern "C" fn end(exception: *mut Exception) {
    // SAFETY: the unwinder handed it over, so only this frame ends it.
    unsafe { exception::end(exception) };
}

/// Slots are as large as entries (half as large on x86-64): the assembly computes offsets from this size.
const _: () = assert!(size_of::<Slot>() == 24);

crate::guard_frames!();

#[cfg(test)]
mod tests {
    use std::ffi::{CStr, c_char};

    use super::*;

    crate::function_table! {
        /// Functions of the C++ library that throw.
        #[expect(non_snake_case, reason = "the names of the compiler")]
        struct Throwing: "C++", ["libstdc++.so.6"] {
            required {
                /// Throws `std::bad_alloc`.
                fn _ZSt17__throw_bad_allocv() -> c_int;
            }
            optional {
                /// Throws `std::length_error`.
                fn _ZSt20__throw_length_errorPKc(text: *const c_char) -> *const c_char;
            }
        }
    }

    #[test]
    fn an_exception_becomes_an_answer() {
        let table = Throwing::get().unwrap();
        for _ in 0..1000 {
            // SAFETY: the function takes nothing.
            let answer = unsafe { (table._ZSt17__throw_bad_allocv)() };
            assert_eq!(answer, THREW);
            assert_eq!(thrown("f", answer).as_deref(), Some("f threw a C++ exception: std::bad_alloc"));
            // It was reported once, so the next such value is the library's own.
            assert_eq!(thrown("f", answer), None);
        }
        let throw = table._ZSt20__throw_length_errorPKc.unwrap();
        // SAFETY: the text ends with a NUL.
        assert!(unsafe { throw(c"too long".as_ptr()) }.is_null());
        assert_eq!(thrown("f", 0), None);
        assert_eq!(exception::take().as_deref(), Some("std::length_error"));
    }

    type Many = unsafe extern "C" fn(
        i32,
        *const c_char,
        f64,
        u64,
        f32,
        i64,
        u8,
        bool,
        i32,
        f64,
        i64,
        i32,
        *const c_char,
        u64,
        i32,
        f64,
    ) -> f64;

    /// Checks each argument.
    extern "C-unwind" fn many(
        a: i32,
        b: *const c_char,
        c: f64,
        d: u64,
        e: f32,
        f: i64,
        g: u8,
        h: bool,
        i: i32,
        j: f64,
        k: i64,
        l: i32,
        m: *const c_char,
        n: u64,
        o: i32,
        p: f64,
    ) -> f64 {
        // SAFETY: both end with a NUL.
        let texts = unsafe { (CStr::from_ptr(b), CStr::from_ptr(m)) };
        assert_eq!(texts, (c"one", c"two"));
        assert_eq!((a, c, d, e, f, g), (-1, 2.5, u64::MAX, 4.5, i64::MIN, 200));
        assert_eq!((h, i, j, k, l), (true, -9, 10.5, -11, 12));
        assert_eq!((n, o), (14, -15));
        if p < 0.0 {
            // SAFETY: the function of the type above; it unwinds, as this does.
            unsafe {
                let table = Throwing::get().unwrap();
                let throw = table.library().function::<extern "C-unwind" fn()>("_ZSt17__throw_bad_allocv");
                throw.unwrap()();
            }
        }
        p
    }

    #[test]
    fn arguments_in_all_places_arrive_and_results_come_back() {
        let address = many as *const ();
        let entry_of_many = entry(address, 16, 0).unwrap();
        assert_eq!(entry(address, 16, 0), Some(entry_of_many), "the entry is used again");
        // SAFETY: the entry is called as the function.
        let many = unsafe { std::mem::transmute::<*const (), Many>(entry_of_many) };
        let call = |last: f64| {
            // SAFETY: the arguments are what the function takes.
            unsafe {
                many(
                    -1,
                    c"one".as_ptr(),
                    2.5,
                    u64::MAX,
                    4.5,
                    i64::MIN,
                    200,
                    true,
                    -9,
                    10.5,
                    -11,
                    12,
                    c"two".as_ptr(),
                    14,
                    -15,
                    last,
                )
            }
        };
        assert_eq!(call(16.5), 16.5);
        assert_eq!(exception::take(), None);
        let _ = call(-1.0);
        assert_eq!(exception::take().as_deref(), Some("std::bad_alloc"));
        assert_eq!(call(17.5), 17.5);
    }

    #[test]
    fn every_entry_leads_to_its_own_function() {
        extern "C" fn one() -> i32 {
            1
        }
        extern "C" fn two() -> i32 {
            2
        }
        for (function, number) in [(one as *const (), 1), (two as *const (), 2)] {
            // Entries further apart, each with its own result.
            for threw in 0..40 {
                let entry = entry(function, 0, threw).unwrap();
                // SAFETY: both functions are of this type.
                let call = unsafe { std::mem::transmute::<*const (), extern "C" fn() -> i32>(entry) };
                assert_eq!(call(), number);
            }
        }
    }
}
