//! AMD's libraries and devices.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use hipdnn_plugin_sdk::function_table;
use hipdnn_plugin_sdk::hip::Hip;

use crate::hardware::{Device, Found, found};

function_table! {
    /// The versions of the HIP runtime.
    #[expect(non_snake_case, reason = "the names of HIP")]
    struct HipVersions: "the HIP runtime", ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"] {
        required {
            fn hipRuntimeGetVersion(version: *mut c_int) -> c_int;
            fn hipDriverGetVersion(version: *mut c_int) -> c_int;
        }
        optional {}
    }
}

function_table! {
    /// The version of MIOpen.
    #[expect(non_snake_case, reason = "the names of MIOpen")]
    struct Miopen: "MIOpen", ["libMIOpen_private.so.1" + "_impl", "libMIOpen.so.1"] {
        required {
            fn miopenGetVersion(major: *mut usize, minor: *mut usize, patch: *mut usize) -> c_int;
        }
        optional {}
    }
}

function_table! {
    /// The version of hipRTC.
    #[expect(non_snake_case, reason = "the names of hipRTC")]
    struct Hiprtc: "hipRTC", ["libhiprtc.so.7", "libhiprtc.so.6"] {
        required {
            fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int;
        }
        optional {}
    }
}

function_table! {
    /// hipBLASLt, which tells its version only on a device.
    #[expect(non_snake_case, reason = "the names of hipBLASLt")]
    struct HipblasLt: "hipBLASLt", ["libhipblaslt.so.1", "libhipblaslt.so.0"] {
        required {
            fn hipblasLtCreate(handle: *mut *mut c_void) -> c_int;
        }
        optional {}
    }
}

function_table! {
    /// The version of rocBLAS.
    struct Rocblas: "rocBLAS", ["librocblas.so.5", "librocblas.so.4"] {
        required {
            fn rocblas_get_version_string(text: *mut c_char, size: usize) -> c_int;
        }
        optional {}
    }
}

/// The libraries used by engines for AMD GPUs.
pub fn libraries() -> Vec<Found> {
    vec![
        found("HIP runtime", HipVersions::get(), HipVersions::library, "hipRuntimeGetVersion", |hip| {
            let (mut runtime, mut driver) = (0, 0);
            // SAFETY: the functions write only to the locals `runtime` and `driver`.
            let answers =
                unsafe { ((hip.hipRuntimeGetVersion)(&mut runtime), (hip.hipDriverGetVersion)(&mut driver)) };
            match answers {
                (0, 0) => Some(format!("{runtime}, driver {driver}")),
                (0, _) => Some(runtime.to_string()),
                _ => None,
            }
        }),
        found("MIOpen", Miopen::get(), Miopen::library, "miopenGetVersion", |miopen| {
            let (mut major, mut minor, mut patch) = (0, 0, 0);
            // SAFETY: the function writes only to the locals `major`, `minor` and `patch`.
            let answer = unsafe { (miopen.miopenGetVersion)(&mut major, &mut minor, &mut patch) };
            (answer == 0).then(|| format!("{major}.{minor}.{patch}"))
        }),
        found("hipRTC", Hiprtc::get(), Hiprtc::library, "hiprtcVersion", |hiprtc| {
            let (mut major, mut minor) = (0, 0);
            // SAFETY: the function writes only to the locals `major` and `minor`.
            let answer = unsafe { (hiprtc.hiprtcVersion)(&mut major, &mut minor) };
            (answer == 0).then(|| format!("{major}.{minor}"))
        }),
        found("hipBLASLt", HipblasLt::get(), HipblasLt::library, "hipblasLtCreate", |_| None),
        found("rocBLAS", Rocblas::get(), Rocblas::library, "rocblas_get_version_string", |rocblas| {
            let mut version = [0 as c_char; 128];
            // SAFETY: the buffer has the given size, and one character stays NUL.
            let answer = unsafe {
                (rocblas.rocblas_get_version_string)(version.as_mut_ptr(), version.len().saturating_sub(1))
            };
            // SAFETY: the last character is NUL.
            let version = unsafe { CStr::from_ptr(ptr::from_ref(&version).cast()) };
            (answer == 0).then(|| version.to_string_lossy().into_owned())
        }),
    ]
}

/// All devices, in HIP's order.
pub fn devices() -> std::result::Result<Vec<Device>, String> {
    let hip = Hip::with_device().map_err(|refusal| refusal.to_string())?;
    let count = hip.device_count().map_err(|error| error.message)?;
    let mut devices = Vec::with_capacity(count);
    for number in 0..i32::try_from(count).unwrap_or(0) {
        let _entered = hip.enter(number).map_err(|error| error.message)?;
        if let Some(properties) = hip.device_properties().map_err(|error| error.message)? {
            devices.push(Device {
                number: properties.device_id,
                architecture: properties.architecture_name,
                compute_units: properties.multi_processor_count,
                memory_bytes: properties.total_global_mem,
            });
        }
    }
    Ok(devices)
}
