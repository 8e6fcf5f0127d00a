//! A host's handle, which caches the graph that it was last asked about.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::lock::{Mutex, MutexGuard};
use hipdnn_plugin_sdk::wire::KnobSetting;

use crate::kernel::Refusal;
use crate::plan::compiled::Compiled;
use crate::plan::empty::prepare;
use crate::plan::planner::Planner;
use crate::plan::steps::check;
use crate::prepare::Prepared;

/// The plugin's part of a handle of the host.
///
/// Before it makes a plan, a host asks about the graph several times: for engines, knobs and workspace size.
/// The graph is prepared and checked once; later questions and the plan reuse the result.
#[derive(Default)]
pub struct Handle {
    /// The stream, which tells which CUDA device owns memory.
    stream: AtomicPtr<c_void>,
    last: Mutex<Option<Arc<Checked>>>,
    /// The plan whose workspace it was last asked for: hosts next ask for that plan.
    planned: Mutex<Option<Compiled>>,
    #[cfg(test)]
    pub(crate) checks: std::sync::atomic::AtomicUsize,
}

/// A graph that the engines support.
pub struct Checked {
    graph: Graph,
    /// The prepared graph.
    pub prepared: Prepared,
}

impl Handle {
    /// Prepares the graph.
    ///
    /// # Errors
    /// The first thing that the engines do not support.
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

    /// Keeps a plan that was made for a question.
    pub fn keep(&self, plan: Compiled) {
        *self.planned.lock() = Some(plan);
    }

    /// The kept plan, if it is what would be made for this graph and these knobs.
    pub fn take(&self, graph: &Graph, knobs: &[KnobSetting], planner: Planner) -> Option<Compiled> {
        self.planned.lock().take().filter(|plan| plan.is_of(graph, knobs, planner))
    }

    /// Sets the stream for later executions.
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
