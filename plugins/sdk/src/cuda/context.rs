//! CUDA devices, and which of them a thread works on.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{
    CAPABILITY_MAJOR, CAPABILITY_MINOR, CUDA_SUCCESS, CUcontext, CUdevice, CUstream, Cuda, CudaError,
};

/// A device with the context that this library uses on it.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// The driver.
    pub cuda: &'static Cuda,
    /// The device's number.
    pub number: CUdevice,
    /// Its compute capability, 90 for 9.0.
    pub capability: c_int,
    /// The context.
    pub context: CUcontext,
}

// SAFETY: a context handle may be used by any thread.
unsafe impl Send for Device {}
// SAFETY: CUDA's functions may be called for one context on several threads at once.
unsafe impl Sync for Device {}

/// A context that is current on this thread until this is dropped, which restores the previous one.
#[derive(Debug)]
#[must_use = "the thread leaves the context when this is dropped"]
pub struct EnteredContext {
    /// The driver, if the thread had another context.
    pushed: Option<&'static Cuda>,
    /// The context is current on one thread only, so this is not `Send`.
    not_send: PhantomData<*const ()>,
}

impl Drop for EnteredContext {
    fn drop(&mut self) {
        if let Some(cuda) = self.pushed {
            let mut left = ptr::null_mut();
            // SAFETY: the function writes only to the local `left`, and this thread pushed a context. Failures are ignored.
            unsafe { (cuda.cuCtxPopCurrent_v2)(&mut left) };
        }
    }
}

/// The default streams: null or 1 (legacy) and 2 (per thread). They belong to whichever context is current.
const DEFAULT_STREAMS: usize = 2;

/// The context for work on a stream: the stream's, or else the thread's, or else the primary one of device 0.
///
/// # Errors
/// The driver's.
///
/// # Safety
/// `stream` is a default stream (null, 1 or 2) or a live one.
#[inline]
pub unsafe fn context_of(cuda: &'static Cuda, stream: CUstream) -> Result<CUcontext, CudaError> {
    // SAFETY: the stream is a default stream or alive, as this function requires.
    let context = unsafe { known_context(cuda, stream) }?;
    if context.is_null() { first_context(cuda) } else { Ok(context) }
}

/// The context of the stream or else of the thread, null if neither has one.
///
/// # Safety
/// As for [`context_of`].
#[inline]
unsafe fn known_context(cuda: &'static Cuda, stream: CUstream) -> Result<CUcontext, CudaError> {
    let mut context = ptr::null_mut();
    if stream.addr() > DEFAULT_STREAMS {
        // SAFETY: the function writes only to the local `context`, and a stream that is no default stream is alive, as this function
        // requires.
        cuda.check("cuStreamGetCtx", unsafe { (cuda.cuStreamGetCtx)(stream, &mut context) })?;
    } else {
        // SAFETY: the function writes only to the local `context`.
        cuda.check("cuCtxGetCurrent", unsafe { (cuda.cuCtxGetCurrent)(&mut context) })?;
    }
    Ok(context)
}

/// The device for work on a stream, as [`context_of`] defines it; none before its context exists. This does
/// not create one, which is slow and uses device memory.
///
/// # Errors
/// The driver's.
///
/// # Safety
/// As for [`context_of`].
pub unsafe fn device_in_use(cuda: &'static Cuda, stream: CUstream) -> Result<Option<Device>, CudaError> {
    // SAFETY: the stream is a default stream or alive, as this function requires.
    let known = unsafe { known_context(cuda, stream) }?;
    if known.is_null() && !has_first_context(cuda) {
        return Ok(None);
    }
    let context = if known.is_null() { first_context(cuda)? } else { known };
    Device::of_context(cuda, context).map(Some)
}

fn has_first_context(cuda: &Cuda) -> bool {
    let (mut device, mut flags, mut is_active) = (0, 0, 0);
    // SAFETY: the functions write only to the locals `device`, `flags` and `is_active`.
    unsafe {
        cuda.cuDevicePrimaryCtxGetState.is_some_and(|ask| {
            (cuda.cuDeviceGet)(&mut device, 0) == CUDA_SUCCESS
                && ask(device, &mut flags, &mut is_active) == CUDA_SUCCESS
                && is_active != 0
        })
    }
}

/// The primary context of device 0. It stays retained because plans use it.
#[cold]
fn first_context(cuda: &'static Cuda) -> Result<CUcontext, CudaError> {
    static FIRST: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let known = FIRST.load(Ordering::Acquire);
    if !known.is_null() {
        return Ok(known);
    }
    let context = Device::primary(cuda, 0)?.context;
    FIRST.store(context, Ordering::Release);
    Ok(context)
}

/// Makes a context current on this thread until the result is dropped.
///
/// # Errors
/// The driver's.
#[inline]
pub(crate) fn enter(cuda: &'static Cuda, context: CUcontext) -> Result<EnteredContext, CudaError> {
    let mut current = ptr::null_mut();
    // SAFETY: the function writes only to the local `current`.
    cuda.check("cuCtxGetCurrent", unsafe { (cuda.cuCtxGetCurrent)(&mut current) })?;
    let is_other = current != context;
    if is_other {
        // SAFETY: the context is alive: it is the stream's, the caller's own or a primary one that is retained.
        cuda.check("cuCtxPushCurrent", unsafe { (cuda.cuCtxPushCurrent_v2)(context) })?;
    }
    Ok(EnteredContext { pushed: is_other.then_some(cuda), not_send: PhantomData })
}

impl Device {
    /// A device with its primary context, which the CUDA runtime uses; it stays retained.
    ///
    /// # Errors
    /// The driver's, for instance when there is no device of this number.
    pub fn primary(cuda: &'static Cuda, number: c_int) -> Result<Self, CudaError> {
        let (mut context, mut device) = (ptr::null_mut(), 0);
        // SAFETY: the functions write only to the locals `device` and `context`, and take any number.
        unsafe {
            cuda.check("cuDeviceGet", (cuda.cuDeviceGet)(&mut device, number))?;
            cuda.check("cuDevicePrimaryCtxRetain", (cuda.cuDevicePrimaryCtxRetain)(&mut context, device))?;
        }
        Self::of_context(cuda, context)
    }

    /// The device of a context.
    ///
    /// # Errors
    /// The driver's.
    pub fn of_context(cuda: &'static Cuda, context: CUcontext) -> Result<Self, CudaError> {
        let mut device = Self { cuda, number: 0, capability: 0, context };
        let _entered = device.enter()?;
        // SAFETY: the function writes only to the local `device.number`, and this thread has a context.
        cuda.check("cuCtxGetDevice", unsafe { (cuda.cuCtxGetDevice)(&mut device.number) })?;
        let [major, minor] = cuda.attributes(device.number, [CAPABILITY_MAJOR, CAPABILITY_MINOR])?;
        device.capability = 10 * major + minor;
        Ok(device)
    }

    /// Makes the device's context current on this thread until the result is dropped.
    ///
    /// # Errors
    /// The driver's.
    #[inline]
    pub fn enter(&self) -> Result<EnteredContext, CudaError> {
        enter(self.cuda, self.context)
    }

    /// The device's architecture, `sm_90` for instance.
    pub fn architecture(&self) -> String {
        format!("sm_{}", self.capability)
    }
}
