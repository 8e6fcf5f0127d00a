//! Gates between the engines and the libraries of AMD and NVIDIA: record every call, and can make any call fail.
//!
//! The plugins find their functions with `dlsym`, which the loader resolves to this program's. It returns gates (only to the
//! plugins): a few instructions that pass the number of a function through [`enter`] and [`leave`]. Calls between the libraries
//! are not recorded.

use std::arch::{global_asm, naked_asm};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The maximum number of gates.
const GATES: usize = 512;
/// Bytes from one gate to the next.
const GATE_SIZE: usize = 16;

// Each gate passes its number. The shared part preserves the argument registers, calls `enter`, calls the function with a copy of
// the stack arguments (24 of them, more than any function has), and passes the result to `leave`.
global_asm!(
    ".set gpu_test_gate_number, 0",
    ".p2align 4",
    ".globl gpu_test_gates",
    ".hidden gpu_test_gates",
    "gpu_test_gates:",
    ".rept {gates}",
    ".p2align 4",
    "movl $gpu_test_gate_number, %r11d",
    "jmp gpu_test_gate",
    ".set gpu_test_gate_number, gpu_test_gate_number + 1",
    ".endr",
    "gpu_test_gate:",
    "pushq %rbp",
    "movq %rsp, %rbp",
    "subq $192, %rsp",
    "movups %xmm0, -192(%rbp)",
    "movups %xmm1, -176(%rbp)",
    "movups %xmm2, -160(%rbp)",
    "movups %xmm3, -144(%rbp)",
    "movups %xmm4, -128(%rbp)",
    "movups %xmm5, -112(%rbp)",
    "movups %xmm6, -96(%rbp)",
    "movups %xmm7, -80(%rbp)",
    "movq %rdi, -64(%rbp)",
    "movq %rsi, -56(%rbp)",
    "movq %rdx, -48(%rbp)",
    "movq %rcx, -40(%rbp)",
    "movq %r8, -32(%rbp)",
    "movq %r9, -24(%rbp)",
    "movq %r11, -16(%rbp)",
    "movq %r11, %rdi",
    "leaq -64(%rbp), %rsi",
    "call {enter}",
    "movq %rdx, -8(%rbp)",
    "testq %rax, %rax",
    "jz 3f",
    "movq %rax, %r11",
    "subq $192, %rsp",
    "xorl %ecx, %ecx",
    "2:",
    "movq 16(%rbp,%rcx,8), %rax",
    "movq %rax, (%rsp,%rcx,8)",
    "incq %rcx",
    "cmpq $24, %rcx",
    "jne 2b",
    "movups -192(%rbp), %xmm0",
    "movups -176(%rbp), %xmm1",
    "movups -160(%rbp), %xmm2",
    "movups -144(%rbp), %xmm3",
    "movups -128(%rbp), %xmm4",
    "movups -112(%rbp), %xmm5",
    "movups -96(%rbp), %xmm6",
    "movups -80(%rbp), %xmm7",
    "movq -64(%rbp), %rdi",
    "movq -56(%rbp), %rsi",
    "movq -48(%rbp), %rdx",
    "movq -40(%rbp), %rcx",
    "movq -32(%rbp), %r8",
    "movq -24(%rbp), %r9",
    "call *%r11",
    "movq -16(%rbp), %rdi",
    "leaq -64(%rbp), %rsi",
    "movq %rax, %rdx",
    "movq -8(%rbp), %rcx",
    "call {leave}",
    "leave",
    "ret",
    "3:",
    "movq %rdx, %rax",
    "leave",
    "ret",
    gates = const GATES,
    enter = sym enter,
    leave = sym leave,
    options(att_syntax)
);

unsafe extern "C" {
    fn gpu_test_gates();
}

/// A function behind a gate.
#[derive(Clone, Copy)]
struct Function {
    name: &'static str,
    address: usize,
    /// The file of the plugin that calls it.
    plugin: &'static str,
}

/// The variable with the names of functions to hide from the plugins, separated by spaces.
pub const HIDDEN: &str = "AMD_TEST_HIDDEN";

/// The call to fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fail {
    /// None.
    #[default]
    Nothing,
    /// The call after so many others.
    Call(usize),
    /// The first call of this function.
    Function(&'static str),
}

/// `CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR`
const EXECUTION_PLAN: usize = 5;

/// The name under which creating a cuDNN execution plan is recorded.
pub const PLAN: &str = "cudnnBackendCreateDescriptor of an execution plan";

/// A call of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub name: &'static str,
    /// The argument registers. Those beyond the function's arguments are meaningless.
    pub arguments: [usize; 6],
}

/// A record of calls.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The calls in order, without those that only return error texts.
    pub calls: Vec<Call>,
    /// The call that was made to fail.
    pub failed: Option<&'static str>,
    /// The last error text of the library whose call was made to fail.
    pub words: Option<String>,
    /// Live objects and memory, with the functions that created them.
    pub alive: HashMap<usize, &'static str>,
    /// Destroy calls for objects that were not alive.
    pub strangers: Vec<&'static str>,
    fail: Fail,
    /// Part of the plugin's file name.
    plugin: &'static str,
    /// The number of the record, from 1.
    number: usize,
}

/// A live object.
#[derive(Clone, Copy)]
struct Made {
    /// The function that made it.
    by: &'static str,
    /// The file of the plugin that called it.
    plugin: &'static str,
    /// The number of the record at that time.
    record: usize,
}

static FUNCTIONS: Mutex<Vec<Function>> = Mutex::new(Vec::new());
static RECORD: Mutex<Option<Record>> = Mutex::new(None);
/// All live objects, whether calls were recorded at their creation or not.
static ALIVE: Mutex<BTreeMap<usize, Made>> = Mutex::new(BTreeMap::new());
static RECORDS: AtomicUsize = AtomicUsize::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins recording the calls of an engine's plugin; may make one of them fail.
pub fn record(engine: &str, fail: Fail) {
    let plugins = [
        ("MIOPEN", "miopen"),
        ("HIPRTC", "rtc"),
        ("NVRTC", "rtc"),
        ("HIPBLASLT", "blaslt"),
        ("CUDNN", "cudnn"),
        ("CUBLASLT", "cudnn"),
    ];
    let plugin =
        plugins.iter().find(|(prefix, _)| engine.starts_with(prefix)).map_or("", |(_, plugin)| plugin);
    let number = 1 + RECORDS.fetch_add(1, Ordering::Relaxed);
    *lock(&RECORD) = Some(Record { fail, plugin, number, ..Record::default() });
}

/// The number of calls recorded so far.
pub fn count() -> usize {
    lock(&RECORD).as_ref().map_or(0, |record| record.calls.len())
}

/// The calls after the first `count`.
pub fn since(count: usize) -> Vec<Call> {
    let record = lock(&RECORD);
    record.as_ref().and_then(|record| record.calls.get(count..)).unwrap_or_default().to_vec()
}

/// The calls recorded since [`record`].
pub fn take() -> Record {
    let mut record = lock(&RECORD).take().unwrap_or_default();
    let of_record = |made: &Made| made.record == record.number && made.plugin.contains(record.plugin);
    let alive = lock(&ALIVE);
    record.alive =
        alive.iter().filter(|(_, made)| of_record(made)).map(|(place, made)| (*place, made.by)).collect();
    record
}

/// The result of `enter`: the function to call, null for none, and the result to return instead, 0 for the function's own.
#[repr(C)]
struct Permission {
    function: usize,
    result: usize,
}

/// Whether a function returns an error text.
fn is_text(name: &str) -> bool {
    let ends = |word| name.ends_with(word);
    (ends("GetErrorString") && !name.starts_with("cuGet"))
        || ends("GetStatusName")
        || name == "rocblas_status_to_string"
}

/// The library of a function, by its prefix.
fn library(name: &str) -> &'static str {
    let prefixes = ["hiprtc", "hipblas", "hip", "miopen", "rocblas", "nvrtc", "cudnn", "cublas", "cu"];
    prefixes.into_iter().find(|prefix| name.starts_with(prefix)).unwrap_or_default()
}

/// Whether a function returns or clears error texts, or returns a number other than a status.
fn gives_words(name: &str) -> bool {
    is_text(name)
        || ["GetLastError", "ProgramLog", "cuGetError", "cudnnGetVersion"]
            .iter()
            .any(|word| name.contains(word))
}

/// Whether a function destroys an object.
pub fn ends(name: &str) -> bool {
    ["Destroy", "Unload", "_destroy_"].iter().any(|word| name.contains(word))
        || ["hipFree", "cuMemFree_v2"].contains(&name)
}

/// Whether a function creates one object and writes its address to its first argument, or to the second one for cuDNN's descriptors.
pub fn makes(name: &str) -> bool {
    ["Create", "LoadSolution", "ModuleLoadData", "_create_"].iter().any(|word| name.contains(word))
        || ["hipMalloc", "cuMemAlloc_v2"].contains(&name)
}

/// An error status of a function's library that has no special meaning for engines.
fn error_of(name: &str) -> usize {
    match name {
        // hipErrorLaunchFailure
        _ if name.starts_with("hip") && !name.starts_with("hiprtc") && !name.starts_with("hipblas") => 719,
        // HIPRTC_ERROR_INTERNAL_ERROR, NVRTC_ERROR_INTERNAL_ERROR
        _ if name.starts_with("hiprtc") || name.starts_with("nvrtc") => 11,
        // HIPBLAS_STATUS_INTERNAL_ERROR
        _ if name.starts_with("hipblas") => 6,
        // rocblas_status_internal_error
        _ if name.starts_with("rocblas") => 6,
        // CUDNN_STATUS_INTERNAL_ERROR
        _ if name.starts_with("cudnn") => 4000,
        // CUBLAS_STATUS_INTERNAL_ERROR
        _ if name.starts_with("cublas") => 14,
        // CUDA_ERROR_LAUNCH_FAILED
        _ if name.starts_with("cu") => 719,
        // miopenStatusUnknownError
        _ => 7,
    }
}

extern "C" fn enter(number: usize, arguments: &[usize; 6]) -> Permission {
    let Some(Function { name, address, plugin }) = lock(&FUNCTIONS).get(number).copied() else {
        return Permission { function: 0, result: usize::MAX };
    };
    let mut permission = Permission { function: address, result: 0 };
    let mut record = lock(&RECORD);
    if let Some(record) =
        record.as_mut().filter(|record| plugin.contains(record.plugin) && !gives_words(name))
    {
        let fails = match record.fail {
            Fail::Nothing => false,
            Fail::Call(number) => number == record.calls.len(),
            Fail::Function(function) => function == name && record.failed.is_none(),
        };
        if fails {
            record.failed = Some(name);
            permission.result = error_of(name);
            // A failing destroy call still destroys the object, which would otherwise leak.
            if !ends(name) {
                permission.function = 0;
            }
        }
        record.calls.push(Call { name, arguments: *arguments });
    }
    permission
}

/// # Safety
/// `arguments` are the six in registers of a call that the function returned from.
unsafe extern "C" fn leave(number: usize, arguments: &[usize; 6], result: usize, instead: usize) -> usize {
    let Some(Function { name, plugin, .. }) = lock(&FUNCTIONS).get(number).copied() else { return result };
    let mut record = lock(&RECORD);
    let mut record = record.as_mut().filter(|record| plugin.contains(record.plugin));
    let [first, second, _, fourth, fifth, _] = *arguments;
    let pointer = |at: usize| std::ptr::with_exposed_provenance::<usize>(at);
    let succeeded = result as u32 == 0;
    let made = Made { by: name, plugin, record: record.as_ref().map_or(0, |record| record.number) };
    let text = match name {
        // SAFETY: the call succeeded, so it wrote the text's address.
        "cuGetErrorString" if succeeded => unsafe { *pointer(second) },
        _ if is_text(name) => result,
        _ => 0,
    };
    if text != 0 {
        // SAFETY: the texts are NUL terminated and static.
        let words = unsafe { CStr::from_ptr(pointer(text).cast()) }.to_string_lossy().into_owned();
        // Ignore other libraries' texts: a HIP runtime without a device reports an error on every search.
        if let Some(record) = &mut record
            && record.failed.is_none_or(|failed| library(failed) == library(name))
        {
            record.words = Some(words);
        }
    } else if succeeded && name == "miopenFindSolutions" {
        // SAFETY: the call succeeded, so it wrote the count and that many solutions.
        unsafe {
            for place in 0..*pointer(fifth) {
                lock(&ALIVE).insert(*pointer(fourth).add(place), made);
            }
        }
    } else if succeeded && makes(name) {
        let place = if name == "cudnnBackendCreateDescriptor" { second } else { first };
        let by = if name == "cudnnBackendCreateDescriptor" && first == EXECUTION_PLAN { PLAN } else { name };
        // SAFETY: the call succeeded, so it wrote the object's address.
        lock(&ALIVE).insert(unsafe { *pointer(place) }, Made { by, ..made });
    } else if succeeded && ends(name) {
        let mut alive = lock(&ALIVE);
        match name.strip_suffix("DestroyProgram") {
            // Takes the address of the object's pointer, and clears the pointer.
            Some(compiler) => {
                alive.retain(|_, made| made.by.strip_suffix("CreateProgram") != Some(compiler));
            }
            None if alive.remove(&first).is_none() => {
                if let Some(record) = &mut record {
                    record.strangers.push(name);
                }
            }
            None => {}
        }
    }
    if instead == 0 { result } else { instead }
}

/// The C library's `dlsym`.
type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// # Safety
/// As for the C library's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!("mov rdx, [rsp]", "jmp {find}", find = sym find)
}

/// # Safety
/// As for the C library's `dlsym`. `caller` is an address of the code that calls it.
unsafe extern "C" fn find(library: *mut c_void, name: *const c_char, caller: *const c_void) -> *mut c_void {
    static REAL: OnceLock<Option<Dlsym>> = OnceLock::new();
    let real = REAL.get_or_init(|| {
        // SAFETY: both texts are NUL terminated, and the C library has this version of the function with this type.
        unsafe {
            let found = libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr());
            std::mem::transmute::<*mut c_void, Option<Dlsym>>(found)
        }
    });
    let Some(real) = real else { return std::ptr::null_mut() };
    // SAFETY: the library and the name are what `dlsym` takes, as this function requires.
    let found = unsafe { real(library, name) };
    if found.is_null() {
        return found;
    }
    let Some(plugin) = plugin(caller) else { return found };
    // SAFETY: the C library has just read the name.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let hidden = std::env::var(HIDDEN).unwrap_or_default();
    if hidden.split(' ').any(|hidden| hidden == name) {
        return std::ptr::null_mut();
    }
    if !["hip", "miopen", "rocblas", "cu", "nvrtc"].iter().any(|prefix| name.starts_with(prefix)) {
        return found;
    }
    let mut functions = lock(&FUNCTIONS);
    let address = found.expose_provenance();
    let known = functions.iter().position(|known| known.address == address && known.plugin == plugin);
    let number = known.unwrap_or_else(|| {
        functions.push(Function { name: name.into_owned().leak(), address, plugin: plugin.leak() });
        functions.len() - 1
    });
    if number < GATES { (gpu_test_gates as *mut c_void).wrapping_byte_add(number * GATE_SIZE) } else { found }
}

/// The file of the engine plugin that contains this address.
fn plugin(address: *const c_void) -> Option<String> {
    // SAFETY: a struct of pointers, which may be null.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the function takes any address, and writes only to the local `info`.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name of an open library is NUL terminated.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned();
    let file = path.rsplit('/').next().unwrap_or_default();
    file.ends_with("_plugin.so").then(|| file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::library;

    #[test]
    fn an_error_text_is_that_of_its_library() {
        for (function, text) in [
            ("cuMemAlloc_v2", "cuGetErrorString"),
            ("cudnnBackendFinalize", "cudnnGetErrorString"),
            ("cublasLtMatmul", "cublasLtGetStatusName"),
            ("nvrtcCompileProgram", "nvrtcGetErrorString"),
            ("hipModuleLoadData", "hipGetErrorString"),
            ("hiprtcCompileProgram", "hiprtcGetErrorString"),
            ("miopenFindSolutions", "miopenGetErrorString"),
            ("rocblas_gemm_ex", "rocblas_status_to_string"),
        ] {
            assert_eq!(library(function), library(text));
        }
        assert_ne!(library("cuCtxGetCurrent"), library("hipGetErrorString"));
        assert_ne!(library("cuCtxGetCurrent"), library("cudnnGetErrorString"));
    }
}
