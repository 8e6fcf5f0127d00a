//! Arrays released once work is done: a GPU's, or that of a thread whose caller was interrupted.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hipdnn_plugin_sdk::gpu::{Event, Gpu};
use pyo3::prelude::*;

use crate::background::{self, Work};
use crate::device::{Place, Stream};
use crate::error::Failure;
use crate::view::Guard;

/// An event that happens when a stream's work so far is done.
pub struct Mark {
    gpu: Gpu,
    event: Event,
}

// SAFETY: any thread may use an event.
unsafe impl Send for Mark {}

impl Mark {
    /// Marks the end of a stream's work so far; none for the host, whose work is done.
    ///
    /// # Safety
    /// The stream is alive, and its device was entered.
    pub unsafe fn new(place: Place, stream: Stream) -> Result<Option<Self>, Failure> {
        // SAFETY: the stream is alive and its device was entered, as this function requires.
        unsafe {
            let Some(gpu) = place.gpu(stream)? else { return Ok(None) };
            let _entered = match gpu {
                Gpu::Cuda(device) => Some(device.enter()?),
                Gpu::Hip(_) => None,
                // Its memory is freed after the work that uses it.
                Gpu::Vulkan(_) => return Ok(None),
            };
            let mark = Self { gpu, event: gpu.create_event()? };
            gpu.record(mark.event, stream.raw())?;
            Ok(Some(mark))
        }
    }

    fn has_happened(&self) -> bool {
        let _entered = match self.gpu {
            Gpu::Cuda(device) => device.enter().ok(),
            Gpu::Hip(_) | Gpu::Vulkan(_) => None,
        };
        // This thread may be capturing some stream, which a query must not disturb.
        // SAFETY: the event belongs to this object.
        self.gpu.beside_captures(|| unsafe { self.gpu.has_happened(self.event) })
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: the event belongs to this object, and is not used after this.
        unsafe { self.gpu.destroy_event(self.event) };
    }
}

/// Memory that an execution uses.
#[derive(Clone, Copy)]
pub struct Used {
    pub begin: usize,
    pub end: usize,
    pub is_written: bool,
}

impl Used {
    /// Whether one execution writes what the other one uses.
    fn conflicts_with(&self, other: &Self) -> bool {
        (self.is_written || other.is_written) && self.begin < other.end && other.begin < self.end
    }
}

/// What kept arrays wait for.
enum Until {
    Marked(Mark),
    Ended(Arc<dyn Work>, Vec<Used>),
}

impl Until {
    fn has_come(&self) -> bool {
        match self {
            Self::Marked(mark) => mark.has_happened(),
            Self::Ended(work, _) => work.wait(Duration::ZERO),
        }
    }
}

static KEPT: Mutex<Vec<(Until, Vec<Guard>)>> = Mutex::new(Vec::new());

/// How many kept entries wait for a thread. Only changed with the interpreter's lock held.
static ABANDONED: AtomicUsize = AtomicUsize::new(0);

fn kept() -> MutexGuard<'static, Vec<(Until, Vec<Guard>)>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps arrays until the work that uses them is done, and releases those whose work is. The interpreter's lock is held.
pub fn keep(mark: Mark, arrays: Vec<Guard>) {
    kept().push((Until::Marked(mark), arrays));
    sweep();
}

/// Keeps the arrays of an execution whose caller was interrupted until its thread is done. The interpreter's lock is held.
pub fn abandon(work: Arc<dyn Work>, used: Vec<Used>, arrays: Vec<Guard>) {
    kept().push((Until::Ended(work, used), arrays));
    ABANDONED.fetch_add(1, Ordering::Relaxed);
}

/// Releases the arrays whose work is done. The interpreter's lock is held.
pub fn sweep() {
    let done: Vec<_> = kept().extract_if(.., |(until, _)| until.has_come()).collect();
    let ended = done.iter().filter(|(until, _)| matches!(until, Until::Ended(..))).count();
    ABANDONED.fetch_sub(ended, Ordering::Relaxed);
    // Releasing arrays may call back into this module.
    drop(done);
}

/// Waits for executions whose callers were interrupted, if one of them and a new one write what the other uses. Raises the errors of
/// signal handlers.
#[inline]
pub fn settle(py: Python<'_>, used: impl FnOnce() -> Vec<Used>) -> PyResult<()> {
    if ABANDONED.load(Ordering::Relaxed) == 0 { Ok(()) } else { settle_abandoned(py, &used()) }
}

#[cold]
fn settle_abandoned(py: Python<'_>, used: &[Used]) -> PyResult<()> {
    loop {
        sweep();
        let first = kept().iter().find_map(|(until, _)| match until {
            Until::Ended(work, theirs) => {
                let conflict = theirs.iter().any(|of| used.iter().any(|own| own.conflicts_with(of)));
                conflict.then(|| Arc::clone(work))
            }
            Until::Marked(_) => None,
        });
        let Some(work) = first else { return Ok(()) };
        py.detach(|| work.wait(background::TICK));
        py.check_signals()?;
    }
}

/// Forgets the work of the parent's threads, in a child that was just forked.
pub fn forked() {
    let of_parent: Vec<_> = kept().extract_if(.., |(until, _)| matches!(until, Until::Ended(..))).collect();
    ABANDONED.store(0, Ordering::Relaxed);
    mem::forget(of_parent);
}

/// Waits for all work of a device.
#[pyfunction]
pub fn synchronize(py: Python<'_>, device: Place) -> PyResult<()> {
    py.detach(|| {
        let _entered = device.enter(Stream::default())?;
        // SAFETY: the default stream is never destroyed.
        match unsafe { device.gpu(Stream::default()) }? {
            Some(gpu) => Ok(gpu.synchronize()?),
            None => Ok(()),
        }
    })
    .map_err(Failure::into_py)?;
    sweep();
    Ok(())
}
