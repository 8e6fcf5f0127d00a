//! Allocates GPU memory, or host memory that the GPU can access.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use hipdnn::hardware::{DeviceMemory, HostMemory};

use super::pool::{Block, Pool};
use super::{Side, opened};
use crate::failure::Result;
use crate::ort::*;

/// An allocator. ONNX Runtime accesses its first member.
#[repr(C)]
pub struct Allocator {
    base: OrtAllocator,
    ort: Ort,
    info: *const OrtMemoryInfo,
    is_of_host: bool,
    is_vulkan: bool,
    pool: Mutex<Pool<Memory>>,
    /// What keeps the memory info.
    _factory: Arc<dyn Any + Send + Sync>,
}

enum Memory {
    OfGpu(DeviceMemory),
    OfHost(HostMemory),
}

impl Memory {
    fn new((is_of_host, is_vulkan): (bool, bool), bytes: usize) -> Result<Self> {
        let gpu = opened(is_vulkan)?;
        Ok(if is_of_host {
            Self::OfHost(HostMemory::new(gpu, bytes)?)
        } else {
            Self::OfGpu(DeviceMemory::new(gpu, bytes)?)
        })
    }
}

impl Block for Memory {
    fn address(&self) -> usize {
        let start = match self {
            Self::OfGpu(memory) => memory.as_ptr(),
            Self::OfHost(memory) => memory.as_ptr(),
        };
        start.expose_provenance()
    }

    fn bytes(&self) -> usize {
        match self {
            Self::OfGpu(memory) => memory.bytes(),
            Self::OfHost(memory) => memory.bytes(),
        }
    }
}

impl Allocator {
    /// An allocator, owned by the caller until [`Allocator::release`].
    pub fn create(
        (ort, factory): (Ort, Arc<dyn Any + Send + Sync>),
        side: &Side,
        is_of_host: bool,
    ) -> *mut OrtAllocator {
        let base = OrtAllocator {
            version: ort.version,
            alloc,
            free,
            info: get_info,
            reserve: alloc,
            optional: [ptr::null(); 2],
            shrink: Some(shrink),
        };
        let (pool, info, is_vulkan) = (Mutex::default(), side.info(is_of_host), side.is_vulkan());
        Box::into_raw(Box::new(Self { base, ort, info, is_of_host, is_vulkan, pool, _factory: factory }))
            .cast()
    }

    /// Destroys an allocator, with all of its memory.
    ///
    /// # Safety
    /// The pointer is null or from [`Allocator::create`], and this is its last use.
    pub unsafe fn release(allocator: *mut OrtAllocator) {
        if !allocator.is_null() {
            // SAFETY: the pointer is null or from [`Allocator::create`], and this is its last use, as this function requires; it is that
            // of the whole struct.
            drop(unsafe { Box::from_raw(allocator.cast::<Self>()) });
        }
    }

    fn alloc(&self, bytes: usize) -> *mut c_void {
        let make = |bytes| Memory::new((self.is_of_host, self.is_vulkan), bytes);
        let taken = self.pool.lock().unwrap_or_else(PoisonError::into_inner).take(bytes, make);
        taken.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
    }
}

/// # Safety
/// `allocator` is one that this library made, and lives as long as the result.
unsafe fn of<'a>(allocator: *const OrtAllocator) -> &'a Allocator {
    // SAFETY: ONNX Runtime passes what `Allocator::create` made, which lives until it is released; it is shared by threads.
    unsafe { &*allocator.cast::<Allocator>() }
}

/// On null, ONNX Runtime reports how many bytes it did not get.
///
/// # Safety
/// ONNX Runtime calls this with an allocator of this library.
unsafe extern "C" fn alloc(allocator: *mut OrtAllocator, bytes: usize) -> *mut c_void {
    if bytes == 0 {
        return ptr::null_mut();
    }
    // SAFETY: ONNX Runtime passes its allocator.
    let allocator = unsafe { of(allocator) };
    catch_unwind(AssertUnwindSafe(|| allocator.alloc(bytes))).unwrap_or(ptr::null_mut())
}

/// # Safety
/// ONNX Runtime calls this with memory of this allocator, which nothing uses any more.
unsafe extern "C" fn free(allocator: *mut OrtAllocator, memory: *mut c_void) {
    // SAFETY: ONNX Runtime passes its allocator.
    let allocator = unsafe { of(allocator) };
    let give_back = || {
        let mut pool = allocator.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.give_back(memory.expose_provenance());
    };
    // A failure cannot be handled.
    let _ = catch_unwind(AssertUnwindSafe(give_back));
}

/// # Safety
/// ONNX Runtime calls this with an allocator of this library.
unsafe extern "C" fn get_info(allocator: *const OrtAllocator) -> *const OrtMemoryInfo {
    // SAFETY: ONNX Runtime passes its allocator.
    unsafe { of(allocator) }.info
}

/// # Safety
/// ONNX Runtime calls this with an allocator of this library.
unsafe extern "C" fn shrink(allocator: *mut OrtAllocator) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its allocator.
    let allocator = unsafe { of(allocator) };
    guard(allocator.ort, "Shrink", || {
        allocator.pool.lock().unwrap_or_else(PoisonError::into_inner).shrink();
        Ok(())
    })
}
