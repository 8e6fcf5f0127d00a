//! The structures of DLPack 1.3 that arrays are described by.

use std::ffi::{c_int, c_void};

/// `DLDeviceType`: memory of the host.
pub const CPU: i32 = 1;
/// Memory of the host that CUDA can reach.
pub const CUDA_HOST: i32 = 3;
/// Memory of the host that ROCm can reach.
pub const ROCM_HOST: i32 = 11;

/// The flag of memory that must not be written.
pub const READ_ONLY: u64 = 1;

/// `DLDevice`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Device {
    pub kind: i32,
    pub id: i32,
}

/// `DLDataType`
#[repr(C)]
#[derive(Clone, Copy)]
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

/// `DLManagedTensorVersioned`, as far as it is read here.
#[repr(C)]
pub struct Versioned {
    pub version: Version,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
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

/// `DLPackExchangeAPI`: how a type of arrays describes them without Python code.
#[repr(C)]
pub struct Exchange {
    pub version: Version,
    previous: *mut c_void,
    allocator: *const c_void,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    /// Describes an array for as long as nobody else runs.
    pub describe: Option<unsafe extern "C" fn(*mut c_void, *mut Tensor) -> c_int>,
    /// The stream that the producer works on.
    pub stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

impl DataType {
    /// The type in the library's words; none where it has no such type.
    pub fn name(self) -> Option<&'static str> {
        Some(match (self.code, self.bits, self.lanes) {
            (0, 8, 1) => "int8",
            (0, 32, 1) => "int32",
            (0, 64, 1) => "int64",
            (1, 8, 1) => "uint8",
            (2, 16, 1) => "half",
            (2, 32, 1) => "float",
            (2, 64, 1) => "double",
            (4, 16, 1) => "bfloat16",
            (6, 8, 1) => "boolean",
            (10, 8, 1) => "fp8_e4m3",
            (11, 8, 1) => "fp8_e4m3_fnuz",
            (12, 8, 1) => "fp8_e5m2",
            (13, 8, 1) => "fp8_e5m2_fnuz",
            (14, 8, 1) => "fp8_e8m0",
            _ => return None,
        })
    }
}
