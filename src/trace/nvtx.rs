//! The client side of NVTX 3, which is a header without a library: each program and library that marks ranges gets its functions
//! from the profiler.
//!
//! `NVTX_INJECTION64_PATH`, which Nsight sets, names the profiler's library. We pass its `InitializeInjectionNvtx2` a function that
//! returns tables by number; one of them gives the addresses of function pointers, which the profiler fills in.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use hipdnn_plugin_sdk::dynlib::guard;
use hipdnn_plugin_sdk::{environment, function_table};

use super::profiler::Profiler;
use crate::lock::OnceLock;
use crate::log;

function_table! {
    /// A profiler's library.
    #[expect(non_snake_case, reason = "the name of NVTX")]
    struct Injection: "a profiler", ["NVTX_INJECTION64_PATH"] {
        required {
            fn InitializeInjectionNvtx2(get: ExportTable) -> c_int;
        }
        optional {}
    }
}

/// `NvtxGetExportTableFunc_t`
type ExportTable = unsafe extern "C" fn(number: u32) -> *const c_void;

/// `NVTX_ETID_CALLBACKS` and `NVTX_ETID_VERSIONINFO`
const CALLBACKS: u32 = 1;
const VERSION: u32 = 3;

/// `NvtxExportTableCallbacks`
#[repr(C)]
struct Callbacks {
    size: usize,
    functions: unsafe extern "C" fn(module: c_int, table: *mut *const Place, count: *mut c_uint) -> c_int,
}

/// `NvtxExportTableVersionInfo`
#[repr(C)]
struct Version {
    size: usize,
    version: u32,
    reserved: u32,
    set_profilers_version: unsafe extern "C" fn(version: u32),
}

/// A function pointer that a profiler fills in, and its address.
type Function = AtomicPtr<()>;
type Place = AtomicPtr<Function>;

/// A module's function pointers: one for each function number from 1 on, ended by a null.
struct Module {
    /// `NVTX_CBID_…_SIZE`
    count: usize,
    functions: [Function; MOST],
    places: [Place; MOST + 1],
}

/// No module has more.
const MOST: usize = 16;

/// Modules 1 to 6: core, CUDA, OpenCL, CUDA runtime, domains, synchronization. Profilers ask for all; ranges are in the first.
static MODULES: [Module; 6] =
    [Module::new(16), Module::new(9), Module::new(15), Module::new(7), Module::new(16), Module::new(7)];

/// `NVTX_CBID_CORE_RangePushA` and `NVTX_CBID_CORE_RangePop`
const RANGE_PUSH: usize = 9;
const RANGE_POP: usize = 11;

static CALLBACK_TABLE: Callbacks = Callbacks { size: size_of::<Callbacks>(), functions };
static VERSION_TABLE: Version =
    Version { size: size_of::<Version>(), version: 3, reserved: 0, set_profilers_version };

impl Module {
    const fn new(count: usize) -> Self {
        let places = [const { AtomicPtr::new(null_mut()) }; MOST + 1];
        Self { count, functions: [const { AtomicPtr::new(null_mut()) }; MOST], places }
    }

    fn fill(&'static self) -> *const Place {
        for (place, function) in self.places.iter().zip(&self.functions).take(self.count).skip(1) {
            place.store((&raw const *function).cast_mut(), Ordering::Relaxed);
        }
        self.places.as_ptr()
    }

    /// The entry for a function that the profiler has written.
    fn entry(&self, number: usize, arguments: usize) -> Option<*const ()> {
        let function = self.functions.get(number)?.load(Ordering::Acquire);
        if function.is_null() {
            None
        } else {
            guard::entry(function, arguments, guard::THREW as u32 as usize)
        }
    }
}

/// Tables that live for ever.
extern "C" fn export_table(number: u32) -> *const c_void {
    match number {
        CALLBACKS => (&raw const CALLBACK_TABLE).cast(),
        VERSION => (&raw const VERSION_TABLE).cast(),
        _ => std::ptr::null(),
    }
}

/// # Safety
/// `table` and `count` are null or writable.
unsafe extern "C" fn functions(module: c_int, table: *mut *const Place, count: *mut c_uint) -> c_int {
    let place = usize::try_from(module).ok().and_then(|number| number.checked_sub(1));
    let Some(module) = place.and_then(|place| MODULES.get(place)) else { return 0 };
    // SAFETY: the profiler passes null or writable pointers.
    unsafe {
        if let Some(table) = table.as_mut() {
            *table = module.fill();
        }
        if let Some(count) = count.as_mut() {
            *count = module.count as c_uint;
        }
    }
    1
}

extern "C" fn set_profilers_version(_: u32) {}

/// The range functions of the profiler that the process runs under.
pub fn profiler() -> Option<&'static Profiler> {
    static FOUND: OnceLock<Option<(Profiler, Injection)>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref().map(|(profiler, _)| profiler)
}

fn find() -> Option<(Profiler, Injection)> {
    let path = environment::path("NVTX_INJECTION64_PATH")?.into_string().ok()?;
    let injection = match Injection::load_from(&[path.as_str()]) {
        Ok(injection) => injection,
        Err(error) => {
            log::warn(|| format!("NVTX_INJECTION64_PATH {path}: {error}; there are no ranges of NVTX"));
            return None;
        }
    };
    // SAFETY: the function returns tables as NVTX defines them.
    let answer = unsafe { (injection.InitializeInjectionNvtx2)(export_table) };
    if let Some(words) = guard::thrown("InitializeInjectionNvtx2", answer) {
        log::warn(|| format!("NVTX_INJECTION64_PATH {path}: {words}"));
        return None;
    }
    let [core, ..] = &MODULES;
    let (push, pop) = (core.entry(RANGE_PUSH, 1), core.entry(RANGE_POP, 0));
    let (push, pop) = push.zip(pop).filter(|_| answer != 0)?;
    // SAFETY: the profiler wrote functions of these types.
    let profiler = unsafe {
        Profiler {
            push: std::mem::transmute::<*const (), unsafe extern "C" fn(*const c_char) -> c_int>(push),
            pop: std::mem::transmute::<*const (), unsafe extern "C" fn() -> c_int>(pop),
        }
    };
    Some((profiler, injection))
}
