//! Detects device memory, which the CPU cannot read.
//!
//! HIP, the CUDA driver and the plugin of `VULKAN_ENGINE` answer, if the process has loaded them; this module never loads them. It
//! looks for them when handles and plans are made and when a plan first executes.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::cuda::{Cuda, Device, context_of};
use hipdnn_plugin_sdk::dynlib::loaded::look_again;
use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::hip::{Hip, MemoryKind};
use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::vulkan::Vulkan;

/// HIP, once found loaded; `None` if it has no device.
static HIP: OnceLock<Option<&Hip>> = OnceLock::new();

/// The CUDA driver, once found loaded.
static CUDA: OnceLock<&Cuda> = OnceLock::new();

/// The plugin of `VULKAN_ENGINE`, once found loaded.
static VULKAN: OnceLock<&Vulkan> = OnceLock::new();

/// Looks for libraries of devices, unless already found.
pub fn look_for_devices() {
    if HIP.get().is_none()
        && let Some(hip) = Hip::loaded()
    {
        HIP.get_or_init(|| hip.device_count().is_ok_and(|count| count > 0).then_some(hip));
    }
    if CUDA.get().is_none()
        && let Some(cuda) = Cuda::loaded()
    {
        CUDA.get_or_init(|| cuda);
    }
    if VULKAN.get().is_none()
        && let Some(vulkan) = Vulkan::loaded()
    {
        VULKAN.get_or_init(|| vulkan);
    }
}

/// Looks again at the process's first plan: by then the host has asked all plugins about a graph, so they
/// have loaded their libraries.
pub fn look_for_devices_of_plugins() {
    static HAS_LOOKED: AtomicBool = AtomicBool::new(false);
    if !HAS_LOOKED.swap(true, Ordering::Relaxed) {
        look_again();
    }
    look_for_devices();
}

/// Looks again for libraries that the program may have loaded since, for a stream or for memory.
pub fn look_for_devices_of_programs() {
    look_again();
    look_for_devices();
}

/// Checks that no tensor in `bound` and no workspace is device memory, if a library of devices was found.
///
/// # Errors
/// Names the first tensor in device memory, or the workspace.
#[inline]
pub fn check(
    bound: &[i64],
    buffers: &[hipdnnPluginDeviceBuffer_t],
    workspace: *const c_void,
) -> Result<(), PluginError> {
    let (hip, cuda, vulkan) = (HIP.get().copied().flatten(), CUDA.get(), VULKAN.get());
    if hip.is_none() && cuda.is_none() && vulkan.is_none() {
        return Ok(());
    }
    let is_beyond_host = |pointer| {
        hip.is_some_and(|hip| is_device(hip.memory_kind(pointer).ok()))
            || cuda.is_some_and(|cuda| cuda.is_beyond_host(pointer))
            || vulkan.is_some_and(|vulkan| vulkan.device_of(pointer).is_some())
    };
    check_with(is_beyond_host, bound, buffers, workspace)
}

/// The GPU that owns an address, if the host cannot read it. For CUDA this is the device of the stream.
///
/// # Errors
/// An error of CUDA if the stream has no context.
///
/// # Safety
/// The stream is null, a CUDA sentinel, or one that exists, if CUDA is loaded.
pub unsafe fn device_of(pointer: *const c_void, stream: hipStream_t) -> Result<Option<Gpu>, PluginError> {
    if let Some(hip) = HIP.get().copied().flatten()
        && is_device(hip.memory_kind(pointer).ok())
    {
        return Ok(Some(Gpu::Hip(hip)));
    }
    if let Some(device) = VULKAN.get().and_then(|vulkan| vulkan.device_of(pointer)) {
        return Ok(Some(Gpu::Vulkan(device)));
    }
    let Some(cuda) = CUDA.get().filter(|cuda| cuda.is_beyond_host(pointer)) else { return Ok(None) };
    // SAFETY: the stream is null, a sentinel or one that exists, as this function requires.
    let context = unsafe { context_of(cuda, stream) }?;
    Ok(Some(Gpu::Cuda(Device::of_context(cuda, context)?)))
}

/// Whether the host cannot reach memory of this kind.
fn is_device(kind: Option<MemoryKind>) -> bool {
    matches!(kind, Some(MemoryKind::Device | MemoryKind::Array))
}

/// [`check`] with a function that tells which addresses the host cannot read.
fn check_with(
    is_beyond_host: impl Fn(*const c_void) -> bool,
    bound: &[i64],
    buffers: &[hipdnnPluginDeviceBuffer_t],
    workspace: *const c_void,
) -> Result<(), PluginError> {
    let out_of_reach = |pointer: *const c_void| !pointer.is_null() && is_beyond_host(pointer);
    let refuse = |what: String| {
        Err(PluginError::invalid_value(format!(
            "{what} is device memory, which the CPU engines do not read; expected memory of the host: plain, \
             allocated for the host by HIP or CUDA, registered or managed; plans that are made while HIPDNN_CPU_FALLBACK is 1 copy it"
        )))
    };
    for buffer in buffers {
        if bound.contains(&buffer.uid) && out_of_reach(buffer.ptr) {
            return refuse(format!("the buffer of tensor {}", buffer.uid));
        }
    }
    if out_of_reach(workspace) {
        return refuse("the workspace".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn device_memory_is_named() {
        let mut bytes = [0_u8; 6];
        let kinds = [
            Some(MemoryKind::Unregistered),
            Some(MemoryKind::Host),
            Some(MemoryKind::Managed),
            None,
            Some(MemoryKind::Device),
            Some(MemoryKind::Array),
        ];
        let base = bytes.as_mut_ptr();
        let at = |offset: usize| base.wrapping_add(offset).cast::<c_void>();
        let kind = |pointer: *const c_void| is_device(kinds[pointer.addr() - base.addr()]);
        let buffer = |uid, ptr| hipdnnPluginDeviceBuffer_t { uid, ptr };
        let check = |buffers: &[_], workspace: *mut c_void| check_with(kind, &[1, 2], buffers, workspace);

        for offset in 0..4 {
            // Unknown tensors are ignored; missing ones are detected elsewhere.
            let buffers = [buffer(1, at(offset)), buffer(2, ptr::null_mut()), buffer(7, at(4))];
            assert_eq!(check(&buffers, ptr::null_mut()), Ok(()));
            assert_eq!(check(&buffers, at(offset)), Ok(()));
        }
        for offset in [4, 5] {
            let error = check(&[buffer(1, at(0)), buffer(2, at(offset))], ptr::null_mut()).unwrap_err();
            assert!(error.message().starts_with("the buffer of tensor 2 is device memory, "), "{error}");
            let error = check(&[buffer(1, at(0))], at(offset)).unwrap_err();
            assert!(error.message().starts_with("the workspace is device memory, "), "{error}");
        }
    }

    #[test]
    fn without_hip_nothing_is_refused_and_nothing_is_loaded() {
        look_for_devices();
        if Hip::loaded().is_none() {
            assert!(HIP.get().is_none());
            let buffer = hipdnnPluginDeviceBuffer_t { uid: 1, ptr: ptr::dangling_mut::<u64>().cast() };
            assert_eq!(check(&[1], &[buffer], ptr::null()), Ok(()));
        }
    }
}
