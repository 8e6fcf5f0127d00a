//! The open library.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hipdnn_plugin_sdk::os::paths;

use crate::constants::{
    HIPDNN_PLUGIN_LOADING_ABSOLUTE, HIPDNN_PLUGIN_LOADING_ADDITIVE, HIPDNN_STATUS_SUCCESS,
};
use crate::error::{Error, Result};
use crate::functions::{Functions, Status};
use crate::search;

/// A buffer size that fits every last error message.
const ERROR_ROOM: usize = 2048;

/// An open `libhipdnn_backend.so`. Clones share the library, which stays open as long as any object of it lives.
#[derive(Clone)]
pub struct Backend {
    pub(crate) functions: Arc<Functions>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Backend").field(&self.path()).finish()
    }
}

impl Backend {
    /// Opens the library at a file or in a folder, or else the first one found: beside this
    /// program, in `lib` or `lib64` beside the program's folder, in the folder `HIPDNN_BACKEND_LIBRARY_PATH`, or by the loader's search.
    pub fn open(named: Option<&Path>) -> Result<Self> {
        Ok(Self { functions: Arc::new(search::open(named)?) })
    }

    /// The name that opened the library.
    pub fn path(&self) -> &str {
        self.functions.path()
    }

    /// The file that the loader opened.
    pub fn file(&self) -> Option<PathBuf> {
        self.functions.file()
    }

    /// The library's version, if it tells.
    pub fn version(&self) -> Option<String> {
        let version = self.functions.hipdnnVersionString_ext().ok()?;
        // SAFETY: the function takes no arguments; its text is null or lives as long as the library.
        let text = unsafe {
            let text = version();
            (!text.is_null()).then(|| CStr::from_ptr(text))
        };
        text.map(|text| text.to_string_lossy().into_owned())
    }

    /// Loads engine plugins only from these files and folders.
    pub fn set_engine_plugin_paths(&self, paths: &[PathBuf]) -> Result<()> {
        self.set_paths(paths, HIPDNN_PLUGIN_LOADING_ABSOLUTE)
    }

    /// Also loads engine plugins from these files and folders.
    pub fn add_engine_plugin_paths(&self, paths: &[PathBuf]) -> Result<()> {
        self.set_paths(paths, HIPDNN_PLUGIN_LOADING_ADDITIVE)
    }

    fn set_paths(&self, paths: &[PathBuf], mode: c_int) -> Result<()> {
        let texts = paths.iter().map(|path| {
            CString::new(paths::bytes(path.as_os_str()))
                .map_err(|_| Error::argument(format!("{}: a path has no NUL", path.display())))
        });
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        let set = self.functions.hipdnnSetEnginePluginPaths_ext()?;
        // SAFETY: the array has the given number of strings, each of which ends with a NUL.
        let status = unsafe { set(pointers.len(), pointers.as_ptr(), mode) };
        self.check("setting the paths of engine plugins", status)
    }

    /// Turns a failed status into an error with the library's message.
    pub(crate) fn check(&self, what: &str, status: Status) -> Result<()> {
        if status == HIPDNN_STATUS_SUCCESS {
            return Ok(());
        }
        let text = self.last_error();
        Err(Error::Status { during: what.to_owned(), status: status.into(), text })
    }

    /// The message of the last failure on this thread, which this clears.
    pub(crate) fn last_error(&self) -> String {
        let Ok(last_error) = self.functions.hipdnnGetLastErrorString() else { return String::new() };
        let mut bytes = vec![0_u8; ERROR_ROOM];
        // SAFETY: the function writes at most as many bytes as the vector has, whose number is passed.
        unsafe { last_error(bytes.as_mut_ptr().cast::<c_char>(), bytes.len()) };
        text_of(&bytes)
    }
}

/// The text in a buffer filled by C, up to the first NUL.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}
