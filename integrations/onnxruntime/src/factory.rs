//! The factory: which devices there are, and an execution provider for each session.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use crate::context::{self, Fit};
use crate::ep::{Ep, NAME};
use crate::failure::{Failure, Result};
use crate::options::Options;
use crate::ort::*;

const VENDOR: &CStr = c"hipdnn-backend";
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"0.0.0",
};

/// `OrtHardwareDeviceType_CPU`.
const CPU: c_int = 0;

/// `OrtCompiledModelCompatibility_EP_NOT_APPLICABLE`, `_EP_SUPPORTED_OPTIMAL`, `_EP_SUPPORTED_PREFER_RECOMPILATION`, `_EP_UNSUPPORTED`.
const FITS: [(Fit, c_int); 4] = [(Fit::Foreign, 0), (Fit::Whole, 1), (Fit::Older, 2), (Fit::Wrong, 3)];

/// Makes execution providers. ONNX Runtime knows it by its first member.
#[repr(C)]
pub struct Factory {
    base: OrtEpFactory,
    ort: Ort,
}

impl Factory {
    /// A factory, owned by whoever calls until it is given to [`Factory::release`].
    pub fn create(ort: Ort) -> *mut OrtEpFactory {
        let base = OrtEpFactory {
            ort_version_supported: ort.version,
            get_name,
            get_vendor,
            get_supported_devices,
            create_ep,
            release_ep,
            get_vendor_id,
            get_version,
            validate_compiled_model,
            create_allocator,
            release_allocator,
            create_data_transfer,
            is_stream_aware,
            create_sync_stream,
            later: [ptr::null(); 7],
        };
        Box::into_raw(Box::new(Self { base, ort })).cast()
    }

    /// Ends a factory.
    ///
    /// # Safety
    /// The pointer is null or from [`Factory::create`], and this is its last use.
    pub unsafe fn release(factory: *mut OrtEpFactory) {
        if !factory.is_null() {
            // SAFETY: the caller vouches for the pointer, which is that of the whole struct.
            drop(unsafe { Box::from_raw(factory.cast::<Self>()) });
        }
    }
}

/// The factory behind a pointer that ONNX Runtime hands back.
unsafe fn of(factory: *const OrtEpFactory) -> Ort {
    // SAFETY: ONNX Runtime passes what `Factory::create` made, whose first member is the base.
    unsafe { (*factory.cast::<Factory>()).ort }
}

unsafe extern "C" fn get_name(_: *const OrtEpFactory) -> *const c_char {
    NAME.as_ptr()
}

unsafe extern "C" fn get_vendor(_: *const OrtEpFactory) -> *const c_char {
    VENDOR.as_ptr()
}

unsafe extern "C" fn get_vendor_id(_: *const OrtEpFactory) -> u32 {
    // The CPU engines are of no PCI vendor.
    0
}

unsafe extern "C" fn get_version(_: *const OrtEpFactory) -> *const c_char {
    VERSION.as_ptr()
}

unsafe extern "C" fn get_supported_devices(
    factory: *mut OrtEpFactory,
    devices: *const *const OrtHardwareDevice,
    count: usize,
    made: *mut *mut OrtEpDevice,
    room: usize,
    number: *mut usize,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its factory.
    let ort = unsafe { of(factory) };
    guard(ort, "GetSupportedDevices", || {
        if number.is_null() || (count > 0 && devices.is_null()) || (room > 0 && made.is_null()) {
            return Err(Failure::argument("GetSupportedDevices: an array is null"));
        }
        let mut found = 0;
        for at in 0..count {
            // SAFETY: the array has `count` devices, which live as long as ONNX Runtime.
            let (device, kind) = unsafe {
                let device = devices.add(at).read();
                (device, if device.is_null() { -1 } else { ort.api.HardwareDevice_Type(device) })
            };
            if kind != CPU || found == room {
                continue;
            }
            // SAFETY: factory and device are alive; no metadata and no options are given.
            let made_one = ort.value("CreateEpDevice", ptr::null_mut(), |to| unsafe {
                ort.ep.CreateEpDevice(factory, device, ptr::null(), ptr::null(), to)
            })?;
            // SAFETY: `found` is below the room of the array.
            unsafe { made.add(found).write(made_one) };
            found += 1;
        }
        // SAFETY: the output was checked above.
        unsafe { number.write(found) };
        Ok(())
    })
}

unsafe extern "C" fn create_ep(
    factory: *mut OrtEpFactory,
    _devices: *const *const OrtHardwareDevice,
    _metadata: *const *const OrtKeyValuePairs,
    _count: usize,
    session: *const OrtSessionOptions,
    logger: *const OrtLogger,
    made: *mut *mut OrtEp,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its factory.
    let ort = unsafe { of(factory) };
    guard(ort, "CreateEp", || {
        if made.is_null() {
            return Err(Failure::argument("CreateEp: the output is null"));
        }
        let options = read_options(ort, session)?;
        let ep = Ep::create(ort, options, logger)?;
        // SAFETY: the output was checked above.
        unsafe { made.write(ep) };
        Ok(())
    })
}

/// The options of a session, which are there only during the call.
fn read_options(ort: Ort, session: *const OrtSessionOptions) -> Result<Options> {
    if session.is_null() {
        return Ok(Options::default());
    }
    // SAFETY: the session's options are alive during the call.
    let pairs = ort.value("GetSessionOptionsConfigEntries", ptr::null_mut(), |to| unsafe {
        ort.api.GetSessionOptionsConfigEntries(session, to)
    })?;
    let (mut keys, mut values, mut count) = (ptr::null(), ptr::null(), 0);
    // SAFETY: the pairs are ours until they are released, and the outputs are valid.
    unsafe { ort.api.GetKeyValuePairs(pairs, &raw mut keys, &raw mut values, &raw mut count) };
    let texts = |of: *const *const c_char| -> Vec<String> {
        // SAFETY: both arrays have `count` texts, which live as long as the pairs.
        (0..count).map(|at| text_of(unsafe { of.add(at).read() })).collect()
    };
    let (keys, values) = (texts(keys), texts(values));
    // SAFETY: this is the last use of the pairs; the texts were copied.
    unsafe { ort.api.ReleaseKeyValuePairs(pairs) };
    Options::read(keys.iter().map(String::as_str).zip(values.iter().map(String::as_str)))
}

unsafe extern "C" fn release_ep(_: *mut OrtEpFactory, ep: *mut OrtEp) {
    // SAFETY: ONNX Runtime passes what `create_ep` made, once.
    unsafe { Ep::release(ep) };
}

unsafe extern "C" fn validate_compiled_model(
    factory: *mut OrtEpFactory,
    _devices: *const *const OrtHardwareDevice,
    _count: usize,
    info: *const c_char,
    answer: *mut c_int,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its factory.
    let ort = unsafe { of(factory) };
    guard(ort, "ValidateCompiledModelCompatibilityInfo", || {
        if answer.is_null() {
            return Err(Failure::argument("ValidateCompiledModelCompatibilityInfo: the output is null"));
        }
        let text = if info.is_null() { String::new() } else { text_of(info) };
        let fit = context::fit(&text);
        let number = FITS.iter().find(|(of, _)| *of == fit).map_or(0, |(_, number)| *number);
        // SAFETY: the output was checked above.
        unsafe { answer.write(number) };
        Ok(())
    })
}

/// Memory is the host's, which ONNX Runtime has an allocator for.
unsafe extern "C" fn create_allocator(
    factory: *mut OrtEpFactory,
    _memory: *const OrtMemoryInfo,
    _options: *const OrtKeyValuePairs,
    made: *mut *mut OrtAllocator,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its factory and a valid output or null.
    unsafe { nothing(factory, made) }
}

unsafe extern "C" fn release_allocator(_: *mut OrtEpFactory, _: *mut OrtAllocator) {}

unsafe extern "C" fn create_data_transfer(
    factory: *mut OrtEpFactory,
    made: *mut *mut OrtDataTransferImpl,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its factory and a valid output or null.
    unsafe { nothing(factory, made) }
}

unsafe extern "C" fn is_stream_aware(_: *const OrtEpFactory) -> bool {
    false
}

unsafe extern "C" fn create_sync_stream(
    factory: *mut OrtEpFactory,
    _memory: *const OrtMemoryDevice,
    _options: *const OrtKeyValuePairs,
    made: *mut *mut OrtSyncStreamImpl,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its factory and a valid output or null.
    unsafe { nothing(factory, made) }
}

/// Hands out no object, which the interface allows.
unsafe fn nothing<T>(factory: *mut OrtEpFactory, made: *mut *mut T) -> *mut OrtStatus {
    // SAFETY: the caller passes ONNX Runtime's factory.
    let ort = unsafe { of(factory) };
    guard(ort, "creating an object", || {
        if made.is_null() {
            return Err(Failure::argument("the output is null"));
        }
        // SAFETY: the output was checked above.
        unsafe { made.write(ptr::null_mut()) };
        Ok(())
    })
}
