//! Exceptions out of foreign functions: where they are stopped, and what they were.
//!
//! Rust cannot catch a C++ exception, and passing it on to frames that do not expect it is undefined. So calls that may end in one go through
//! a frame that ends any exception, as a `catch (...)` in C++ does: its unwind table names a personality that stops each exception there, at
//! a landing pad that gives it back to the runtime it came from.
//!
//! What pthread_exit or a cancellation unwinds is not an exception and passes through; like everywhere in C++ code without
//! handlers for it, the program does not survive that.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};

pub use crate::os::exceptions::Exception;

use crate::objects;
use crate::os::exceptions;

/// The longest name of a type that is kept.
const LENGTH: usize = 96;

thread_local! {
    /// Whether an exception ended on this thread and was not asked for, and the name of its type as the compiler writes it.
    /// Without a destructor, which would keep the library loaded.
    static THROWN: Cell<Option<[u8; LENGTH]>> = const { Cell::new(None) };
}

/// Ends an exception that was stopped, and keeps for [`take`] what it was.
///
/// # Safety
/// The unwinder handed the exception over, so only its receiver ends it.
pub unsafe fn end(exception: *mut Exception) {
    let mut kept = [0; LENGTH];
    // SAFETY: the caller has the exception to itself.
    unsafe {
        match Runtime::of(&*exception) {
            Some(runtime) => {
                (runtime.begin)(exception);
                let name = runtime.type_name().unwrap_or_default();
                kept.iter_mut().zip(name).for_each(|(to, byte)| *to = *byte);
                (runtime.end)();
            }
            None => {
                let name = exceptions::kept_name(&*exception).unwrap_or_default();
                kept.iter_mut().zip(name).for_each(|(to, byte)| *to = *byte);
                // A panic of another Rust runtime does not let itself be ended from here; its memory is lost.
                if (*exception).class != u64::from_be_bytes(*b"MOZ\0RUST") {
                    exceptions::delete(exception);
                }
            }
        }
    }
    THROWN.set(Some(kept));
}

/// The type of the exception that ended on this thread last, once.
pub fn take() -> Option<String> {
    let name = THROWN.replace(None)?;
    let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    Some(if name.is_empty() { "of an unknown type".into() } else { plain(&name).unwrap_or(name) })
}

/// A name as the source has it, of a class in no namespace or in `std`; longer ones stay as the compiler writes them.
fn plain(name: &str) -> Option<String> {
    let (namespace, rest) = name.strip_prefix("St").map_or(("", name), |rest| ("std::", rest));
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (length, class) = rest.split_at_checked(digits)?;
    (length.parse() == Ok(class.len())).then(|| format!("{namespace}{class}"))
}

/// The functions with which the C++ runtime that threw an exception catches it. It counts the exceptions in flight, so
/// those are better than only to delete it.
struct Runtime {
    begin: unsafe extern "C" fn(*mut Exception) -> *mut c_void,
    end: unsafe extern "C" fn(),
    current_type: unsafe extern "C" fn() -> *const TypeInfo,
}

/// The head of `std::type_info`.
#[repr(C)]
struct TypeInfo {
    functions: *const c_void,
    name: *const c_char,
}

impl Runtime {
    /// There may be several such runtimes in the process: the exception's own is where its cleanup function is. The loader is not
    /// asked: it may be waiting for this thread.
    fn of(exception: &Exception) -> Option<Self> {
        // The class is the vendor's four letters, then the language; the last byte tells a copy from the original.
        if exception.class.to_be_bytes().get(4..7) != Some(b"C++") {
            return None;
        }
        let cleanup = exception.cleanup? as usize;
        let names = [c"__cxa_begin_catch", c"__cxa_end_catch", c"__cxa_current_exception_type"];
        let [begin, end, current_type] = objects::find(|object| {
            object.contains(cleanup).then(|| names.map(|name| object.function(name)))
        })?;
        // SAFETY: these are the functions of that name, and the runtime stays as long as there are exceptions of its own.
        Some(unsafe {
            Self {
                begin: std::mem::transmute::<*const (), unsafe extern "C" fn(*mut Exception) -> *mut c_void>(
                    begin?,
                ),
                end: std::mem::transmute::<*const (), unsafe extern "C" fn()>(end?),
                current_type: std::mem::transmute::<*const (), unsafe extern "C" fn() -> *const TypeInfo>(
                    current_type?,
                ),
            }
        })
    }

    /// The name of the type of the exception that is caught just now.
    ///
    /// # Safety
    /// One is; the name may go with it.
    unsafe fn type_name<'a>(&self) -> Option<&'a [u8]> {
        // SAFETY: the runtime answers null or a type, whose name ends with a NUL.
        unsafe {
            let name = (self.current_type)().as_ref()?.name;
            let bytes = (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes())?;
            // Types that are known by their address alone have a star before the name.
            Some(bytes.strip_prefix(b"*").unwrap_or(bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_the_source_has_them_where_that_is_easy() {
        assert_eq!(plain("St9bad_alloc").as_deref(), Some("std::bad_alloc"));
        assert_eq!(plain("9exception").as_deref(), Some("exception"));
        for name in ["N3hip5errorE", "i", "St", "5four", "St4four5", ""] {
            assert_eq!(plain(name), None, "{name}");
        }
    }
}
