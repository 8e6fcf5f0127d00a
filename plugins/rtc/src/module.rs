//! Code objects on a device, and what starts their kernels.

#![expect(non_camel_case_types, reason = "the names of HIP")]

use std::ffi::{CString, c_char, c_uint, c_void};
use std::ptr;

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::hip::{Hip, hipError_t};
use hipdnn_plugin_sdk::{PluginError, function_table};

/// A code object on a device.
pub type hipModule_t = *mut c_void;
/// A kernel of a code object.
pub type hipFunction_t = *mut c_void;

function_table! {
    /// The functions of the HIP runtime that are about code objects.
    #[expect(non_snake_case, reason = "the names of HIP")]
    pub struct Modules: "the HIP runtime", ["libamdhip64.so.7", "libamdhip64.so.6"] {
        required {
            /// Puts a code object on the thread's device.
            fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) -> hipError_t;
            /// Takes a code object from its device.
            fn hipModuleUnload(module: hipModule_t) -> hipError_t;
            /// A kernel by its name.
            fn hipModuleGetFunction(
                function: *mut hipFunction_t,
                module: hipModule_t,
                name: *const c_char
            ) -> hipError_t;
            /// Starts a kernel.
            fn hipModuleLaunchKernel(
                function: hipFunction_t,
                grid_x: c_uint,
                grid_y: c_uint,
                grid_z: c_uint,
                block_x: c_uint,
                block_y: c_uint,
                block_z: c_uint,
                shared: c_uint,
                stream: hipStream_t,
                parameters: *mut *mut c_void,
                extra: *mut *mut c_void
            ) -> hipError_t;
        }
        optional {}
    }
}

/// The libraries without which nothing runs.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// The HIP runtime.
    pub hip: &'static Hip,
    /// Its functions for code objects.
    pub modules: &'static Modules,
}

/// A code object that is on a device until this is dropped.
#[derive(Debug)]
pub struct Module {
    runtime: Runtime,
    module: hipModule_t,
}

// SAFETY: a code object belongs to a device, not to a thread.
unsafe impl Send for Module {}
// SAFETY: once it is loaded, nothing changes it.
unsafe impl Sync for Module {}

/// A kernel, which lives as long as its module.
#[derive(Clone, Copy, Debug)]
pub struct Function(hipFunction_t);

// SAFETY: as for the module.
unsafe impl Send for Function {}
// SAFETY: as for the module.
unsafe impl Sync for Function {}

impl Module {
    /// Puts a code object on the thread's device.
    ///
    /// # Errors
    /// When the bytes are no whole code object, and HIP's, for instance when it is one for another device.
    pub fn load(runtime: Runtime, code: &[u8]) -> Result<Self, PluginError> {
        if !is_whole(code) {
            return Err(PluginError::invalid_value(format!("{} bytes are no whole code object", code.len())));
        }
        let mut module = ptr::null_mut();
        // SAFETY: the output is valid. HIP finds the end of a code object by the tables that were looked at.
        let answer = unsafe { (runtime.modules.hipModuleLoadData)(&mut module, code.as_ptr().cast()) };
        runtime.hip.check("hipModuleLoadData", answer)?;
        Ok(Self { runtime, module })
    }

    /// The kernel of this name.
    ///
    /// # Errors
    /// HIP's, when there is none.
    pub fn function(&self, name: &str) -> Result<Function, PluginError> {
        let name = CString::new(name).map_err(|_| PluginError::internal("the name of a kernel has a NUL"))?;
        let mut function = ptr::null_mut();
        // SAFETY: the output is valid and the name NUL terminated.
        let answer =
            unsafe { (self.runtime.modules.hipModuleGetFunction)(&mut function, self.module, name.as_ptr()) };
        self.runtime.hip.check("hipModuleGetFunction", answer)?;
        Ok(Function(function))
    }
}

/// Whether bytes are an ELF file for AMD GPUs whose tables and their contents lie inside it. HIP is not told how many bytes
/// there are, so it must find nothing beyond them.
fn is_whole(code: &[u8]) -> bool {
    // The machine number of AMD GPUs, and the type of a section that has no bytes in the file.
    const AMDGPU: usize = 224;
    const NO_BITS: usize = 8;
    let number = |at: usize, bytes: usize| {
        let field = code.get(at..at.checked_add(bytes)?)?;
        let mut number = [0; 8];
        number.get_mut(..bytes)?.copy_from_slice(field);
        usize::try_from(u64::from_le_bytes(number)).ok()
    };
    let inside = |begin: usize, size: usize| begin.checked_add(size).is_some_and(|end| end <= code.len());
    // The table's place in the header; the least size of an entry; where an entry has its place and size in the file.
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
        && number(18, 2) == Some(AMDGPU)
        && table(32, 54, 56, [8, 32], None) == Some(true)
        && table(40, 58, 64, [24, 32], Some(4)) == Some(true)
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the module is this one's own. A failure here leaves nothing to do.
        unsafe { (self.runtime.modules.hipModuleUnload)(self.module) };
    }
}

impl Runtime {
    /// Puts a kernel on a stream of the thread's device.
    ///
    /// # Errors
    /// HIP's.
    ///
    /// # Safety
    /// The function's module is loaded; each parameter points to an argument of the type that the kernel takes, and what the
    /// arguments point to stays valid until the kernel is done.
    pub unsafe fn launch(
        &self,
        function: Function,
        grid: u32,
        block: u32,
        stream: hipStream_t,
        parameters: &mut [*mut c_void],
    ) -> Result<(), PluginError> {
        // SAFETY: the caller vouches for the function and its arguments, which HIP copies before it returns.
        let answer = unsafe {
            (self.modules.hipModuleLaunchKernel)(
                function.0,
                grid,
                1,
                1,
                block,
                1,
                1,
                0,
                stream,
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        Ok(self.hip.check("hipModuleLaunchKernel", answer)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with a program header and a section, and 16 bytes that both stand for.
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
    fn what_reaches_beyond_its_end_is_no_code_object() {
        let whole = code_object();
        assert!(is_whole(&whole));
        for size in 0..whole.len() {
            assert!(!is_whole(&whole[..size]), "{size}");
        }
        // Places and sizes beyond the end, also so large that sums overflow.
        for at in [32, 40, 64 + 8, 64 + 32, 120 + 24, 120 + 32] {
            for value in [whole.len() as u64, u64::MAX, u64::MAX - 15] {
                let mut damaged = whole.clone();
                damaged[at..at + 8].copy_from_slice(&value.to_le_bytes());
                assert!(!is_whole(&damaged), "{at} {value}");
            }
        }
        // A section without bytes may be of any size.
        let mut empty = whole.clone();
        empty[120 + 4] = 8;
        empty[120 + 32..120 + 40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(is_whole(&empty));
        let mut other = whole;
        other[18] = 62;
        assert!(!is_whole(&other));
    }
}
