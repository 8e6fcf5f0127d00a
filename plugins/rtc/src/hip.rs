//! The functions of the HIP runtime that are about code objects, looked for at run time.

#![expect(non_camel_case_types, reason = "the names of HIP")]

use std::ffi::{c_char, c_uint, c_void};
use std::sync::OnceLock;

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::hip::{Hip, hipError_t};
use hipdnn_plugin_sdk::{Refusal, function_table};

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

/// HIP as the engine needs it.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// The HIP runtime.
    pub hip: &'static Hip,
    /// Its functions for code objects.
    pub modules: &'static Modules,
}

impl Runtime {
    /// The libraries of this process, with at least one device to work on.
    ///
    /// # Errors
    /// Which library was not found, or that there is no device.
    pub fn get() -> Result<Self, Refusal> {
        static MODULES: OnceLock<Modules> = OnceLock::new();
        let hip = Hip::with_device()?;
        let modules = match MODULES.get() {
            Some(modules) => modules,
            None => {
                // The same library, whichever it was.
                let modules = Modules::load_from(&[hip.library().name()])?;
                MODULES.get_or_init(|| modules)
            }
        };
        Ok(Self { hip, modules })
    }
}
