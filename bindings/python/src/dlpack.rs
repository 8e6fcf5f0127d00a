//! The structures of DLPack 1.3 that describe arrays.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

/// `DLDeviceType`: host memory.
pub const CPU: i32 = 1;
/// Memory of a CUDA device.
pub const CUDA: i32 = 2;
/// Host memory that CUDA can access.
pub const CUDA_HOST: i32 = 3;
/// Memory of a Vulkan device.
pub const VULKAN: i32 = 7;
/// Memory of a ROCm device.
pub const ROCM: i32 = 10;
/// Host memory that ROCm can access.
pub const ROCM_HOST: i32 = 11;
/// CUDA managed memory.
pub const CUDA_MANAGED: i32 = 13;

/// The flag of read-only memory.
pub const READ_ONLY: u64 = 1;

/// `DLDevice`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    pub kind: i32,
    pub id: i32,
}

/// `DLDataType`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

/// `DLTensor`
#[repr(C)]
pub struct Tensor {
    pub data: *mut c_void,
    pub device: Device,
    pub ndim: i32,
    pub dtype: DataType,
    pub shape: *const i64,
    pub strides: *const i64,
    pub byte_offset: u64,
}

/// `DLManagedTensor`
#[repr(C)]
pub struct Managed {
    pub tensor: Tensor,
    pub manager: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`
#[repr(C)]
pub struct Versioned {
    pub version: Version,
    pub manager: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    pub flags: u64,
    pub tensor: Tensor,
}

/// `DLPackVersion`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

/// The version used for exported arrays.
pub const VERSION: Version = Version { major: 1, minor: 0 };

/// An allocator's error callback: the caller's context, the kind of error and a message.
pub type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// `DLPackManagedTensorAllocator`
pub type Allocator = unsafe extern "C" fn(*mut Tensor, *mut *mut Versioned, *mut c_void, SetError) -> c_int;

/// `DLPackExchangeAPI`: how an array type describes its arrays without Python code.
#[repr(C)]
pub struct Exchange {
    pub version: Version,
    previous: *mut c_void,
    /// Allocates an array of the library, for its current stream.
    pub allocator: Option<Allocator>,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    /// Describes an array with the interpreter's lock held.
    pub describe: Option<unsafe extern "C" fn(*mut c_void, *mut Tensor) -> c_int>,
    /// The stream that the producer works on.
    pub stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

// SAFETY: a table never changes, and any thread that holds the interpreter's lock may call its functions.
unsafe impl Send for Exchange {}
// SAFETY: a table never changes, so shared references to it only read.
unsafe impl Sync for Exchange {}

/// Releases a tensor to its owner.
///
/// # Safety
/// The tensor is alive, and this is its last use.
pub unsafe fn end(tensor: NonNull<Versioned>) {
    // SAFETY: the tensor is alive, and this is its last use, as this function requires.
    unsafe {
        if let Some(deleter) = tensor.as_ref().deleter {
            deleter(tensor.as_ptr());
        }
    }
}

/// The library's names of DLPack types, with their codes and bits.
const TYPES: [(u8, u8, &str); 14] = [
    (0, 8, "int8"),
    (0, 32, "int32"),
    (0, 64, "int64"),
    (1, 8, "uint8"),
    (2, 16, "half"),
    (2, 32, "float"),
    (2, 64, "double"),
    (4, 16, "bfloat16"),
    (6, 8, "boolean"),
    (10, 8, "fp8_e4m3"),
    (11, 8, "fp8_e4m3_fnuz"),
    (12, 8, "fp8_e5m2"),
    (13, 8, "fp8_e5m2_fnuz"),
    (14, 8, "fp8_e8m0"),
];

impl DataType {
    /// Bytes of memory.
    pub const BYTE: Self = Self { code: 1, bits: 8, lanes: 1 };

    /// The library's name for the type, if it has one.
    pub fn name(self) -> Option<&'static str> {
        let found =
            TYPES.iter().find(|(code, bits, _)| (self.code, self.bits, self.lanes) == (*code, *bits, 1));
        found.map(|(.., name)| *name)
    }

    /// The type for a name of the library's.
    pub fn of_name(name: &str) -> Option<Self> {
        let found = TYPES.iter().find(|(.., known)| *known == name);
        found.map(|(code, bits, _)| Self { code: *code, bits: *bits, lanes: 1 })
    }
}
