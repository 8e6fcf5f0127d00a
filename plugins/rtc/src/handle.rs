//! The engines' platforms, and their state on a device.

use hipdnn_kernels::target::Language;
use hipdnn_plugin_planner::ahead;
use hipdnn_plugin_sdk::cuda::Cuda;
use hipdnn_plugin_sdk::gpu::handle::Entered;
use hipdnn_plugin_sdk::{PluginError, Refusal, gpu};

use crate::compiler::Compiler;
use crate::module::Driver;
use crate::source::{CUDA, HIP};
use crate::{hip, hiprtc, nvrtc};

/// The kind of devices an engine works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// AMD GPUs, through HIP and hipRTC.
    Hip,
    /// NVIDIA GPUs, through CUDA and NVRTC.
    Cuda,
}

impl Platform {
    /// The compiler.
    ///
    /// # Errors
    /// Which libraries were tried.
    pub fn compiler(self) -> Result<Compiler, Refusal> {
        Ok(match self {
            Self::Hip => hiprtc::compiler()?,
            Self::Cuda => nvrtc::compiler()?,
        })
    }

    /// Checks that there are a driver, a device and a compiler.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(self) -> Result<(), Refusal> {
        match self {
            Self::Hip => drop(hip::Runtime::get()?),
            Self::Cuda => drop(Cuda::with_device()?),
        }
        self.compiler().map(drop)
    }

    /// The architecture for plans made ahead of time, without a device: that of `HIPDNN_TARGET_DEVICE`, if it
    /// is this platform's.
    ///
    /// # Errors
    /// When it is another platform's.
    pub fn target(self) -> Result<Option<String>, Refusal> {
        let prefix = match self {
            Self::Hip => "gfx",
            Self::Cuda => "sm_",
        };
        ahead::target(prefix)
    }

    /// The language of its kernels.
    pub fn kernels(self) -> Language {
        match self {
            Self::Hip => Language::Hip,
            Self::Cuda => Language::Cuda,
        }
    }

    /// The header with this platform's definitions for the kernels' source.
    pub fn language(self) -> &'static str {
        match self {
            Self::Hip => HIP,
            Self::Cuda => CUDA,
        }
    }
}

/// The plugin's handle, which works on a HIP device and on CUDA devices.
pub type Handle = gpu::handle::Handle<Target>;

/// How code is loaded, and its target.
#[derive(Clone, Debug)]
pub struct Target {
    /// Loads code onto the device.
    pub driver: Driver,
    /// The target of compilation.
    pub architecture: String,
}

/// Makes the handle's device current.
///
/// # Errors
/// When a library or a device is missing, or the driver fails.
pub fn enter(handle: &Handle, platform: Platform) -> Result<Entered<'_, Target>, PluginError> {
    match platform {
        Platform::Hip => {
            let runtime = hip::Runtime::get()?;
            handle.enter_hip(runtime.hip, |_| {
                let properties = runtime.hip.device_properties()?;
                let properties = properties
                    .ok_or_else(|| PluginError::not_initialized("the HIP runtime finds no device"))?;
                Ok(Target { driver: Driver::Hip(runtime), architecture: properties.architecture_name })
            })
        }
        Platform::Cuda => {
            let cuda = Cuda::with_device()?;
            handle.enter_cuda(cuda, |device, _| {
                Ok(Target { driver: Driver::Cuda(cuda), architecture: device.architecture() })
            })
        }
    }
}
