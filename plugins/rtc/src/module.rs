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
    /// HIP's, for instance when the bytes are no code object for this device.
    pub fn load(runtime: Runtime, code: &[u8]) -> Result<Self, PluginError> {
        let mut module = ptr::null_mut();
        // SAFETY: the output is valid. HIP finds the end of a code object by its own header.
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
