//! Submissions and allocations that fail, on a device whose driver's functions can be made to.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use ash::vk;
use hipdnn_plugin_sdk::{EnginePlugin, PluginError, fork, os};

use crate::buffer::Buffer;
use crate::device::{Device, Purpose};
use crate::gpu::Gpu;
use crate::loader;
use crate::plugin::VulkanPlugin;
use crate::properties::Properties;

const BYTES: u64 = 16 << 20;
const FULL: vk::Result = vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;

thread_local! {
    /// How often `vkQueueSubmit` fails yet in this thread, and with what.
    static SUBMISSIONS: Cell<(u32, vk::Result)> = const { Cell::new((0, vk::Result::SUCCESS)) };
    /// How often it was called.
    static CALLS: Cell<u32> = const { Cell::new(0) };
    /// Whether `vkAllocateMemory` fails until something is freed.
    static IS_FULL: Cell<bool> = const { Cell::new(false) };
}

static SUBMIT: OnceLock<vk::PFN_vkQueueSubmit> = OnceLock::new();
static ALLOCATE: OnceLock<vk::PFN_vkAllocateMemory> = OnceLock::new();
static FREE: OnceLock<vk::PFN_vkFreeMemory> = OnceLock::new();

fn fail_submissions(times: u32, result: vk::Result) {
    SUBMISSIONS.set((times, result));
}

/// # Safety
/// As for the driver's function.
unsafe extern "system" fn submit(
    queue: vk::Queue,
    count: u32,
    infos: *const vk::SubmitInfo<'_>,
    fence: vk::Fence,
) -> vk::Result {
    CALLS.set(CALLS.get() + 1);
    let (times, result) = SUBMISSIONS.get();
    if times > 0 {
        fail_submissions(times - 1, result);
        return result;
    }
    // SAFETY: the arguments are those for the driver's function.
    unsafe { SUBMIT.get().unwrap()(queue, count, infos, fence) }
}

/// # Safety
/// As for the driver's function.
unsafe extern "system" fn allocate(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    if IS_FULL.get() {
        return FULL;
    }
    // SAFETY: the arguments are those for the driver's function.
    unsafe { ALLOCATE.get().unwrap()(device, info, callbacks, memory) }
}

/// # Safety
/// As for the driver's function.
unsafe extern "system" fn free(
    device: vk::Device,
    memory: vk::DeviceMemory,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    IS_FULL.set(IS_FULL.get() && memory == vk::DeviceMemory::null());
    // SAFETY: the arguments are those for the driver's function.
    unsafe { FREE.get().unwrap()(device, memory, callbacks) }
}

/// The first device, opened apart from all others.
fn gpu() -> Option<Gpu> {
    let entry = loader::entry().ok()?;
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: the structs are alive during the call.
    let instance = unsafe { entry.create_instance(&info, None) }.ok()?;
    // SAFETY: the instance was just made, and is never destroyed; so in the calls below.
    let physical = *unsafe { instance.enumerate_physical_devices() }.ok()?.first()?;
    // SAFETY: the device is one of the instance.
    let properties = Arc::new(unsafe { Properties::ask(entry, &instance, physical, 0) }.ok()?);
    properties.check().ok()?;
    // SAFETY: the device can be used, and the instance outlives it.
    let opened = unsafe { Device::open(&instance, &properties) }.unwrap();
    let handle = opened.functions.handle();
    let load = |name: &std::ffi::CStr| {
        // SAFETY: the device is alive, and the name is one of a function.
        let found = unsafe { instance.get_device_proc_addr(handle, name.as_ptr()) };
        let found = found.map_or(std::ptr::null(), |function| function as *const c_void);
        // SAFETY: the functions of these names have these types.
        unsafe {
            match name.to_bytes() {
                b"vkQueueSubmit" => {
                    SUBMIT.get_or_init(|| std::mem::transmute(found));
                    submit as *const c_void
                }
                b"vkAllocateMemory" => {
                    ALLOCATE.get_or_init(|| std::mem::transmute(found));
                    allocate as *const c_void
                }
                b"vkFreeMemory" => {
                    FREE.get_or_init(|| std::mem::transmute(found));
                    free as *const c_void
                }
                _ => found,
            }
        }
    };
    // SAFETY: the device is alive, and the functions are the driver's or pass calls to them.
    let functions = unsafe { ash::Device::load_with(load, handle) };
    std::mem::forget(opened);
    let device = Arc::new(Device::new(&instance, Arc::clone(&properties), functions, true));
    // SAFETY: the device has one queue of the family.
    let queue = unsafe { device.functions.get_device_queue(properties.family.unwrap(), 0) };
    // SAFETY: nothing else uses its queue.
    Some(unsafe { Gpu::new(device, queue) }.unwrap())
}

/// Two buffers, and the times of two copies: one was submitted, the other waits for more.
fn waiting(gpu: &Gpu) -> ([Buffer; 2], [u64; 2]) {
    let buffers = [(); 2].map(|()| Buffer::new(&gpu.device, BYTES, Purpose::Staging).unwrap());
    // SAFETY: the buffers have these bytes, and no work uses them.
    unsafe {
        buffers[0].mapped().unwrap().as_ptr().write_bytes(1, BYTES as usize);
        buffers[1].mapped().unwrap().as_ptr().write_bytes(0, BYTES as usize);
    }
    let times = [BYTES, 4096].map(|bytes| copy(gpu, &buffers, bytes).unwrap());
    (buffers, times)
}

fn copy(gpu: &Gpu, buffers: &[Buffer; 2], bytes: u64) -> Result<u64, PluginError> {
    gpu.queue.submit(|recorder| recorder.copy(&buffers[0], 0, &buffers[1], 0, bytes))
}

#[test]
fn whoever_waits_is_told_that_another_call_failed_to_submit_the_work() {
    let told = |result: Result<(), PluginError>, words: &str| {
        let error = result.unwrap_err();
        assert!(error.message().contains(words), "{error}");
    };
    for (result, words) in
        [(FULL, "vkQueueSubmit failed with error -2"), (vk::Result::ERROR_DEVICE_LOST, "the device is lost")]
    {
        let Some(gpu) = gpu() else { return };
        let (buffers, [_, time]) = waiting(&gpu);
        fail_submissions(2, result);
        told(gpu.queue.synchronize(), words);
        fail_submissions(0, result);
        // Also when others go on.
        told(copy(&gpu, &buffers, 4096).map(drop), words);
        told(gpu.queue.wait(time), words);
        told(gpu.queue.synchronize(), words);
        told(gpu.allocate(16).map(drop), words);
    }
}

#[test]
fn a_call_that_fails_with_the_work_of_others_is_not_the_only_one_that_is_told() {
    let Some(gpu) = gpu() else { return };
    let (buffers, [_, time]) = waiting(&gpu);
    fail_submissions(2, FULL);
    assert!(copy(&gpu, &buffers, 4096).is_err() || gpu.queue.wait(time + 1).is_err());
    fail_submissions(0, FULL);
    assert!(copy(&gpu, &buffers, 4096).is_err());
    assert!(gpu.queue.wait(time).is_err());
    assert!(gpu.queue.synchronize().is_err());
}

#[test]
fn earlier_work_is_done_after_a_wait_that_failed_to_submit_more() {
    let Some(gpu) = gpu() else { return };
    let (buffers, [time, _]) = waiting(&gpu);
    fail_submissions(2, FULL);
    assert!(gpu.queue.synchronize().is_err());
    assert!(gpu.queue.done() >= time);
    gpu.queue.wait(time).unwrap();
    gpu.queue.finish().unwrap();
    drop(buffers);
}

#[test]
fn a_device_goes_on_if_the_only_call_whose_work_failed_was_told() {
    let Some(gpu) = gpu() else { return };
    let (buffers, [_, time]) = waiting(&gpu);
    fail_submissions(2, FULL);
    assert!(gpu.queue.wait(time).is_err());
    let again = copy(&gpu, &buffers, 4096).unwrap();
    gpu.queue.wait(again).unwrap();
    gpu.queue.synchronize().unwrap();
}

#[test]
fn work_is_submitted_again_when_earlier_work_is_done_if_memory_is_short() {
    let Some(gpu) = gpu() else { return };
    let (_buffers, [_, time]) = waiting(&gpu);
    fail_submissions(1, FULL);
    gpu.queue.synchronize().unwrap();
    gpu.queue.wait(time).unwrap();
}

#[test]
fn memory_of_work_that_waits_for_more_is_freed_for_others() {
    let Some(gpu) = gpu() else { return };
    let (buffers, [_, time]) = waiting(&gpu);
    let block = gpu.block(1 << 20).unwrap();
    assert!(gpu.give_back(block, time).is_ok());
    IS_FULL.set(true);
    let got = gpu.block(4 << 20);
    IS_FULL.set(false);
    got.map(drop).unwrap();
    drop(buffers);
}

#[test]
fn a_child_does_not_submit_its_parents_work() {
    let Some(gpu) = gpu() else { return };
    let (_buffers, [_, time]) = waiting(&gpu);
    fork::protect(VulkanPlugin::LOCKS);
    let before = CALLS.get();
    let is_well = || {
        let refused = gpu.queue.finish().is_err() && gpu.queue.wait(time).is_err();
        refused && CALLS.get() == before
    };
    assert_ne!(os::process::in_fork((), is_well), Some(false));
    gpu.queue.wait(time).unwrap();
    assert_eq!(CALLS.get(), before + 1);
}
