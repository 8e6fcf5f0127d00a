//! HIP devices, and which of them a thread works on.

use std::ffi::c_int;
use std::marker::PhantomData;

use super::{Hip, HipError};
use crate::Refusal;
use crate::lock::OnceLock;

/// A device that is current on this thread until this is dropped, which restores the previous one.
#[derive(Debug)]
#[must_use = "the thread leaves the device when this is dropped"]
pub struct EnteredDevice<'a> {
    hip: &'a Hip,
    /// The thread's previous device, if it was another one.
    before: Option<c_int>,
    /// The device is current on one thread only, so this is not `Send`.
    not_send: PhantomData<*const ()>,
}

impl Hip {
    /// The process's library, with at least one device. Once a device was found, the result stays the same.
    ///
    /// # Errors
    /// What was tried, or that there is no device.
    pub fn with_device() -> Result<&'static Self, Refusal> {
        static HIP: OnceLock<&'static Hip> = OnceLock::new();
        if let Some(hip) = HIP.get() {
            return Ok(hip);
        }
        let hip = Self::get()?;
        match hip.device_count()? {
            0 => Err(Refusal::new(format!("the HIP runtime ({}) finds no device", hip.library().name()))),
            _ => Ok(HIP.get_or_init(|| hip)),
        }
    }

    /// The number of this thread's device.
    ///
    /// # Errors
    /// HIP's.
    pub fn current_device(&self) -> Result<c_int, HipError> {
        let mut device = 0;
        // SAFETY: the function writes only to the local `device`.
        self.check("hipGetDevice", unsafe { (self.hipGetDevice)(&mut device) })?;
        Ok(device)
    }

    /// Makes a device current on this thread until the result is dropped.
    ///
    /// # Errors
    /// HIP's, for instance when there is no device of this number.
    pub fn enter(&self, device: c_int) -> Result<EnteredDevice<'_>, HipError> {
        let before = self.current_device()?;
        let is_other = before != device;
        if is_other {
            // SAFETY: the function refuses numbers that no device has.
            self.check("hipSetDevice", unsafe { (self.hipSetDevice)(device) })?;
        }
        Ok(EnteredDevice { hip: self, before: is_other.then_some(before), not_send: PhantomData })
    }
}

impl Drop for EnteredDevice<'_> {
    fn drop(&mut self) {
        if let Some(device) = self.before {
            // SAFETY: the function takes any number, and this one was the thread's. Failures are ignored.
            unsafe { (self.hip.hipSetDevice)(device) };
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;
    use std::ffi::c_char;
    use std::mem::transmute;

    use super::*;
    use crate::dynlib::Library;
    use crate::hip::{HIP_SUCCESS, hipError_t};

    pub(super) const DEVICES: c_int = 3;
    const INVALID_DEVICE: hipError_t = 101;

    thread_local! {
        pub(super) static DEVICE: Cell<c_int> = const { Cell::new(0) };
    }

    /// `hipGetDevice`.
    ///
    /// # Safety
    /// `device` is writable.
    unsafe extern "C" fn get_device(device: *mut c_int) -> hipError_t {
        // SAFETY: the table's functions are called with valid outputs.
        unsafe { device.write(DEVICE.get()) };
        HIP_SUCCESS
    }

    extern "C" fn set_device(device: c_int) -> hipError_t {
        if !(0..DEVICES).contains(&device) {
            return INVALID_DEVICE;
        }
        DEVICE.set(device);
        HIP_SUCCESS
    }

    extern "C" fn error_string(_: hipError_t) -> *const c_char {
        c"invalid device ordinal".as_ptr()
    }

    extern "C" fn nothing() -> hipError_t {
        HIP_SUCCESS
    }

    /// HIP with several devices, which no test machine has; only the functions for the current device work.
    #[expect(clippy::missing_transmute_annotations, reason = "the type is that of the field")]
    pub fn several_devices() -> Hip {
        type Nothing = unsafe extern "C" fn() -> hipError_t;
        /// A function that is not called.
        macro_rules! unused {
            () => {
                // SAFETY: both are pointers to functions, and this one is not called.
                unsafe { transmute::<Nothing, _>(nothing) }
            };
        }
        Hip {
            hipGetErrorString: error_string,
            hipGetLastError: nothing,
            hipGetDeviceCount: unused!(),
            hipGetDevice: get_device,
            hipSetDevice: set_device,
            hipDeviceSynchronize: nothing,
            hipStreamSynchronize: unused!(),
            hipMalloc: unused!(),
            hipFree: unused!(),
            hipMemcpy: unused!(),
            hipMemcpyAsync: unused!(),
            hipPointerGetAttributes: unused!(),
            hipEventCreate: unused!(),
            hipEventRecord: unused!(),
            hipEventSynchronize: unused!(),
            hipEventElapsedTime: unused!(),
            hipEventQuery: unused!(),
            hipEventDestroy: unused!(),
            hipStreamWaitEvent: unused!(),
            hipEventCreateWithFlags: None,
            hipStreamIsCapturing: None,
            hipThreadExchangeStreamCaptureMode: None,
            hipStreamCreate: None,
            hipStreamDestroy: None,
            hipHostMalloc: None,
            hipHostFree: None,
            hipGetDevicePropertiesR0600: None,
            hipGetDeviceProperties: None,
            library: Library::open(&*crate::os::library::vendor_name("libc.so.6")).unwrap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{DEVICE, DEVICES, several_devices};
    use super::*;
    use crate::PluginError;

    #[test]
    fn the_thread_has_its_device_back_afterwards() {
        let hip = several_devices();
        DEVICE.set(1);
        {
            let _two = hip.enter(2).unwrap();
            assert_eq!(hip.current_device(), Ok(2));
            {
                let _same = hip.enter(2).unwrap();
                let _none = hip.enter(0).unwrap();
                assert_eq!(hip.current_device(), Ok(0));
            }
            assert_eq!(hip.current_device(), Ok(2));
        }
        assert_eq!(hip.current_device(), Ok(1));
    }

    #[test]
    fn a_missing_device_leaves_the_threads_device() {
        let hip = several_devices();
        DEVICE.set(1);
        let error = hip.enter(DEVICES).unwrap_err();
        assert_eq!(error.message, "hipSetDevice failed with error 101: invalid device ordinal");
        assert_eq!(hip.current_device(), Ok(1));
        assert_eq!(Refusal::from(error.clone()).to_string(), error.message);
        assert_eq!(PluginError::from(error.clone()).message(), error.message);
    }

    #[test]
    fn without_a_device_the_reason_says_so() {
        if let Err(reason) = Hip::with_device() {
            let reason = reason.to_string();
            let words = ["looked for ", "finds no device", "hipGetDeviceCount failed"];
            assert!(words.iter().any(|word| reason.contains(word)), "{reason}");
        }
    }
}
