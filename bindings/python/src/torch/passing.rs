//! Hands calls to PyTorch's own kernels: by its stable interface, or by a function of its C++ library.

use std::sync::atomic::{AtomicU64, Ordering};

use super::arguments::{Kind, free};
use super::direct::{Direct, RESULTS};
use super::functions::Functions;
use super::keys;
use super::owned::Owned;
use super::planning::Op;

/// The version of the stable interface.
static VERSION: AtomicU64 = AtomicU64::new(0);

/// Sets the version of the stable interface.
pub fn open(version: u64) {
    VERSION.store(version, Ordering::Relaxed);
}

/// A call's arguments, freed on drop: even if PyTorch's own kernel raises an error.
struct Taken<'a> {
    f: &'a Functions,
    stack: *const u64,
    kinds: &'static [Kind],
    /// The argument that is also the result.
    kept: Option<usize>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // SAFETY: the stack has a value of each kind, no longer used.
        unsafe { free(self.f, self.stack, self.kinds, self.kept) };
    }
}

/// Calls PyTorch's own kernel by its name, which takes the arguments; anything but 0 is an error.
///
/// # Safety
/// The stack has a value of each of the operation's kinds, and room for its results.
pub unsafe fn stably(op: &Op, f: &Functions, stack: *mut u64) -> i32 {
    let (version, (name, overload)) = (VERSION.load(Ordering::Relaxed), op.split());
    // SAFETY: the strings end with a NUL, and the stack matches the operation, as this function requires.
    keys::without(f, || unsafe { (f.call)(name.as_ptr(), overload.as_ptr(), stack, version) })
}

/// Calls PyTorch's function, passing its errors on, and frees the arguments. None if it was not called: then nothing is freed.
///
/// # Safety
/// The stack has a value of each of the operation's kinds.
pub unsafe fn directly(op: &Op, f: &Functions, stack: *mut u64, direct: &Direct) -> Option<[u64; RESULTS]> {
    let mut places = [const { None }; RESULTS];
    for place in places.iter_mut().take(direct.results) {
        *place = Some(Owned::undefined(f).ok()?);
    }
    let kept = direct.same;
    let taken = Taken { f, stack, kinds: op.kinds, kept };
    // SAFETY: the stack has the operation's arguments, as this function requires.
    let Some(results) = keys::without(f, || unsafe { direct.call(f, stack) }) else {
        std::mem::forget(taken);
        return None;
    };
    drop(taken);
    let mut answers = [0; RESULTS];
    if let (Some(at), [first, ..]) = (kept, &mut answers) {
        // SAFETY: the stack has a value of each kind.
        *first = unsafe { stack.add(at).read() };
        return Some(answers);
    }
    for ((answer, place), result) in answers.iter_mut().zip(places).zip(results) {
        if let Some(place) = place {
            // SAFETY: the tensor is undefined, which is not counted, and becomes the returned one.
            *answer = unsafe { place.become_tensor(result) };
        }
    }
    Some(answers)
}
