//! Copies tensors to, from and on the GPU.

use std::any::Any;
use std::ptr;
use std::slice;
use std::sync::Arc;

use super::{Side, is_on_gpu, opened};
use crate::failure::{Failure, Result};
use crate::ort::*;

/// Copies between the host and the GPU. ONNX Runtime accesses its first member.
#[repr(C)]
pub struct Transfer {
    base: OrtDataTransferImpl,
    ort: Ort,
    /// The memory devices of the GPU and of host memory that it can access.
    memories: Vec<*const OrtMemoryDevice>,
    is_vulkan: bool,
    /// What keeps the memory devices.
    _factory: Arc<dyn Any + Send + Sync>,
}

/// `OrtMemoryInfoDeviceType_CPU`.
const CPU: i32 = 0;

impl Transfer {
    /// A transfer owned by ONNX Runtime.
    pub fn create(
        (ort, factory): (Ort, Arc<dyn Any + Send + Sync>),
        side: &Side,
    ) -> *mut OrtDataTransferImpl {
        let base =
            OrtDataTransferImpl { ort_version_supported: ort.version, release, can_copy, copy_tensors };
        let (memories, is_vulkan) = (side.memories(), side.is_vulkan());
        Box::into_raw(Box::new(Self { base, ort, memories, is_vulkan, _factory: factory })).cast()
    }

    fn can_copy(&self, from: *const OrtMemoryDevice, to: *const OrtMemoryDevice) -> bool {
        let ep = self.ort.ep;
        // SAFETY: ONNX Runtime passes devices that are alive, and so are the GPU's.
        let [from, to] = [from, to].map(|device| unsafe {
            let is_own = self.memories.iter().any(|own| ep.MemoryDevice_AreEqual(device, *own));
            (is_own, ep.MemoryDevice_GetDeviceType(device) == CPU)
        });
        matches!((from, to), ((true, _), (true, _)) | ((true, _), (_, true)) | ((_, true), (true, _)))
    }

    /// Copies a tensor, after all earlier work and before all later work.
    ///
    /// # Safety
    /// Both are tensors of as many bytes, on the host or on the GPU.
    unsafe fn copy(&self, from: *const OrtValue, to: *mut OrtValue) -> Result<()> {
        let (ort, api) = (self.ort, self.ort.api);
        // SAFETY: both are tensors of as many bytes, on the host or on the GPU, as this function requires.
        let (bytes, source, target, places) = unsafe {
            (
                ort.value("the size of a tensor", 0, |bytes| api.GetTensorSizeInBytes(from, bytes))?,
                ort.value("the memory of a tensor", ptr::null(), |data| api.GetTensorData(from, data))?,
                ort.value("the memory of a tensor", ptr::null_mut(), |data| {
                    api.GetTensorMutableData(to, data)
                })?,
                (is_on_gpu(ort, from), is_on_gpu(ort, to)),
            )
        };
        if bytes == 0 || source == target.cast_const() {
            return Ok(());
        }
        let gpu = opened(self.is_vulkan)?;
        // SAFETY: both have this many bytes, where their devices say.
        let copied = unsafe {
            match places {
                (true, true) => gpu.copy(target, source, bytes),
                (true, false) => gpu.download(slice::from_raw_parts_mut(target.cast(), bytes), source),
                (false, true) => gpu.upload(target, slice::from_raw_parts(source.cast(), bytes)),
                (false, false) => {
                    target.cast::<u8>().copy_from_nonoverlapping(source.cast(), bytes);
                    Ok(())
                }
            }
        };
        copied.map_err(Failure::from)
    }
}

/// # Safety
/// `transfer` is one that this library made, and lives as long as the result.
unsafe fn of<'a>(transfer: *const OrtDataTransferImpl) -> &'a Transfer {
    // SAFETY: ONNX Runtime passes what `Transfer::create` made, which lives until it is released; it is never changed.
    unsafe { &*transfer.cast::<Transfer>() }
}

/// # Safety
/// ONNX Runtime calls this once, and uses `transfer` no more.
unsafe extern "C" fn release(transfer: *mut OrtDataTransferImpl) {
    if !transfer.is_null() {
        // SAFETY: ONNX Runtime releases what `Transfer::create` made of the whole struct, once.
        drop(unsafe { Box::from_raw(transfer.cast::<Transfer>()) });
    }
}

/// # Safety
/// ONNX Runtime calls this with this library's transfer; devices and tensors are valid as its interface says.
unsafe extern "C" fn can_copy(
    transfer: *const OrtDataTransferImpl,
    from: *const OrtMemoryDevice,
    to: *const OrtMemoryDevice,
) -> bool {
    // SAFETY: ONNX Runtime passes its transfer.
    unsafe { of(transfer) }.can_copy(from, to)
}

/// # Safety
/// ONNX Runtime calls this with this library's transfer; devices and tensors are valid as its interface says.
unsafe extern "C" fn copy_tensors(
    transfer: *mut OrtDataTransferImpl,
    from: *mut *const OrtValue,
    to: *mut *mut OrtValue,
    _streams: *mut *mut OrtSyncStream,
    count: usize,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its transfer.
    let transfer = unsafe { of(transfer) };
    guard(transfer.ort, "CopyTensors", || {
        for at in 0..count {
            // SAFETY: both arrays have `count` tensors, each pair of as many bytes.
            unsafe { transfer.copy(from.add(at).read(), to.add(at).read()) }?;
        }
        Ok(())
    })
}
