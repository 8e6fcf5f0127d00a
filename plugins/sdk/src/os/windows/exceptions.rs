//! Exceptions as Windows knows them: those of C++ and Rust, compiled by Microsoft's tools or by others. What the processor or the system
//! raises, as for a pointer that leads nowhere, passes through.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};

use super::api;

/// The head of an exception of C++ or Rust, as GCC's runtime has it.
#[repr(C)]
pub struct Exception {
    /// Whose it is, as eight letters.
    pub class: u64,
    /// What its runtime has others call to end it.
    pub cleanup: Option<unsafe extern "C" fn(c_int, *mut Exception)>,
    /// The runtime's own words: the second is the frame that it unwinds to, the third the place there.
    words: [usize; 6],
}

/// What Windows tells of an exception.
#[repr(C)]
pub struct Record {
    code: u32,
    flags: u32,
    next: *mut Record,
    address: *mut c_void,
    count: u32,
    information: [usize; 15],
}

/// What Windows tells of a frame.
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
/// What a handler answers that leaves it to others.
const CONTINUE: c_int = 1;
/// The codes of exceptions that GCC's and Microsoft's runtimes throw.
const OF_GCC: u32 = 0x2047_4343;
const OF_MICROSOFT: u32 = 0xe06d_7363;
/// The class of an exception that [`stop`] has made for one of Microsoft's runtime.
const KEPT: u64 = u64::from_be_bytes(*b"MSVCC++\0");

/// The longest name of a type that is kept.
const LENGTH: usize = 96;

/// What is kept of an exception of Microsoft's runtime, whose own description goes with the frames.
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

/// What a handler does whose frame goes on at `landing`, with the exception in the register of a result. Answers where the
/// exception is not one that is stopped.
///
/// # Safety
/// The arguments but the last are the system's own, for a frame that `landing` may go on in.
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
    // SAFETY: codes are those of the runtimes, which have put their own words into the record.
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

/// Says in an exception of GCC's runtime where it ends: frames between that clean up go on to there.
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

/// Keeps what an exception of Microsoft's runtime was, for [`kept_name`].
///
/// # Safety
/// The record is of such an exception.
unsafe fn keep(record: &Record) -> *mut Exception {
    let kept = LAST.with(UnsafeCell::get);
    // SAFETY: only this thread uses what is its own, and nothing of it is borrowed now.
    unsafe {
        (*kept).name = [0; LENGTH];
        let name = name_of(record).unwrap_or_default();
        (*kept).name.iter_mut().zip(name).for_each(|(to, byte)| *to = *byte);
    }
    kept.cast()
}

/// The name of the first type that an exception can be caught as, as the compiler writes it.
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
    // SAFETY: the compiler has written these tables: offsets from the module's start, of the array of types (the fourth number), of its
    // first (the second), of that one's description (the second), whose name follows two pointers and ends with a NUL.
    unsafe {
        let types = at(information.add(3).read());
        let described = at(at(types.add(1).read()).add(1).read());
        Some(CStr::from_ptr(described.add(4).cast::<c_char>()).to_bytes())
    }
}

/// Ends an exception of a runtime that is not known.
///
/// # Safety
/// The exception was stopped, and nothing else ends it.
pub unsafe fn delete(exception: *mut Exception) {
    /// What GCC's runtime calls an exception that others have caught.
    const CAUGHT_BY_OTHERS: c_int = 1;
    // SAFETY: the runtime wants this function to be called with its exception.
    unsafe {
        if let Some(cleanup) = (*exception).cleanup {
            cleanup(CAUGHT_BY_OTHERS, exception);
        }
    }
}

/// The name of the type of an exception that was kept where it was stopped: `.?AVname@namespace@@` as Microsoft's compiler writes it.
pub fn kept_name(exception: &Exception) -> Option<&[u8]> {
    if exception.class != KEPT {
        return None;
    }
    // SAFETY: only `keep` makes those of this class, which are heads of what is kept.
    let kept = unsafe { &*std::ptr::from_ref(exception).cast::<Kept>() };
    let name = kept.name.split(|byte| *byte == 0).next().unwrap_or_default();
    let plain = name.get(4..).and_then(|rest| rest.strip_suffix(b"@@"));
    Some(plain.unwrap_or(name))
}
