//! Memory for workspaces, and for GPU results that no other library allocates.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{c_char, c_void};
use std::ptr;

use hipdnn_plugin_sdk::cuda::EnteredContext;
use hipdnn_plugin_sdk::gpu::{Event, Gpu};
use pyo3::prelude::*;

use crate::device::{Place, Stream};
use crate::dlpack::{self, Allocator, DataType, Tensor, Versioned};
use crate::error::Failure;

/// No engine needs more; the largest vector registers need 64.
const ALIGNMENT: usize = 256;

/// Uninitialized host memory.
pub struct HostMemory {
    address: *mut u8,
    layout: Layout,
}

// SAFETY: the memory belongs to this object.
unsafe impl Send for HostMemory {}

impl HostMemory {
    fn new(size: usize) -> Result<Self, Failure> {
        let layout = Layout::from_size_align(size.max(1), ALIGNMENT).map_err(|_| Failure::Memory(size))?;
        // SAFETY: the size is not zero.
        let address = unsafe { alloc(layout) };
        if address.is_null() { Err(Failure::Memory(size)) } else { Ok(Self { address, layout }) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.address, self.layout) };
    }
}

/// GPU memory from the driver. Dropping it waits for work that uses it.
pub struct DeviceMemory {
    gpu: Gpu,
    place: Place,
    address: *mut c_void,
    pub size: usize,
}

// SAFETY: any thread may use a GPU address.
unsafe impl Send for DeviceMemory {}
// SAFETY: the address is never accessed here, and nothing changes it behind a shared reference.
unsafe impl Sync for DeviceMemory {}

impl DeviceMemory {
    /// Allocates bytes for work on a stream.
    ///
    /// # Safety
    /// The stream is a default stream or alive.
    pub unsafe fn new(size: usize, place: Place, stream: Stream) -> Result<Self, Failure> {
        // SAFETY: the stream is a default stream or alive, as this function requires.
        let Some(gpu) = (unsafe { place.gpu(stream) })? else {
            return Err(Failure::Device(format!("{size} bytes of GPU memory were requested on {place}")));
        };
        // Some stream, perhaps of another thread, may be captured; this allocation must not disturb it.
        let address = gpu.beside_captures(|| gpu.allocate(size))?;
        Ok(Self { gpu, place, address, size })
    }

    pub fn address(&self) -> *mut c_void {
        self.address
    }

    /// Makes the memory's context the thread's current one.
    fn enter(&self) -> Result<Option<EnteredContext>, Failure> {
        match self.gpu {
            Gpu::Cuda(device) => Ok(Some(device.enter()?)),
            // The caller has entered the device; one of Vulkan is never current.
            Gpu::Hip(_) | Gpu::Vulkan(_) => Ok(None),
        }
    }

    /// Waits for all work of the device.
    pub fn finish(&self) -> Result<(), Failure> {
        let _entered = self.place.enter(Stream::default())?;
        Ok(self.gpu.synchronize()?)
    }

    /// Fills the memory, after all work of the device is done.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.finish()?;
        let _entered = self.place.enter(Stream::default())?;
        let bytes = bytes.get(..self.size).unwrap_or(bytes);
        // SAFETY: the memory has at least as many bytes.
        Ok(unsafe { self.gpu.upload(self.address, bytes) }?)
    }

    /// The bytes, after all work of the device is done.
    pub fn read(&self) -> Result<Vec<u8>, Failure> {
        self.finish()?;
        let _entered = self.place.enter(Stream::default())?;
        let mut bytes = vec![0; self.size];
        // SAFETY: the vector and the memory, which this object owns, both have `self.size` bytes.
        unsafe { self.gpu.download(&mut bytes, self.address) }?;
        Ok(bytes)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let memory = &*self;
        // Freeing waits for the device.
        without_lock(|| {
            let _entered = memory.place.enter(Stream::default());
            // SAFETY: it was allocated by this GPU.
            memory.gpu.beside_captures(|| unsafe { memory.gpu.free(memory.address) });
        });
    }
}

/// Runs something that may block, releasing the interpreter's lock if this thread holds it.
pub fn without_lock(f: impl FnOnce() + Send) {
    let mut f = Some(f);
    // During interpreter shutdown, the lock can no longer be taken.
    Python::try_attach(|py| {
        if let Some(f) = f.take() {
            py.detach(f);
        }
    });
    if let Some(f) = f {
        f();
    }
}

/// Memory from another library's allocator, ordered with the stream that it is used on.
pub struct LentMemory(ptr::NonNull<Versioned>);

// SAFETY: any thread may release memory to the library that lent it.
unsafe impl Send for LentMemory {}

impl LentMemory {
    /// Allocates bytes on a device.
    ///
    /// # Safety
    /// The allocator belongs to a table that lives as long as the process.
    pub unsafe fn new(allocator: Allocator, size: usize, place: Place) -> Result<Self, Failure> {
        let (shape, strides) = ([i64::try_from(size).map_err(|_| Failure::Memory(size))?], [1]);
        let mut prototype = Tensor {
            data: ptr::null_mut(),
            device: place.device(),
            ndim: 1,
            dtype: DataType::BYTE,
            shape: shape.as_ptr(),
            strides: strides.as_ptr(),
            byte_offset: 0,
        };
        let (mut lent, mut said) = (ptr::null_mut::<Versioned>(), String::new());
        // SAFETY: the function reads the local `prototype` and writes only to the local `lent`, and through `keep_words` to `said`, which
        // outlives the call.
        let status =
            unsafe { allocator(&raw mut prototype, &raw mut lent, (&raw mut said).cast(), keep_words) };
        match ptr::NonNull::new(lent) {
            Some(lent) if status == 0 => Ok(Self(lent)),
            _ if said.is_empty() => Err(Failure::Memory(size)),
            _ => {
                Err(Failure::Device(format!("no memory for a workspace of {size} bytes on {place}: {said}")))
            }
        }
    }

    fn address(&self) -> *mut c_void {
        // SAFETY: it is alive until this is dropped.
        let tensor = unsafe { &self.0.as_ref().tensor };
        tensor.data.wrapping_byte_add(usize::try_from(tensor.byte_offset).unwrap_or(0))
    }
}

impl Drop for LentMemory {
    fn drop(&mut self) {
        // SAFETY: it is released once.
        unsafe { dlpack::end(self.0) };
    }
}

/// Stores an allocator's error message.
///
/// # Safety
/// `said` is a `String` that nothing else uses during the call, and `words` null or a text that ends with a NUL.
unsafe extern "C" fn keep_words(said: *mut c_void, _kind: *const c_char, words: *const c_char) {
    if words.is_null() {
        return;
    }
    // SAFETY: the context is the call's string, and the message ends with a NUL.
    unsafe { *said.cast::<String>() = std::ffi::CStr::from_ptr(words).to_string_lossy().into_owned() };
}

/// A workspace in GPU memory, for one execution after the other.
pub struct DeviceWorkspace {
    memory: DeviceMemory,
    /// Happens when the last execution is done; none with Vulkan, whose work runs in order.
    event: Option<Event>,
    /// The stream of the last execution, if any. It may have been destroyed, and its address reused.
    last: Option<Stream>,
}

// SAFETY: any thread may use an event.
unsafe impl Send for DeviceWorkspace {}

impl DeviceWorkspace {
    /// # Safety
    /// The stream is a default stream or alive.
    unsafe fn new(size: usize, place: Place, stream: Stream) -> Result<Self, Failure> {
        // SAFETY: the stream is a default stream or alive, as this function requires.
        let memory = unsafe { DeviceMemory::new(size, place, stream) }?;
        let event = {
            let _entered = memory.enter()?;
            let needed = !matches!(place, Place::Vulkan(_));
            needed.then(|| memory.gpu.create_event()).transpose()?
        };
        Ok(Self { memory, event, last: None })
    }
}

impl Drop for DeviceWorkspace {
    fn drop(&mut self) {
        if let Some(event) = self.event {
            // SAFETY: the event belongs to this object.
            unsafe { self.memory.gpu.destroy_event(event) };
        }
    }
}

/// The workspace of an execution.
pub enum Workspace {
    None,
    Host(HostMemory),
    Device(DeviceWorkspace),
}

impl Workspace {
    /// Allocates bytes; nothing for 0.
    ///
    /// # Safety
    /// The stream is a default stream or alive.
    pub unsafe fn new(size: usize, place: Place, stream: Stream) -> Result<Self, Failure> {
        Ok(match place {
            _ if size == 0 => Self::None,
            Place::Host => Self::Host(HostMemory::new(size)?),
            // SAFETY: the stream is a default stream or alive, as this function requires.
            _ => Self::Device(unsafe { DeviceWorkspace::new(size, place, stream) }?),
        })
    }

    /// The address.
    pub fn address(&self) -> *mut c_void {
        match self {
            Self::None => ptr::null_mut(),
            Self::Host(memory) => memory.address.cast(),
            Self::Device(of) => of.memory.address,
        }
    }

    /// Whether an execution on a stream need not wait for another one.
    pub fn is_ready(&self, stream: Stream) -> bool {
        match self {
            Self::Device(of) => of.last.is_none_or(|last| last == stream),
            _ => true,
        }
    }

    /// Makes a stream wait for the last execution, which costs nothing if that was on the same stream.
    ///
    /// # Safety
    /// The stream is alive.
    pub unsafe fn begin(&self, stream: Stream) -> Result<(), Failure> {
        match self {
            Self::Device(DeviceWorkspace { memory, event: Some(event), last: Some(_) }) => {
                // SAFETY: the stream is alive, as this function requires; the event belongs to the workspace.
                Ok(unsafe { memory.gpu.wait_for(stream.raw(), *event) }?)
            }
            _ => Ok(()),
        }
    }

    /// Records that an execution was queued on a stream.
    ///
    /// # Safety
    /// The stream is alive.
    pub unsafe fn end(&mut self, stream: Stream) -> Result<(), Failure> {
        if let Self::Device(of) = self {
            let _entered = of.memory.enter()?;
            if let Some(event) = of.event {
                // SAFETY: the stream is alive, as this function requires.
                unsafe { of.memory.gpu.record(event, stream.raw()) }?;
            }
            of.last = Some(stream);
        }
        Ok(())
    }

    /// Whether it is empty.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// The address of memory that another library lent for one execution.
pub fn address_of(lent: Option<&LentMemory>) -> Option<*mut c_void> {
    lent.map(LentMemory::address)
}
