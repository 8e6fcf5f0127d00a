//! NVIDIA's libraries and devices.

use std::ffi::{CStr, c_char, c_int, c_uint};

use hipdnn_plugin_sdk::cuda::search::candidates;
use hipdnn_plugin_sdk::function_table;

use crate::hardware::{Device, Found, found};

function_table! {
    /// The CUDA driver.
    #[expect(non_snake_case, reason = "the names of CUDA")]
    struct Driver: "the CUDA driver", ["libcuda.so.1"] {
        required {
            fn cuInit(flags: c_uint) -> c_int;
            fn cuDriverGetVersion(version: *mut c_int) -> c_int;
            fn cuDeviceGetCount(count: *mut c_int) -> c_int;
            fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int;
            fn cuDeviceGetName(name: *mut c_char, size: c_int, device: c_int) -> c_int;
            fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int;
            fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> c_int;
        }
        optional {}
    }
}

function_table! {
    /// The version of cuDNN.
    #[expect(non_snake_case, reason = "the names of cuDNN")]
    struct Cudnn: "cuDNN", ["libcudnn.so.9"] {
        required {
            fn cudnnGetVersion() -> usize;
        }
        optional {}
    }
}

function_table! {
    /// The version of cuBLASLt.
    #[expect(non_snake_case, reason = "the names of cuBLASLt")]
    struct CublasLt: "cuBLASLt", ["libcublasLt.so.13", "libcublasLt.so.12"] {
        required {
            fn cublasLtGetVersion() -> usize;
        }
        optional {}
    }
}

function_table! {
    /// The version of NVRTC.
    #[expect(non_snake_case, reason = "the names of NVRTC")]
    struct Nvrtc: "NVRTC", ["libnvrtc.so.13", "libnvrtc.so.12"] {
        required {
            fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int;
        }
        optional {}
    }
}

/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`, and those of the compute capability.
const MULTIPROCESSORS: c_int = 16;
const CAPABILITY: [c_int; 2] = [75, 76];

/// The functions of a library, looked up where plugins look, too.
macro_rules! load {
    ($table:ident) => {{
        let names: Vec<_> = $table::LIBRARIES.iter().map(|library| library.file).collect();
        let paths = candidates(&names);
        $table::load_from(&paths.iter().map(String::as_str).collect::<Vec<_>>()).map(Box::new)
    }};
}

/// Versions of cuDNN 9 and cuBLASLt are 10000 · major + 100 · minor + patch.
fn dotted(version: usize) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

/// The libraries used by engines for NVIDIA GPUs.
pub fn libraries() -> Vec<Found> {
    vec![
        found("CUDA driver", Driver::get(), Driver::library, "cuInit", |driver| {
            let mut version = 0;
            // SAFETY: the function writes only to the local `version`.
            let answer = unsafe { (driver.cuDriverGetVersion)(&mut version) };
            (answer == 0).then(|| format!("{}.{}", version / 1000, version % 1000 / 10))
        }),
        found("cuDNN", load!(Cudnn), Cudnn::library, "cudnnGetVersion", |cudnn| {
            // SAFETY: the function takes no arguments.
            Some(dotted(unsafe { (cudnn.cudnnGetVersion)() }))
        }),
        found(
            "cuBLASLt",
            load!(CublasLt),
            CublasLt::library,
            "cublasLtGetVersion",
            // SAFETY: the function takes no arguments.
            |lt| Some(dotted(unsafe { (lt.cublasLtGetVersion)() })),
        ),
        found("NVRTC", load!(Nvrtc), Nvrtc::library, "nvrtcVersion", |nvrtc| {
            let (mut major, mut minor) = (0, 0);
            // SAFETY: the function writes only to the locals `major` and `minor`.
            let answer = unsafe { (nvrtc.nvrtcVersion)(&mut major, &mut minor) };
            (answer == 0).then(|| format!("{major}.{minor}"))
        }),
    ]
}

/// All devices, in the driver's order.
pub fn devices() -> Result<Vec<Device>, String> {
    let driver = Driver::get().map_err(|error| error.to_string())?;
    let check = |function: &str, answer: c_int| match answer {
        0 => Ok(()),
        error => Err(format!("{function} failed with error {error}")),
    };
    let mut count = 0;
    // SAFETY: the function writes only to the local `count`, and the driver may be initialized repeatedly.
    unsafe {
        check("cuInit", (driver.cuInit)(0))?;
        check("cuDeviceGetCount", (driver.cuDeviceGetCount)(&mut count))?;
    }
    (0..count)
        .map(|number| {
            let (mut device, mut bytes, mut name) = (0, 0, [0 as c_char; 128]);
            // SAFETY: the functions write only to the locals `device` and `bytes`; the name buffer has the given size, and its last
            // character stays NUL.
            unsafe {
                check("cuDeviceGet", (driver.cuDeviceGet)(&mut device, number))?;
                check("cuDeviceGetName", (driver.cuDeviceGetName)(name.as_mut_ptr(), 127, device))?;
                check("cuDeviceTotalMem", (driver.cuDeviceTotalMem_v2)(&mut bytes, device))?;
            }
            let attribute = |attribute| {
                let mut value = 0;
                // SAFETY: the function writes only to the local `value`.
                let answer = unsafe { (driver.cuDeviceGetAttribute)(&mut value, attribute, device) };
                check("cuDeviceGetAttribute", answer).map(|()| value)
            };
            let [major, minor] = CAPABILITY.map(attribute);
            // SAFETY: the last character is NUL.
            let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy();
            Ok(Device {
                number,
                architecture: format!("sm_{}{}, {name}", major?, minor?),
                compute_units: attribute(MULTIPROCESSORS)?,
                memory_bytes: bytes as u64,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::os;

    use super::*;

    #[test]
    fn versions_have_dots() {
        assert_eq!([dotted(91_900), dotted(130_101)], ["9.19.0", "13.1.1"]);
    }

    #[test]
    fn what_is_not_there_says_what_was_looked_for() {
        for library in libraries() {
            if let Some(missing) = library.missing {
                let names = ["libcuda.so.1", "libnvrtc.so.13", "libcudnn.so.9", "libcublasLt.so.13"];
                let is_named = |name: &&str| missing.contains(&*os::library::vendor_name(name));
                assert!(missing.contains("looked for ") && names.iter().any(is_named), "{missing}");
            }
        }
    }
}
