//! Calls into foreign code that may end in a C++ exception.
//!
//! Plugins and callbacks are C functions, but may be written in C++, and an exception that escapes from one must not
//! end the program. Rust cannot catch such an exception, and passing it on to frames that do not expect it is undefined. So
//! every call goes through [`enter`], a frame that ends any exception, as a `catch (...)` in C++ does: its unwind table names a
//! personality that stops each exception there, at a landing pad that gives it back to the runtime it came from.
//!
//! What pthread_exit or a cancellation unwinds is not an exception and passes through; like everywhere in C++ code without
//! handlers for it, the program does not survive that.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use hipdnn_plugin_sdk::dynlib::loaded;
use hipdnn_plugin_sdk::ffi::hipdnnPluginStatus_t as PluginStatus;

/// What [`call`] returns where the plugin threw. A plugin may return it too, so [`has_thrown`] tells.
pub const THREW: PluginStatus = PluginStatus::MIN;

thread_local! {
    static THROWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether a call on this thread returned `status` because the plugin threw. Answers once for each exception.
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
        // SAFETY: the caller names the function; registers beyond its arguments are not looked at.
        return unsafe { enter(a, b, c, d, e, function) };
    }
    let words: [usize; MOST] = std::array::from_fn(|_| next());
    // SAFETY: as above.
    unsafe { enter_with_stack(&words, function) }
}

// The numbers of the Itanium C++ ABI for exception handling.
const SEARCH_PHASE: c_int = 1;
const HANDLER_FRAME: c_int = 4;
const FORCED: c_int = 8;
const FATAL: c_int = 3;
const HANDLER_FOUND: c_int = 6;
const INSTALL_CONTEXT: c_int = 7;
const CONTINUE: c_int = 8;

/// The head of every exception; what follows is its runtime's own.
#[repr(C)]
struct Exception {
    class: u64,
    cleanup: Option<unsafe extern "C" fn(c_int, *mut Exception)>,
}

unsafe extern "C" {
    fn _Unwind_SetIP(context: *mut c_void, address: usize);
    fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
    fn _Unwind_DeleteException(exception: *mut Exception);
}

/// Decides for [`enter`] what an exception does there: it goes no further, but to [`land`].
unsafe extern "C" fn personality(
    version: c_int,
    actions: c_int,
    _: u64,
    exception: *mut Exception,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the unwinder's own arguments, passed on.
    unsafe { stop(version, actions, exception, context, land as *const ()) }
}

/// The same for [`enter_with_stack`] and [`land_with_stack`].
unsafe extern "C" fn personality_with_stack(
    version: c_int,
    actions: c_int,
    _: u64,
    exception: *mut Exception,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the unwinder's own arguments, passed on.
    unsafe { stop(version, actions, exception, context, land_with_stack as *const ()) }
}

/// What a personality answers whose frame goes on at `landing`.
unsafe fn stop(
    version: c_int,
    actions: c_int,
    exception: *mut Exception,
    context: *mut c_void,
    landing: *const (),
) -> c_int {
    if version != 1 {
        return FATAL;
    }
    if actions & FORCED != 0 {
        return CONTINUE;
    }
    if actions & SEARCH_PHASE != 0 {
        return HANDLER_FOUND;
    }
    if actions & HANDLER_FRAME == 0 {
        return CONTINUE;
    }
    // SAFETY: the unwinder passes its own context, of the frame whose table named this function. Register 0 is the one
    // that the landing pad takes the exception from.
    unsafe {
        _Unwind_SetGR(context, 0, exception.expose_provenance());
        _Unwind_SetIP(context, landing as usize);
    }
    INSTALL_CONTEXT
}

/// Ends an exception that was stopped.
unsafe extern "C" fn end(exception: *mut Exception) -> PluginStatus {
    THROWN.set(true);
    // SAFETY: the unwinder handed the exception over, and nobody else ends it.
    unsafe {
        match runtime(&*exception) {
            Some((begin, end)) => {
                begin(exception);
                end();
            }
            // A panic of another Rust runtime does not let itself be ended from here; its memory is lost.
            None if (*exception).class == u64::from_be_bytes(*b"MOZ\0RUST") => {}
            None => _Unwind_DeleteException(exception),
        }
    }
    THREW
}

type Begin = unsafe extern "C" fn(*mut Exception) -> *mut c_void;
type End = unsafe extern "C" fn();

/// The functions with which the C++ runtime that threw an exception catches it. It counts the exceptions in flight, so
/// those are better than only to delete it. There may be several such runtimes in the process: the exception's own is where
/// its cleanup function is. The loader is not asked: it may be waiting for this thread.
fn runtime(exception: &Exception) -> Option<(Begin, End)> {
    // The class is the vendor's four letters, then the language; the last byte tells a copy from the original.
    if exception.class.to_be_bytes().get(4..7) != Some(b"C++") {
        return None;
    }
    let cleanup = exception.cleanup? as usize;
    let (begin, end) = loaded::find(|object| {
        let names = [c"__cxa_begin_catch", c"__cxa_end_catch"];
        object.contains(cleanup).then(|| names.map(|name| object.function(name))).map(|[a, b]| a.zip(b))
    })??;
    // SAFETY: these are the functions of that name, and the runtime stays as long as there are exceptions of its own.
    Some(unsafe {
        (std::mem::transmute::<*const (), Begin>(begin), std::mem::transmute::<*const (), End>(end))
    })
}

/// Calls `function` with the five words and returns its status, or [`THREW`].
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn enter(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    function: *const (),
) -> PluginStatus {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "call r9",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        personality = sym personality,
    )
}

/// Goes on in the frame of [`enter`], after its call, with the exception in the register of a result.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn land() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_adjust_cfa_offset 8",
        "mov rdi, rax",
        "call {end}",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        end = sym end,
    )
}

/// Calls `function` with the ten words, four of them on the stack, and returns its status, or [`THREW`].
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn enter_with_stack(words: &[usize; MOST], function: *const ()) -> PluginStatus {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
        "sub rsp, 40",
        ".cfi_adjust_cfa_offset 40",
        "mov r11, rsi",
        "mov rax, [rdi + 48]",
        "mov [rsp], rax",
        "mov rax, [rdi + 56]",
        "mov [rsp + 8], rax",
        "mov rax, [rdi + 64]",
        "mov [rsp + 16], rax",
        "mov rax, [rdi + 72]",
        "mov [rsp + 24], rax",
        "mov rsi, [rdi + 8]",
        "mov rdx, [rdi + 16]",
        "mov rcx, [rdi + 24]",
        "mov r8, [rdi + 32]",
        "mov r9, [rdi + 40]",
        "mov rdi, [rdi]",
        "call r11",
        "add rsp, 40",
        ".cfi_adjust_cfa_offset -40",
        "ret",
        ".cfi_endproc",
        personality = sym personality_with_stack,
    )
}

/// Goes on in the frame of [`enter_with_stack`], after its call, with the exception in the register of a result.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn land_with_stack() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_adjust_cfa_offset 40",
        "mov rdi, rax",
        "call {end}",
        "add rsp, 40",
        ".cfi_adjust_cfa_offset -40",
        "ret",
        ".cfi_endproc",
        end = sym end,
    )
}

/// Calls `function` with the five words and returns its status, or [`THREW`].
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn enter(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    function: *const (),
) -> PluginStatus {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_adjust_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        "blr x5",
        "ldp x29, x30, [sp], #16",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_adjust_cfa_offset -16",
        "ret",
        ".cfi_endproc",
        personality = sym personality,
    )
}

/// Goes on in the frame of [`enter`], after its call, with the exception in the register of a result.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn land() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_adjust_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "bl {end}",
        "ldp x29, x30, [sp], #16",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_adjust_cfa_offset -16",
        "ret",
        ".cfi_endproc",
        end = sym end,
    )
}

/// Calls `function` with the ten words, two of them on the stack, and returns its status, or [`THREW`].
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn enter_with_stack(words: &[usize; MOST], function: *const ()) -> PluginStatus {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_adjust_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        "sub sp, sp, #16",
        ".cfi_adjust_cfa_offset 16",
        "mov x9, x1",
        "ldp x10, x11, [x0, #64]",
        "stp x10, x11, [sp]",
        "ldp x2, x3, [x0, #16]",
        "ldp x4, x5, [x0, #32]",
        "ldp x6, x7, [x0, #48]",
        "ldp x0, x1, [x0]",
        "blr x9",
        "add sp, sp, #16",
        ".cfi_adjust_cfa_offset -16",
        "ldp x29, x30, [sp], #16",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_adjust_cfa_offset -16",
        "ret",
        ".cfi_endproc",
        personality = sym personality_with_stack,
    )
}

/// Goes on in the frame of [`enter_with_stack`], after its call, with the exception in the register of a result.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn land_with_stack() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_adjust_cfa_offset 32",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "bl {end}",
        "add sp, sp, #16",
        ".cfi_adjust_cfa_offset -16",
        "ldp x29, x30, [sp], #16",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_adjust_cfa_offset -16",
        "ret",
        ".cfi_endproc",
        end = sym end,
    )
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("calls into plugins need a frame that ends exceptions, which is written for each processor");
