//! The part of the CUDA driver that engines need, loaded at run time.
//!
//! Without the driver, [`Cuda::with_device`] returns an error that an engine can pass on. The signatures are
//! those of CUDA 12 and 13: the example `cuda_prototypes` of `plugins/rtc` writes a program that compares
//! them with NVIDIA's headers.

mod context;
pub mod search;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;

use crate::dynlib::guard::thrown;
use crate::dynlib::loaded::{Table, table_of_loaded};
use crate::lock::OnceLock;
use crate::{PluginError, Refusal, function_table};

pub(crate) use context::enter;
pub use context::{Device, EnteredContext, context_of, device_in_use};

/// Result of a driver function; 0 is success.
pub type CUresult = c_int;
/// A device number.
pub type CUdevice = c_int;
/// A context: a device and the resources on it.
pub type CUcontext = *mut c_void;
/// A stream; null is the default stream of the thread's context.
pub type CUstream = *mut c_void;
/// An event.
pub type CUevent = *mut c_void;
/// A captured graph.
pub type CUgraph = *mut c_void;
/// An instantiated graph.
pub type CUgraphExec = *mut c_void;
/// A module of device code.
pub type CUmodule = *mut c_void;
/// A kernel of a module.
pub type CUfunction = *mut c_void;

crate::header_constants! {
    /// Success.
    CUDA_SUCCESS: c_int = CUDA_SUCCESS 0;
    /// An argument is invalid.
    CUDA_ERROR_INVALID_VALUE: c_int = CUDA_ERROR_INVALID_VALUE 1;
    /// There is no device.
    CUDA_ERROR_NO_DEVICE: c_int = CUDA_ERROR_NO_DEVICE 100;
    /// Device attribute: the multiprocessors' clock in kHz.
    CLOCK_RATE: c_int = CU_DEVICE_ATTRIBUTE_CLOCK_RATE 13;
    /// Device attribute: the number of multiprocessors.
    MULTIPROCESSOR_COUNT: c_int = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT 16;
    /// Device attribute: the memory's clock in kHz.
    MEMORY_CLOCK_RATE: c_int = CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE 36;
    /// Device attribute: the bits of the memory's bus.
    MEMORY_BUS_WIDTH: c_int = CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH 37;
    /// Device attribute: the major number of the compute capability.
    CAPABILITY_MAJOR: c_int = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR 75;
    /// Device attribute: the minor number of the compute capability.
    CAPABILITY_MINOR: c_int = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR 76;
    /// Pointer attribute: the address at which kernels of the thread's context access the memory.
    DEVICE_POINTER: c_int = CU_POINTER_ATTRIBUTE_DEVICE_POINTER 3;
    /// Pointer attribute: the kind of memory.
    MEMORY_TYPE: c_int = CU_POINTER_ATTRIBUTE_MEMORY_TYPE 2;
    /// Pointer attribute: whether the memory is managed, so that the host can use it, too.
    IS_MANAGED: c_int = CU_POINTER_ATTRIBUTE_IS_MANAGED 8;
    /// Pointer attribute: the number of the device that holds the memory.
    DEVICE_ORDINAL: c_int = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL 9;
    /// Device memory.
    MEMORYTYPE_DEVICE: c_int = CU_MEMORYTYPE_DEVICE 2;
    /// Device array.
    MEMORYTYPE_ARRAY: c_int = CU_MEMORYTYPE_ARRAY 3;
}

function_table! {
    /// The functions of the CUDA driver.
    #[expect(non_snake_case, reason = "the names of CUDA")]
    pub struct Cuda: "the CUDA driver", ["libcuda.so.1"] {
        required {
            /// Initializes the driver; flags are 0.
            fn cuInit(flags: c_uint) -> CUresult;
            /// The name of an error.
            fn cuGetErrorName(error: CUresult, text: *mut *const c_char) -> CUresult;
            /// The text of an error.
            fn cuGetErrorString(error: CUresult, text: *mut *const c_char) -> CUresult;
            /// The CUDA version that the driver supports, 13000 for 13.0.
            fn cuDriverGetVersion(version: *mut c_int) -> CUresult;
            /// The number of devices.
            fn cuDeviceGetCount(count: *mut c_int) -> CUresult;
            /// A device by its index.
            fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> CUresult;
            /// An attribute of a device.
            fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: CUdevice) -> CUresult;
            /// A device's primary context, which the CUDA runtime uses; retains it.
            fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> CUresult;
            /// The context of this thread.
            fn cuCtxGetCurrent(context: *mut CUcontext) -> CUresult;
            /// Makes a context current on this thread.
            fn cuCtxPushCurrent_v2(context: CUcontext) -> CUresult;
            /// Restores this thread's previous context.
            fn cuCtxPopCurrent_v2(context: *mut CUcontext) -> CUresult;
            /// The device of this thread's context.
            fn cuCtxGetDevice(device: *mut CUdevice) -> CUresult;
            /// Waits for all work of this thread's context.
            fn cuCtxSynchronize() -> CUresult;
            /// The context of a stream.
            fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext) -> CUresult;
            /// Loads a module into this thread's context.
            fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> CUresult;
            /// Unloads a module.
            fn cuModuleUnload(module: CUmodule) -> CUresult;
            /// A kernel by its name.
            fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> CUresult;
            /// Launches a kernel.
            fn cuLaunchKernel(
                function: CUfunction,
                grid_x: c_uint,
                grid_y: c_uint,
                grid_z: c_uint,
                block_x: c_uint,
                block_y: c_uint,
                block_z: c_uint,
                shared: c_uint,
                stream: CUstream,
                parameters: *mut *mut c_void,
                extra: *mut *mut c_void
            ) -> CUresult;
            /// Allocates device memory.
            fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) -> CUresult;
            /// Frees device memory.
            fn cuMemFree_v2(pointer: u64) -> CUresult;
            /// Copies to the device, and waits.
            fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> CUresult;
            /// Copies to the device in stream order.
            fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: CUstream) -> CUresult;
            /// Copies from the device, and waits.
            fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> CUresult;
            /// Creates an event.
            fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> CUresult;
            /// Records an event in a stream.
            fn cuEventRecord(event: CUevent, stream: CUstream) -> CUresult;
            /// Whether an event has happened.
            fn cuEventQuery(event: CUevent) -> CUresult;
            /// Destroys an event.
            fn cuEventDestroy_v2(event: CUevent) -> CUresult;
            /// Makes a stream wait for an event.
            fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) -> CUresult;
            /// Whether the work of a stream becomes part of a graph.
            fn cuStreamIsCapturing(stream: CUstream, status: *mut c_int) -> CUresult;
            /// Sets what this thread may do while a stream is captured.
            fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) -> CUresult;
            /// Attributes of an address, which may be any; zeros for unknown memory.
            fn cuPointerGetAttributes(
                count: c_uint,
                attributes: *mut c_int,
                answers: *mut *mut c_void,
                pointer: u64
            ) -> CUresult;
        }
        optional {
            /// A stream's id, which is never reused.
            fn cuStreamGetId(stream: CUstream, id: *mut u64) -> CUresult;
            /// Whether a device's primary context is active.
            fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, is_active: *mut c_int) -> CUresult;
            /// Creates a stream.
            fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> CUresult;
            /// Waits for the work of a stream.
            fn cuStreamSynchronize(stream: CUstream) -> CUresult;
            /// Destroys a stream.
            fn cuStreamDestroy_v2(stream: CUstream) -> CUresult;
            /// Allocates page-locked host memory.
            fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> CUresult;
            /// Frees page-locked host memory.
            fn cuMemFreeHost(pointer: *mut c_void) -> CUresult;
            /// Copies on the device, in order with the default stream.
            fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> CUresult;
            /// Copies on the device in stream order.
            fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: CUstream) -> CUresult;
            /// Copies from the device in stream order.
            fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: CUstream) -> CUresult;
            /// Begins to capture a stream.
            fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_int) -> CUresult;
            /// Ends the capture and returns the graph; null if a call invalidated it.
            fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> CUresult;
            /// Instantiates a graph.
            fn cuGraphInstantiateWithFlags(started: *mut CUgraphExec, graph: CUgraph, flags: u64) -> CUresult;
            /// Launches an instantiated graph on a stream.
            fn cuGraphLaunch(graph: CUgraphExec, stream: CUstream) -> CUresult;
            /// Destroys an instantiated graph.
            fn cuGraphExecDestroy(graph: CUgraphExec) -> CUresult;
            /// Destroys a graph.
            fn cuGraphDestroy(graph: CUgraph) -> CUresult;
            /// Waits for an event.
            fn cuEventSynchronize(event: CUevent) -> CUresult;
            /// Milliseconds between two events.
            fn cuEventElapsedTime(milliseconds: *mut f32, from: CUevent, to: CUevent) -> CUresult;
        }
    }
}

/// A failed call of a CUDA library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaError {
    /// The error code.
    pub code: c_int,
    /// The function and the library's message.
    pub message: String,
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CudaError {}

impl From<CudaError> for PluginError {
    fn from(error: CudaError) -> Self {
        Self::internal(error.message)
    }
}

impl From<CudaError> for Refusal {
    fn from(error: CudaError) -> Self {
        Self::new(error.message)
    }
}

impl Cuda {
    /// The process's driver, initialized and with at least one device. Once a device was found, the result
    /// stays the same.
    ///
    /// # Errors
    /// What was tried, or that there is no device.
    pub fn with_device() -> Result<&'static Self, Refusal> {
        static CUDA: OnceLock<&'static Cuda> = OnceLock::new();
        if let Some(cuda) = CUDA.get() {
            return Ok(cuda);
        }
        let cuda = Self::get()?;
        // SAFETY: the function may be called any number of times.
        let started = cuda.check("cuInit", unsafe { (cuda.cuInit)(0) });
        let count = started.and_then(|()| cuda.device_count());
        match count {
            Ok(1..) => Ok(CUDA.get_or_init(|| cuda)),
            Err(error) if error.code != CUDA_ERROR_NO_DEVICE => Err(error.into()),
            _ => Err(Refusal::new(format!("the CUDA driver ({}) finds no device", cuda.library().name()))),
        }
    }

    /// The driver's functions, if the process has already loaded it. Loads nothing.
    pub fn loaded() -> Option<&'static Self> {
        static CUDA: Table<Cuda> = Table::new();
        table_of_loaded(&CUDA, Self::LIBRARIES, |library| Self::load_from(&[library]))
    }

    /// Turns a result other than success into an error.
    ///
    /// # Errors
    /// When `answer` is an error.
    #[inline]
    pub fn check(&self, function: &str, answer: CUresult) -> Result<(), CudaError> {
        if answer == CUDA_SUCCESS { Ok(()) } else { Err(self.error(function, answer)) }
    }

    #[cold]
    fn error(&self, function: &str, answer: CUresult) -> CudaError {
        if let Some(message) = thrown(function, answer) {
            return CudaError { code: answer, message };
        }
        let words = [self.cuGetErrorName, self.cuGetErrorString].map(|ask| {
            let mut text = std::ptr::null();
            // SAFETY: the function writes only to the local `text`, and takes any number.
            if unsafe { ask(answer, &mut text) } != CUDA_SUCCESS || text.is_null() {
                return String::new();
            }
            // SAFETY: the driver's texts are NUL terminated and live for ever.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        });
        CudaError {
            code: answer,
            message: format!("{function} failed with error {answer}: {}", words.join(", ")),
        }
    }

    /// Attributes of a device.
    ///
    /// # Errors
    /// The driver's, for instance for an unknown attribute.
    pub fn attributes<const N: usize>(
        &self,
        device: CUdevice,
        which: [c_int; N],
    ) -> Result<[c_int; N], CudaError> {
        let mut values = [0; N];
        for (value, attribute) in values.iter_mut().zip(which) {
            // SAFETY: the function writes only to `value`; the driver checks the numbers.
            let answer = unsafe { (self.cuDeviceGetAttribute)(value, attribute, device) };
            self.check("cuDeviceGetAttribute", answer)?;
        }
        Ok(values)
    }

    /// The device of this thread's context, or else the first one.
    ///
    /// # Errors
    /// The driver's, for instance before it is initialized.
    pub fn current_device(&self) -> Result<CUdevice, CudaError> {
        let mut device = 0;
        // SAFETY: the functions write only to the local `device`.
        unsafe {
            if (self.cuCtxGetDevice)(&mut device) != CUDA_SUCCESS {
                self.check("cuDeviceGet", (self.cuDeviceGet)(&mut device, 0))?;
            }
        }
        Ok(device)
    }

    /// The number of devices.
    ///
    /// # Errors
    /// The driver's.
    pub fn device_count(&self) -> Result<usize, CudaError> {
        let mut count = 0;
        // SAFETY: the function writes only to the local `count`.
        self.check("cuDeviceGetCount", unsafe { (self.cuDeviceGetCount)(&mut count) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// The CUDA version that the driver supports, 13000 for 13.0.
    ///
    /// # Errors
    /// The driver's.
    pub fn driver_version(&self) -> Result<c_int, CudaError> {
        let mut version = 0;
        // SAFETY: the function writes only to the local `version`.
        self.check("cuDriverGetVersion", unsafe { (self.cuDriverGetVersion)(&mut version) })?;
        Ok(version)
    }

    /// Whether kernels of this thread's context can access an address: memory of its device, of a peer device
    /// with peer access enabled, managed memory, or host memory registered with the driver. The address may
    /// be any.
    ///
    /// This need not compare devices: CUDA reports no [`DEVICE_POINTER`] for memory that the context's
    /// kernels may not access.
    #[inline]
    pub fn is_device_memory(&self, pointer: *const c_void) -> bool {
        let (mut there, mut kind) = (0_u64, UNKNOWN);
        let answers = [(DEVICE_POINTER, (&raw mut there).cast()), (MEMORY_TYPE, (&raw mut kind).cast())];
        self.knows(pointer, answers) && kind != UNKNOWN && there == pointer.addr() as u64
    }

    /// Whether the host cannot access an address: device memory that is not managed. The address may be any.
    pub fn is_beyond_host(&self, pointer: *const c_void) -> bool {
        let (mut kind, mut managed) = (UNKNOWN, 0);
        let answers = [(MEMORY_TYPE, (&raw mut kind).cast()), (IS_MANAGED, (&raw mut managed).cast())];
        self.knows(pointer, answers) && [MEMORYTYPE_DEVICE, MEMORYTYPE_ARRAY].contains(&kind) && managed != 1
    }

    /// The number of the device that an address was allocated on or registered for. The address may be any.
    pub fn device_of(&self, pointer: *const c_void) -> Option<CUdevice> {
        let (mut kind, mut device) = (UNKNOWN, 0);
        let answers = [(MEMORY_TYPE, (&raw mut kind).cast()), (DEVICE_ORDINAL, (&raw mut device).cast())];
        (self.knows(pointer, answers) && kind != UNKNOWN).then_some(device)
    }

    /// Makes the driver write the attributes of an address, each to a location of its size. An unknown
    /// attribute is not an error, which debugging tools would report.
    #[inline]
    fn knows<const N: usize>(&self, pointer: *const c_void, answers: [(c_int, *mut c_void); N]) -> bool {
        let mut attributes = answers.map(|(attribute, _)| attribute);
        let mut places = answers.map(|(_, place)| place);
        // SAFETY: the number of attributes and locations is right, and the driver only looks the address up.
        let answer = unsafe {
            (self.cuPointerGetAttributes)(
                N as c_uint,
                attributes.as_mut_ptr(),
                places.as_mut_ptr(),
                pointer.expose_provenance() as u64,
            )
        };
        answer == CUDA_SUCCESS
    }
}

/// The memory type of addresses unknown to the driver.
const UNKNOWN: c_int = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_found_or_the_error_says_what_was_looked_for() {
        match Cuda::with_device() {
            Ok(cuda) => {
                assert!(cuda.driver_version().unwrap() >= 12000);
                let error = cuda.check("f", CUDA_ERROR_INVALID_VALUE).unwrap_err();
                assert!(
                    error.message.starts_with("f failed with error 1: CUDA_ERROR_INVALID_VALUE"),
                    "{error}"
                );
                let local = 0_u8;
                assert!(!cuda.is_device_memory((&raw const local).cast()));
            }
            Err(refusal) => {
                let message = refusal.to_string();
                assert!(message.contains(&*crate::os::library::vendor_name("libcuda.so.1")), "{message}");
            }
        }
    }

    #[test]
    fn another_library_lacks_every_function() {
        let message = Cuda::load_from(&["libm.so.6"]).unwrap_err().to_string();
        assert!(message.contains(" (it lacks cuInit, "), "{message}");
    }
}
