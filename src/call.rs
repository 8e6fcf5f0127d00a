//! Calls into foreign code that may end in a C++ exception.
//!
//! Plugins and callbacks are C functions, but may be written in C++, and an exception that escapes from one must not
//! end the program. So every call goes through [`enter`], a frame that catches every exception: see [`exception`].

use hipdnn_plugin_sdk::exception::{self, Exception};
use hipdnn_plugin_sdk::ffi::hipdnnPluginStatus_t as PluginStatus;
use std::cell::Cell;

/// What [`call`] returns if the plugin threw. A plugin may also return it itself; [`has_thrown`] tells the difference.
pub const THREW: PluginStatus = PluginStatus::MIN;

thread_local! {
    static THROWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether a call on this thread returned `status` because the plugin threw. True once for each exception.
pub fn has_thrown(status: PluginStatus) -> bool {
    status == THREW && THROWN.replace(false)
}

/// An argument, as a register holds it.
pub trait Word {
    /// The bits.
    fn word(self) -> usize;
}

impl<T> Word for *const T {
    #[inline(always)]
    fn word(self) -> usize {
        self.expose_provenance()
    }
}

impl<T> Word for *mut T {
    #[inline(always)]
    fn word(self) -> usize {
        self.expose_provenance()
    }
}

macro_rules! numbers {
    ($($number:ty)+) => {$(
        impl Word for $number {
            #[inline(always)]
            fn word(self) -> usize {
                self as usize
            }
        }
    )+};
}

numbers! { i32 u32 i64 usize }

impl Word for hipdnn_plugin_sdk::ffi::hipdnnCallback_t {
    fn word(self) -> usize {
        self.map_or(0, |function| function as usize)
    }
}

impl Word for hipdnn_plugin_sdk::trace::Callback {
    fn word(self) -> usize {
        self.map_or(0, |function| function as usize)
    }
}

/// The most arguments that a function of a plugin has.
const MOST: usize = 10;

/// Calls a plugin's function with up to ten arguments.
///
/// # Safety
/// `function` is a C function that takes the arguments, all of them integers or pointers, and returns a status or nothing.
#[inline(always)]
pub unsafe fn call<const N: usize>(function: *const (), arguments: [usize; N]) -> PluginStatus {
    const { assert!(N <= MOST) };
    let mut words = arguments.into_iter();
    let mut next = || words.next().unwrap_or(0);
    if N <= 5 {
        let (a, b, c, d, e) = (next(), next(), next(), next(), next());
        // SAFETY: the function takes these arguments, as this function requires, and ignores registers beyond them.
        return unsafe { enter(a, b, c, d, e, function) };
    }
    let words: [usize; MOST] = std::array::from_fn(|_| next());
    // SAFETY: the function has at most as many arguments as there are words and ignores the rest.
    unsafe { enter_with_stack(&words, function) }
}

/// Ends a caught exception.
///
/// # Safety
/// `exception` is one that the unwinder handed to the caller's frame, and that nothing else ends.
unsafe extern "C" fn end(exception: *mut Exception) -> PluginStatus {
    THROWN.set(true);
    // SAFETY: the unwinder handed the exception to this frame, which alone ends it.
    unsafe { exception::end(exception) };
    THREW
}

hipdnn_plugin_sdk::call_frames!();
