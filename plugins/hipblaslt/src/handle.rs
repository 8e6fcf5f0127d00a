//! The libraries' handles on the device of a plugin's handle.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use hipdnn_plugin_sdk::dynlib::Object;
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::gpu::handle::Entered;
use hipdnn_plugin_sdk::hip::Hip;
use hipdnn_plugin_sdk::{PluginError, Refusal, gpu};
use parking_lot::{Mutex, MutexGuard};

use crate::hipblaslt::{HipblasLt, OLDEST, hipblasLtHandle_t};
use crate::rocblas::{Rocblas, rocblas_handle};

/// The plugin's handle.
pub type Handle = gpu::handle::Handle<Mutex<Libraries>>;

/// The HIP runtime with at least one device, if one of the libraries exists. Once found, the result stays the
/// same.
///
/// # Errors
/// Which library was not found, or that there is no device.
pub fn runtime() -> Result<&'static Hip, Refusal> {
    static RUNTIME: OnceLock<&Hip> = OnceLock::new();
    if let Some(hip) = RUNTIME.get() {
        return Ok(hip);
    }
    let hip = Hip::with_device()?;
    // rocBLAS is only loaded if hipBLASLt is not usable.
    if let Err(hipblaslt) = HipblasLt::get()
        && let Err(rocblas) = Rocblas::get()
    {
        return Err(Refusal::new(format!("{hipblaslt}; {rocblas}")));
    }
    Ok(RUNTIME.get_or_init(|| hip))
}

/// The libraries' handles, each created on first use.
#[derive(Debug, Default)]
pub struct Libraries {
    hipblaslt: Option<Object>,
    rocblas: Option<RocblasHandle>,
}

/// A rocBLAS handle, and its last settings.
#[derive(Debug)]
struct RocblasHandle {
    handle: Object,
    stream: hipStream_t,
    workspace: (*mut c_void, usize),
}

// SAFETY: a stream handle may be used by any thread, and the workspace is only compared.
unsafe impl Send for RocblasHandle {}

/// The libraries, ready for calls on this thread, with the handle's device current until this is dropped.
pub struct Ready<'a> {
    libraries: MutexGuard<'a, Libraries>,
    /// The device and the stream. Last field, so that the device is left last.
    pub entered: Entered<'a, Mutex<Libraries>>,
}

impl<'a> Ready<'a> {
    /// The libraries, for this thread.
    ///
    /// # Errors
    /// When all libraries or the device are missing, or HIP fails.
    pub fn new(handle: &'a Handle) -> Result<Self, PluginError> {
        let entered = handle.enter_hip(runtime()?, |_| Ok(Mutex::default()))?;
        Ok(Self { libraries: entered.device.own.lock(), entered })
    }
}

impl Ready<'_> {
    /// hipBLASLt with its handle.
    ///
    /// # Errors
    /// Why it is not available.
    pub fn hipblaslt(&mut self) -> Result<(&'static HipblasLt, hipblasLtHandle_t), PluginError> {
        let library = HipblasLt::get()?;
        let handle = match &mut self.libraries.hipblaslt {
            Some(handle) => handle,
            opened => opened.insert(open_hipblaslt(library)?),
        };
        Ok((library, handle.get()))
    }

    /// rocBLAS with its handle, which works on the stream.
    ///
    /// # Errors
    /// Why it is not available, or that the stream cannot be set.
    pub fn rocblas(&mut self) -> Result<(&'static Rocblas, rocblas_handle), PluginError> {
        let stream = self.entered.stream;
        let (library, rocblas) = self.open_rocblas()?;
        let handle = rocblas.handle.get();
        if rocblas.stream != stream {
            // SAFETY: the handle is alive, and the host keeps a stream alive while it is set, as the plugin interface asks.
            let status = unsafe { (library.rocblas_set_stream)(handle, stream) };
            library.check("rocblas_set_stream", status)?;
            rocblas.stream = stream;
        }
        Ok((library, handle))
    }

    fn open_rocblas(&mut self) -> Result<(&'static Rocblas, &mut RocblasHandle), PluginError> {
        let library = Rocblas::get()?;
        let handle = match &mut self.libraries.rocblas {
            Some(handle) => handle,
            opened => opened.insert(RocblasHandle::open(library)?),
        };
        Ok((library, handle))
    }

    /// Sets rocBLAS's workspace for the following calls.
    ///
    /// # Errors
    /// rocBLAS's.
    ///
    /// # Safety
    /// The workspace is valid for its size until the work of these calls is done.
    pub unsafe fn give_rocblas(&mut self, workspace: *mut c_void, size: usize) -> Result<(), PluginError> {
        let (library, rocblas) = self.open_rocblas()?;
        let workspace = if size == 0 { ptr::null_mut() } else { workspace };
        if rocblas.workspace != (workspace, size) {
            // SAFETY: the handle is alive, and the workspace is valid for its size until the work is done, as this function requires.
            let status = unsafe { (library.rocblas_set_workspace)(rocblas.handle.get(), workspace, size) };
            library.check("rocblas_set_workspace", status)?;
            rocblas.workspace = (workspace, size);
        }
        Ok(())
    }
}

fn open_hipblaslt(library: &'static HipblasLt) -> Result<Object, PluginError> {
    let mut handle = ptr::null_mut();
    // SAFETY: the function writes only to the local `handle`, and the new object is owned at once.
    let handle = unsafe {
        library.check("hipblasLtCreate", (library.hipblasLtCreate)(&mut handle))?;
        Object::new(handle, library.hipblasLtDestroy)
    };
    let mut version = 0;
    // SAFETY: `handle` owns the library's handle, and the function writes only to the local `version`.
    let status = unsafe { (library.hipblasLtGetVersion)(handle.get(), &mut version) };
    library.check("hipblasLtGetVersion", status)?;
    if version < OLDEST {
        return Err(PluginError::not_applicable(format!(
            "{} is of version {version}, expected at least {OLDEST}",
            library.library().name()
        )));
    }
    Ok(handle)
}

impl RocblasHandle {
    fn open(library: &'static Rocblas) -> Result<Self, PluginError> {
        let mut handle = ptr::null_mut();
        // SAFETY: the function writes only to the local `handle`, and the new object is owned at once.
        let handle = unsafe {
            library.check("rocblas_create_handle", (library.rocblas_create_handle)(&mut handle))?;
            Object::new(handle, library.rocblas_destroy_handle)
        };
        // A new handle uses the default stream and memory of its own.
        Ok(Self { handle, stream: ptr::null_mut(), workspace: (ptr::null_mut(), 0) })
    }
}
