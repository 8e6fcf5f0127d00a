//! A plugin's library, opened by [`dynlib`], the only place that opens shared libraries.

use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use hipdnn_plugin_sdk::dynlib;
use hipdnn_plugin_sdk::os::library::EXTENSION;

use super::{gate, paths};
use crate::memory;

/// The memory that libraries which a plugin needs may take.
const OTHERS: usize = 16 << 20;

/// An open shared library.
pub struct Library {
    library: ManuallyDrop<dynlib::Library>,
    path: PathBuf,
}

impl Library {
    /// Opens the library at `path`, with all symbols bound immediately and visible to no other library.
    ///
    /// # Errors
    /// The loader's message.
    pub fn open(path: &Path) -> Result<Self, String> {
        match dynlib::Library::open(path) {
            Ok(library) => Ok(Self { library: ManuallyDrop::new(library), path: path.to_owned() }),
            Err(error) => {
                let shortage = lacks_memory(path).map_or_else(String::new, |lack| format!("; {lack}"));
                Err(format!("Failed to load library: {} (Error: {error}{shortage})", path.display()))
            }
        }
    }

    /// Opens the file of a plugin.
    ///
    /// # Errors
    /// The reason why the file cannot be a plugin, or the loader's message.
    pub fn open_plugin(path: &Path) -> Result<Self, String> {
        if !paths::is_library(path) {
            return Err(format!("Invalid file extension. Expected .{EXTENSION}"));
        }
        if !path.is_file() {
            return Err(format!("Shared library: plugin file does not exist: {}", path.display()));
        }
        Self::open(path)
    }

    /// The path the library was opened from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the library has a function of this name.
    pub fn has(&self, name: &str) -> bool {
        self.library.has(name)
    }

    /// The function of this name, if the library has it.
    ///
    /// # Safety
    /// `F` must be the type of the function, and the result must not be called after the library is dropped.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: `F` is the type of the function of this name.
        unsafe { self.library.function(name) }
    }
}

/// Tells if there is not enough memory to load a file: the loader only says that it failed to map a segment.
fn lacks_memory(path: &Path) -> Option<crate::status::Error> {
    let size = usize::try_from(path.metadata().ok()?.len()).ok()?;
    memory::require("a plugin and its libraries", size.saturating_mul(2).saturating_add(OTHERS)).err()
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: this is its last use.
        gate::close(unsafe { ManuallyDrop::take(&mut self.library) });
    }
}
