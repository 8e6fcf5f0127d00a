//! The process's Vulkan instance and the devices that it lists.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ash::{Entry, vk};
use hipdnn_plugin_sdk::lock::Mutex;
use hipdnn_plugin_sdk::{PluginError, Refusal, process};

use crate::failure::Checked;
use crate::gpu::Gpu;
use crate::loader;
use crate::properties::Properties;

/// The variable that chooses the device, as [`preferred`] reads it.
pub const DEVICE: &str = "HIPDNN_VULKAN_DEVICE";

const FORKED: &str = "this process was forked from one that had opened Vulkan, and a child has no Vulkan device; open it in the child only";

/// A device of the list, opened when it is first used.
struct Listed {
    properties: Arc<Properties>,
    opened: Option<Arc<Gpu>>,
}

/// The instance and its devices.
pub struct Opened {
    /// The functions of the instance that the library made.
    pub instance: ash::Instance,
    devices: Vec<Listed>,
    /// In which process ([`process::word`]).
    process: u32,
}

static OPENED: Mutex<Option<Opened>> = Mutex::new(None);

/// The lock of this module, for the plugin's list.
pub const LOCK: &dyn hipdnn_plugin_sdk::lock::Held = &OPENED;

fn with<T>(
    work: impl FnOnce(&'static Entry, &mut Opened) -> Result<T, PluginError>,
) -> Result<T, PluginError> {
    let entry = loader::entry()?;
    let mut opened = OPENED.lock();
    if opened.is_none() {
        *opened = Some(open(entry)?);
    }
    match &mut *opened {
        Some(opened) if opened.process != process::word() => Err(PluginError::not_initialized(FORKED)),
        Some(opened) => work(entry, opened),
        None => Err(PluginError::internal("Vulkan was not opened")),
    }
}

/// Creates the instance and asks its devices.
fn open(entry: &Entry) -> Result<Opened, PluginError> {
    // SAFETY: the entry's functions are the loader's.
    let version = unsafe { entry.try_enumerate_instance_version() }.of("vkEnumerateInstanceVersion")?;
    let version = version.unwrap_or(vk::API_VERSION_1_0);
    let (major, minor) = (vk::api_version_major(version), vk::api_version_minor(version));
    if (major, minor) < (1, 2) {
        return Err(PluginError::not_initialized(format!(
            "the Vulkan loader is of version {major}.{minor}, expected 1.2 or newer"
        )));
    }
    let application = vk::ApplicationInfo::default()
        .application_name(c"hipDNN")
        .engine_name(c"hipDNN")
        .api_version(version.min(vk::API_VERSION_1_3));
    // SAFETY: the entry's functions are the loader's.
    let extensions = unsafe { entry.enumerate_instance_extension_properties(None) }.unwrap_or_default();
    // Without it, loaders hide devices that lack a part of Vulkan, as MoltenVK's do.
    let portability = ash::khr::portability_enumeration::NAME;
    let is_portable =
        extensions.iter().any(|e| e.extension_name_as_c_str().is_ok_and(|name| name == portability));
    let names: Vec<_> = is_portable.then_some(CStr::as_ptr(portability)).into_iter().collect();
    let flags = if is_portable {
        vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR
    } else {
        vk::InstanceCreateFlags::empty()
    };
    let info = vk::InstanceCreateInfo::default()
        .application_info(&application)
        .enabled_extension_names(&names)
        .flags(flags);
    // SAFETY: the struct and what it points to are alive during the call.
    let instance = unsafe { entry.create_instance(&info, None) }.of("vkCreateInstance")?;
    // SAFETY: the instance was just made.
    let listed = unsafe { list(entry, &instance) };
    match listed {
        Ok(devices) => Ok(Opened { instance, devices, process: process::word() }),
        Err(error) => {
            // SAFETY: nothing of the instance is left.
            unsafe { instance.destroy_instance(None) };
            Err(error)
        }
    }
}

/// Asks every device.
///
/// # Safety
/// The instance is alive.
unsafe fn list(entry: &Entry, instance: &ash::Instance) -> Result<Vec<Listed>, PluginError> {
    // SAFETY: this function requires that the instance is not destroyed.
    let found = match unsafe { instance.enumerate_physical_devices() } {
        // What loaders answer if no driver is installed.
        Err(vk::Result::ERROR_INITIALIZATION_FAILED) => Vec::new(),
        found => found.of("vkEnumeratePhysicalDevices")?,
    };
    let ask = |(number, physical)| {
        // SAFETY: the device is one of the instance.
        let properties = Arc::new(unsafe { Properties::ask(entry, instance, physical, number) }?);
        Ok(Listed { properties, opened: None })
    };
    found.into_iter().enumerate().map(ask).collect()
}

/// The devices of this process.
///
/// # Errors
/// Why there is no Vulkan.
pub fn devices() -> Result<Vec<Arc<Properties>>, PluginError> {
    with(|_, opened| Ok(opened.devices.iter().map(|listed| Arc::clone(&listed.properties)).collect()))
}

/// What a program chose: 0 nothing, 1 that it uses this library's memory, from 2 on a device's number and 2.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// Notes that the program uses Vulkan through this library.
pub fn note_use() {
    let _ = CHOSEN.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
}

/// The device whose memory a program can name by this address. Opens nothing.
pub fn owner(address: u64) -> Option<usize> {
    if CHOSEN.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let knows = |listed: &Listed| listed.opened.as_ref().is_some_and(|gpu| gpu.memory.knows(address));
    OPENED.lock().as_ref()?.devices.iter().position(knows)
}

/// Makes a device the one of handles that have none yet.
pub fn choose(number: usize) {
    CHOSEN.store(number.saturating_add(2), Ordering::Relaxed);
}

/// The device that handles use.
///
/// # Errors
/// Why there is none. Without a program's or a user's choice, nothing of Vulkan is opened: its drivers take time and memory, and host
/// arrays are computed faster where they are. With `is_needed` it is the best one, even if it is software.
pub fn default_number(is_needed: bool) -> Result<usize, PluginError> {
    let chosen = CHOSEN.load(Ordering::Relaxed);
    let wanted = std::env::var(DEVICE).ok().filter(|wanted| !wanted.is_empty());
    if is_needed && chosen == 0 && wanted.is_none() {
        let named = |name: &str| number(1, Some(name.to_owned()));
        return named("gpu").or_else(|_| named("cpu"));
    }
    number(chosen, wanted)
}

/// The device for what a program chose, and a user.
pub fn number(chosen: usize, wanted: Option<String>) -> Result<usize, PluginError> {
    match (chosen, wanted) {
        (0, None) => Err(PluginError::not_initialized(format!(
            "no Vulkan device is chosen; {DEVICE}=gpu chooses the best one, as does a program that allocates memory with hipdnn_vulkan.h"
        ))),
        (0, Some(wanted)) => Ok(preferred(&devices()?, &wanted)?),
        (1, wanted) => Ok(preferred(&devices()?, wanted.as_deref().unwrap_or("gpu"))?),
        (number, _) => Ok(number - 2),
    }
}

/// The device that a text names: `gpu` for the best one, `cpu` for one that is software, `vulkan:1`, `1`, a UUID, or a part of a name.
///
/// # Errors
/// Why there is none.
pub fn preferred(devices: &[Arc<Properties>], wanted: &str) -> Result<usize, Refusal> {
    let number = wanted.strip_prefix("vulkan:").unwrap_or(wanted).parse::<usize>().ok();
    let is_wanted = |device: &Properties| match (number, wanted) {
        (Some(number), _) => device.number == number,
        (None, "gpu") => !device.is_software(),
        (None, "cpu") => device.is_software(),
        _ => {
            device.uuid_text().eq_ignore_ascii_case(wanted)
                || device.name.to_lowercase().contains(&wanted.to_lowercase())
        }
    };
    let candidates = || devices.iter().filter(|device| is_wanted(device));
    if let Some(best) = candidates()
        .filter(|device| device.lacks.is_none())
        .min_by_key(|device| (device.rank(), device.number))
    {
        return Ok(best.number);
    }
    let reasons: Vec<String> =
        candidates().filter_map(|device| device.check().err()).map(|reason| reason.to_string()).collect();
    if !reasons.is_empty() {
        return Err(Refusal::new(format!("no Vulkan device can be used: {}", reasons.join("; "))));
    }
    let known: Vec<String> = devices.iter().map(|device| device.label()).collect();
    let known = if known.is_empty() {
        "the loader found no driver".to_owned()
    } else {
        format!("there are {}", known.join(", "))
    };
    Err(Refusal::new(format!("no Vulkan device is {wanted:?} ({DEVICE}); {known}")))
}

/// A device by its number, opened.
///
/// # Errors
/// Why it cannot be used.
pub fn device(number: usize) -> Result<Arc<Gpu>, PluginError> {
    with(|_, opened| {
        let count = opened.devices.len();
        let listed = opened.devices.get_mut(number).ok_or_else(|| no_device(number, count))?;
        if let Some(device) = &listed.opened {
            return Ok(Arc::clone(device));
        }
        listed.properties.check()?;
        // SAFETY: the instance is never destroyed, and the device is one of its.
        let device = Arc::new(unsafe { Gpu::open(&opened.instance, &listed.properties) }?);
        listed.opened = Some(Arc::clone(&device));
        Ok(device)
    })
}

/// Closes a device. The next use of one of this library's opens it again; a program's cannot be used any more.
///
/// # Errors
/// When something still uses it.
pub fn close(number: usize) -> Result<(), PluginError> {
    let closed = with(|_, opened| {
        let count = opened.devices.len();
        let listed = opened.devices.get_mut(number).ok_or_else(|| no_device(number, count))?;
        let Some(gpu) = &listed.opened else { return Ok(None) };
        // Nobody gets another share while this thread has the lock.
        let (shares, memory) = (Arc::strong_count(gpu) - 1, gpu.memory.count());
        if shares + memory > 0 {
            return Err(PluginError::bad_param(format!(
                "device {} is still used: by {shares} handles, plans or calls, and {memory} places of memory",
                listed.properties.label()
            )));
        }
        if !gpu.device.is_own() {
            let lacks = Some("the program took it back".to_owned());
            listed.properties = Arc::new(Properties { lacks, ..(*listed.properties).clone() });
            let _ =
                CHOSEN.compare_exchange(number.saturating_add(2), 1, Ordering::Relaxed, Ordering::Relaxed);
        }
        Ok(listed.opened.take())
    })?;
    // Its objects are destroyed without the lock.
    drop(closed);
    Ok(())
}

fn no_device(number: usize, count: usize) -> PluginError {
    PluginError::bad_param(format!("the device is {number}, expected less than the {count} of this process"))
}

/// Adds a device that a program opened, and returns its number.
///
/// # Errors
/// Why there is no Vulkan.
pub fn add(
    make: impl FnOnce(&'static Entry, usize) -> Result<Gpu, PluginError>,
) -> Result<usize, PluginError> {
    with(|entry, opened| {
        let number = opened.devices.len();
        let device = Arc::new(make(entry, number)?);
        opened
            .devices
            .push(Listed { properties: Arc::clone(&device.device.properties), opened: Some(device) });
        Ok(number)
    })
}

/// The label of another open device that has this address.
pub fn other_device(gpu: &Gpu, address: u64) -> Option<String> {
    let opened = OPENED.lock();
    let others = opened.iter().flat_map(|opened| &opened.devices).filter_map(|listed| listed.opened.as_ref());
    let mut others = others.filter(|other| !std::ptr::eq(&***other, gpu));
    others.find(|other| other.memory.find(address).is_some()).map(|other| other.device.properties.label())
}

/// Refuses children of a process that had opened Vulkan.
///
/// # Errors
/// That this is one.
pub fn check_process() -> Result<(), PluginError> {
    if !process::is_child() {
        return Ok(());
    }
    match &*OPENED.lock() {
        Some(opened) if opened.process != process::word() => Err(PluginError::not_initialized(FORKED)),
        _ => Ok(()),
    }
}
