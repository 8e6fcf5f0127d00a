//! The C interface made safe: descriptors that end themselves, attributes as Rust values, statuses as failures.
//!
//! Everything borrows the [`Backend`], the open library, so nothing outlives the code that it came from.

pub mod constants;
mod descriptor;
mod engine;
mod functions;
mod graph;
mod handle;
mod knob;
mod log;
mod plan;
mod search;
mod serialized;

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use descriptor::Descriptor;
pub use engine::{Engine, EngineConfig};
use functions::{Functions, Status};
pub use graph::OperationGraph;
pub use handle::{EngineInfo, Handle, PolicyInfo, RankingOutcome};
pub use knob::{Knob, KnobSetting, KnobValue};
pub use log::listen;
pub use plan::{Binding, ExecutionPlan};
pub use serialized::Contents;

use crate::failure::{Failure, Result};

/// The room that every last error text fits in.
const ERROR_ROOM: usize = 2048;

/// An open `libhipdnn_backend.so`.
pub struct Backend {
    functions: Functions,
}

impl Backend {
    /// Opens the library that was named, or the one that is found.
    pub fn open(named: Option<&Path>) -> Result<Self> {
        Ok(Self { functions: search::open(named)? })
    }

    /// The name that the library was opened by.
    pub fn path(&self) -> &str {
        self.functions.path()
    }

    /// The library's own version, of those that say it.
    pub fn version(&self) -> Option<String> {
        let version = self.functions.hipdnnVersionString_ext().ok()?;
        // SAFETY: the function takes nothing; its text is null or lives as long as the library.
        let text = unsafe {
            let text = version();
            (!text.is_null()).then(|| CStr::from_ptr(text))
        };
        text.map(|text| text.to_string_lossy().into_owned())
    }

    /// Loads engine plugins from these files and folders, and from nowhere else.
    pub fn set_engine_plugin_paths(&self, paths: &[PathBuf]) -> Result<()> {
        let texts = paths.iter().map(|path| {
            CString::new(path.as_os_str().as_bytes())
                .map_err(|_| Failure::input(format!("{}: a path has no NUL", path.display())))
        });
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        let set = self.functions.hipdnnSetEnginePluginPaths_ext()?;
        // SAFETY: the array has the number of texts that is given, each of which ends with a NUL.
        let status =
            unsafe { set(pointers.len(), pointers.as_ptr(), constants::HIPDNN_PLUGIN_LOADING_ABSOLUTE) };
        self.check("setting the paths of engine plugins", status)
    }

    /// Makes a failure of a status that is not success, with the library's own text.
    fn check(&self, what: &str, status: Status) -> Result<()> {
        if status == constants::HIPDNN_STATUS_SUCCESS {
            return Ok(());
        }
        let text = self.last_error();
        let name = self.status_name(status);
        let name = name.strip_prefix("HIPDNN_STATUS_").unwrap_or(&name);
        Err(Failure::refused(match text.is_empty() {
            true => format!("{what} failed: {name}"),
            false => format!("{what} failed: {text} ({name})"),
        }))
    }

    /// The text of the last failure on this thread, which the library forgets.
    fn last_error(&self) -> String {
        let Ok(last_error) = self.functions.hipdnnGetLastErrorString() else { return String::new() };
        let mut bytes = vec![0_u8; ERROR_ROOM];
        // SAFETY: the buffer has the room that is given.
        unsafe { last_error(bytes.as_mut_ptr().cast::<c_char>(), bytes.len()) };
        text_of(&bytes)
    }

    fn status_name(&self, status: Status) -> String {
        let Ok(name) = self.functions.hipdnnGetErrorString() else { return format!("status {status}") };
        // SAFETY: any number is fine; the text is null or lives as long as the library.
        let text = unsafe {
            let text = name(status);
            (!text.is_null()).then(|| CStr::from_ptr(text))
        };
        text.map_or_else(|| format!("status {status}"), |text| text.to_string_lossy().into_owned())
    }
}

/// The text in a buffer that C filled: up to the first NUL.
fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}
