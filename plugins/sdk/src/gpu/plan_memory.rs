//! Device memory owned by a plan, for executions without a workspace.

use std::ffi::c_void;
use std::ptr::null_mut;

use crate::PluginError;
use crate::ffi::hipStream_t;
use crate::gpu::workspace::Workspace;
use crate::gpu::{Event, Gpu};
use crate::lock::{Mutex, MutexGuard};

/// Above this size an execution must pass a workspace: programs share such memory between plans.
const LARGE: usize = 64 << 20;

/// Maximum number of buffers before executions on other streams wait for each other, on the device. Buffers
/// that threads are using right now come on top.
const MOST: usize = 8;

/// How many of them may be owned by a stream.
const MOST_OWNED: usize = 4;

/// The workspace of a plan, and memory to replace it.
///
/// An execution owns a buffer while it queues its work. Then an event is recorded behind the work, and the
/// next execution makes its stream wait for the event before it uses the buffer. It prefers buffers last used
/// on the same stream or by finished work, where the wait costs nothing; otherwise the wait keeps the two
/// executions apart. A buffer that was captured in a graph is never reused, because the graph may run at any
/// time.
///
/// With CUDA, whose streams have ids, the first streams that a plan runs on own a buffer each for ever: work
/// of one stream is in order and needs no events.
#[derive(Debug)]
pub struct PlanMemory {
    gpu: Gpu,
    workspace: Workspace,
    buffers: Mutex<Buffers>,
}

#[derive(Debug, Default)]
struct Buffers {
    /// Buffers that no execution is using.
    free: Vec<Buffer>,
    /// Number of shared buffers, including those in use.
    made: usize,
    /// Number of buffers owned by a stream.
    owned: usize,
    /// Buffers that are kept until the plan ends.
    retired: Vec<Buffer>,
}

#[derive(Debug)]
struct Buffer {
    memory: *mut c_void,
    event: Event,
    /// The stream that used it last; none before the first use.
    last: Option<hipStream_t>,
    /// The id of the stream that owns it.
    owner: Option<u64>,
}

// SAFETY: handles of memory, events and streams may be used by any thread.
unsafe impl Send for Buffer {}

/// A buffer for one execution. It is retired if dropped before it is given back.
struct Taken<'a> {
    owner: &'a PlanMemory,
    buffer: Option<Buffer>,
    is_captured: bool,
}

impl PlanMemory {
    /// For a plan made on this device. Allocates nothing yet.
    pub fn new(gpu: Gpu, workspace: Workspace) -> Self {
        Self { gpu, workspace, buffers: Mutex::default() }
    }

    /// Allocates the first buffer if callers are not asked for a workspace, so that executions on one stream
    /// allocate nothing.
    ///
    /// # Errors
    /// HIP's.
    pub fn make_first(&self) -> Result<(), PluginError> {
        if self.workspace.size() > 0 && self.workspace.asked() == 0 {
            let first = self.gpu.beside_captures(|| self.make())?;
            let mut buffers = self.lock();
            buffers.free.push(first);
        }
        Ok(())
    }

    /// Bytes of workspace that callers are asked for.
    pub fn workspace_size(&self) -> usize {
        self.workspace.asked()
    }

    /// Queues work on a stream of the plan's device, which the thread has entered. `work` gets the addresses
    /// of the virtual tensors and of the steps' scratch memory: in the caller's workspace if one was
    /// requested and passed, else in the plan's memory.
    ///
    /// # Errors
    /// Those of `work` and of HIP, or that the workspace is null and too large for the plan to allocate.
    #[inline]
    pub fn run(
        &self,
        workspace: *mut c_void,
        stream: hipStream_t,
        work: impl FnOnce([*mut c_void; 2]) -> Result<(), PluginError>,
    ) -> Result<(), PluginError> {
        let size = self.workspace.size();
        if size == 0 {
            return work([null_mut(); 2]);
        }
        if self.workspace.asked() > 0 && !workspace.is_null() {
            return work(self.workspace.places(workspace));
        }
        if size > LARGE {
            return Err(PluginError::bad_param(format!(
                "workspace is null, expected {size} bytes of device memory: as many as \
                 HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE says, set as HIPDNN_ATTR_VARIANT_PACK_WORKSPACE"
            )));
        }
        let taken = self.take(stream)?;
        let done = work(self.workspace.places(taken.memory()));
        // Even after a failure, queued work uses the buffer.
        let given = taken.give_back(stream);
        done.and(given)
    }

    fn lock(&self) -> MutexGuard<'_, Buffers> {
        // The lists are consistent at any time.
        self.buffers.lock()
    }

    /// A buffer for the caller alone, usable by work on this stream.
    fn take(&self, stream: hipStream_t) -> Result<Taken<'_>, PluginError> {
        let is_captured = self.is_capturing(stream);
        if !is_captured && let Some(buffer) = self.own(stream)? {
            return Ok(Taken { owner: self, buffer: Some(buffer), is_captured });
        }
        let free = {
            let mut buffers = self.lock();
            let place = buffers.place(stream, is_captured, |event| self.has_happened(event));
            place.map(|place| buffers.free.swap_remove(place))
        };
        let buffer = match free {
            Some(buffer) => buffer,
            None => self.gpu.beside_captures(|| self.make())?,
        };
        let (last, event) = (buffer.last, buffer.event);
        let taken = Taken { owner: self, buffer: Some(buffer), is_captured };
        if last.is_some() {
            // SAFETY: the event is the buffer's, and the host keeps a stream alive while it is set, as the plugin interface asks.
            unsafe { self.gpu.wait_for(stream, event) }?;
        }
        Ok(taken)
    }

    /// The stream's own buffer; none if it should use a shared one.
    #[inline]
    fn own(&self, stream: hipStream_t) -> Result<Option<Buffer>, PluginError> {
        // SAFETY: the host keeps a stream alive while it is set, as the plugin interface asks.
        let Some(id) = (unsafe { self.gpu.stream_id(stream) }) else { return Ok(None) };
        let unused = {
            let mut buffers = self.lock();
            if let Some(place) = buffers.free.iter().position(|buffer| buffer.owner == Some(id)) {
                return Ok(Some(buffers.free.swap_remove(place)));
            }
            if buffers.owned >= MOST_OWNED {
                return Ok(None);
            }
            let place = buffers.place(stream, true, |_| false);
            place.map(|place| buffers.free.swap_remove(place))
        };
        let mut buffer = match unused {
            Some(buffer) => buffer,
            None => self.gpu.beside_captures(|| self.make())?,
        };
        buffer.owner = Some(id);
        let mut buffers = self.lock();
        buffers.made -= 1;
        buffers.owned += 1;
        Ok(Some(buffer))
    }

    fn has_happened(&self, event: Event) -> bool {
        // SAFETY: the event is that of a buffer.
        self.gpu.beside_captures(|| unsafe { self.gpu.has_happened(event) })
    }

    fn make(&self) -> Result<Buffer, PluginError> {
        let size = self.workspace.size();
        let failed = |error: PluginError| {
            PluginError::alloc_failed(format!("{size} bytes of device memory for a workspace: {error}"))
        };
        let memory = self.gpu.allocate(size).map_err(failed)?;
        let made = self.gpu.create_event().inspect_err(|_| {
            // SAFETY: it was made above, and nothing uses it.
            unsafe { self.gpu.free(memory) };
        });
        let buffer = Buffer { memory, event: made.map_err(failed)?, last: None, owner: None };
        self.lock().made += 1;
        Ok(buffer)
    }

    /// Whether work on the stream becomes part of a graph.
    fn is_capturing(&self, stream: hipStream_t) -> bool {
        // SAFETY: the host keeps a stream alive while it is set, as the plugin interface asks.
        unsafe { self.gpu.is_capturing(stream) }
    }
}

impl Buffers {
    /// The index of a free buffer to use for work on this stream, if any.
    fn place(
        &self,
        stream: hipStream_t,
        is_captured: bool,
        has_happened: impl Fn(Event) -> bool,
    ) -> Option<usize> {
        let free = || self.free.iter().enumerate().filter(|(_, buffer)| buffer.owner.is_none());
        let found = |is_it: &dyn Fn(&Buffer) -> bool| {
            free().find(|(_, buffer)| is_it(buffer)).map(|(place, _)| place)
        };
        let of = |last| found(&|buffer| buffer.last == last);
        if is_captured {
            return of(None);
        }
        let any = || if self.made + self.owned >= MOST { found(&|_| true) } else { None };
        let done = || found(&|buffer| has_happened(buffer.event));
        of(Some(stream)).or_else(|| of(None)).or_else(done).or_else(any)
    }
}

impl Taken<'_> {
    fn memory(&self) -> *mut c_void {
        self.buffer.as_ref().map_or(null_mut(), |buffer| buffer.memory)
    }

    /// Call after the work was queued.
    fn give_back(mut self, stream: hipStream_t) -> Result<(), PluginError> {
        if let (Some(buffer), false) = (&mut self.buffer, self.is_captured) {
            if buffer.owner.is_none() {
                // SAFETY: the event is the buffer's, and the host keeps a stream alive while it is set, as the plugin interface asks.
                unsafe { self.owner.gpu.record(buffer.event, stream) }?;
                buffer.last = Some(stream);
            }
            if let Some(buffer) = self.buffer.take() {
                self.owner.lock().free.push(buffer);
            }
        }
        Ok(())
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            let mut buffers = self.owner.lock();
            match buffer.owner {
                Some(_) => buffers.owned -= 1,
                None => buffers.made -= 1,
            }
            buffers.retired.push(buffer);
        }
    }
}

impl Drop for PlanMemory {
    fn drop(&mut self) {
        let buffers = self.buffers.get_mut();
        if buffers.free.is_empty() && buffers.retired.is_empty() {
            return;
        }
        // Freeing waits for the device's work, whichever device is current. Failures are ignored.
        for buffer in buffers.free.drain(..).chain(buffers.retired.drain(..)) {
            // SAFETY: the buffer owns both, and no execution uses it.
            unsafe {
                self.gpu.destroy_event(buffer.event);
                self.gpu.free(buffer.memory);
            }
        }
    }
}

#[cfg(test)]
mod tests;
