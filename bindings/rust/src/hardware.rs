//! A machine's hardware for engines: the AMD and NVIDIA libraries that they look for, the devices that these find, and Vulkan devices.

mod amd;
mod memory;
mod nvidia;
mod stream;
mod vulkan;

use std::ops::Deref;
use std::path::PathBuf;

use hipdnn_plugin_sdk::dynlib::{Error, Library};
use serde::Serialize;

pub use memory::{DeviceMemory, Gpu, HostMemory};
pub use stream::{CaptureStream, CapturedWork, Stream};
pub use vulkan::{VulkanDevice, VulkanKind, vulkan_devices};

/// A library that engines look for.
#[derive(Debug, Serialize)]
pub struct Found {
    /// Its common name.
    pub library: &'static str,
    /// The file name that found it.
    pub name: Option<String>,
    /// Its version, if it tells.
    pub version: Option<String>,
    /// Its path, with links resolved.
    pub file: Option<PathBuf>,
    /// Where it was looked for, if missing.
    pub missing: Option<String>,
}

/// A HIP or CUDA device.
#[derive(Debug, Serialize)]
pub struct Device {
    /// Its number in its library's order.
    pub number: i32,
    /// Its architecture and, for NVIDIA, its name.
    pub architecture: String,
    /// Compute units or multiprocessors.
    pub compute_units: i32,
    /// The size of its memory.
    pub memory_bytes: u64,
}

/// The devices of AMD and NVIDIA.
///
/// # Errors
/// Why there are none, and where each library was looked for.
pub fn devices() -> std::result::Result<Vec<Device>, String> {
    match (amd::devices(), nvidia::devices()) {
        (Err(hip), Err(cuda)) => Err(format!("{hip}; {cuda}")),
        (hip, cuda) => Ok([hip, cuda].into_iter().flatten().flatten().collect()),
    }
}

/// The libraries that GPU engines use, found or not.
pub fn libraries() -> Vec<Found> {
    let mut found = amd::libraries();
    found.extend(nvidia::libraries());
    found
}

/// Describes a library from the lookup of its functions.
fn found<T>(
    library: &'static str,
    table: std::result::Result<impl Deref<Target = T>, Error>,
    opened: impl Fn(&T) -> &Library,
    function: &str,
    version: impl Fn(&T) -> Option<String>,
) -> Found {
    match table {
        Ok(table) => Found {
            library,
            // NVIDIA's are opened by path.
            name: opened(&table).name().rsplit('/').next().map(str::to_owned),
            version: version(&table),
            // Resolves links, since the file's own name says more than the requested one.
            file: opened(&table).file_of(function).map(|file| file.canonicalize().unwrap_or(file)),
            missing: None,
        },
        Err(error) => {
            Found { library, name: None, version: None, file: None, missing: Some(error.to_string()) }
        }
    }
}
