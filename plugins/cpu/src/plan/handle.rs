//! What a handle of the host's stands for: the graph that it was asked about last.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::lock::{Mutex, MutexGuard};

use crate::kernel::Refusal;
use crate::plan::empty::prepare;
use crate::plan::steps::check;
use crate::prepare::Prepared;

/// A handle of the host's with this plugin.
///
/// Before a host has a plan it asks about the graph several times: which engines apply, what knobs they have, how large the
/// workspace is. The graph is prepared and checked for the first of these questions; the others and the plan use the result.
#[derive(Default)]
pub struct Handle {
    /// The stream: it says on which device of CUDA memory is.
    stream: AtomicPtr<c_void>,
    last: Mutex<Option<Arc<Checked>>>,
    #[cfg(test)]
    pub(crate) checks: std::sync::atomic::AtomicUsize,
}

/// A graph that the engines compute.
pub struct Checked {
    graph: Graph,
    /// The same, prepared.
    pub prepared: Prepared,
}

impl Handle {
    /// The graph, prepared.
    ///
    /// # Errors
    /// The first thing that the engines do not compute.
    pub fn checked(&self, graph: &Graph) -> Result<Arc<Checked>, Refusal> {
        if let Some(last) = self.last().as_ref().filter(|last| last.graph == *graph) {
            return Ok(Arc::clone(last));
        }
        #[cfg(test)]
        self.checks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let prepared = prepare(graph)?;
        check(&prepared)?;
        let checked = Arc::new(Checked { graph: graph.clone(), prepared });
        *self.last() = Some(Arc::clone(&checked));
        Ok(checked)
    }

    /// Sets the stream of later executions.
    pub fn set_stream(&self, stream: hipStream_t) {
        self.stream.store(stream, Ordering::Release);
    }

    /// The stream.
    pub fn stream(&self) -> hipStream_t {
        self.stream.load(Ordering::Acquire)
    }

    fn last(&self) -> MutexGuard<'_, Option<Arc<Checked>>> {
        self.last.lock()
    }
}
