//! Stops exceptions from foreign functions, and records their types.
//!
//! Rust cannot catch a C++ exception, and letting it unwind through frames that do not expect it is
//! undefined. So calls that may throw go through a frame that works like `catch (...)` in C++: its unwind
//! table names a personality that stops each exception at a landing pad, which gives it back to the runtime
//! that threw it.
//!
//! The forced unwinding of pthread_exit and cancellation is not an exception and passes through; as in any
//! C++ code without handlers for it, the program does not survive that.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};

pub use crate::os::exceptions::Exception;

use crate::objects;
use crate::os::exceptions;

/// Longest type name that is kept.
const LENGTH: usize = 96;

thread_local! {
    /// The mangled type name of an exception that ended on this thread and was not yet reported. Has no
    /// destructor, which would keep the library loaded.
    static THROWN: Cell<Option<[u8; LENGTH]>> = const { Cell::new(None) };
}

/// Destroys an exception that was stopped, and records its type for [`take`].
///
/// # Safety
/// The unwinder handed the exception over, so only its receiver ends it.
pub unsafe fn end(exception: *mut Exception) {
    let mut kept = [0; LENGTH];
    // SAFETY: this function requires an exception that the unwinder handed over, which nothing else uses or ends.
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
                // A panic of another Rust runtime cannot be ended from here; its memory leaks.
                if (*exception).class != u64::from_be_bytes(*b"MOZ\0RUST") {
                    exceptions::delete(exception);
                }
            }
        }
    }
    THROWN.set(Some(kept));
}

/// The type of the exception that last ended on this thread; reported once.
pub fn take() -> Option<String> {
    let name = THROWN.replace(None)?;
    let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    Some(if name.is_empty() { "of an unknown type".into() } else { plain(&name).unwrap_or(name) })
}

/// Demangles a class name without a namespace or in `std`; none for others.
fn plain(name: &str) -> Option<String> {
    let (namespace, rest) = name.strip_prefix("St").map_or(("", name), |rest| ("std::", rest));
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (length, class) = rest.split_at_checked(digits)?;
    (length.parse() == Ok(class.len())).then(|| format!("{namespace}{class}"))
}

/// The catch functions of the C++ runtime that threw an exception. It counts exceptions in flight, so
/// catching is better than just deleting.
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
    /// A process may have several C++ runtimes: the exception's own contains its cleanup function. Does not
    /// ask the loader, which may be waiting for this thread.
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
        // SAFETY: these are the functions of that name, and the runtime stays loaded while its exceptions exist.
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

    /// The type name of the exception being caught.
    ///
    /// # Safety
    /// An exception is being caught; the name may become invalid with it.
    unsafe fn type_name<'a>(&self) -> Option<&'a [u8]> {
        // SAFETY: the runtime returns null or a type, whose name ends with a NUL.
        unsafe {
            let name = (self.current_type)().as_ref()?.name;
            let bytes = (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes())?;
            // The names of types that are compared by address begin with a star.
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
