//! Exceptions on Windows: those of C++ and Rust, compiled by Microsoft's tools or by others. Exceptions
//! raised by the processor or the system, such as access violations, pass through.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};

use super::api;

/// The header of a C++ or Rust exception in GCC's runtime.
#[repr(C)]
pub struct Exception {
    /// Vendor and language, as eight letters.
    pub class: u64,
    /// Called by foreign runtimes to destroy it.
    pub cleanup: Option<unsafe extern "C" fn(c_int, *mut Exception)>,
    /// The runtime's private words: the second is the target frame of unwinding, the third the target
    /// address.
    words: [usize; 6],
}

/// Windows' description of an exception.
#[repr(C)]
pub struct Record {
    code: u32,
    flags: u32,
    next: *mut Record,
    address: *mut c_void,
    count: u32,
    information: [usize; 15],
}

/// Windows' description of a frame.
#[repr(C)]
pub struct Dispatcher {
    place: usize,
    base: usize,
    function: *mut c_void,
    frame: usize,
    target: usize,
    context: *mut c_void,
    handler: *mut c_void,
    data: *mut c_void,
    history: *mut c_void,
}

/// Any of the flags of a stack that is being unwound.
const UNWINDING: u32 = 0x66;
/// The result of a handler that declines the exception.
const CONTINUE: c_int = 1;
/// The codes of exceptions thrown by GCC's and Microsoft's runtimes.
const OF_GCC: u32 = 0x2047_4343;
const OF_MICROSOFT: u32 = 0xe06d_7363;
/// The class of an exception that [`stop`] created for one of Microsoft's runtime.
const KEPT: u64 = u64::from_be_bytes(*b"MSVCC++\0");

/// Longest type name that is kept.
const LENGTH: usize = 96;

/// The copy of an exception of Microsoft's runtime, whose own description disappears with the frames.
#[repr(C)]
struct Kept {
    head: Exception,
    name: [u8; LENGTH],
}

thread_local! {
    static LAST: UnsafeCell<Kept> = const {
        UnsafeCell::new(Kept { head: Exception { class: KEPT, cleanup: None, words: [0; 6] }, name: [0; LENGTH] })
    };
}

/// The body of a handler whose frame continues at `landing`, with the exception in the result register.
/// Returns if the exception is not one to stop.
///
/// # Safety
/// All arguments but the last are the system's, for a frame that may continue at `landing`.
pub unsafe fn stop(
    record: *mut Record,
    frame: *mut c_void,
    context: *mut c_void,
    dispatcher: *mut Dispatcher,
    landing: *const (),
) -> c_int {
    // SAFETY: the record is the system's.
    let (is_unwinding, code) = unsafe { ((*record).flags & UNWINDING != 0, (*record).code) };
    if is_unwinding {
        return CONTINUE;
    }
    // SAFETY: codes are those of the runtimes, which put their own data into the record.
    let exception = unsafe {
        match code {
            OF_GCC => aim(&mut *record, frame, landing),
            OF_MICROSOFT => keep(&*record),
            _ => return CONTINUE,
        }
    };
    // SAFETY: the frame is one that waits for the call in it, as the system has found.
    unsafe {
        api::RtlUnwindEx(
            frame,
            landing.cast(),
            record.cast(),
            exception.cast(),
            context,
            (*dispatcher).history,
        )
    };
    // It does not return.
    CONTINUE
}

/// Sets the target of unwinding in an exception of GCC's runtime: cleanup code in frames between resumes to
/// it.
///
/// # Safety
/// The record is of such an exception.
unsafe fn aim(record: &mut Record, frame: *mut c_void, landing: *const ()) -> *mut Exception {
    let [first, others @ ..] = &mut record.information;
    let exception: *mut Exception = std::ptr::with_exposed_provenance_mut(*first);
    let target = [frame.expose_provenance(), landing.expose_provenance(), 0];
    others.iter_mut().zip(target).for_each(|(word, target)| *word = target);
    record.count = 4;
    // SAFETY: the runtime passes its exception in the first word.
    let words = unsafe { &mut (*exception).words };
    words.iter_mut().skip(1).zip(target).for_each(|(word, target)| *word = target);
    exception
}

/// Records an exception of Microsoft's runtime for [`kept_name`].
///
/// # Safety
/// The record is of such an exception.
unsafe fn keep(record: &Record) -> *mut Exception {
    let kept = LAST.with(UnsafeCell::get);
    // SAFETY: only this thread uses its own value, and it is not borrowed now.
    unsafe {
        (*kept).name = [0; LENGTH];
        let name = name_of(record).unwrap_or_default();
        (*kept).name.iter_mut().zip(name).for_each(|(to, byte)| *to = *byte);
    }
    kept.cast()
}

/// The first type that an exception can be caught as, as a mangled name.
///
/// # Safety
/// The record is of an exception of Microsoft's runtime.
unsafe fn name_of<'a>(record: &Record) -> Option<&'a [u8]> {
    let [_, _, information, base, ..] = record.information;
    if record.count < 4 || information == 0 || base == 0 {
        return None;
    }
    let at = |offset: u32| std::ptr::with_exposed_provenance::<u32>(base.wrapping_add(offset as usize));
    let information = std::ptr::with_exposed_provenance::<u32>(information);
    // SAFETY: the compiler wrote these tables: offsets from the module's start, of the array of types (the fourth number), of its
    // first (the second), of that one's description (the second), whose name follows two pointers and ends with a NUL.
    unsafe {
        let types = at(information.add(3).read());
        let described = at(at(types.add(1).read()).add(1).read());
        Some(CStr::from_ptr(described.add(4).cast::<c_char>()).to_bytes())
    }
}

/// Destroys an exception of an unknown runtime.
///
/// # Safety
/// The exception was stopped, and nothing else destroys it.
pub unsafe fn delete(exception: *mut Exception) {
    /// GCC's reason code for an exception caught by foreign code.
    const CAUGHT_BY_OTHERS: c_int = 1;
    // SAFETY: the runtime requires this function to be called with its exception.
    unsafe {
        if let Some(cleanup) = (*exception).cleanup {
            cleanup(CAUGHT_BY_OTHERS, exception);
        }
    }
}

/// The type name of an exception, recorded when it was stopped: `.?AVname@namespace@@` in Microsoft's
/// mangling.
pub fn kept_name(exception: &Exception) -> Option<&[u8]> {
    if exception.class != KEPT {
        return None;
    }
    // SAFETY: only `keep` creates those of this class, which are the heads of `Kept`.
    let kept = unsafe { &*std::ptr::from_ref(exception).cast::<Kept>() };
    let name = kept.name.split(|byte| *byte == 0).next().unwrap_or_default();
    let plain = name.get(4..).and_then(|rest| rest.strip_suffix(b"@@"));
    Some(plain.unwrap_or(name))
}
