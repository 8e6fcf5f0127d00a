//! What is given back once the work of a GPU is done.

use std::sync::{Mutex, PoisonError};

use hipdnn_plugin_sdk::gpu::{Event, Gpu};

use crate::Failure;
use crate::array::Guard;
use crate::device::{Place, Stream};

/// Happens when the work that a stream had is done.
pub struct Mark {
    gpu: Gpu,
    event: Event,
}

// SAFETY: an event is a name that any thread may use.
unsafe impl Send for Mark {}

impl Mark {
    /// Marks the end of the work that a stream has by now; none for the host, whose work is done.
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
            };
            let mark = Self { gpu, event: gpu.create_event()? };
            gpu.record(mark.event, stream.raw())?;
            Ok(Some(mark))
        }
    }

    fn has_happened(&self) -> bool {
        let _entered = match self.gpu {
            Gpu::Cuda(device) => device.enter().ok(),
            Gpu::Hip(_) => None,
        };
        // Some stream may be captured by this thread, which a question does not disturb.
        // SAFETY: the event is this object's own.
        self.gpu.beside_captures(|| unsafe { self.gpu.has_happened(self.event) })
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: the event is this object's own, and nothing uses it after this.
        unsafe { self.gpu.destroy_event(self.event) };
    }
}

static KEPT: Mutex<Vec<(Mark, Vec<Guard>)>> = Mutex::new(Vec::new());

/// Keeps arrays until the work that uses them is done, and gives back those whose work is. The interpreter's lock is held.
pub fn keep(mark: Mark, arrays: Vec<Guard>) {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.push((mark, arrays));
    drop(kept);
    sweep();
}

/// Gives back the arrays whose work is done. The interpreter's lock is held.
pub fn sweep() {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let done: Vec<_> = kept.extract_if(.., |(mark, _)| mark.has_happened()).collect();
    // Their owners may call here.
    drop(kept);
    drop(done);
}
