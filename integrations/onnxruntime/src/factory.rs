//! The factory: offers devices, and makes an execution provider for each session.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::context::{self, Fit};
use crate::ep::{Ep, NAME};
use crate::failure::{Failure, Result};
use crate::gpu::{Allocator, GPU, SINCE, Side, Transfer};
use crate::options::{Device, Options};
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

/// Makes execution providers. ONNX Runtime accesses its first member.
///
/// A session may outlive the registration, and then still releases its provider and memory through its factory: the registration, each
/// provider, allocator and data transfer count as a reference.
#[repr(C)]
pub struct Factory {
    base: OrtEpFactory,
    ort: Ort,
    /// The GPU, looked for on first use.
    side: OnceLock<Option<Side>>,
    /// Devices made because ONNX Runtime does not see them.
    made: Mutex<Vec<Made>>,
}

/// A device that is released with the factory.
struct Made(*mut OrtHardwareDevice);

// SAFETY: the device is immutable once made.
unsafe impl Send for Made {}

impl Factory {
    /// A factory, owned by the caller until [`Factory::release`].
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
        let factory = Self { base, ort, side: OnceLock::new(), made: Mutex::default() };
        Arc::into_raw(Arc::new(factory)).cast_mut().cast()
    }

    /// A reference to a factory, for what it makes.
    ///
    /// # Safety
    /// The pointer is from [`Factory::create`], and the factory is alive.
    unsafe fn reference(factory: *const OrtEpFactory) -> Arc<Self> {
        let factory = factory.cast::<Self>();
        // SAFETY: the pointer is from [`Factory::create`], and the factory is alive, as this function requires; it is that of a whole
        // struct in an `Arc`, and the new count is the result's.
        unsafe {
            Arc::increment_strong_count(factory);
            Arc::from_raw(factory)
        }
    }

    /// The GPU, if there is one and ONNX Runtime asks for a session's memory.
    fn side(&self) -> Option<&Side> {
        let find = || if self.ort.version >= SINCE { Side::find(self.ort).unwrap_or(None) } else { None };
        self.side.get_or_init(find).as_ref()
    }

    /// Keeps a device that is released with the factory.
    fn keep(&self, device: *mut OrtHardwareDevice) -> *const OrtHardwareDevice {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(Made(device));
        device
    }

    /// Ends the registration. The factory is destroyed with the last object that it made.
    ///
    /// # Safety
    /// The pointer is null or from [`Factory::create`], and the registration ends once.
    pub unsafe fn release(factory: *mut OrtEpFactory) {
        if !factory.is_null() {
            // SAFETY: the pointer is null or from [`Factory::create`], and the registration ends once, as this function requires; its
            // count is that of the registration.
            drop(unsafe { Arc::from_raw(factory.cast::<Self>()) });
        }
    }
}

// SAFETY: its pointers are constant, and ONNX Runtime may call a factory from any thread.
unsafe impl Send for Factory {}
// SAFETY: what changes is behind locks, and its pointers are constant.
unsafe impl Sync for Factory {}

impl Drop for Factory {
    fn drop(&mut self) {
        for device in self.made.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: the factory made the device, and is the last to use it.
            unsafe { self.ort.ep.ReleaseHardwareDevice(device.0) };
        }
    }
}

/// The factory for a pointer from ONNX Runtime.
///
/// # Safety
/// `factory` is one that this library made, and lives as long as the result.
unsafe fn whole<'a>(factory: *const OrtEpFactory) -> &'a Factory {
    // SAFETY: ONNX Runtime passes what `Factory::create` made, whose first member is the base; it is shared until it is released.
    unsafe { &*factory.cast::<Factory>() }
}

/// A factory's functions of ONNX Runtime.
///
/// # Safety
/// `factory` is one that this library made.
unsafe fn of(factory: *const OrtEpFactory) -> Ort {
    // SAFETY: this function requires a factory of this library, which ONNX Runtime keeps during its calls.
    unsafe { whole(factory) }.ort
}

/// The type of a device.
///
/// # Safety
/// The device is alive.
unsafe fn kind(ort: Ort, device: *const OrtHardwareDevice) -> c_int {
    // SAFETY: the device is alive, as this function requires.
    unsafe { ort.api.HardwareDevice_Type(device) }
}

extern "C" fn get_name(_: *const OrtEpFactory) -> *const c_char {
    NAME.as_ptr()
}

extern "C" fn get_vendor(_: *const OrtEpFactory) -> *const c_char {
    VENDOR.as_ptr()
}

extern "C" fn get_vendor_id(_: *const OrtEpFactory) -> u32 {
    // The CPU engines have no PCI vendor.
    0
}

extern "C" fn get_version(_: *const OrtEpFactory) -> *const c_char {
    VERSION.as_ptr()
}

/// # Safety
/// ONNX Runtime calls this with this library's factory and what that made; pointers are valid as its interface says.
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
        // SAFETY: the array has `count` devices, which live as long as ONNX Runtime.
        let devices: Vec<_> = (0..count).map(|at| unsafe { devices.add(at).read() }).collect();
        // SAFETY: a device that is not null was passed by ONNX Runtime, whose devices live as long as itself.
        let is_cpu =
            |device: &*const OrtHardwareDevice| !device.is_null() && unsafe { kind(ort, *device) } == CPU;
        let mut found = 0;
        let mut offer = |device: *const OrtHardwareDevice| -> Result<*mut OrtEpDevice> {
            // SAFETY: factory and device are alive; no metadata and no options are given.
            let made_one = ort.value("CreateEpDevice", ptr::null_mut(), |to| unsafe {
                ort.ep.CreateEpDevice(factory, device, ptr::null(), ptr::null(), to)
            })?;
            // SAFETY: the callers check that `found` is below the array's size.
            unsafe { made.add(found).write(made_one) };
            found += 1;
            Ok(made_one)
        };
        let cpus: Vec<_> = devices.iter().copied().filter(is_cpu).take(room).collect();
        for device in &cpus {
            offer(*device)?;
        }
        // SAFETY: ONNX Runtime passes its factory.
        let whole = unsafe { whole(factory) };
        if let Some(side) = whole.side().filter(|_| cpus.len() < room) {
            // SAFETY: the devices were passed by ONNX Runtime, whose devices live as long as itself.
            let device = match unsafe { side.among(&devices) } {
                Some(device) => device,
                None => whole.keep(side.hardware()?),
            };
            let offered = offer(device)?;
            for info in side.infos() {
                // SAFETY: the device was just made, and the names of the memory live as long as the factory.
                let status = unsafe { ort.ep.EpDevice_AddAllocatorInfo(offered, info) };
                ort.check(status, "EpDevice_AddAllocatorInfo")?;
            }
        }
        // SAFETY: `number` is not null, as was checked above, and callers pass one that is writable.
        unsafe { number.write(found) };
        Ok(())
    })
}

/// # Safety
/// ONNX Runtime calls this with this library's factory and what that made; pointers are valid as its interface says.
unsafe extern "C" fn create_ep(
    factory: *mut OrtEpFactory,
    devices: *const *const OrtHardwareDevice,
    _metadata: *const *const OrtKeyValuePairs,
    count: usize,
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
        // SAFETY: the array has `count` devices, which are alive.
        let is_gpu = |at: usize| unsafe { kind(ort, devices.add(at).read()) } == GPU;
        let gpus = if devices.is_null() { 0 } else { (0..count).filter(|at| is_gpu(*at)).count() };
        // SAFETY: ONNX Runtime passes its factory.
        let side = unsafe { whole(factory) }.side().filter(|_| gpus > 0);
        let only = (gpus > 0 && gpus == count).then(|| side.map_or(Device::Gpu, Side::device));
        let options = read_options(ort, session, only)?;
        let memory = side.filter(|side| side.is_of(options.device)).map(Side::memory);
        // SAFETY: ONNX Runtime passes its factory.
        let own = unsafe { Factory::reference(factory) };
        let ep = Ep::create((ort, own), options, logger, memory)?;
        // SAFETY: `made` is not null, as was checked above, and callers pass one that is writable.
        unsafe { made.write(ep) };
        Ok(())
    })
}

/// Reads a session's options, which are alive only during the call, for its devices.
fn read_options(ort: Ort, session: *const OrtSessionOptions, only: Option<Device>) -> Result<Options> {
    if session.is_null() {
        return Options::read([], only);
    }
    // SAFETY: the session's options are alive during the call.
    let pairs = ort.value("GetSessionOptionsConfigEntries", ptr::null_mut(), |to| unsafe {
        ort.api.GetSessionOptionsConfigEntries(session, to)
    })?;
    let (mut keys, mut values, mut count) = (ptr::null(), ptr::null(), 0);
    // SAFETY: we own the pairs until they are released, and the function writes only to the locals `keys`, `values` and `count`.
    unsafe { ort.api.GetKeyValuePairs(pairs, &raw mut keys, &raw mut values, &raw mut count) };
    let texts = |of: *const *const c_char| -> Vec<String> {
        // SAFETY: both arrays have `count` strings, which live as long as the pairs.
        (0..count).map(|at| text_of(unsafe { of.add(at).read() })).collect()
    };
    let (keys, values) = (texts(keys), texts(values));
    // SAFETY: this is the last use of the pairs; the strings were copied.
    unsafe { ort.api.ReleaseKeyValuePairs(pairs) };
    Options::read(keys.iter().map(String::as_str).zip(values.iter().map(String::as_str)), only)
}

/// # Safety
/// ONNX Runtime calls this with this library's factory and what that made; pointers are valid as its interface says.
unsafe extern "C" fn release_ep(_: *mut OrtEpFactory, ep: *mut OrtEp) {
    // SAFETY: ONNX Runtime passes what `create_ep` made, once.
    unsafe { Ep::release(ep) };
}

/// # Safety
/// ONNX Runtime calls this with this library's factory and what that made; pointers are valid as its interface says.
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
        // SAFETY: `answer` is not null, as was checked above, and callers pass one that is writable.
        unsafe { answer.write(number) };
        Ok(())
    })
}

/// Host memory is left to ONNX Runtime.
///
/// # Safety
/// ONNX Runtime calls this with this library's factory and what that made; pointers are valid as its interface says.
unsafe extern "C" fn create_allocator(
    factory: *mut OrtEpFactory,
    memory: *const OrtMemoryInfo,
    _options: *const OrtKeyValuePairs,
    made: *mut *mut OrtAllocator,
) -> *mut OrtStatus {
    let make = |factory: &Arc<Factory>| match factory.side() {
        Some(side) if !memory.is_null() => {
            // SAFETY: ONNX Runtime passes one of the two memory infos.
            let is_of_host = unsafe { side.is_of_host(memory) };
            Allocator::create((factory.ort, factory.clone()), side, is_of_host)
        }
        _ => ptr::null_mut(),
    };
    // SAFETY: ONNX Runtime passes its factory and a valid output or null.
    unsafe { hand_out(factory, made, make) }
}

/// # Safety
/// ONNX Runtime calls this with this library's factory and what that made; pointers are valid as its interface says.
unsafe extern "C" fn release_allocator(_: *mut OrtEpFactory, allocator: *mut OrtAllocator) {
    // SAFETY: ONNX Runtime passes what `create_allocator` made, once.
    unsafe { Allocator::release(allocator) };
}

/// # Safety
/// ONNX Runtime calls this with this library's factory and what that made; pointers are valid as its interface says.
unsafe extern "C" fn create_data_transfer(
    factory: *mut OrtEpFactory,
    made: *mut *mut OrtDataTransferImpl,
) -> *mut OrtStatus {
    let make = |factory: &Arc<Factory>| match factory.side() {
        Some(side) => Transfer::create((factory.ort, factory.clone()), side),
        None => ptr::null_mut(),
    };
    // SAFETY: ONNX Runtime passes its factory and a valid output or null.
    unsafe { hand_out(factory, made, make) }
}

/// # Safety
/// ONNX Runtime calls this with this library's factory and what that made; pointers are valid as its interface says.
unsafe extern "C" fn is_stream_aware(_: *const OrtEpFactory) -> bool {
    false
}

/// # Safety
/// ONNX Runtime calls this with this library's factory and what that made; pointers are valid as its interface says.
unsafe extern "C" fn create_sync_stream(
    factory: *mut OrtEpFactory,
    _memory: *const OrtMemoryDevice,
    _options: *const OrtKeyValuePairs,
    made: *mut *mut OrtSyncStreamImpl,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its factory and a valid output or null.
    unsafe { hand_out(factory, made, |_| ptr::null_mut()) }
}

/// Returns an object, or null, which the interface allows.
///
/// # Safety
/// `factory` is one that this library made, and `made` null or writable.
unsafe fn hand_out<T>(
    factory: *mut OrtEpFactory,
    made: *mut *mut T,
    make: impl FnOnce(&Arc<Factory>) -> *mut T,
) -> *mut OrtStatus {
    // SAFETY: this function requires a factory of this library, which ONNX Runtime keeps during its calls.
    let factory = unsafe { Factory::reference(factory) };
    guard(factory.ort, "creating an object", || {
        if made.is_null() {
            return Err(Failure::argument("the output is null"));
        }
        // SAFETY: `made` is not null, as was checked above, and callers pass one that is writable.
        unsafe { made.write(make(&factory)) };
        Ok(())
    })
}
