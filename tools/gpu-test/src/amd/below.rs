//! Records AMD's libraries' own calls of the HIP runtime during an execution.
//!
//! MIOpen, rocBLAS and hipBLASLt are linked with the HIP runtime. The loader searches this program first and finds the functions
//! below. They record calls that a stream capture does not allow, and the stream of work, and then jump to the runtime.

use std::arch::global_asm;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The position of a HIP function's stream argument.
#[derive(Clone, Copy)]
enum Stream {
    /// None: it waits, allocates or loads kernels.
    Absent,
    /// Among the first six arguments.
    Register(usize),
    /// Among the others, counted from the return address.
    Stack(usize),
}
use Stream::{Absent, Register, Stack};

/// Defines HIP functions, each of which passes its number.
macro_rules! functions {
    ($($name:ident $stream:expr;)+) => {
        const FUNCTIONS: &[(&str, Stream)] = &[$((stringify!($name), $stream)),+];
        static ADDRESSES: [AtomicUsize; FUNCTIONS.len()] = [const { AtomicUsize::new(0) }; FUNCTIONS.len()];
        global_asm!(
            ".set gpu_test_below_number, 0",
            $(concat!(".globl ", stringify!($name)),
            concat!(".type ", stringify!($name), ", @function"),
            concat!(stringify!($name), ":"),
            "movl $gpu_test_below_number, %r11d",
            "jmp gpu_test_below",
            ".set gpu_test_below_number, gpu_test_below_number + 1",)+
            // The shared part preserves the argument registers, and jumps to the address that `below` returns.
            "gpu_test_below:",
            "pushq %rbp",
            "movq %rsp, %rbp",
            "subq $48, %rsp",
            "movq %rdi, -48(%rbp)",
            "movq %rsi, -40(%rbp)",
            "movq %rdx, -32(%rbp)",
            "movq %rcx, -24(%rbp)",
            "movq %r8, -16(%rbp)",
            "movq %r9, -8(%rbp)",
            "movq %r11, %rdi",
            "leaq -48(%rbp), %rsi",
            "leaq 8(%rbp), %rdx",
            "call {below}",
            "movq %rax, %r11",
            "movq -48(%rbp), %rdi",
            "movq -40(%rbp), %rsi",
            "movq -32(%rbp), %rdx",
            "movq -24(%rbp), %rcx",
            "movq -16(%rbp), %r8",
            "movq -8(%rbp), %r9",
            "leave",
            "jmp *%r11",
            below = sym below,
            options(att_syntax)
        );
    };
}

// The HIP functions that the three libraries import, except queries of devices, errors and memory.
functions! {
    hipMalloc Absent;
    hipMallocAsync Absent;
    hipFree Absent;
    hipFreeAsync Absent;
    hipHostMalloc Absent;
    hipHostFree Absent;
    hipMemcpy Absent;
    hipMemcpy2D Absent;
    hipMemcpyWithStream Absent;
    hipMemset Absent;
    hipModuleLoad Absent;
    hipModuleLoadData Absent;
    hipModuleUnload Absent;
    hipDeviceSynchronize Absent;
    hipStreamSynchronize Absent;
    hipStreamQuery Absent;
    hipStreamCreateWithFlags Absent;
    hipStreamDestroy Absent;
    hipEventSynchronize Absent;
    hipEventElapsedTime Absent;
    hipEventRecord Register(1);
    hipStreamWaitEvent Register(0);
    hipMemsetAsync Register(3);
    hipMemcpyAsync Register(4);
    hipMemcpy2DAsync Stack(2);
    hipLaunchKernel Stack(2);
    hipExtModuleLaunchKernel Stack(3);
    hipModuleLaunchKernel Stack(3);
    hipModuleLaunchCooperativeKernel Stack(3);
}

/// The recorded calls.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How often work was put on a stream.
    pub work: usize,
    /// Calls that put no work there, and those for a stream other than the watched one.
    pub others: Vec<&'static str>,
    stream: usize,
}

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

/// Begins recording calls, with this stream as the expected one.
pub fn watch(stream: *mut c_void) {
    let seen = Seen { stream: stream.expose_provenance(), ..Seen::default() };
    *SEEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
}

/// The calls recorded since [`watch`].
pub fn take() -> Seen {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
}

/// Records a call. Returns the address to continue at.
///
/// # Safety
/// `stack` is where the return address of a call of this function is.
unsafe extern "C" fn below(number: usize, registers: &[usize; 6], stack: *const usize) -> usize {
    let Some((name, stream)) = FUNCTIONS.get(number).copied() else { std::process::abort() };
    if let Some(seen) = SEEN.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        // SAFETY: the stack has the return address, and above it the arguments that are not in registers.
        let (caller, stream) = unsafe {
            let stream = match stream {
                Absent => None,
                Register(place) => registers.get(place).copied(),
                Stack(place) => Some(*stack.add(place)),
            };
            (*stack, stream)
        };
        // Ignore the runtime's calls of itself.
        if !is_runtime(caller) {
            match stream {
                Some(stream) if stream == seen.stream => seen.work += 1,
                _ => seen.others.push(name),
            }
        }
    }
    let address = ADDRESSES.get(number).map_or(0, |address| match address.load(Ordering::Relaxed) {
        0 => {
            let found = real(name);
            address.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    });
    if address == 0 {
        eprintln!("gpu-test: the HIP runtime has no {name}");
        std::process::abort();
    }
    address
}

/// The address of a runtime function; 0 if missing.
fn real(name: &str) -> usize {
    let Ok(name) = CString::new(name) else { return 0 };
    for library in [c"libamdhip64.so.7", c"libamdhip64.so.6", c"libamdhip64.so.5"] {
        // SAFETY: the texts are NUL terminated, and the library is already open, since its functions are called.
        let found = unsafe {
            let library = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if library.is_null() { continue } else { libc::dlsym(library, name.as_ptr()) }
        };
        if !found.is_null() {
            return found.expose_provenance();
        }
    }
    0
}

/// Whether an address is in the runtime's code.
fn is_runtime(address: usize) -> bool {
    // SAFETY: a struct of pointers, which may be null.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the function takes any address, and writes only to the local `info`.
    let found = unsafe { libc::dladdr(std::ptr::with_exposed_provenance(address), &mut info) } != 0;
    if !found || info.dli_fname.is_null() {
        return false;
    }
    // SAFETY: the name of an open library is NUL terminated.
    unsafe { std::ffi::CStr::from_ptr(info.dli_fname) }.to_string_lossy().contains("libamdhip64")
}
