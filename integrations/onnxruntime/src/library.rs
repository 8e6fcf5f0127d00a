//! The open `libhipdnn_backend.so` and its engines, one for the process.

use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use hipdnn::{Backend, Handle};

use crate::failure::{Failure, Result};
use crate::threads::Threads;

/// The library with handles that no thread uses at the moment.
pub struct Library {
    backend: Backend,
    idle: Mutex<Vec<Handle>>,
    threads: Option<Threads>,
}

/// A folder with a library to use in place of the one beside this file.
const VARIABLE: &str = "HIPDNN_BACKEND_LIBRARY_PATH";

static LIBRARY: OnceLock<Library> = OnceLock::new();

impl Library {
    /// The library, opened at the first call that succeeds: the one in the folder that the environment names, the one beside this file,
    /// or else the one that the crate `hipdnn` finds.
    pub fn open() -> Result<&'static Self> {
        if let Some(library) = LIBRARY.get() {
            return Ok(library);
        }
        let named = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let own = || own_folder().filter(|folder| folder.join("libhipdnn_backend.so").is_file());
        let backend = Backend::open(named.or_else(own).as_deref())?;
        // A handle loads the plugins. Should another thread have opened the library meanwhile, its objects stay.
        let first = Handle::new(&backend)?;
        Ok(LIBRARY.get_or_init(|| Self { backend, idle: Mutex::new(vec![first]), threads: Threads::find() }))
    }

    /// The library itself.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// How its CPU engine takes threads of others, where it does.
    pub fn threads(&self) -> Option<Threads> {
        self.threads
    }

    /// Runs `f` with a handle that no other thread uses meanwhile.
    pub fn with_handle<R>(&self, f: impl FnOnce(&Handle) -> Result<R>) -> Result<R> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let handle = match taken {
            Some(handle) => handle,
            None => Handle::new(&self.backend)?,
        };
        let result = f(&handle);
        idle().push(handle);
        result
    }

    /// The id of the engine with a name.
    pub fn engine(&self, name: &str) -> Result<i64> {
        let engines = self.with_handle(|handle| Ok(handle.engines()?))?;
        engines.iter().find(|engine| engine.name == name).map(|engine| engine.id).ok_or_else(|| {
            let names: Vec<&str> = engines.iter().map(|engine| engine.name.as_str()).collect();
            Failure::argument(format!(
                "engine {name}: {} has no engine of this name, expected one of {}",
                self.backend.path(),
                if names.is_empty() { "none: it found no plugins".to_owned() } else { names.join(", ") }
            ))
        })
    }
}

/// The folder of the file that has this code.
fn own_folder() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let here: fn() -> Option<PathBuf> = own_folder;
    // SAFETY: the address is that of a function, and the output is valid.
    let found = unsafe { libc::dladdr(here as *const c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's text ends with a NUL and lives as long as this library, which stays loaded.
    let file = unsafe { CStr::from_ptr(info.dli_fname) }.to_str().ok()?;
    let file = std::path::absolute(Path::new(file)).ok()?;
    Some(file.parent()?.to_owned())
}
