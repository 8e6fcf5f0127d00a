//! The part of the HIP runtime that engines need, loaded at run time.
//!
//! Without the library, [`Hip::get`] returns an error that an engine can pass on. The signatures are those of
//! HIP 5 to 7; if HIP's headers are installed, the feature `hip-sys` checks them at compile time.

#![expect(non_camel_case_types, reason = "the names of HIP")]

pub(crate) mod device;
mod loaded;
#[cfg(feature = "hip-sys")]
mod signatures;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;

use crate::dynlib::guard::thrown;
use crate::ffi::hipStream_t;
use crate::function_table;
use crate::wire::DeviceProperties;

pub use device::EnteredDevice;

/// Result of a HIP function; 0 is success.
pub type hipError_t = c_int;
/// Success.
pub const HIP_SUCCESS: hipError_t = 0;
/// An argument is invalid.
pub const HIP_ERROR_INVALID_VALUE: hipError_t = 1;
/// No device was found.
pub const HIP_ERROR_NO_DEVICE: hipError_t = 100;

/// Direction of a copy.
pub type hipMemcpyKind = c_int;
/// From host memory to host memory.
pub const HIP_MEMCPY_HOST_TO_HOST: hipMemcpyKind = 0;
/// From host memory to device memory.
pub const HIP_MEMCPY_HOST_TO_DEVICE: hipMemcpyKind = 1;
/// From device memory to host memory.
pub const HIP_MEMCPY_DEVICE_TO_HOST: hipMemcpyKind = 2;
/// From device memory to device memory.
pub const HIP_MEMCPY_DEVICE_TO_DEVICE: hipMemcpyKind = 3;
/// HIP infers the direction from the addresses.
pub const HIP_MEMCPY_DEFAULT: hipMemcpyKind = 4;

/// A point in the work of a stream.
pub type hipEvent_t = *mut c_void;

/// Attributes of an address. HIP 5, 6 and 7 share the layout but not the numbers of the kinds:
/// [`Hip::memory_kind`] translates them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipPointerAttribute_t {
    /// The kind of memory, as numbered by the library's version.
    pub kind: c_int,
    /// The device that the memory belongs to.
    pub device: c_int,
    /// The address for the device.
    pub device_pointer: *mut c_void,
    /// The address for the host.
    pub host_pointer: *mut c_void,
    /// Whether it is managed memory.
    pub is_managed: c_int,
    /// The flags it was allocated with.
    pub allocation_flags: c_uint,
}

function_table! {
    /// The functions of the HIP runtime.
    #[expect(non_snake_case, reason = "the names of HIP")]
    pub struct Hip: "the HIP runtime", ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"] {
        required {
            /// The text of an error, which lives for ever.
            fn hipGetErrorString(error: hipError_t) -> *const c_char;
            /// This thread's last error, which is reset.
            fn hipGetLastError() -> hipError_t;
            /// The number of devices.
            fn hipGetDeviceCount(count: *mut c_int) -> hipError_t;
            /// The device of this thread.
            fn hipGetDevice(device: *mut c_int) -> hipError_t;
            /// Sets the device of this thread.
            fn hipSetDevice(device: c_int) -> hipError_t;
            /// Waits for all work of the thread's device.
            fn hipDeviceSynchronize() -> hipError_t;
            /// Waits for the work of a stream; null is the default stream.
            fn hipStreamSynchronize(stream: hipStream_t) -> hipError_t;
            /// Allocates device memory.
            fn hipMalloc(pointer: *mut *mut c_void, size: usize) -> hipError_t;
            /// Frees device memory.
            fn hipFree(pointer: *mut c_void) -> hipError_t;
            /// Copies and waits.
            fn hipMemcpy(to: *mut c_void, from: *const c_void, size: usize, kind: hipMemcpyKind) -> hipError_t;
            /// Copies in stream order.
            fn hipMemcpyAsync(
                to: *mut c_void,
                from: *const c_void,
                size: usize,
                kind: hipMemcpyKind,
                stream: hipStream_t
            ) -> hipError_t;
            /// Attributes of an address.
            fn hipPointerGetAttributes(
                attributes: *mut hipPointerAttribute_t,
                pointer: *const c_void
            ) -> hipError_t;
            /// Creates an event.
            fn hipEventCreate(event: *mut hipEvent_t) -> hipError_t;
            /// Records an event in a stream.
            fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) -> hipError_t;
            /// Waits for an event.
            fn hipEventSynchronize(event: hipEvent_t) -> hipError_t;
            /// Milliseconds between two events.
            fn hipEventElapsedTime(milliseconds: *mut f32, from: hipEvent_t, to: hipEvent_t) -> hipError_t;
            /// Whether an event has happened; an error if not.
            fn hipEventQuery(event: hipEvent_t) -> hipError_t;
            /// Destroys an event.
            fn hipEventDestroy(event: hipEvent_t) -> hipError_t;
            /// Makes later work of a stream wait for an event.
            fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> hipError_t;
        }
        optional {
            /// Creates an event with flags, for instance without timing.
            fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) -> hipError_t;
            /// Whether the work of a stream becomes part of a graph.
            fn hipStreamIsCapturing(stream: hipStream_t, status: *mut c_int) -> hipError_t;
            /// Sets what this thread may do while a stream is captured, and returns the previous mode.
            fn hipThreadExchangeStreamCaptureMode(mode: *mut c_int) -> hipError_t;
            /// Creates a stream.
            fn hipStreamCreate(stream: *mut hipStream_t) -> hipError_t;
            /// Destroys a stream.
            fn hipStreamDestroy(stream: hipStream_t) -> hipError_t;
            /// Allocates page-locked host memory.
            fn hipHostMalloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) -> hipError_t;
            /// Frees page-locked host memory.
            fn hipHostFree(pointer: *mut c_void) -> hipError_t;
            /// The properties of a device, as the struct of HIP 6 and 7.
            fn hipGetDevicePropertiesR0600(properties: *mut c_void, device: c_int) -> hipError_t;
            /// The properties of a device; the only variant in HIP 5.
            fn hipGetDeviceProperties(properties: *mut c_void, device: c_int) -> hipError_t;
        }
    }
}

/// Offsets of the fields of `hipDeviceProp_t` that are read.
struct PropertiesLayout {
    total_global_mem: usize,
    multi_processor_count: usize,
    architecture_name: usize,
    /// The processors' and the memory's clock in kHz, and the bits of the memory's bus.
    clocks: [usize; 3],
}

/// `hipDeviceProp_tR0600`.
const PROPERTIES_SINCE_6: PropertiesLayout = PropertiesLayout {
    total_global_mem: 288,
    multi_processor_count: 388,
    architecture_name: 1160,
    clocks: [348, 608, 612],
};

/// `hipDeviceProp_tR0000`.
const PROPERTIES_OF_5: PropertiesLayout = PropertiesLayout {
    total_global_mem: 256,
    multi_processor_count: 336,
    architecture_name: 396,
    clocks: [308, 312, 316],
};

/// Space for the struct of any generation, in words: it has up to 1472 bytes.
const PROPERTIES_ROOM: usize = 1024;

impl PropertiesLayout {
    fn read(&self, device: c_int, bytes: &[u8]) -> (DeviceProperties, Clocks) {
        let word = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
        let number = |at: usize| {
            let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
            bytes.map_or(0, |n| i32::from_ne_bytes(*n))
        };
        let name = bytes.get(self.architecture_name..).unwrap_or_default();
        let name = name.get(..256).unwrap_or(name).split(|byte| *byte == 0).next().unwrap_or_default();
        let properties = DeviceProperties {
            device_id: device,
            multi_processor_count: number(self.multi_processor_count),
            total_global_mem: word(self.total_global_mem).map_or(0, |n| u64::from_ne_bytes(*n)),
            architecture_name: String::from_utf8_lossy(name).into_owned(),
        };
        let [processors_khz, memory_khz, memory_bits] = self.clocks.map(number);
        (properties, Clocks { processors_khz, memory_khz, memory_bits })
    }
}

/// A device's clocks as its driver tells them; 0 for what it does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// The processors' clock in kHz.
    pub processors_khz: c_int,
    /// The memory's clock in kHz.
    pub memory_khz: c_int,
    /// The bits of the memory's bus.
    pub memory_bits: c_int,
}

/// A failed call of HIP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HipError {
    /// The error code.
    pub code: hipError_t,
    /// The function and HIP's message.
    pub message: String,
}

impl fmt::Display for HipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for HipError {}

impl From<HipError> for crate::PluginError {
    fn from(error: HipError) -> Self {
        Self::internal(error.message)
    }
}

impl From<HipError> for crate::Refusal {
    fn from(error: HipError) -> Self {
        Self::new(error.message)
    }
}

/// What an address points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Memory unknown to HIP: ordinary host memory.
    Unregistered,
    /// Host memory that devices can access.
    Host,
    /// Device memory.
    Device,
    /// Managed memory, which migrates between the host and devices.
    Managed,
    /// An array, which has no plain address.
    Array,
}

impl MemoryKind {
    /// Interprets the attributes from a library of this major version.
    fn read(attributes: &hipPointerAttribute_t, major: u32) -> Option<Self> {
        // HIP 6 renumbered the kinds.
        let kind = match (major >= 6, attributes.kind) {
            (true, 0) => Self::Unregistered,
            (false, 0) | (true, 1) => Self::Host,
            (false, 1) | (true, 2) => Self::Device,
            (true, 3) | (_, 11) | (false, 3) => Self::Managed,
            (false, 2) | (true, 10) => Self::Array,
            _ => return None,
        };
        Some(if attributes.is_managed != 0 { Self::Managed } else { kind })
    }
}

impl Hip {
    /// The library's major version, from its name; the newest known one if the name has none.
    pub fn major(&self) -> u32 {
        major(self.library().name())
    }

    /// Turns a result other than success into an error.
    ///
    /// # Errors
    /// When `answer` is an error. Resets the thread's last error, so that the program does not take it for
    /// its own.
    pub fn check(&self, function: &str, answer: hipError_t) -> Result<(), HipError> {
        if answer == HIP_SUCCESS {
            return Ok(());
        }
        if let Some(message) = thrown(function, answer) {
            return Err(HipError { code: answer, message });
        }
        // SAFETY: the functions take any number as a status and return a constant text.
        let text = unsafe {
            (self.hipGetLastError)();
            (self.hipGetErrorString)(answer)
        };
        let text = if text.is_null() {
            "no text".into()
        } else {
            // SAFETY: HIP's texts are NUL terminated and live for ever.
            unsafe { CStr::from_ptr(text) }.to_string_lossy()
        };
        Err(HipError { code: answer, message: format!("{function} failed with error {answer}: {text}") })
    }

    /// The number of devices, 0 if there are none.
    ///
    /// # Errors
    /// When HIP cannot tell, for instance because the driver is not loaded.
    pub fn device_count(&self) -> Result<usize, HipError> {
        let mut count = 0;
        // SAFETY: the function writes only to the local `count`.
        match self.check("hipGetDeviceCount", unsafe { (self.hipGetDeviceCount)(&mut count) }) {
            Err(error) if error.code == HIP_ERROR_NO_DEVICE => Ok(0),
            result => result.map(|()| usize::try_from(count).unwrap_or(0)),
        }
    }

    /// The properties of this thread's device; none if there are no devices.
    ///
    /// # Errors
    /// When HIP cannot tell.
    pub fn device_properties(&self) -> Result<Option<DeviceProperties>, HipError> {
        Ok(self.properties_and_clocks()?.map(|(properties, _)| properties))
    }

    /// The same, and the device's clocks.
    ///
    /// # Errors
    /// When HIP cannot tell.
    pub fn properties_and_clocks(&self) -> Result<Option<(DeviceProperties, Clocks)>, HipError> {
        if self.device_count()? == 0 {
            return Ok(None);
        }
        let (function, layout) = match (self.hipGetDevicePropertiesR0600, self.hipGetDeviceProperties) {
            (Some(function), _) => (function, &PROPERTIES_SINCE_6),
            (None, Some(function)) if self.major() < 6 => (function, &PROPERTIES_OF_5),
            _ => {
                return Err(HipError {
                    code: HIP_ERROR_INVALID_VALUE,
                    message: "the HIP runtime has no function for properties of devices".to_owned(),
                });
            }
        };
        let device = self.current_device()?;
        let mut properties = Box::new([0_u64; PROPERTIES_ROOM]);
        // SAFETY: the buffer is larger than any generation's struct, and aligned for it.
        let answer = unsafe { function(properties.as_mut_ptr().cast(), device) };
        self.check("hipGetDeviceProperties", answer)?;
        let bytes: Vec<u8> = properties.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(Some(layout.read(device, &bytes)))
    }

    /// What an address points to. The address may be any.
    ///
    /// # Errors
    /// When HIP cannot tell, or reports an unknown kind.
    #[expect(clippy::not_unsafe_ptr_arg_deref, reason = "HIP does not look at what the address points to")]
    pub fn memory_kind(&self, pointer: *const c_void) -> Result<MemoryKind, HipError> {
        let mut attributes = hipPointerAttribute_t {
            kind: 0,
            device: 0,
            device_pointer: std::ptr::null_mut(),
            host_pointer: std::ptr::null_mut(),
            is_managed: 0,
            allocation_flags: 0,
        };
        // SAFETY: the function writes only to the local `attributes`, and HIP only looks the address up.
        let answer = unsafe { (self.hipPointerGetAttributes)(&mut attributes, pointer) };
        if answer == HIP_ERROR_INVALID_VALUE {
            // HIP 5 reports unknown memory this way. It is not a failure: build no message and reset the
            // error.
            // SAFETY: the function takes no argument and changes only this thread's last error.
            unsafe { (self.hipGetLastError)() };
            return Ok(MemoryKind::Unregistered);
        }
        self.check("hipPointerGetAttributes", answer)?;
        MemoryKind::read(&attributes, self.major()).ok_or_else(|| HipError {
            code: HIP_ERROR_INVALID_VALUE,
            message: format!("hipPointerGetAttributes returned memory of unknown kind {}", attributes.kind),
        })
    }
}

fn major(name: &str) -> u32 {
    const NEWEST: u32 = 7;
    let of_windows = || name.strip_suffix(".dll")?.rsplit_once('_');
    let version = name.rsplit_once(".so.").or_else(of_windows);
    let version = version.map(|(_, version)| version.split('.').next().unwrap_or_default());
    version.and_then(|major| major.parse().ok()).unwrap_or(NEWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_found_or_the_error_says_what_was_looked_for() {
        match Hip::get() {
            Ok(hip) => {
                assert!((5..=7).contains(&hip.major()), "{}", hip.library().name());
                assert_eq!(hip.check("f", HIP_SUCCESS), Ok(()));
                let error = hip.check("f", HIP_ERROR_INVALID_VALUE).unwrap_err();
                assert!(error.message.starts_with("f failed with error 1: "), "{error}");
                assert!(error.message.len() > "f failed with error 1: ".len(), "{error}");
                let local = 0_u8;
                if hip.device_count().is_ok_and(|count| count > 0) {
                    assert_eq!(hip.memory_kind((&raw const local).cast()), Ok(MemoryKind::Unregistered));
                }
            }
            Err(error) => {
                let message = error.to_string();
                for library in Hip::LIBRARIES {
                    assert!(message.contains(&*crate::os::library::vendor_name(library.file)), "{message}");
                }
                assert!(message.starts_with("no library for the HIP runtime was found"), "{message}");
            }
        }
    }

    #[test]
    fn another_library_lacks_every_function_of_hip() {
        let message = Hip::load_from(&["libm.so.6"]).unwrap_err().to_string();
        assert!(message.contains(" (it lacks hipGetErrorString, hipGetLastError, "), "{message}");
        assert!(message.ends_with("hipStreamWaitEvent)"), "{message}");
    }

    #[test]
    fn memory_kinds_are_interpreted_by_version() {
        let read = |kind, is_managed, major| {
            let nowhere = std::ptr::null_mut();
            let attributes = hipPointerAttribute_t {
                kind,
                device: 0,
                device_pointer: nowhere,
                host_pointer: nowhere,
                is_managed,
                allocation_flags: 0,
            };
            MemoryKind::read(&attributes, major)
        };
        use MemoryKind::{Array, Device, Host, Managed, Unregistered};
        assert_eq!(
            [0, 1, 2, 3].map(|kind| read(kind, 0, 5)),
            [Some(Host), Some(Device), Some(Array), Some(Managed)]
        );
        let newer = [Some(Unregistered), Some(Host), Some(Device), Some(Managed), Some(Array), Some(Managed)];
        assert_eq!([0, 1, 2, 3, 10, 11].map(|kind| read(kind, 0, 6)), newer);
        assert_eq!((read(1, 1, 5), read(2, 1, 7), read(99, 0, 7)), (Some(Managed), Some(Managed), None));
    }

    #[test]
    fn properties_of_a_device_are_read_by_the_layout() {
        for layout in [&PROPERTIES_OF_5, &PROPERTIES_SINCE_6] {
            let mut bytes = vec![0_u8; 4096];
            bytes[layout.total_global_mem..][..8].copy_from_slice(&(64_u64 << 30).to_ne_bytes());
            bytes[layout.multi_processor_count..][..4].copy_from_slice(&104_i32.to_ne_bytes());
            bytes[layout.architecture_name..][..6].copy_from_slice(b"gfx90a");
            for (at, value) in layout.clocks.into_iter().zip([1_700_000_i32, 1_600_000, 4096]) {
                bytes[at..][..4].copy_from_slice(&value.to_ne_bytes());
            }
            let expected = DeviceProperties {
                device_id: 3,
                multi_processor_count: 104,
                total_global_mem: 64 << 30,
                architecture_name: "gfx90a".into(),
            };
            let clocks = Clocks { processors_khz: 1_700_000, memory_khz: 1_600_000, memory_bits: 4096 };
            assert_eq!(layout.read(3, &bytes), (expected, clocks));
            assert_eq!(layout.read(3, &[]).0.architecture_name, "");
        }
    }

    #[test]
    fn the_version_is_in_the_name() {
        assert_eq!(major("libamdhip64.so.5"), 5);
        assert_eq!(major("/opt/rocm.so.d/lib/libamdhip64.so.6.4.60402"), 6);
        assert_eq!(major("libamdhip64.so"), 7);
        assert_eq!(major("amdhip64_6.dll"), 6);
    }
}
