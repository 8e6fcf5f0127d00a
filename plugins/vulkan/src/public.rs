//! The functions of `hipdnn_vulkan.h`.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::Arc;

use ash::vk;
use ash::vk::Handle as _;
use hipdnn_plugin_sdk::vulkan::DeviceInfo;
use hipdnn_plugin_sdk::{PluginError, cancel};

use crate::buffer::Buffer;
use crate::device::Device;
use crate::gpu::Gpu;
use crate::instance;
use crate::properties::Properties;

/// The longest reason.
const TEXT: usize = 1024;

/// Bytes that a copy stages at once, at most.
const STAGED: usize = 64 << 20;

thread_local! {
    /// The reason of this thread's last failure. It has no destructor, which would need the system's loader.
    static LAST: Cell<[u8; TEXT]> = const { Cell::new([0; TEXT]) };
}

/// `hipdnnVulkanAdopted`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the header describes them")]
pub struct Adopted {
    pub get_instance_proc_addr: *mut c_void,
    pub instance: *mut c_void,
    pub physical_device: *mut c_void,
    pub device: *mut c_void,
    pub queue: *mut c_void,
    pub queue_family: u32,
}

/// The status of a call. Panics become a status, and a failure's reason is kept.
fn guard(body: impl FnOnce() -> Result<(), PluginError>) -> c_int {
    let _off = cancel::disable();
    let error = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error,
        Err(payload) => {
            // Dropping a panic's payload could panic again.
            std::mem::forget(payload);
            PluginError::internal("the plugin panicked")
        }
    };
    let mut text = [0; TEXT];
    let bytes = error.message().as_bytes();
    let count = bytes.len().min(TEXT - 1);
    if let (Some(to), Some(from)) = (text.get_mut(..count), bytes.get(..count)) {
        to.copy_from_slice(from);
    }
    LAST.set(text);
    error.status() as c_int
}

fn number(number: i32) -> Result<usize, PluginError> {
    usize::try_from(number).map_err(|_| {
        PluginError::bad_param(format!("number is {number}, expected that of a device, from 0 on"))
    })
}

fn gpu(device: i32) -> Result<Arc<Gpu>, PluginError> {
    instance::check_process()?;
    instance::device(number(device)?)
}

fn not_null<T>(name: &str, pointer: *const T) -> Result<(), PluginError> {
    if pointer.is_null() { Err(PluginError::bad_param(format!("{name} is null"))) } else { Ok(()) }
}

/// A buffer of this library that has these bytes, and the offset in it.
fn found(
    gpu: &Gpu,
    name: &str,
    pointer: *const c_void,
    bytes: usize,
) -> Result<(Arc<Buffer>, u64), PluginError> {
    let wrong = |text: String| PluginError::bad_param(format!("{name} is {pointer:?}, {text}"));
    let label = gpu.device.properties.label();
    let found = gpu.memory.find(pointer.addr() as u64);
    let found = found.ok_or_else(|| wrong(format!("expected memory of device {label}")))?;
    if found.left < bytes as u64 {
        return Err(wrong(format!(
            "with {} bytes up to the end of its memory, expected {bytes}",
            found.left
        )));
    }
    let buffer = found
        .buffer
        .ok_or_else(|| wrong("memory of the program's own, expected this library's".to_owned()))?;
    Ok((buffer, found.offset))
}

/// `hipdnnVulkanGetDeviceCount_ext`
///
/// # Safety
/// `count` is null or valid for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnVulkanGetDeviceCount_ext(count: *mut i32) -> c_int {
    guard(|| {
        not_null("count", count)?;
        let devices = instance::devices()?.len() as i32;
        // SAFETY: this function requires that a pointer is null or valid for a number, and null was refused.
        unsafe { count.write(devices) };
        Ok(())
    })
}

fn info(properties: &Properties) -> DeviceInfo {
    let mut name = [0; 256];
    for (to, from) in name.iter_mut().zip(properties.name.bytes().take(255)) {
        *to = from.cast_signed() as c_char;
    }
    let heaps = properties.memory.memory_heaps_as_slice().iter();
    let own = heaps.filter(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    DeviceInfo {
        name,
        uuid: properties.uuid,
        kind: properties.kind.as_raw(),
        major_version: properties.version.0,
        minor_version: properties.version.1,
        subgroup: properties.subgroup,
        shares_memory: properties.shares_memory().into(),
        is_usable: properties.lacks.is_none().into(),
        memory_bytes: own.map(|heap| heap.size).sum(),
    }
}

/// `hipdnnVulkanGetDevice_ext`
///
/// # Safety
/// `device` is null or valid for a description.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnVulkanGetDevice_ext(device: i32, described: *mut DeviceInfo) -> c_int {
    guard(|| {
        not_null("device", described)?;
        let devices = instance::devices()?;
        let count = devices.len();
        let properties = devices.get(number(device)?).ok_or_else(|| {
            PluginError::bad_param(format!("number is {device}, expected less than the {count} devices"))
        })?;
        // SAFETY: this function requires that a pointer is null or valid for the struct, and null was refused.
        unsafe { described.write(info(properties)) };
        Ok(())
    })
}

/// `hipdnnVulkanChooseDevice_ext`
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnVulkanChooseDevice_ext(device: i32) -> c_int {
    guard(|| {
        gpu(device)?;
        instance::choose(number(device)?);
        Ok(())
    })
}

/// `hipdnnVulkanAllocate_ext`
///
/// # Safety
/// `memory` is null or valid for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnVulkanAllocate_ext(
    device: i32,
    bytes: usize,
    memory: *mut *mut c_void,
) -> c_int {
    guard(|| {
        not_null("memory", memory)?;
        let gpu = gpu(device)?;
        instance::note_use();
        let address = gpu.memory.know(gpu.allocate(bytes as u64)?);
        // SAFETY: this function requires that a pointer is null or valid for a pointer, and null was refused.
        unsafe { memory.write(std::ptr::with_exposed_provenance_mut(address as usize)) };
        Ok(())
    })
}

/// `hipdnnVulkanFree_ext`
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnVulkanFree_ext(device: i32, memory: *mut c_void) -> c_int {
    forget(device, memory)
}

fn forget(device: i32, memory: *mut c_void) -> c_int {
    guard(|| {
        if memory.is_null() {
            return Ok(());
        }
        let gpu = gpu(device)?;
        // A lost device has no work left.
        let done = gpu.queue.finish();
        done.or_else(|error| if gpu.device.check_lost().is_err() { Ok(()) } else { Err(error) })?;
        if gpu.memory.forget(memory.addr() as u64) {
            return Ok(());
        }
        let label = gpu.device.properties.label();
        Err(PluginError::bad_param(format!(
            "memory is {memory:?}, expected the beginning of memory of device {label}"
        )))
    })
}

/// `hipdnnVulkanCopyToDevice_ext`
///
/// # Safety
/// `from` has these bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnVulkanCopyToDevice_ext(
    device: i32,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    guard(|| {
        not_null("from", from)?;
        let gpu = gpu(device)?;
        let (buffer, offset) = found(&gpu, "to", to, bytes)?;
        if let Some(mapped) = buffer.mapped().filter(|_| bytes > 0) {
            gpu.queue.synchronize()?;
            // SAFETY: both have the bytes, and no work uses them.
            unsafe {
                let to = mapped.as_ptr().wrapping_add(offset as usize);
                to.copy_from_nonoverlapping(from.cast(), bytes);
            }
            return Ok(());
        }
        for begin in (0..bytes).step_by(STAGED) {
            let part = (bytes - begin).min(STAGED);
            let block = gpu.block(part as u64)?;
            let from = from.cast::<u8>().wrapping_add(begin);
            // SAFETY: both have the bytes, and no work uses the block.
            unsafe { block.mapped()?.as_ptr().copy_from_nonoverlapping(from, part) };
            let own = block.staged().unwrap_or(&block.device);
            let time = gpu.queue.submit(|recorder| {
                recorder.copy(own, 0, &buffer, offset + begin as u64, part as u64);
            })?;
            // A program that uses its own queue may rely on it.
            if !gpu.device.is_own() {
                gpu.queue.wait(time)?;
            }
            gpu.give_back(block, time)?;
        }
        Ok(())
    })
}

/// `hipdnnVulkanCopyToHost_ext`
///
/// # Safety
/// `to` has room for these bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnVulkanCopyToHost_ext(
    device: i32,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    guard(|| {
        not_null("to", to)?;
        let gpu = gpu(device)?;
        let (buffer, offset) = found(&gpu, "from", from, bytes)?;
        if let Some(mapped) = buffer.mapped().filter(|_| bytes > 0) {
            gpu.queue.synchronize()?;
            // SAFETY: both have the bytes, and no work uses them.
            unsafe {
                let from = mapped.as_ptr().wrapping_add(offset as usize);
                from.copy_to_nonoverlapping(to.cast(), bytes);
            }
            return Ok(());
        }
        for begin in (0..bytes).step_by(STAGED) {
            let part = (bytes - begin).min(STAGED);
            let block = gpu.block(part as u64)?;
            let own = block.staged().unwrap_or(&block.device);
            let time = gpu.queue.submit(|recorder| {
                recorder.copy(&buffer, offset + begin as u64, own, 0, part as u64);
            })?;
            gpu.queue.wait(time)?;
            let to = to.cast::<u8>().wrapping_add(begin);
            // SAFETY: both have the bytes, and the work is done.
            unsafe { to.copy_from_nonoverlapping(block.mapped()?.as_ptr(), part) };
            gpu.give_back(block, time)?;
        }
        Ok(())
    })
}

/// `hipdnnVulkanCopy_ext`
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnVulkanCopy_ext(
    device: i32,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    guard(|| {
        let gpu = gpu(device)?;
        let ((to, to_offset), (from, from_offset)) =
            (found(&gpu, "to", to, bytes)?, found(&gpu, "from", from, bytes)?);
        let copied = gpu.queue.submit(|recorder| {
            recorder.copy(&from, from_offset, &to, to_offset, bytes as u64);
        });
        copied.map(drop)
    })
}

/// `hipdnnVulkanSynchronize_ext`
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnVulkanSynchronize_ext(device: i32) -> c_int {
    guard(|| gpu(device)?.queue.synchronize())
}

/// `hipdnnVulkanAdopt_ext`
///
/// # Safety
/// `adopted` is null or valid, and its members are alive, as the header says; `device` is null or valid for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnVulkanAdopt_ext(adopted: *const Adopted, device: *mut i32) -> c_int {
    guard(|| {
        not_null("adopted", adopted)?;
        not_null("number", device)?;
        // SAFETY: this function requires that a pointer is null or valid for the struct, and null was refused.
        let adopted = unsafe { adopted.read() };
        let members = [
            adopted.get_instance_proc_addr,
            adopted.instance,
            adopted.physical_device,
            adopted.device,
            adopted.queue,
        ];
        if members.contains(&null_mut()) {
            return Err(PluginError::bad_param("adopted has a null member"));
        }
        // SAFETY: the program says that the members are what they are called.
        let number = instance::add(|_, number| unsafe { adopt(&adopted, number) })?;
        // SAFETY: the header requires that a pointer is null or valid for a number, and null was refused.
        unsafe { device.write(number as i32) };
        Ok(())
    })
}

/// # Safety
/// The members are alive, as the header says.
unsafe fn adopt(adopted: &Adopted, number: usize) -> Result<Gpu, PluginError> {
    let raw = |member: *mut c_void| member.expose_provenance() as u64;
    // SAFETY: the program says that it is this function.
    let get_instance_proc_addr = unsafe {
        std::mem::transmute::<*mut c_void, vk::PFN_vkGetInstanceProcAddr>(adopted.get_instance_proc_addr)
    };
    // SAFETY: this function requires that the program's function and instance are alive, and outlive what is loaded.
    let (entry, instance) = unsafe {
        let static_fn = ash::StaticFn { get_instance_proc_addr };
        let own = vk::Instance::from_raw(raw(adopted.instance));
        (ash::Entry::from_static_fn(static_fn.clone()), ash::Instance::load(&static_fn, own))
    };
    let physical = vk::PhysicalDevice::from_raw(raw(adopted.physical_device));
    // SAFETY: the device is one of the instance.
    let mut properties = unsafe { Properties::ask(&entry, &instance, physical, number) }?;
    properties.check()?;
    // SAFETY: the device is one of the instance.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    properties.choose_family(Some(adopted.queue_family), &families);
    // Whether the program enabled these is not known.
    properties.host_alignment = None;
    properties.features.cooperative_matrix = false;
    properties.features.bfloat = false;
    // SAFETY: this function requires that the program's device is alive, and belongs to the instance.
    let functions =
        unsafe { ash::Device::load(instance.fp_v1_0(), vk::Device::from_raw(raw(adopted.device))) };
    let device = Arc::new(Device::new(&instance, Arc::new(properties), functions, false));
    // SAFETY: the program leaves the queue to this library while it is used.
    unsafe { Gpu::new(device, vk::Queue::from_raw(raw(adopted.queue))) }
}

/// `hipdnnVulkanCloseDevice_ext`
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnVulkanCloseDevice_ext(device: i32) -> c_int {
    guard(|| {
        instance::check_process()?;
        instance::close(number(device)?)
    })
}

/// `hipdnnVulkanAddMemory_ext`
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnVulkanAddMemory_ext(device: i32, memory: *mut c_void, bytes: usize) -> c_int {
    guard(|| {
        not_null("memory", memory)?;
        instance::note_use();
        gpu(device)?.memory.know_foreign(memory.addr() as u64, bytes as u64);
        Ok(())
    })
}

/// `hipdnnVulkanRemoveMemory_ext`
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnVulkanRemoveMemory_ext(device: i32, memory: *mut c_void) -> c_int {
    forget(device, memory)
}

/// `hipdnnVulkanFindDevice_ext`
///
/// # Safety
/// `device` is null or valid for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnVulkanFindDevice_ext(memory: *const c_void, device: *mut i32) -> c_int {
    guard(|| {
        not_null("number", device)?;
        let owner = instance::owner(memory.addr() as u64).map_or(-1, |number| number as i32);
        // SAFETY: this function requires that a pointer is null or valid for a number, and null was refused.
        unsafe { device.write(owner) };
        Ok(())
    })
}

/// `hipdnnVulkanGetLastError_ext`
///
/// # Safety
/// `text` is null or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnVulkanGetLastError_ext(text: *mut c_char, size: usize) {
    if text.is_null() || size == 0 {
        return;
    }
    let last = LAST.get();
    let length = last.iter().position(|byte| *byte == 0).unwrap_or(TEXT - 1).min(size - 1);
    // SAFETY: this function requires room for `size` bytes, and `length` is less than that.
    unsafe {
        text.cast::<u8>().copy_from_nonoverlapping(last.as_ptr(), length);
        text.add(length).write(0);
    }
}
