//! The state of a plugin's handle: a stream, and the devices that it has worked on.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::PluginError;
use crate::cuda::{self, Cuda, EnteredContext};
use crate::ffi::hipStream_t;
use crate::gpu::Gpu;
use crate::hip::{EnteredDevice, Hip};
use crate::lock::{Mutex, OnceLock};

/// A handle of the host: the stream of later executions, and the plugin's state on each device that the
/// handle worked on.
///
/// A device is opened when a graph is first planned or run: until then a handle costs nothing on a machine
/// without a GPU. With HIP it is the device that is current then, and stays the same. With CUDA it is that of
/// the stream's context, or else of the thread's context, or else the first.
#[derive(Debug)]
pub struct Handle<T> {
    stream: AtomicPtr<c_void>,
    devices: Link<T>,
    opening: Mutex<()>,
}

/// A device that a handle has worked on; it lives as long as the handle.
#[derive(Debug)]
pub struct Device<T> {
    /// The device.
    pub gpu: Gpu,
    /// The driver's device number.
    pub number: c_int,
    /// The plugin's state on it.
    pub own: T,
    next: Link<T>,
}

/// The next device of a list that only grows, so lookups take no lock.
type Link<T> = OnceLock<Box<Device<T>>>;

/// A device that is current on this thread until this is dropped.
#[derive(Debug)]
#[must_use = "the thread leaves the device when this is dropped"]
pub struct Entered<'a, T> {
    /// The device.
    pub device: &'a Device<T>,
    /// The stream to work on.
    pub stream: hipStream_t,
    _left_when_dropped: Left<'a>,
}

#[derive(Debug)]
#[expect(dead_code, reason = "they are there to be dropped")]
enum Left<'a> {
    Hip(EnteredDevice<'a>),
    Cuda(EnteredContext),
}

impl<T> Default for Handle<T> {
    fn default() -> Self {
        Self { stream: AtomicPtr::default(), devices: OnceLock::new(), opening: Mutex::default() }
    }
}

impl<T> Handle<T> {
    /// Sets the stream of later executions.
    pub fn set_stream(&self, stream: hipStream_t) {
        self.stream.store(stream, Ordering::Release);
    }

    /// Makes the handle's HIP device current. `open` creates the plugin's state on it once, with the handle's
    /// stream and the device entered.
    ///
    /// # Errors
    /// HIP's and those of `open`.
    pub fn enter_hip(
        &self,
        hip: &'static Hip,
        open: impl FnOnce(hipStream_t) -> Result<T, PluginError>,
    ) -> Result<Entered<'_, T>, PluginError> {
        let stream = self.stream.load(Ordering::Acquire);
        let is_it = |gpu: &Gpu| matches!(gpu, Gpu::Hip(_));
        let device = self.find_or_add(is_it, || {
            let number = hip.current_device()?;
            Ok(Device { gpu: Gpu::Hip(hip), number, own: open(stream)?, next: OnceLock::new() })
        })?;
        let left = Left::Hip(hip.enter(device.number)?);
        Ok(Entered { device, stream, _left_when_dropped: left })
    }

    /// Makes the context of the stream current. `open` creates the plugin's state once per context, with the
    /// context entered.
    ///
    /// # Errors
    /// The driver's and those of `open`.
    pub fn enter_cuda(
        &self,
        cuda: &'static Cuda,
        open: impl FnOnce(&cuda::Device, hipStream_t) -> Result<T, PluginError>,
    ) -> Result<Entered<'_, T>, PluginError> {
        let stream = self.stream.load(Ordering::Acquire);
        // SAFETY: the host keeps a stream alive while it is set, as the plugin interface asks.
        let context = unsafe { cuda::context_of(cuda, stream) }?;
        let entered = cuda::enter(cuda, context)?;
        let is_it = |gpu: &Gpu| matches!(gpu, Gpu::Cuda(device) if device.context == context);
        let device = self.find_or_add(is_it, || {
            let own = cuda::Device::of_context(cuda, context)?;
            Ok(Device {
                gpu: Gpu::Cuda(own),
                number: own.number,
                own: open(&own, stream)?,
                next: OnceLock::new(),
            })
        })?;
        Ok(Entered { device, stream, _left_when_dropped: Left::Cuda(entered) })
    }

    /// The wanted device, or else a new one.
    fn find_or_add(
        &self,
        is_it: impl Fn(&Gpu) -> bool,
        open: impl FnOnce() -> Result<Device<T>, PluginError>,
    ) -> Result<&Device<T>, PluginError> {
        if let Ok(device) = self.find(&is_it) {
            return Ok(device);
        }
        // The lock only protects the right to add a device.
        let _one_at_a_time = self.opening.lock();
        match self.find(&is_it) {
            Ok(device) => Ok(device),
            Err(end) => {
                let device = Box::new(open()?);
                Ok(end.get_or_init(|| device))
            }
        }
    }

    /// The wanted device, or else the end of the list.
    fn find(&self, is_it: impl Fn(&Gpu) -> bool) -> Result<&Device<T>, &Link<T>> {
        let mut link = &self.devices;
        while let Some(device) = link.get() {
            if is_it(&device.gpu) {
                return Ok(device);
            }
            link = &device.next;
        }
        Err(link)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ptr::{null_mut, without_provenance_mut};

    use super::*;
    use crate::hip::device::testing::several_devices;

    fn hip() -> &'static Hip {
        Box::leak(Box::new(several_devices()))
    }

    #[test]
    fn the_first_device_stays_and_is_opened_once() {
        let (hip, handle, opened) = (hip(), Handle::default(), Cell::new(0));
        let open = |stream: hipStream_t| {
            opened.set(opened.get() + 1);
            Ok(stream.addr())
        };
        handle.set_stream(without_provenance_mut(16));
        {
            let _two = hip.enter(2).unwrap();
            let entered = handle.enter_hip(hip, open).unwrap();
            assert_eq!((entered.device.number, entered.device.own), (2, 16));
        }
        assert_eq!(hip.current_device(), Ok(0));
        handle.set_stream(null_mut());
        {
            let entered = handle.enter_hip(hip, open).unwrap();
            assert_eq!((hip.current_device(), entered.stream), (Ok(2), null_mut()));
        }
        assert_eq!((hip.current_device(), opened.get()), (Ok(0), 1));
    }

    #[test]
    fn failed_opens_are_retried() {
        let (hip, handle) = (hip(), Handle::default());
        let error = handle.enter_hip(hip, |_| Err(PluginError::internal("not yet"))).map(drop).unwrap_err();
        assert_eq!(error.message(), "not yet");
        assert_eq!(handle.enter_hip(hip, |_| Ok(5)).unwrap().device.own, 5);
        assert_eq!(handle.enter_hip(hip, |_| Err(PluginError::internal("again"))).unwrap().device.own, 5);
    }

    #[test]
    fn devices_are_told_apart() {
        let handle = Handle::default();
        let known = [hip(), hip(), hip()];
        // Twice, so that each is also found among the others.
        for _ in 0..2 {
            for (hip, number) in known.iter().zip(0..) {
                let is_it = |gpu: &Gpu| matches!(gpu, Gpu::Hip(other) if std::ptr::eq(*other, *hip));
                let open = || Ok(Device { gpu: Gpu::Hip(hip), number, own: (), next: OnceLock::new() });
                assert_eq!(handle.find_or_add(is_it, open).unwrap().number, number);
            }
        }
        let mut numbers = Vec::new();
        assert!(handle.find(|_| false).is_err());
        let mut link = &handle.devices;
        while let Some(device) = link.get() {
            numbers.push(device.number);
            link = &device.next;
        }
        assert_eq!(numbers, [0, 1, 2]);
    }
}
