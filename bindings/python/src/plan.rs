//! Executing plans with memory at given addresses.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{mem, ptr};

use hipdnn::{ExecutionPlan, Handle, VariantPack};
use pyo3::prelude::*;

use crate::background::{self, Pace};
use crate::device::{Place, Stream};
use crate::dlpack::Allocator;
use crate::error::{Error, Failure, Result};
use crate::forks::Lock;
use crate::later::{self, Mark, Used};
use crate::memory::{LentMemory, Workspace, address_of, without_lock};
use crate::session::Session;
use crate::spec::Spec;
use crate::view::Guard;

/// The address of an array, once one is given.
pub type Address = Option<*mut c_void>;

/// A variant pack and workspace, kept for the next execution.
struct Prepared {
    pointers: Vec<Address>,
    /// The workspace address in the pack: the plan's own or lent memory.
    workspace_at: *mut c_void,
    pack: Option<VariantPack>,
    workspace: Workspace,
}

// SAFETY: the addresses are compared, and used only through the pack of an execution whose arrays are alive.
unsafe impl Send for Prepared {}

/// The number of GPU workspaces of a plan before streams share them.
const MOST_WORKSPACES: usize = 32;

/// An execution plan of one engine, for one graph, on one device.
#[pyclass(frozen, module = "hipdnn._native")]
pub struct Plan {
    /// None if the graph has nothing to compute.
    plan: ManuallyDrop<Option<ExecutionPlan>>,
    session: Arc<Session>,
    pub tensors: Vec<Spec>,
    place: Place,
    pub workspace_size: usize,
    pub engine: Option<i64>,
    /// How long executions take.
    pace: Pace,
    free: Lock<Vec<Prepared>>,
    /// Whether an execution was captured into a graph, which may run at any time.
    is_captured: AtomicBool,
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: nothing uses it any more.
        let plan = unsafe { ManuallyDrop::take(&mut self.plan) };
        // The engine's GPU memory is freed with it, which may block.
        without_lock(|| drop(plan));
    }
}

/// The stream and workspace of an execution.
struct Work {
    place: Place,
    stream: Stream,
    is_captured: bool,
    lent: Option<LentMemory>,
    /// Whether the caller needs to know when it is done.
    is_marked: bool,
    /// The event for that.
    mark: Option<Mark>,
}

impl Work {
    fn new(place: Place, stream: Stream, lent: Option<LentMemory>, is_marked: bool) -> Self {
        Self { place, stream, is_captured: false, lent, is_marked, mark: None }
    }
}

impl Plan {
    pub fn new(
        session: Arc<Session>,
        plan: Option<ExecutionPlan>,
        tensors: Vec<Spec>,
        place: Place,
    ) -> PyResult<Self> {
        let read = || match &plan {
            Some(plan) => Ok::<_, hipdnn::Error>((plan.workspace_size()?, Some(plan.engine_id()?))),
            None => Ok((0, None)),
        };
        let (workspace_size, engine) = read().map_err(|error| Failure::from(error).into_py())?;
        let (free, is_captured, pace) = Default::default();
        let plan = ManuallyDrop::new(plan);
        Ok(Self { plan, session, tensors, place, workspace_size, engine, pace, free, is_captured })
    }

    /// Binds memory to a pack, reusing one that is bound to the same.
    ///
    /// # Safety
    /// The stream of the work is alive, and its device was entered.
    unsafe fn prepare(&self, pointers: &[Address], work: &Work) -> Result<Prepared> {
        let mut prepared = match self.take(work) {
            Some(prepared) => prepared,
            None => {
                let size = if work.lent.is_some() { 0 } else { self.workspace_size };
                // SAFETY: the stream is alive and its device was entered, as this function requires.
                let workspace = unsafe { Workspace::new(size, work.place, work.stream) }?;
                let pointers = vec![None; pointers.len()];
                Prepared { pointers, workspace_at: ptr::null_mut(), pack: None, workspace }
            }
        };
        let workspace = address_of(work.lent.as_ref()).unwrap_or_else(|| prepared.workspace.address());
        if prepared.pack.is_none() || prepared.pointers != pointers || prepared.workspace_at != workspace {
            prepared.pointers.copy_from_slice(pointers);
            prepared.workspace_at = workspace;
            let used = self.tensors.iter().zip(pointers).filter(|(tensor, _)| tensor.is_used);
            let memory: Vec<_> =
                used.filter_map(|(tensor, address)| Some((tensor.uid, (*address)?))).collect();
            prepared.pack = None;
            prepared.pack = Some(VariantPack::new(&self.session.backend, &memory, workspace)?);
        }
        Ok(prepared)
    }

    /// Takes the pack and workspace of an earlier execution that this one may use.
    fn take(&self, work: &Work) -> Option<Prepared> {
        // A captured graph needs a workspace of its own.
        if work.is_captured && work.lent.is_none() && self.workspace_size > 0 {
            return None;
        }
        let mut free = self.free.lock();
        let needed = if work.lent.is_some() { 0 } else { self.workspace_size };
        let is_needed = |of: &Prepared| of.workspace.is_none() == (needed == 0);
        let at = free.iter().rposition(|of| is_needed(of) && of.workspace.is_ready(work.stream));
        let at = at.or_else(|| {
            // At the limit, reuse the least recently used; the device waits for its last execution.
            let mut others = free.iter().enumerate().filter(|(_, of)| is_needed(of)).map(|(at, _)| at);
            others.next().filter(|_| others.count() + 1 >= MOST_WORKSPACES)
        });
        at.map(|at| free.remove(at))
    }

    /// Keeps the pack and workspace for the next execution.
    fn keep(&self, prepared: Prepared, work: &Work) {
        if work.is_captured && !prepared.workspace.is_none() {
            // The captured graph may run as long as the process.
            mem::forget(prepared);
            return;
        }
        self.free.lock().push(prepared);
    }

    /// Executes the plan with the memory at these addresses, on a stream ordered with other streams.
    ///
    /// # Safety
    /// The memory is that of the plan's tensors, and the streams are alive.
    unsafe fn launch(&self, pointers: &[Address], mut work: Work, others: &[Stream]) -> Result<Work> {
        let Some(plan) = &*self.plan else { return Ok(work) };
        let (place, stream) = (work.place, work.stream);
        let _entered = place.enter(stream)?;
        // SAFETY: the streams are alive, as this function requires, and the device was entered.
        unsafe {
            work.is_captured = stream.is_captured(place);
            for other in others {
                other.before(stream, place)?;
            }
        }
        // SAFETY: the memory is that of the plan's tensors and the streams are alive, as this function requires; the device was entered.
        unsafe {
            let mut prepared = self.prepare(pointers, &work)?;
            prepared.workspace.begin(stream)?;
            let done = prepared.pack.as_ref().map_or(Ok(()), |pack| {
                let execute = |handle: &Handle| plan.execute(handle, pack);
                self.session.execute(place, stream, work.is_captured, execute)
            });
            // Work queued before a failure uses the workspace, too. If its end cannot be recorded, freeing the memory waits for it.
            prepared.workspace.end(stream)?;
            self.keep(prepared, &work);
            for other in others {
                stream.before(*other, place)?;
            }
            if work.is_marked && !work.is_captured {
                work.mark = Mark::new(place, stream)?;
            }
            done?;
        }
        Ok(work)
    }

    /// The library's plan; an error if there is nothing to compute.
    pub fn native(&self) -> PyResult<&ExecutionPlan> {
        let none = || Error::new_err("the graph has nothing to compute, so no engine has a plan of it");
        self.plan.as_ref().ok_or_else(none)
    }

    /// The memory that an execution with these addresses uses.
    fn used(&self, pointers: &[Address]) -> Vec<Used> {
        let bound =
            self.tensors.iter().zip(pointers).filter_map(|(tensor, address)| Some((tensor, (*address)?)));
        let range = |(tensor, address): (&Spec, *mut c_void)| {
            let (before, behind) = tensor.extent();
            let begin = address.addr().saturating_sub(before);
            Used { begin, end: address.addr().saturating_add(behind), is_written: tensor.is_output }
        };
        bound.map(range).collect()
    }

    /// The place where it computes.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Executes the plan with the memory at these addresses, in the order of its tensors, without the interpreter's lock. If `is_marked`,
    /// returns the event of its end. If the caller is interrupted while the work goes on, the guards of `hold` are kept until its end.
    ///
    /// # Safety
    /// The address of a tensor is that of memory with its elements, which is kept until the work is queued; streams are alive, and
    /// the allocator belongs to an exchange table, which lives as long as the process.
    pub unsafe fn queue(
        slf: &Bound<'_, Self>,
        pointers: &[Address],
        stream: Stream,
        others: &[Stream],
        allocator: Option<Allocator>,
        is_marked: bool,
        hold: impl FnOnce() -> Vec<Guard>,
    ) -> PyResult<Option<Mark>> {
        let (py, plan) = (slf.py(), slf.get());
        let (place, size) = (plan.place, plan.workspace_size);
        let lent = match allocator.filter(|_| place != Place::Host) {
            // SAFETY: the allocator belongs to an exchange table, which lives as long as the process.
            Some(allocator) if size > 0 => Some(unsafe { LentMemory::new(allocator, size, place) }),
            _ => None,
        };
        let lent = lent.transpose().map_err(Failure::into_py)?;
        let work = Work::new(place, stream, lent, is_marked);
        // SAFETY: the memory is that of the plan's tensors and the streams are alive, as this function requires; the workspace has the plan's size and is kept, too.
        let work = unsafe {
            if place == Place::Host {
                Self::on_host(slf, pointers, work, hold)
            } else {
                let addresses = Addresses(pointers);
                py.detach(|| plan.launch(addresses.get(), work, others)).map_err(Failure::into_py)
            }
        }?;
        if work.is_captured && !plan.is_captured.swap(true, Ordering::Relaxed) {
            // The captured graph refers to the plan's memory, and its end cannot be observed.
            mem::forget(slf.clone().unbind());
        }
        Ok(work.mark)
    }

    /// Executes the plan on the host.
    ///
    /// # Safety
    /// The address of a tensor is that of memory with its elements, which stays while this runs and while the guards of `hold` live.
    unsafe fn on_host(
        slf: &Bound<'_, Self>,
        pointers: &[Address],
        work: Work,
        hold: impl FnOnce() -> Vec<Guard>,
    ) -> PyResult<Work> {
        let (py, plan) = (slf.py(), slf.get());
        later::settle(py, || plan.used(pointers))?;
        let is_main = background::is_main_thread();
        if is_main && plan.pace.is_long() && plan.plan.is_some() {
            let (of_thread, addresses) = (slf.clone().unbind(), Addresses(pointers.to_vec()));
            // SAFETY: the memory is that of the plan's tensors, and stays: this thread waits, or keeps it.
            let job = background::start(move || unsafe {
                let (began, plan) = (Instant::now(), of_thread.get());
                let work = Work::new(Place::Host, Stream::default(), None, false);
                let done = plan.launch(addresses.get(), work, &[]);
                plan.pace.note(began.elapsed());
                (done, of_thread)
            });
            // Without a thread, execute on this one.
            if let Ok(job) = job {
                return match background::finish(py, &job) {
                    Ok((done, _plan)) => done.map_err(Failure::into_py),
                    Err(interrupt) => {
                        later::abandon(job, plan.used(pointers), hold());
                        Err(interrupt)
                    }
                };
            }
        }
        let began = if is_main { background::coarse_time() } else { Duration::ZERO };
        let addresses = Addresses(pointers);
        // SAFETY: the memory is that of the plan's tensors, as this function requires.
        let done = py.detach(|| unsafe { plan.launch(addresses.get(), work, &[]) });
        if is_main {
            plan.pace.note(background::coarse_time().saturating_sub(began));
        }
        done.map_err(Failure::into_py)
    }
}

/// Addresses of arrays that the caller keeps alive.
struct Addresses<T: AsRef<[Address]>>(T);

// SAFETY: only numbers until an execution uses them.
unsafe impl<T: AsRef<[Address]>> Send for Addresses<T> {}
// SAFETY: a shared reference only copies the addresses, which are not dereferenced before an execution.
unsafe impl<T: AsRef<[Address]>> Sync for Addresses<T> {}

impl<T: AsRef<[Address]>> Addresses<T> {
    fn get(&self) -> &[Address] {
        self.0.as_ref()
    }
}
