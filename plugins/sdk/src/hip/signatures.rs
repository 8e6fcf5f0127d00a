//! Compile-time check that the table has the signatures of the crate `hip-sys`.
//!
//! Each function of the table is matched with the binding of the same name: it must have the same number of
//! arguments, and each argument and the result must have the same type or be a pair of the list below. The
//! layout of the one struct that is passed is compared field by field. Nothing of this remains in the
//! compiled library.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::offset_of;

use hip_sys::hiprt;

use super::{Hip, hipPointerAttribute_t};

/// States that a type of the table and a type of the binding are passed alike and mean the same.
trait Same<T> {}

impl<T> Same<T> for T {}
// Enumerations, which are integers in the table.
impl Same<hiprt::hipError_t> for c_int {}
impl Same<hiprt::hipMemcpyKind> for c_int {}
// Opaque pointers, which are addresses in the table.
impl Same<hiprt::hipStream_t> for *mut c_void {}
impl Same<hiprt::hipEvent_t> for *mut c_void {}
impl Same<*mut hiprt::hipEvent_t> for *mut *mut c_void {}
impl Same<*mut hiprt::hipStream_t> for *mut *mut c_void {}
impl Same<*mut hiprt::hipStreamCaptureStatus> for *mut c_int {}
impl Same<*mut hiprt::hipStreamCaptureMode> for *mut c_int {}
impl Same<*mut hiprt::hipDeviceProp_t> for *mut c_void {}
impl Same<*mut hiprt::hipPointerAttribute_t> for *mut hipPointerAttribute_t {}

/// One function per number of arguments; calls to it compile only if all types match.
macro_rules! comparisons {
    ($($name:ident($($ours:ident $theirs:ident)*);)+) => {$(
        const fn $name<R: Same<S>, S, $($ours: Same<$theirs>, $theirs),*>(
            _: fn(&Hip) -> unsafe extern "C" fn($($ours),*) -> R,
            _: unsafe extern "C" fn($($theirs),*) -> S,
        ) {
        }
    )+};
}

comparisons! {
    same_0();
    same_1(A0 B0);
    same_2(A0 B0 A1 B1);
    same_3(A0 B0 A1 B1 A2 B2);
    same_4(A0 B0 A1 B1 A2 B2 A3 B3);
    same_5(A0 B0 A1 B1 A2 B2 A3 B3 A4 B4);
}

/// The type of an optional function. Never called.
fn some<F>(function: Option<F>) -> F {
    match function {
        Some(function) => function,
        None => unreachable!(),
    }
}

macro_rules! compare {
    (
        required { $($same:ident $function:ident;)+ }
        optional { $($same_optional:ident $optional:ident = $binding:ident;)+ }
    ) => {
        const _: () = {
            $($same(|hip| hip.$function, hiprt::$function);)+
        };

        // Names every function of the table, so that none can be forgotten above or below.
        const _: fn(Hip) = |hip| {
            let Hip { $($function: _,)+ $($optional: _,)+ library: _ } = hip;
        };
        const _: () = {
            $($same_optional(|hip| some(hip.$optional), hiprt::$binding);)+
        };
    };
}

compare! {
    required {
        same_1 hipGetErrorString;
        same_0 hipGetLastError;
        same_1 hipGetDeviceCount;
        same_1 hipGetDevice;
        same_1 hipSetDevice;
        same_0 hipDeviceSynchronize;
        same_1 hipStreamSynchronize;
        same_2 hipMalloc;
        same_1 hipFree;
        same_4 hipMemcpy;
        same_5 hipMemcpyAsync;
        same_2 hipPointerGetAttributes;
        same_1 hipEventCreate;
        same_2 hipEventRecord;
        same_1 hipEventSynchronize;
        same_3 hipEventElapsedTime;
        same_1 hipEventQuery;
        same_1 hipEventDestroy;
        same_3 hipStreamWaitEvent;
    }
    optional {
        same_2 hipEventCreateWithFlags = hipEventCreateWithFlags;
        same_2 hipStreamIsCapturing = hipStreamIsCapturing;
        same_1 hipThreadExchangeStreamCaptureMode = hipThreadExchangeStreamCaptureMode;
        same_1 hipStreamCreate = hipStreamCreate;
        same_1 hipStreamDestroy = hipStreamDestroy;
        same_3 hipHostMalloc = hipHostMalloc;
        same_1 hipHostFree = hipHostFree;
        // HIP 6 renamed the function when it changed the struct; the binding is that of HIP 5.
        same_2 hipGetDevicePropertiesR0600 = hipGetDeviceProperties;
        same_2 hipGetDeviceProperties = hipGetDeviceProperties;
    }
}

macro_rules! same_layout {
    ($($ours:ident = $theirs:ident: $type:ty;)+) => {
        const _: () = {
            type Theirs = hiprt::hipPointerAttribute_t;
            assert!(size_of::<hipPointerAttribute_t>() == size_of::<Theirs>());
            assert!(align_of::<hipPointerAttribute_t>() == align_of::<Theirs>());
            $(assert!(offset_of!(hipPointerAttribute_t, $ours) == offset_of!(Theirs, $theirs));)+
            $(let _: fn(&hipPointerAttribute_t) -> &$type = |attributes| &attributes.$ours;)+
        };
    };
}

same_layout! {
    kind = memoryType: c_int;
    device = device: c_int;
    device_pointer = devicePointer: *mut c_void;
    host_pointer = hostPointer: *mut c_void;
    is_managed = isManaged: c_int;
    allocation_flags = allocationFlags: c_uint;
}

// The struct of HIP 5; that of HIP 6 is not in the binding.
const _: () = {
    type Theirs = hiprt::hipDeviceProp_t;
    assert!(offset_of!(Theirs, totalGlobalMem) == super::PROPERTIES_OF_5.total_global_mem);
    assert!(offset_of!(Theirs, multiProcessorCount) == super::PROPERTIES_OF_5.multi_processor_count);
    assert!(offset_of!(Theirs, gcnArchName) == super::PROPERTIES_OF_5.architecture_name);
    assert!(size_of::<Theirs>() <= super::PROPERTIES_ROOM * size_of::<u64>());
};

const _: () = {
    assert!(size_of::<hiprt::hipError_t>() == size_of::<c_int>());
    assert!(size_of::<hiprt::hipMemcpyKind>() == size_of::<c_int>());
    assert!(hiprt::hipError_t::hipSuccess as c_int == super::HIP_SUCCESS);
    assert!(hiprt::hipError_t::hipErrorInvalidValue as c_int == super::HIP_ERROR_INVALID_VALUE);
    assert!(hiprt::hipError_t::hipErrorNoDevice as c_int == super::HIP_ERROR_NO_DEVICE);
    assert!(hiprt::hipMemcpyKind::hipMemcpyHostToHost as c_int == super::HIP_MEMCPY_HOST_TO_HOST);
    assert!(hiprt::hipMemcpyKind::hipMemcpyHostToDevice as c_int == super::HIP_MEMCPY_HOST_TO_DEVICE);
    assert!(hiprt::hipMemcpyKind::hipMemcpyDeviceToHost as c_int == super::HIP_MEMCPY_DEVICE_TO_HOST);
    assert!(hiprt::hipMemcpyKind::hipMemcpyDeviceToDevice as c_int == super::HIP_MEMCPY_DEVICE_TO_DEVICE);
    assert!(hiprt::hipMemcpyKind::hipMemcpyDefault as c_int == super::HIP_MEMCPY_DEFAULT);
};
