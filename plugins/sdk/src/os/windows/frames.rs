//! Frames that stop any exception, like `catch (...)` in C++: their unwind tables name a handler that stops
//! each exception at a landing pad, which gives it back to the runtime that threw it.

/// Defines `enter` and `enter_with_stack`, frames that call a plugin's function and pass an exception thrown
/// by it to the function `end` in scope.
#[macro_export]
#[doc(hidden)]
macro_rules! call_frames {
    () => {
        $crate::frame_handler!();

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
            core::arch::naked_asm!(
                ".seh_proc {this}",
                "sub rsp, 88",
                ".seh_stackalloc 88",
                ".seh_endprologue",
                "mov rax, [rsp + 128]",
                "mov [rsp + 32], rax",
                "call [rsp + 136]",
                // If the return address were in an epilogue, the handler would be skipped.
                "nop",
                "add rsp, 88",
                "ret",
                ".seh_handler {handler}, @except",
                ".seh_endproc",
                this = sym enter,
                handler = sym handler,
            )
        }

        /// Calls `function` with ten words and returns its status, or [`THREW`]. The frame has the size of that of [`enter`].
        ///
        /// # Safety
        /// `function` is a C function that takes at most these words and returns a status or nothing.
        #[unsafe(naked)]
        unsafe extern "C" fn enter_with_stack(
            words: &[usize; MOST],
            function: *const (),
        ) -> $crate::ffi::hipdnnPluginStatus_t {
            core::arch::naked_asm!(
                ".seh_proc {this}",
                "sub rsp, 88",
                ".seh_stackalloc 88",
                ".seh_endprologue",
                "mov r11, rdx",
                "mov r10, rcx",
                "mov rax, [r10 + 32]",
                "mov [rsp + 32], rax",
                "mov rax, [r10 + 40]",
                "mov [rsp + 40], rax",
                "mov rax, [r10 + 48]",
                "mov [rsp + 48], rax",
                "mov rax, [r10 + 56]",
                "mov [rsp + 56], rax",
                "mov rax, [r10 + 64]",
                "mov [rsp + 64], rax",
                "mov rax, [r10 + 72]",
                "mov [rsp + 72], rax",
                "mov rcx, [r10]",
                "mov rdx, [r10 + 8]",
                "mov r8, [r10 + 16]",
                "mov r9, [r10 + 24]",
                "call r11",
                "nop",
                "add rsp, 88",
                "ret",
                ".seh_handler {handler}, @except",
                ".seh_endproc",
                this = sym enter_with_stack,
                handler = sym handler,
            )
        }

        /// Continues in the frame of [`enter`] or [`enter_with_stack`] after its call, with the exception in the result register.
        ///
        /// # Safety
        /// Only the unwinder continues here, in such a frame.
        #[unsafe(naked)]
        unsafe extern "C" fn land() {
            core::arch::naked_asm!(
                ".seh_proc {this}",
                ".seh_stackalloc 88",
                ".seh_endprologue",
                "mov rcx, rax",
                "call {end}",
                "nop",
                "add rsp, 88",
                "ret",
                ".seh_endproc",
                this = sym land,
                end = sym end,
            )
        }
    };
}

/// Defines `handler`, which stops every exception at the function `land` in scope.
#[macro_export]
#[doc(hidden)]
macro_rules! frame_handler {
    () => {
        /// Stops every exception at [`land`].
        ///
        /// # Safety
        /// The system calls it, for a frame in which [`land`] may continue.
        unsafe extern "C-unwind" fn handler(
            record: *mut $crate::os::exceptions::Record,
            frame: *mut ::std::ffi::c_void,
            context: *mut ::std::ffi::c_void,
            dispatcher: *mut $crate::os::exceptions::Dispatcher,
        ) -> ::std::ffi::c_int {
            // SAFETY: the arguments are those that the system called this function with.
            unsafe { $crate::os::exceptions::stop(record, frame, context, dispatcher, land as *const ()) }
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
        /// Number of argument words passed in registers.
        const REGISTERS: usize = 4;

        /// Size in bytes of each of the [`entries`].
        const ENTRY: usize = 12;

        $crate::frame_handler!();

        /// The entries: each jumps to [`frame`] with its own address in a register that holds no argument.
        ///
        /// # Safety
        /// Each is called as the function in its slot may be.
        #[unsafe(naked)]
        unsafe extern "C" fn entries() {
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
            )
        }

        /// Calls an entry's function with the registers and stack words that this was called with.
        ///
        /// # Safety
        /// Only [`entries`] jump here.
        #[unsafe(naked)]
        unsafe extern "C" fn frame() {
            core::arch::naked_asm!(
                ".seh_proc {this}",
                "push rbp",
                ".seh_pushreg rbp",
                "mov rbp, rsp",
                ".seh_setframe rbp, 0",
                "sub rsp, 16",
                ".seh_stackalloc 16",
                ".seh_endprologue",
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
                "push qword ptr [rbp + 8 * r10 + 40]",
                "dec r10",
                "jmp 2b",
                "3:",
                "sub rsp, 32",
                "call [r11]",
                "nop",
                "lea rsp, [rbp]",
                "pop rbp",
                "ret",
                ".seh_handler {handler}, @except",
                ".seh_endproc",
                this = sym frame,
                handler = sym handler,
                entries = sym entries,
                slots = sym SLOTS,
            )
        }

        /// Continues in [`frame`] after its call, with the exception in the result register.
        ///
        /// # Safety
        /// Only the unwinder continues here, in such a frame.
        #[unsafe(naked)]
        unsafe extern "C" fn land() {
            core::arch::naked_asm!(
                ".seh_proc {this}",
                ".seh_pushreg rbp",
                ".seh_setframe rbp, 0",
                ".seh_stackalloc 16",
                ".seh_endprologue",
                "mov rcx, rax",
                "call {end}",
                "mov rax, [rbp - 8]",
                "mov rax, [rax + 16]",
                "lea rsp, [rbp]",
                "pop rbp",
                "ret",
                ".seh_endproc",
                this = sym land,
                end = sym end,
            )
        }
    };
}
