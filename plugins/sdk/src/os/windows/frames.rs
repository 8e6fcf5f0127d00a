//! Frames that end any exception, as a `catch (...)` in C++ does: their unwind tables name a handler that stops each exception there, at
//! a landing pad that gives it back to the runtime it came from.

/// Defines `enter` and `enter_with_stack`, frames that call a function of a plugin, and hand an exception that comes out of it to
/// the function `end` beside them.
#[macro_export]
#[doc(hidden)]
macro_rules! call_frames {
    () => {
        /// Decides for [`enter`] what an exception does there: it goes no further, but to [`land`].
        unsafe extern "C-unwind" fn handler(
            record: *mut $crate::os::exceptions::Record,
            frame: *mut ::std::ffi::c_void,
            context: *mut ::std::ffi::c_void,
            dispatcher: *mut $crate::os::exceptions::Dispatcher,
        ) -> ::std::ffi::c_int {
            // SAFETY: the arguments are those that the system called this function with.
            unsafe { $crate::os::exceptions::stop(record, frame, context, dispatcher, land as *const ()) }
        }

        /// The same for [`enter_with_stack`] and [`land_with_stack`].
        unsafe extern "C-unwind" fn handler_with_stack(
            record: *mut $crate::os::exceptions::Record,
            frame: *mut ::std::ffi::c_void,
            context: *mut ::std::ffi::c_void,
            dispatcher: *mut $crate::os::exceptions::Dispatcher,
        ) -> ::std::ffi::c_int {
            let landing = land_with_stack as *const ();
            // SAFETY: the arguments are those that the system called this function with.
            unsafe { $crate::os::exceptions::stop(record, frame, context, dispatcher, landing) }
        }

        /// Calls `function` with the five words and returns its status, or [`THREW`].
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
                "sub rsp, 56",
                ".seh_stackalloc 56",
                ".seh_endprologue",
                "mov rax, [rsp + 96]",
                "mov [rsp + 32], rax",
                "call [rsp + 104]",
                // A return address in an epilogue would have the handler passed over.
                "nop",
                "add rsp, 56",
                "ret",
                ".seh_handler {handler}, @except",
                ".seh_endproc",
                this = sym enter,
                handler = sym handler,
            )
        }

        /// Goes on in the frame of [`enter`], after its call, with the exception in the register of a result.
        #[unsafe(naked)]
        unsafe extern "C" fn land() {
            core::arch::naked_asm!(
                ".seh_proc {this}",
                ".seh_stackalloc 56",
                ".seh_endprologue",
                "mov rcx, rax",
                "call {end}",
                "nop",
                "add rsp, 56",
                "ret",
                ".seh_endproc",
                this = sym land,
                end = sym end,
            )
        }

        /// Calls `function` with the ten words, six of them on the stack, and returns its status, or [`THREW`].
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
                handler = sym handler_with_stack,
            )
        }

        /// Goes on in the frame of [`enter_with_stack`], after its call, with the exception in the register of a result.
        #[unsafe(naked)]
        unsafe extern "C" fn land_with_stack() {
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
                this = sym land_with_stack,
                end = sym end,
            )
        }
    };
}

/// Defines `entries`, a row of entries that each call the function of their slot in the array `SLOTS`, and hand an exception that comes out
/// of it to the function `end` beside them; `ENTRY` bytes each, with `REGISTERS` words of arguments outside the stack.
#[macro_export]
#[doc(hidden)]
macro_rules! guard_frames {
    () => {
        /// The words that the registers for arguments hold.
        const REGISTERS: usize = 4;

        /// The bytes of one of the [`entries`].
        const ENTRY: usize = 12;

        /// Decides for [`frame`] what an exception does there: it goes no further, but to [`land`].
        unsafe extern "C-unwind" fn handler(
            record: *mut $crate::os::exceptions::Record,
            frame: *mut ::std::ffi::c_void,
            context: *mut ::std::ffi::c_void,
            dispatcher: *mut $crate::os::exceptions::Dispatcher,
        ) -> ::std::ffi::c_int {
            // SAFETY: the arguments are those that the system called this function with.
            unsafe { $crate::os::exceptions::stop(record, frame, context, dispatcher, land as *const ()) }
        }

        /// The entries: each goes to [`frame`] with its own address in a register that no argument has.
        #[unsafe(naked)]
        unsafe extern "C" fn entries() {
            core::arch::naked_asm!(
                ".rept {count}",
                // lea r11, [rip - 7], and a jump of 32 bits: 12 bytes, whatever the distance.
                ".byte 0x4c, 0x8d, 0x1d",
                ".long -7",
                ".byte 0xe9",
                ".long {frame} - . - 4",
                ".endr",
                count = const COUNT,
                frame = sym frame,
            )
        }

        /// Calls the function of an entry with the registers and the words on the stack that this was called with.
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

        /// Goes on in [`frame`] after its call, with the exception in the register of a result.
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
