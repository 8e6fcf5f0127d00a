//! The device that the machine computes on, as plugins, saved plans and rankings know it.
//!
//! It is the HIP device of the calling thread where the program, or a plugin, has loaded HIP already; else it is the
//! processor. HIP is not loaded to find out: that takes long, starts threads, and a program that has no use for a GPU would
//! notice.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::cuda::Cuda;
use hipdnn_plugin_sdk::dynlib::loaded::look_again;
use hipdnn_plugin_sdk::hash::Fnv1a;
use hipdnn_plugin_sdk::hip::Hip;
use hipdnn_plugin_sdk::os::processors;
use hipdnn_plugin_sdk::wire::{DeviceProperties, write_device_properties};

use crate::lock::{Mutex, OnceLock};
use crate::{log, target};

/// A device, in every form that is asked for.
#[derive(Debug)]
pub struct Device {
    /// What is known of it.
    pub properties: DeviceProperties,
    /// The same, as plugins get it.
    pub bytes: Vec<u8>,
    /// The FNV-1a hash of the bytes.
    pub hash: u64,
}

impl Device {
    fn new(properties: DeviceProperties) -> Self {
        let bytes = write_device_properties(&properties);
        let hash = Fnv1a::new().add(&bytes).number();
        Self { properties, bytes, hash }
    }
}

/// The device of this thread. It is asked for its properties once.
pub fn current() -> &'static Device {
    static PROCESSOR: OnceLock<Device> = OnceLock::new();
    gpu().unwrap_or_else(|| PROCESSOR.get_or_init(|| Device::new(processor())))
}

/// What tells the device from others, for people too: the one that plans are made for, where the environment names one. Plans are saved
/// with it and loaded only where it is the same.
pub fn fingerprint() -> &'static str {
    target::named().unwrap_or(&current().properties.architecture_name)
}

/// One for each device that was ever asked for. They stay, so that they can be handed out.
pub static DEVICES: Mutex<Vec<(c_int, Option<&'static Device>)>> = Mutex::new(Vec::new());

/// The HIP device of this thread, if there is one.
fn gpu() -> Option<&'static Device> {
    let hip = Hip::loaded()?;
    let number = hip.current_device().ok()?;
    if let Some((_, device)) = DEVICES.lock().iter().find(|(known, _)| *known == number) {
        return *device;
    }
    // Not under the lock: HIP may take long, and may call whatever it wants.
    let device: Option<&Device> = match hip.device_properties() {
        Ok(properties) => properties.map(|properties| &*Box::leak(Box::new(Device::new(properties)))),
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

/// Which device a thread works on, as plugins may find out: that of HIP, and the context of CUDA. Not what the device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    hip: c_int,
    cuda: usize,
}

impl Place {
    /// Whether both are on the same device of HIP, or both without HIP. With CUDA a handle is of no device.
    pub fn is_same_device(self, other: Self) -> bool {
        self.hip == other.hip
    }

    /// A number that differs where places do, mostly.
    pub fn hash(self) -> u64 {
        (self.cuda as u64 ^ self.hip as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

static HIP: OnceLock<&Hip> = OnceLock::new();
static CUDA: OnceLock<&Cuda> = OnceLock::new();

/// Looks whether the process has the library of a GPU by now, which takes microseconds where it has none: once for each `has_looked`.
#[inline]
pub fn look_for_gpu_once(has_looked: &AtomicBool) {
    if !has_looked.load(Ordering::Relaxed) {
        has_looked.store(true, Ordering::Relaxed);
        look_for_gpu();
    }
}

/// Looks whether the process has the library of a GPU by now.
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

/// Where this thread works, as far as libraries of GPUs were found.
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
    // SAFETY: the output is valid; it stays null where the call fails.
    unsafe { (cuda.cuCtxGetCurrent)(&mut context) };
    context.addr()
}

fn processor() -> DeviceProperties {
    let architecture = std::env::consts::ARCH;
    DeviceProperties {
        device_id: -1,
        // Those of the machine, not those that this process may use, which change from one run to the next.
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
        let device = Device::new(processor());
        assert_eq!(device.properties.device_id, -1);
        assert!(device.properties.multi_processor_count > 0);
        assert!(device.properties.architecture_name.starts_with(std::env::consts::ARCH));
        assert_eq!(read_device_properties(&device.bytes).as_ref(), Ok(&device.properties));
    }

    #[test]
    fn another_model_is_another_device() {
        let one = processor();
        let other = DeviceProperties { architecture_name: "other".into(), ..one.clone() };
        assert_ne!(Device::new(one).hash, Device::new(other).hash);
    }
}
