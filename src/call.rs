//! Calls into foreign code that may end in a C++ exception.
//!
//! Plugins and callbacks are C functions, but may be written in C++, and an exception that escapes from one must not
//! end the program. So every call goes through [`enter`], a frame that ends any exception: see [`exception`].

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use hipdnn_plugin_sdk::exception::{self, Exception};
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
        // SAFETY: the caller names the function; registers beyond its arguments are not looked at.
        return unsafe { enter(a, b, c, d, e, function) };
    }
    let words: [usize; MOST] = std::array::from_fn(|_| next());
    // SAFETY: the function has as many arguments as there are words; words beyond them are not looked at.
    unsafe { enter_with_stack(&words, function) }
}

/// Decides for [`enter`] what an exception does there: it goes no further, but to [`land`].
unsafe extern "C" fn personality(
    version: c_int,
    actions: c_int,
    _: u64,
    exception: *mut Exception,
    context: *mut c_void,
) -> c_int {
    // SAFETY: exception and context are those that the unwinder called this function with.
    unsafe { exception::stop(version, actions, exception, context, land as *const ()) }
}

/// The same for [`enter_with_stack`] and [`land_with_stack`].
unsafe extern "C" fn personality_with_stack(
    version: c_int,
    actions: c_int,
    _: u64,
    exception: *mut Exception,
    context: *mut c_void,
) -> c_int {
    // SAFETY: exception and context are those that the unwinder called this function with.
    unsafe { exception::stop(version, actions, exception, context, land_with_stack as *const ()) }
}

/// Ends an exception that was stopped.
unsafe extern "C" fn end(exception: *mut Exception) -> PluginStatus {
    THROWN.set(true);
    // SAFETY: the unwinder handed the exception over, and nobody else ends it.
    unsafe { exception::end(exception) };
    THREW
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
