//! What drivers made of modules, kept in files for later processes: a file for each module, as other engines keep compiled kernels.
//!
//! The oldest are removed when all of them are too large: a program may have any number of shapes.
//!
//! With one cache for a whole device, processes would overwrite each other's, and each plan would read or write that of all others.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hipdnn_kernels::print::spirv::Spirv;
use hipdnn_plugin_sdk::hash::Fnv1a;
use hipdnn_plugin_sdk::payload::Payload;
use hipdnn_plugin_sdk::{PluginError, cached_file, environment, log};

use crate::device::Device;
use crate::pipeline::{Pipeline, is_of};
use crate::properties::Properties;

/// The file: for which driver, device and module, and the driver's data.
const PAYLOAD: Payload = Payload { mark: *b"HVKC", version: 1, owner: "the cache of Vulkan's pipelines" };

/// Bytes of the largest file.
const MOST: u64 = 16 << 20;

/// Bytes of all files, and after how many new ones they are counted.
const MOST_ALL: u64 = 1 << 30;
const NEW: u32 = 64;

/// The place of a module's file.
struct File {
    path: PathBuf,
    key: String,
}

impl File {
    /// The file, unless the environment disables caches.
    fn of(properties: &Properties, module: &Spirv) -> Option<Self> {
        environment::enabled_cache_root(environment::path).map(|root| Self::below(&root, properties, module))
    }

    fn below(root: &Path, properties: &Properties, module: &Spirv) -> Self {
        let [vendor, device] = properties.ids;
        let words = module.words.iter().fold(Fnv1a::new(), |hash, word| hash.add(&word.to_le_bytes()));
        // A driver finds nothing in the data of another module with the same hash.
        let key = format!(
            "{} {vendor:x}:{device:x} {} {:x} {:x?}\n{:016x} {} {:?}",
            properties.name,
            properties.driver,
            properties.driver_version,
            properties.cache_uuid,
            words.number(),
            module.words.len(),
            module.subgroup,
        );
        let file = format!("{:016x}.pipeline", Fnv1a::new().add(key.as_bytes()).number());
        let folder = root.join("vulkan-pipelines").join(env!("CARGO_PKG_VERSION"));
        Self { path: folder.join(file), key }
    }

    fn find(&self) -> Option<Vec<u8>> {
        cached_file::find(&PAYLOAD, &self.path, &self.key, MOST)
    }

    fn store(&self, data: &[u8]) {
        if data.len() as u64 + 4096 > MOST {
            return;
        }
        if let Err(reason) = cached_file::store(&PAYLOAD, &self.path, &self.key, data) {
            log::warn(format_args!("compiled kernels are not kept: {reason}"));
        }
        static STORED: AtomicU32 = AtomicU32::new(0);
        if STORED.fetch_add(1, Ordering::Relaxed).is_multiple_of(NEW)
            && let Some(folder) = self.path.parent()
        {
            cached_file::trim(folder, MOST_ALL);
        }
    }
}

/// Compiles a module with what a saved plan or an earlier process kept of it, and keeps what is new.
///
/// # Errors
/// The driver's.
///
/// # Safety
/// The module is valid, and needs only what the device offers; a driver wrote `saved`, if it is not empty.
pub unsafe fn compile(device: &Arc<Device>, module: &Spirv, saved: &[u8]) -> Result<Pipeline, PluginError> {
    let file = File::of(&device.properties, module);
    let kept = file.as_ref().and_then(File::find);
    let known = kept.as_deref().filter(|data| is_of(&device.properties, data)).unwrap_or(saved);
    // SAFETY: this function requires a valid module and the driver's data; checksums show that files are as they were
    // stored.
    let (pipeline, data) = unsafe { Pipeline::with_data(device, module, known) }?;
    if let (Some(file), Some(data)) = (file, data) {
        file.store(&data);
    }
    Ok(pipeline)
}

/// What the driver made of a module, for a saved plan; empty if it does not tell.
///
/// # Safety
/// The module is valid, and needs only what the device offers.
pub unsafe fn data(device: &Arc<Device>, module: &Spirv) -> Vec<u8> {
    let kept = File::of(&device.properties, module).and_then(|file| file.find());
    if let Some(kept) = kept.filter(|data| is_of(&device.properties, data)) {
        return kept;
    }
    // SAFETY: this function requires a valid module that the device can run, and no data is passed.
    let made = unsafe { Pipeline::with_data(device, module, &[]) };
    made.ok().and_then(|(_, data)| data).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::instance;

    fn module(word: u32) -> Spirv {
        Spirv {
            words: vec![word],
            push_bytes: 8,
            is_indirect: false,
            has_float_numbers: false,
            subgroup: None,
        }
    }

    #[test]
    fn files_are_of_one_device_driver_and_module() {
        let Some(properties) = instance::devices().ok().and_then(|devices| devices.first().cloned()) else {
            return;
        };
        let root = std::env::temp_dir().join(format!("hipdnn_vulkan_cache_{}", std::process::id()));
        let file = |properties: &Properties, word| File::below(&root, properties, &module(word));
        let own = file(&properties, 1);
        assert_eq!(own.find(), None);
        own.store(b"data");
        assert_eq!(file(&properties, 1).find().as_deref(), Some(b"data".as_slice()));
        assert_eq!(file(&properties, 2).find(), None);
        let newer = Properties { driver_version: properties.driver_version + 1, ..(*properties).clone() };
        assert_eq!(file(&newer, 1).find(), None);
        let whole = fs::read(&own.path).unwrap();
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x10;
            fs::write(&own.path, &damaged).unwrap();
            assert_eq!(own.find(), None, "{place}");
        }
        own.store(&vec![0; MOST as usize]);
        assert_eq!(own.find(), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn only_data_of_the_own_driver_is_given_to_it() {
        let Some(own) = instance::devices().ok().and_then(|devices| devices.first().cloned()) else { return };
        let [vendor, device] = own.ids;
        let mut data: Vec<u8> = [32, 1, vendor, device].into_iter().flat_map(u32::to_le_bytes).collect();
        data.extend(own.cache_uuid);
        assert!(is_of(&own, &data));
        for place in 0..data.len() {
            let mut other = data.clone();
            other[place] ^= 1;
            assert!(!is_of(&own, &other), "{place}");
            assert!(!is_of(&own, &data[..place]), "{place}");
        }
    }
}
