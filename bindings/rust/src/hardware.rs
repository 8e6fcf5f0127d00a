//! What a machine has for engines: the libraries of AMD and NVIDIA that they look for, and the devices these know.

mod amd;
mod memory;
mod nvidia;
mod stream;

use std::ops::Deref;
use std::path::PathBuf;

use hipdnn_plugin_sdk::dynlib::{Error, Library};
use serde::Serialize;

pub use memory::{DeviceMemory, Gpu, HostMemory};
pub use stream::{CaptureStream, CapturedWork, Stream};

/// A library that engines look for.
#[derive(Debug, Serialize)]
pub struct Found {
    /// What people call it.
    pub library: &'static str,
    /// The file name it was found by.
    pub name: Option<String>,
    /// Its version, where it tells one.
    pub version: Option<String>,
    /// Where it lies, behind links.
    pub file: Option<PathBuf>,
    /// What was looked for, where it is not there.
    pub missing: Option<String>,
}

/// A device of HIP's or CUDA's.
#[derive(Debug, Serialize)]
pub struct Device {
    /// Its number in the order of its library.
    pub number: i32,
    /// Its architecture and, of NVIDIA's, its name.
    pub architecture: String,
    /// Compute units or multiprocessors.
    pub compute_units: i32,
    /// The size of its memory.
    pub memory_bytes: u64,
}

/// The devices of AMD and of NVIDIA.
///
/// # Errors
/// Why there are none: what was looked for of each.
pub fn devices() -> std::result::Result<Vec<Device>, String> {
    match (amd::devices(), nvidia::devices()) {
        (Err(hip), Err(cuda)) => Err(format!("{hip}; {cuda}")),
        (hip, cuda) => Ok([hip, cuda].into_iter().flatten().flatten().collect()),
    }
}

/// The libraries that engines for GPUs stand on, found or not.
pub fn libraries() -> Vec<Found> {
    let mut found = amd::libraries();
    found.extend(nvidia::libraries());
    found
}

/// What is told of a library whose functions were looked for.
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
            // NVIDIA's are asked for by their paths.
            name: opened(&table).name().rsplit('/').next().map(str::to_owned),
            version: version(&table),
            // Behind its links, since the file's own name says more than the one it was asked for by.
            file: opened(&table).file_of(function).map(|file| file.canonicalize().unwrap_or(file)),
            missing: None,
        },
        Err(error) => {
            Found { library, name: None, version: None, file: None, missing: Some(error.to_string()) }
        }
    }
}
