//! What the calls of both libraries have in common.

use std::ffi::c_void;

use hipdnn_plugin_planner::chain::Tensors;
use hipdnn_plugin_sdk::PluginError;

use crate::handle::Ready;

/// A chain ready to run.
pub trait Run: Send + Sync {
    /// Bytes of device memory for a run.
    fn workspace_size(&self) -> usize;

    /// Queues the work on the stream.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// Each tensor is valid for its extent until the work is done, and `workspace` for [`Run::workspace_size`] bytes.
    unsafe fn run(
        &self,
        ready: &mut Ready<'_>,
        tensors: &Tensors<*mut c_void>,
        workspace: *mut c_void,
    ) -> Result<(), PluginError>;
}
