//! Frames that stop any exception, like `catch (...)` in C++: their unwind tables name a personality that
//! stops each exception at a landing pad, which gives it back to the runtime that threw it.

/// Defines `enter` and `enter_with_stack`, frames that call a plugin's function and pass an exception thrown
/// by it to the function `end` in scope.
#[macro_export]
#[doc(hidden)]
macro_rules! call_frames {
    () => {
        $crate::frame_personality!();

        /// Calls `function` with five words and returns its status, or [`THREW`].
        ///
        /// # Safety
        /// `function` is a C function that takes at most these words and returns a status or nothing.
        #[unsafe(naked)]
        unsafe extern "C" fn enter(
            a: usize,
            b: usize,
            c: usize,
            d: usize,
            e: usize,
            function: *const (),
        ) -> $crate::ffi::hipdnnPluginStatus_t {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                ".cfi_personality 0x1b, {personality}",
                "sub rsp, 40",
                ".cfi_adjust_cfa_offset 40",
                "call r9",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "ret",
                ".cfi_endproc",
                personality = sym personality,
            );
            #[cfg(target_arch = "aarch64")]
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
                "blr x5",
                "add sp, sp, #16",
                ".cfi_adjust_cfa_offset -16",
                "ldp x29, x30, [sp], #16",
                ".cfi_restore x29",
                ".cfi_restore x30",
                ".cfi_adjust_cfa_offset -16",
                "ret",
                ".cfi_endproc",
                personality = sym personality,
            );
        }

        /// Calls `function` with ten words and returns its status, or [`THREW`]. The frame has the size of that of [`enter`].
        ///
        /// # Safety
        /// `function` is a C function that takes at most these words and returns a status or nothing.
        #[unsafe(naked)]
        unsafe extern "C" fn enter_with_stack(words: &[usize; MOST], function: *const ()) -> $crate::ffi::hipdnnPluginStatus_t {
            #[cfg(target_arch = "x86_64")]
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
                personality = sym personality,
            );
            #[cfg(target_arch = "aarch64")]
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
                personality = sym personality,
            );
        }

        /// Continues in the frame of [`enter`] or [`enter_with_stack`] after its call, with the exception in the result register.
        ///
        /// # Safety
        /// Only the unwinder continues here, in such a frame.
        #[unsafe(naked)]
        unsafe extern "C" fn land() {
            #[cfg(target_arch = "x86_64")]
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
            );
            #[cfg(target_arch = "aarch64")]
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
            );
        }
    };
}

/// Defines `personality`, which stops every exception at the function `land` in scope.
#[macro_export]
#[doc(hidden)]
macro_rules! frame_personality {
    () => {
        /// Stops every exception at [`land`].
        ///
        /// # Safety
        /// The unwinder calls it, for a frame in which [`land`] may continue.
        unsafe extern "C" fn personality(
            version: ::std::ffi::c_int,
            actions: ::std::ffi::c_int,
            _: u64,
            exception: *mut $crate::os::exceptions::Exception,
            context: *mut ::std::ffi::c_void,
        ) -> ::std::ffi::c_int {
            // SAFETY: exception and context are those that the unwinder called this function with.
            unsafe { $crate::os::exceptions::stop(version, actions, exception, context, land as *const ()) }
        }
    };
}

/// Defines `entries`, a row of entries that each call the function of their slot in the array `SLOTS` and
/// pass an exception thrown by it to the function `end` in scope. An entry has `ENTRY` bytes; `REGISTERS`
/// words of arguments are passed in registers.
#[macro_export]
#[doc(hidden)]
macro_rules! guard_frames {
    () => {
        /// Number of argument words passed in registers; there are separate ones for floating-point numbers.
        const REGISTERS: usize = if cfg!(target_arch = "x86_64") { 6 } else { 8 };

        /// Size in bytes of each of the [`entries`].
        const ENTRY: usize = if cfg!(target_arch = "x86_64") { 12 } else { 8 };

        $crate::frame_personality!();

        /// The entries: each jumps to [`frame`] with its own address in a register that holds no argument.
        ///
        /// # Safety
        /// Each is called as the function in its slot may be.
        #[unsafe(naked)]
        unsafe extern "C" fn entries() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".rept {count}",
                // lea r11, [rip - 7] and a 32-bit jump: 12 bytes, whatever the distance.
                ".byte 0x4c, 0x8d, 0x1d",
                ".long -7",
                ".byte 0xe9",
                ".long {frame} - . - 4",
                ".endr",
                count = const COUNT,
                frame = sym frame,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".rept {count}",
                "adr x16, .",
                "b {frame}",
                ".endr",
                count = const COUNT,
                frame = sym frame,
            );
        }

        /// Calls an entry's function with the registers and stack words that this was called with.
        ///
        /// # Safety
        /// Only [`entries`] jump here.
        #[unsafe(naked)]
        unsafe extern "C" fn frame() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                ".cfi_personality 0x1b, {personality}",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "sub rsp, 16",
                // An entry has 12 bytes, a slot 24.
                "lea r10, [rip + {entries}]",
                "sub r11, r10",
                "lea r10, [rip + {slots}]",
                "lea r11, [r10 + 2 * r11]",
                "mov [rbp - 8], r11",
                "mov r10, [r11 + 8]",
                "2:",
                "test r10, r10",
                "jz 3f",
                "push qword ptr [rbp + 8 * r10 + 8]",
                "dec r10",
                "jmp 2b",
                "3:",
                "call [r11]",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                personality = sym personality,
                entries = sym entries,
                slots = sym SLOTS,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                ".cfi_personality 0x1b, {personality}",
                "stp x29, x30, [sp, #-32]!",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset x29, -32",
                ".cfi_offset x30, -24",
                "mov x29, sp",
                ".cfi_def_cfa_register x29",
                // An entry has 8 bytes, a slot 24.
                "adrp x17, {entries}",
                "add x17, x17, :lo12:{entries}",
                "sub x16, x16, x17",
                "add x16, x16, x16, lsl #1",
                "adrp x17, {slots}",
                "add x17, x17, :lo12:{slots}",
                "add x16, x16, x17",
                "str x16, [x29, #16]",
                "ldr x17, [x16, #8]",
                "2:",
                "cbz x17, 3f",
                "sub x17, x17, #2",
                "add x9, x29, x17, lsl #3",
                "ldp x10, x11, [x9, #32]",
                "stp x10, x11, [sp, #-16]!",
                "b 2b",
                "3:",
                "ldr x16, [x16]",
                "blr x16",
                "mov sp, x29",
                "ldp x29, x30, [sp], #32",
                ".cfi_def_cfa sp, 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "ret",
                ".cfi_endproc",
                personality = sym personality,
                entries = sym entries,
                slots = sym SLOTS,
            );
        }

        /// Continues in [`frame`] after its call, with the exception in the result register.
        ///
        /// # Safety
        /// Only the unwinder continues here, in such a frame.
        #[unsafe(naked)]
        unsafe extern "C" fn land() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                ".cfi_def_cfa rbp, 16",
                ".cfi_offset rbp, -16",
                "mov rdi, rax",
                "call {end}",
                "mov rax, [rbp - 8]",
                "mov rax, [rax + 16]",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                end = sym end,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                ".cfi_def_cfa x29, 32",
                ".cfi_offset x29, -32",
                ".cfi_offset x30, -24",
                "bl {end}",
                "ldr x16, [x29, #16]",
                "ldr x0, [x16, #16]",
                "mov sp, x29",
                "ldp x29, x30, [sp], #32",
                ".cfi_def_cfa sp, 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "ret",
                ".cfi_endproc",
                end = sym end,
            );
        }
    };
}
