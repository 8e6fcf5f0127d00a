//! The module functions of the HIP runtime, loaded at run time.

#![expect(non_camel_case_types, reason = "the names of HIP")]

use std::ffi::{c_char, c_uint, c_void};
use std::sync::OnceLock;

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::hip::{Hip, hipError_t};
use hipdnn_plugin_sdk::{Refusal, function_table};

/// A loaded code object.
pub type hipModule_t = *mut c_void;
/// A kernel of a code object.
pub type hipFunction_t = *mut c_void;

function_table! {
    /// The module functions of the HIP runtime.
    #[expect(non_snake_case, reason = "the names of HIP")]
    pub struct Modules: "the HIP runtime", ["libamdhip64.so.7", "libamdhip64.so.6"] {
        required {
            /// Loads a code object onto the thread's device.
            fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) -> hipError_t;
            /// Unloads a code object.
            fn hipModuleUnload(module: hipModule_t) -> hipError_t;
            /// A kernel by its name.
            fn hipModuleGetFunction(
                function: *mut hipFunction_t,
                module: hipModule_t,
                name: *const c_char
            ) -> hipError_t;
            /// Launches a kernel.
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

/// The HIP functions that the engine needs.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// The HIP runtime.
    pub hip: &'static Hip,
    /// Its module functions.
    pub modules: &'static Modules,
}

impl Runtime {
    /// The process's libraries, with at least one device.
    ///
    /// # Errors
    /// Which library was not found, or that there is no device.
    pub fn get() -> Result<Self, Refusal> {
        static MODULES: OnceLock<Modules> = OnceLock::new();
        let hip = Hip::with_device()?;
        let modules = match MODULES.get() {
            Some(modules) => modules,
            None => {
                // The same library that was found for HIP.
                let modules = Modules::load_from(&[hip.library().name()])?;
                MODULES.get_or_init(|| modules)
            }
        };
        Ok(Self { hip, modules })
    }
}
