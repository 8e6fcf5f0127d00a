//! Loaded device code, and launching its kernels.

use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

use hipdnn_plugin_sdk::cuda::Cuda;
use hipdnn_plugin_sdk::{PluginError, Refusal, function_table};

use crate::hip;

/// ELF machine number of AMD GPUs.
const AMDGPU: usize = 224;
/// ELF machine number of NVIDIA GPUs.
const CUDA: usize = 190;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;

function_table! {
    /// The function of the CUDA driver that only kernels with much shared memory need.
    #[expect(non_snake_case, reason = "the names of CUDA")]
    struct CudaFunctions: "the CUDA driver", ["libcuda.so.1"] {
        required {
            /// Sets an attribute of a kernel.
            fn cuFuncSetAttribute(function: *mut c_void, attribute: c_int, value: c_int) -> c_int;
        }
        optional {}
    }
}

fn cuda_functions(cuda: &'static Cuda) -> Result<&'static CudaFunctions, Refusal> {
    static FUNCTIONS: OnceLock<CudaFunctions> = OnceLock::new();
    match FUNCTIONS.get() {
        Some(functions) => Ok(functions),
        None => {
            let functions = CudaFunctions::load_from(&[cuda.library().name()])?;
            Ok(FUNCTIONS.get_or_init(|| functions))
        }
    }
}

/// Loads code and launches kernels.
#[derive(Clone, Copy, Debug)]
pub enum Driver {
    /// The HIP runtime.
    Hip(hip::Runtime),
    /// The CUDA driver.
    Cuda(&'static Cuda),
}

/// Code that stays loaded until this is dropped.
#[derive(Debug)]
pub struct Module {
    driver: Driver,
    module: *mut c_void,
}

// SAFETY: code belongs to a device, not to a thread.
unsafe impl Send for Module {}
// SAFETY: once it is loaded, nothing changes it.
unsafe impl Sync for Module {}

/// A kernel, which lives as long as its module.
#[derive(Clone, Copy, Debug)]
pub struct Function(*mut c_void);

// SAFETY: a function is an address in its module, which belongs to a device, not to a thread.
unsafe impl Send for Function {}
// SAFETY: once its module is loaded, nothing changes it.
unsafe impl Sync for Function {}

impl Module {
    /// Loads code onto the thread's device.
    ///
    /// # Errors
    /// When the bytes are not a complete code object, and the driver's, for instance if it is for another
    /// device.
    pub fn load(driver: Driver, code: &[u8]) -> Result<Self, PluginError> {
        let machine = match driver {
            Driver::Hip(_) => AMDGPU,
            Driver::Cuda(_) => CUDA,
        };
        if !is_whole(code, machine) {
            return Err(PluginError::invalid_value(format!(
                "{} bytes are not a complete code object",
                code.len()
            )));
        }
        let mut module = ptr::null_mut();
        let image = code.as_ptr().cast();
        // SAFETY: the functions write only to the local `module`. The driver finds the end of a code object by the tables checked above.
        unsafe {
            match driver {
                Driver::Hip(runtime) => {
                    runtime.hip.check(
                        "hipModuleLoadData",
                        (runtime.modules.hipModuleLoadData)(&mut module, image),
                    )?;
                }
                Driver::Cuda(cuda) => {
                    cuda.check("cuModuleLoadData", (cuda.cuModuleLoadData)(&mut module, image))?;
                }
            }
        }
        Ok(Self { driver, module })
    }

    /// The kernel of this name, to be launched with this many bytes of shared memory that it does not declare.
    ///
    /// # Errors
    /// The driver's, if there is none or it may not have so much memory.
    pub fn function(&self, name: &str, shared: usize) -> Result<Function, PluginError> {
        let name = CString::new(name).map_err(|_| PluginError::internal("the name of a kernel has a NUL"))?;
        let mut function = ptr::null_mut();
        // SAFETY: the functions write only to the local `function`, and the name ends with a NUL; the attribute is of the kernel that was
        // found.
        unsafe {
            match self.driver {
                Driver::Hip(runtime) => {
                    let get = runtime.modules.hipModuleGetFunction;
                    runtime
                        .hip
                        .check("hipModuleGetFunction", get(&mut function, self.module, name.as_ptr()))?;
                }
                Driver::Cuda(cuda) => {
                    let get = cuda.cuModuleGetFunction;
                    cuda.check("cuModuleGetFunction", get(&mut function, self.module, name.as_ptr()))?;
                    if shared > 0 {
                        let set = cuda_functions(cuda)?.cuFuncSetAttribute;
                        let size = c_int::try_from(shared).unwrap_or(c_int::MAX);
                        cuda.check("cuFuncSetAttribute", set(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, size))?;
                    }
                }
            }
        }
        Ok(Function(function))
    }
}

/// Whether bytes are an ELF file for this machine whose tables and contents are within bounds. The driver is
/// not told the size, so it must not be led beyond it.
fn is_whole(code: &[u8], machine: usize) -> bool {
    // The section type without contents in the file.
    const NO_BITS: usize = 8;
    let number = |at: usize, bytes: usize| {
        let field = code.get(at..at.checked_add(bytes)?)?;
        let mut number = [0; 8];
        number.get_mut(..bytes)?.copy_from_slice(field);
        usize::try_from(u64::from_le_bytes(number)).ok()
    };
    let inside = |begin: usize, size: usize| begin.checked_add(size).is_some_and(|end| end <= code.len());
    // Offset of the table in the header; minimum size of an entry; where an entry has its contents' offset
    // and size.
    let table = |place: usize, counts: usize, least: usize, contents: [usize; 2], kind: Option<usize>| {
        let (begin, size, count) = (number(place, 8)?, number(counts, 2)?, number(counts + 2, 2)?);
        let whole = inside(begin, size.checked_mul(count)?)
            && (count == 0 || size >= least)
            && (0..count).all(|entry| {
                let entry = begin + entry * size;
                let [at, bytes] = contents.map(|field| number(entry + field, 8));
                let is_empty = kind.is_some_and(|kind| number(entry + kind, 4) == Some(NO_BITS));
                is_empty || at.zip(bytes).is_some_and(|(at, bytes)| inside(at, bytes))
            });
        Some(whole)
    };
    code.starts_with(b"\x7fELF\x02\x01")
        && number(18, 2) == Some(machine)
        && table(32, 54, 56, [8, 32], None) == Some(true)
        && table(40, 58, 64, [24, 32], Some(4)) == Some(true)
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: this value owns the module. Failures are ignored.
        unsafe {
            match self.driver {
                Driver::Hip(runtime) => (runtime.modules.hipModuleUnload)(self.module),
                Driver::Cuda(cuda) => (cuda.cuModuleUnload)(self.module),
            }
        };
    }
}

impl Driver {
    /// Launches a kernel on a stream of the thread's device: workgroups across and down, threads of each and bytes of shared
    /// memory that it does not declare.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The function's module is loaded; each parameter points to an argument of the kernel's type, and what
    /// the arguments point to stays valid until the kernel is done.
    pub unsafe fn launch(
        &self,
        function: Function,
        [across, down]: [u32; 2],
        [block, shared]: [u32; 2],
        stream: *mut c_void,
        parameters: &mut [*mut c_void],
    ) -> Result<(), PluginError> {
        const ONE: c_uint = 1;
        let parameters = parameters.as_mut_ptr();
        // Both functions have the same arguments.
        macro_rules! launch {
            ($launch:expr) => {
                // SAFETY: this function requires the function and its arguments, which the driver copies before it returns.
                unsafe {
                    $launch(
                        function.0,
                        across,
                        down,
                        ONE,
                        block,
                        ONE,
                        ONE,
                        shared,
                        stream,
                        parameters,
                        ptr::null_mut(),
                    )
                }
            };
        }
        match self {
            Self::Hip(runtime) => {
                let answer = launch!((runtime.modules.hipModuleLaunchKernel));
                Ok(runtime.hip.check("hipModuleLaunchKernel", answer)?)
            }
            Self::Cuda(cuda) => Ok(cuda.check("cuLaunchKernel", launch!((cuda.cuLaunchKernel)))?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with a program header and a section that both describe the same 16 bytes.
    fn code_object() -> Vec<u8> {
        let mut code = vec![0_u8; 64 + 56 + 64 + 16];
        let mut put = |at: usize, bytes: &[u8]| code[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"\x7fELF\x02\x01");
        put(18, &224_u16.to_le_bytes());
        put(32, &64_u64.to_le_bytes());
        put(40, &120_u64.to_le_bytes());
        put(54, &56_u16.to_le_bytes());
        put(56, &1_u16.to_le_bytes());
        put(58, &64_u16.to_le_bytes());
        put(60, &1_u16.to_le_bytes());
        for at in [64 + 8, 120 + 24] {
            put(at, &184_u64.to_le_bytes());
        }
        for at in [64 + 32, 120 + 32] {
            put(at, &16_u64.to_le_bytes());
        }
        code
    }

    #[test]
    fn code_objects_beyond_their_end_are_rejected() {
        let whole = code_object();
        assert!(is_whole(&whole, AMDGPU));
        for size in 0..whole.len() {
            assert!(!is_whole(&whole[..size], AMDGPU), "{size}");
        }
        // Offsets and sizes beyond the end, some so large that sums overflow.
        for at in [32, 40, 64 + 8, 64 + 32, 120 + 24, 120 + 32] {
            for value in [whole.len() as u64, u64::MAX, u64::MAX - 15] {
                let mut damaged = whole.clone();
                damaged[at..at + 8].copy_from_slice(&value.to_le_bytes());
                assert!(!is_whole(&damaged, AMDGPU), "{at} {value}");
            }
        }
        // A section without contents may have any size.
        let mut empty = whole.clone();
        empty[120 + 4] = 8;
        empty[120 + 32..120 + 40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(is_whole(&empty, AMDGPU));
        let mut other = whole;
        other[18] = 62;
        assert!(!is_whole(&other, AMDGPU));
    }
}
