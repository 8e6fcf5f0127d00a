//! The device as plugins, saved plans and rankings identify it.
//!
//! It is the calling thread's HIP device if the program or a plugin has already loaded HIP, else the processor. We never
//! load HIP ourselves: that takes long and starts threads, which programs without a GPU would notice.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::cuda::Cuda;
use hipdnn_plugin_sdk::dynlib::loaded::look_again;
use hipdnn_plugin_sdk::hash::Fnv1a;
use hipdnn_plugin_sdk::hip::{Clocks, Hip};
use hipdnn_plugin_sdk::os::processors;
use hipdnn_plugin_sdk::wire::{DeviceProperties, write_device_properties};

use crate::lock::{Mutex, OnceLock};
use crate::{log, target};

/// A device in every form that callers need.
#[derive(Debug)]
pub struct Device {
    /// Its properties.
    pub properties: DeviceProperties,
    /// The properties as passed to plugins.
    pub bytes: Vec<u8>,
    /// The FNV-1a hash of the bytes.
    pub hash: u64,
    /// A GPU's clocks.
    pub clocks: Clocks,
}

impl Device {
    fn new(properties: DeviceProperties, clocks: Clocks) -> Self {
        let bytes = write_device_properties(&properties);
        let hash = Fnv1a::new().add(&bytes).number();
        Self { properties, bytes, hash, clocks }
    }
}

/// The device of this thread. Its properties are queried once.
pub fn current() -> &'static Device {
    static PROCESSOR: OnceLock<Device> = OnceLock::new();
    gpu().unwrap_or_else(|| PROCESSOR.get_or_init(|| Device::new(processor(), Clocks::default())))
}

/// Identifies the device, also for people; the target device if the environment names one. Plans are saved with it and
/// loaded only on an equal device.
pub fn fingerprint() -> &'static str {
    target::named().unwrap_or(&current().properties.architecture_name)
}

/// One entry for each device ever queried, never freed, so that references are `'static`.
pub static DEVICES: Mutex<Vec<(c_int, Option<&'static Device>)>> = Mutex::new(Vec::new());

/// The HIP device of this thread, if there is one.
fn gpu() -> Option<&'static Device> {
    let hip = Hip::loaded()?;
    let number = hip.current_device().ok()?;
    if let Some((_, device)) = DEVICES.lock().iter().find(|(known, _)| *known == number) {
        return *device;
    }
    // Without the lock: HIP may take long, and may call back into anything.
    let device: Option<&Device> = match hip.properties_and_clocks() {
        Ok(found) => found.map(|(properties, clocks)| &*Box::leak(Box::new(Device::new(properties, clocks)))),
        Err(error) => {
            log::warn(|| format!("the properties of HIP device {number} are not known: {error}"));
            None
        }
    };
    let mut devices = DEVICES.lock();
    if let Some((_, device)) = devices.iter().find(|(known, _)| *known == number) {
        return *device;
    }
    devices.push((number, device));
    device
}

/// The device a thread works on, as plugins see it: HIP's device number and CUDA's context, not the device's properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    hip: c_int,
    cuda: usize,
}

impl Place {
    /// Whether both are on the same HIP device, or both without HIP. CUDA does not count: handles have no CUDA device.
    pub fn is_same_device(self, other: Self) -> bool {
        self.hip == other.hip
    }

    /// A hash of the place.
    pub fn hash(self) -> u64 {
        (self.cuda as u64 ^ self.hip as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

static HIP: OnceLock<&Hip> = OnceLock::new();
static CUDA: OnceLock<&Cuda> = OnceLock::new();

/// Checks once for each `has_looked` whether the process has loaded a GPU library. Takes microseconds if it has not.
#[inline]
pub fn look_for_gpu_once(has_looked: &AtomicBool) {
    if !has_looked.load(Ordering::Relaxed) {
        has_looked.store(true, Ordering::Relaxed);
        look_for_gpu();
    }
}

/// Checks whether the process has loaded a GPU library.
#[cold]
pub fn look_for_gpu() {
    // Plugins may have loaded it.
    look_again();
    if let Some(hip) = Hip::loaded() {
        HIP.get_or_init(|| hip);
    }
    if let Some(cuda) = Cuda::loaded() {
        CUDA.get_or_init(|| cuda);
    }
}

/// Where this thread works, according to the GPU libraries found so far.
#[inline]
pub fn place() -> Place {
    Place {
        hip: HIP.get().map_or(-1, |hip| hip.current_device().unwrap_or(-1)),
        cuda: CUDA.get().map_or(0, |cuda| current_context(cuda)),
    }
}

#[cold]
fn current_context(cuda: &Cuda) -> usize {
    let mut context = std::ptr::null_mut();
    // SAFETY: the function writes only to the local `context`; it stays null if the call fails.
    unsafe { (cuda.cuCtxGetCurrent)(&mut context) };
    context.addr()
}

fn processor() -> DeviceProperties {
    let architecture = std::env::consts::ARCH;
    DeviceProperties {
        device_id: -1,
        // The machine's processors, not those available to this process, which may differ from run to run.
        multi_processor_count: i32::try_from(processors::count()).unwrap_or(0),
        total_global_mem: 0,
        architecture_name: match processors::model() {
            Some(model) => format!("{architecture}: {model}"),
            None => architecture.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hipdnn_plugin_sdk::wire::read_device_properties;

    #[test]
    fn the_device_stays() {
        assert!(std::ptr::eq(current(), current()));
        assert_eq!(fingerprint(), current().properties.architecture_name);
    }

    #[test]
    fn without_hip_the_device_is_the_processor() {
        let device = Device::new(processor(), Clocks::default());
        assert_eq!(device.properties.device_id, -1);
        assert!(device.properties.multi_processor_count > 0);
        assert!(device.properties.architecture_name.starts_with(std::env::consts::ARCH));
        assert_eq!(read_device_properties(&device.bytes).as_ref(), Ok(&device.properties));
    }

    #[test]
    fn another_model_is_another_device() {
        let one = processor();
        let other = DeviceProperties { architecture_name: "other".into(), ..one.clone() };
        let hash = |properties| Device::new(properties, Clocks::default()).hash;
        assert_ne!(hash(one), hash(other));
    }
}
