//! Plans, executed with arrays.

use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::{mem, ptr};

use hipdnn::{ExecutionPlan, Handle, VariantPack};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::{Guard, view};
use crate::device::{Place, Stream};
use crate::device_array::DeviceArray;
use crate::dlpack::Allocator;
use crate::forks::Lock;
use crate::later::{self, Mark};
use crate::library::Session;
use crate::memory::{LentMemory, Workspace, address_of, without_lock};
use crate::spec::{Elsewhere, Spec};
use crate::streams::Consumer;
use crate::{ArrayError, Failure, Result};

/// What tensors of Python are known by here.
#[pyclass(subclass, frozen, module = "hipdnn._native")]
pub struct TensorBase {
    /// The number of the tensor in its graph.
    uid: AtomicI64,
}

#[pymethods]
impl TensorBase {
    #[new]
    fn new(uid: i64) -> Self {
        Self { uid: AtomicI64::new(uid) }
    }

    #[getter]
    fn uid(&self) -> i64 {
        self.uid.load(Ordering::Relaxed)
    }

    /// Gives it another number.
    fn _renumber(&self, uid: i64) {
        self.uid.store(uid, Ordering::Relaxed);
    }
}

/// Where an array lies, once one is given.
pub type Address = Option<*mut c_void>;

/// Memory bound to a plan, kept for the next execution.
struct Prepared {
    pointers: Vec<Address>,
    /// What the pack has of the workspace, the plan's own or a lent one.
    workspace_at: *mut c_void,
    pack: Option<VariantPack>,
    workspace: Workspace,
}

// SAFETY: the addresses are compared, and used only through the pack of an execution whose arrays are there.
unsafe impl Send for Prepared {}

/// How many workspaces a plan keeps in the memory of a GPU before streams share them.
const MOST_WORKSPACES: usize = 32;

/// An execution plan: an engine's own, for one graph, on one device.
#[pyclass(frozen, module = "hipdnn._native")]
pub struct Plan {
    plan: ManuallyDrop<ExecutionPlan>,
    session: Arc<Session>,
    tensors: Vec<Spec>,
    place: Place,
    workspace_size: usize,
    engine: i64,
    free: Lock<Vec<Prepared>>,
    /// Whether an execution became part of a captured graph, which may run at any time.
    is_captured: AtomicBool,
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: nothing uses it any more.
        let plan = unsafe { ManuallyDrop::take(&mut self.plan) };
        // What the engine has of a GPU's memory is freed with it.
        without_lock(|| drop(plan));
    }
}

/// Where an execution goes, and what it works in.
struct Work {
    place: Place,
    stream: Stream,
    is_captured: bool,
    lent: Option<LentMemory>,
    /// Whether somebody wants to know when it is done.
    is_marked: bool,
    /// Happens then.
    mark: Option<Mark>,
}

impl Plan {
    pub fn new(
        session: Arc<Session>,
        plan: ExecutionPlan,
        tensors: Vec<Spec>,
        place: Place,
    ) -> PyResult<Self> {
        let read = || Ok::<_, hipdnn::Error>((plan.workspace_size()?, plan.engine_id()?));
        let (workspace_size, engine) = read().map_err(|error| Failure::from(error).into_py())?;
        let (free, is_captured) = Default::default();
        let plan = ManuallyDrop::new(plan);
        Ok(Self { plan, session, tensors, place, workspace_size, engine, free, is_captured })
    }

    /// Binds memory, or takes what was bound to the same.
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
            let addresses = pointers.iter().map(|address| address.unwrap_or(ptr::null_mut()));
            let memory: Vec<_> = self.tensors.iter().map(|tensor| tensor.uid).zip(addresses).collect();
            prepared.pack = None;
            prepared.pack = Some(VariantPack::new(&self.session.backend, &memory, workspace)?);
        }
        Ok(prepared)
    }

    /// What an execution left that this one may use.
    fn take(&self, work: &Work) -> Option<Prepared> {
        // A captured graph keeps the workspace that it was made with.
        if work.is_captured && work.lent.is_none() && self.workspace_size > 0 {
            return None;
        }
        let mut free = self.free.lock();
        let needed = if work.lent.is_some() { 0 } else { self.workspace_size };
        let is_needed = |of: &Prepared| of.workspace.is_none() == (needed == 0);
        let at = free.iter().rposition(|of| is_needed(of) && of.workspace.is_ready(work.stream));
        let at = at.or_else(|| {
            // Enough of them: the one that was used longest ago is waited for, on the device.
            let mut others = free.iter().enumerate().filter(|(_, of)| is_needed(of)).map(|(at, _)| at);
            others.next().filter(|_| others.count() + 1 >= MOST_WORKSPACES)
        });
        at.map(|at| free.remove(at))
    }

    /// Keeps what was bound for the next execution.
    fn keep(&self, prepared: Prepared, work: &Work) {
        if work.is_captured && !prepared.workspace.is_none() {
            // The graph may run for as long as the process.
            mem::forget(prepared);
            return;
        }
        self.free.lock().push(prepared);
    }

    /// Executes the plan with the memory at these addresses, on a stream that other streams have to be in order with.
    ///
    /// # Safety
    /// The memory is that of the plan's tensors, and the streams are alive.
    unsafe fn launch(&self, pointers: &[Address], mut work: Work, others: &[Stream]) -> Result<Work> {
        let (place, stream) = (work.place, work.stream);
        let _entered = place.enter(stream)?;
        // SAFETY: the memory is that of the plan's tensors and the streams are alive, as this function requires; the device was entered.
        unsafe {
            work.is_captured = stream.is_captured(place);
            for other in others {
                other.before(stream, place)?;
            }
            let mut prepared = self.prepare(pointers, &work)?;
            prepared.workspace.begin(stream)?;
            let done = match &prepared.pack {
                Some(pack) => {
                    let execute = |handle: &Handle| self.plan.execute(handle, pack);
                    self.session.execute(place, stream, work.is_captured, execute)
                }
                None => Ok(()),
            };
            // What was queued before a failure works in it as well. Memory whose end of work is not known is freed, which waits.
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

    /// The library's plan.
    pub fn native(&self) -> &ExecutionPlan {
        &self.plan
    }

    /// Where it computes.
    pub fn place(&self) -> Place {
        self.place
    }

    fn uid(key: &Bound<'_, PyAny>) -> PyResult<i64> {
        match key.cast::<TensorBase>() {
            Ok(tensor) => Ok(tensor.get().uid()),
            Err(_) => key.extract(),
        }
    }
}

#[pymethods]
impl Plan {
    /// The bytes that an execution needs besides the tensors.
    #[getter]
    fn workspace_size(&self) -> usize {
        self.workspace_size
    }

    /// The id of its engine.
    #[getter]
    fn engine_id(&self) -> i64 {
        self.engine
    }

    /// What it does, as JSON; raises where its plugin does not tell.
    fn description(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.plan.description()).map_err(|error| Failure::from(error).into_py())
    }

    /// Kind and number of the device that it was made for.
    #[getter]
    fn device(&self) -> (i32, i32) {
        let device = self.place.device();
        (device.kind, device.id)
    }

    /// Executes the plan with an array for each tensor, given by tensor or uid. Returns when the results are there, or on a GPU when
    /// the work is queued.
    fn execute(slf: &Bound<'_, Self>, arrays: &Bound<'_, PyDict>) -> PyResult<()> {
        let plan = slf.get();
        let mut bound = Bindings::new(plan.tensors.len());
        for (key, array) in arrays.iter() {
            let uid = Self::uid(&key)?;
            let Some(at) = plan.tensors.iter().position(|tensor| tensor.uid == uid) else {
                let label = key.repr().map_or_else(|_| uid.to_string(), |text| text.to_string());
                return Err(PyKeyError::new_err(format!("no memory is bound to {label} of this graph")));
            };
            plan.bind(&mut bound, at, &array)?;
        }
        Self::run_bound(slf, bound)
    }

    /// The same with the arrays in the order of the plan's tensors: inputs, then outputs.
    fn run(slf: &Bound<'_, Self>, arrays: &Bound<'_, PyTuple>) -> PyResult<()> {
        let plan = slf.get();
        if arrays.len() > plan.tensors.len() {
            let expected = plan.tensors.len();
            return Err(PyTypeError::new_err(format!("{} arrays, expected {expected}", arrays.len())));
        }
        let mut bound = Bindings::new(plan.tensors.len());
        for (at, array) in arrays.iter().enumerate() {
            plan.bind(&mut bound, at, &array)?;
        }
        Self::run_bound(slf, bound)
    }
}

/// The memory of an execution, what keeps it, and where it lies.
struct Bindings {
    pointers: Vec<Address>,
    guards: Vec<Guard>,
    /// The same of arrays on a GPU whose owners do not know the stream, and may use the memory again once they have it back.
    unordered: Vec<Guard>,
    consumer: Consumer,
    /// Whose memory the first array is in, and its place among the tensors.
    place: Option<(Place, usize)>,
    /// Streams of arrays, besides that of the execution.
    others: Vec<Stream>,
    /// What allocates for the execution's stream.
    allocator: Option<Allocator>,
}

impl Bindings {
    fn new(count: usize) -> Self {
        Self {
            pointers: vec![None; count],
            guards: Vec::with_capacity(count),
            unordered: Vec::new(),
            consumer: Consumer::default(),
            place: None,
            others: Vec::new(),
            allocator: None,
        }
    }
}

impl Plan {
    /// Binds an array to the tensor at a place, where it fits.
    fn bind(&self, bound: &mut Bindings, at: usize, array: &Bound<'_, PyAny>) -> PyResult<()> {
        let (Some(tensor), Some(pointer)) = (self.tensors.get(at), bound.pointers.get_mut(at)) else {
            return Ok(());
        };
        let (view, guard) = view(array, &mut bound.consumer, &|| tensor.label())?;
        bound.guards.push(guard);
        let place = tensor.place(&view)?;
        // Keys of a dictionary differ, but a tensor and its uid are two keys.
        if pointer.replace(view.data).is_some() {
            return Err(PyKeyError::new_err(format!("{} has two arrays", tensor.label())));
        }
        if !tensor.is_pass_by_value {
            let (first, of) = *bound.place.get_or_insert((place, at));
            if first != place {
                let label = self.tensors.get(of).map_or_else(String::new, Spec::label);
                return Err(ArrayError::new_err(format!(
                    "{}: the array is in {place}, but that of {label} in {first}, expected all on one device",
                    tensor.label()
                )));
            }
            if place != self.place {
                // Another plan looks at it.
                return Ok(());
            }
            if place != Place::Host {
                let stream = bound.consumer.settle(array.py(), place, view.stream)?;
                if view.stream.is_none()
                    && !array.is_instance_of::<DeviceArray>()
                    && let Some(guard) = bound.guards.pop()
                {
                    bound.unordered.push(guard);
                }
                match view.stream {
                    Some(of) if of != stream && !bound.others.contains(&of) => bound.others.push(of),
                    Some(of) if of == stream => bound.allocator = bound.allocator.or(view.allocator),
                    _ => {}
                }
            }
        }
        tensor.check(&view)
    }

    fn run_bound(slf: &Bound<'_, Self>, bound: Bindings) -> PyResult<()> {
        let plan = slf.get();
        if bound.pointers.iter().any(Option::is_none) {
            let missing = plan.tensors.iter().zip(&bound.pointers).filter(|(_, pointer)| pointer.is_none());
            let missing: Vec<_> = missing.map(|(tensor, _)| tensor.label()).collect();
            return Err(PyKeyError::new_err(format!("no array for {}", missing.join(", "))));
        }
        if let Some((place, _)) = bound.place.filter(|(place, _)| *place != plan.place) {
            let device = place.device();
            return Err(Elsewhere::new_err((device.kind, device.id)));
        }
        let (stream, is_marked) = (bound.consumer.stream(), !bound.unordered.is_empty());
        // SAFETY: each array was found to have the elements of its tensor, and is kept until the work is queued.
        let mark =
            unsafe { Self::queue(slf, &bound.pointers, stream, &bound.others, bound.allocator, is_marked) }?;
        if let Some(mark) = mark {
            later::keep(mark, bound.unordered);
        }
        Ok(())
    }

    /// Executes the plan with the memory at these addresses, in the order of its tensors, and beside the interpreter. Answers when the work
    /// is done, where that is to be marked.
    ///
    /// # Safety
    /// There is an address for each tensor, of memory that has its elements and is kept until the work is queued; streams are alive, and
    /// the allocator is of an exchange table, which lives as long as the process.
    pub unsafe fn queue(
        slf: &Bound<'_, Self>,
        pointers: &[Address],
        stream: Stream,
        others: &[Stream],
        allocator: Option<Allocator>,
        is_marked: bool,
    ) -> PyResult<Option<Mark>> {
        let (py, plan) = (slf.py(), slf.get());
        NOTED.with_borrow_mut(|plans| {
            if let Some(plans) = plans {
                plans.push(slf.clone().unbind());
            }
        });
        let (place, size) = (plan.place, plan.workspace_size);
        let lent = match allocator.filter(|_| place != Place::Host) {
            // SAFETY: the allocator is of an exchange table, which lives as long as the process.
            Some(allocator) if size > 0 => Some(unsafe { LentMemory::new(allocator, size, place) }),
            _ => None,
        };
        let lent = lent.transpose().map_err(Failure::into_py)?;
        let work = Work { place, stream, is_captured: false, lent, is_marked, mark: None };
        // The addresses go to another scope as numbers, which are of no thread.
        let addresses = Addresses(pointers);
        // SAFETY: the memory is that of the plan's tensors and the streams are alive, as this function requires; the workspace has the size that the plan asks for, and is kept as well.
        let work =
            py.detach(|| unsafe { plan.launch(addresses.get(), work, others) }).map_err(Failure::into_py)?;
        if work.is_captured && !plan.is_captured.swap(true, Ordering::Relaxed) {
            // The graph refers to memory of the plan, and nothing says when it ends.
            mem::forget(slf.clone().unbind());
        }
        Ok(work.mark)
    }
}

thread_local! {
    /// The plans that this thread has executed, while somebody wants to know them.
    static NOTED: RefCell<Option<Vec<Py<Plan>>>> = const { RefCell::new(None) };
}

/// Calls a function, and answers its result with the plans that were executed in it by this thread.
#[pyfunction]
#[pyo3(signature = (function, *args))]
pub fn noting<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<(Bound<'py, PyAny>, Vec<Py<Plan>>)> {
    noted(|| function.call1(args))
}

/// The same of a closure.
pub fn noted<T>(run: impl FnOnce() -> PyResult<T>) -> PyResult<(T, Vec<Py<Plan>>)> {
    let before = NOTED.replace(Some(Vec::new()));
    let result = run();
    let plans = NOTED.replace(before).unwrap_or_default();
    result.map(|result| (result, plans))
}

/// Addresses of arrays that are kept by whoever has them.
struct Addresses<'a>(&'a [Address]);

// SAFETY: numbers, until an execution uses them.
unsafe impl Send for Addresses<'_> {}
// SAFETY: a shared reference only copies the addresses, which nothing reads through before an execution.
unsafe impl Sync for Addresses<'_> {}

impl Addresses<'_> {
    fn get(&self) -> &[Address] {
        self.0
    }
}
