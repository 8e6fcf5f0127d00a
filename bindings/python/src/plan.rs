//! Plans, executed with arrays.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use hipdnn::{ExecutionPlan, VariantPack};
use pyo3::exceptions::{PyKeyError, PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::{Guard, View, view};
use crate::library::Session;
use crate::memory::Workspace;
use crate::{ArrayError, dlpack, raise};

/// What tensors of Python are known by here.
#[pyclass(subclass, frozen, module = "hipdnn._native")]
pub struct TensorBase {
    /// The number of the tensor in its graph.
    #[pyo3(get)]
    uid: i64,
}

#[pymethods]
impl TensorBase {
    #[new]
    fn new(uid: i64) -> Self {
        Self { uid }
    }
}

/// A tensor that memory is bound to.
#[derive(FromPyObject)]
pub struct Spec {
    #[pyo3(item)]
    uid: i64,
    #[pyo3(item)]
    name: String,
    #[pyo3(item)]
    data_type: String,
    #[pyo3(item)]
    dims: Vec<i64>,
    #[pyo3(item)]
    strides: Vec<i64>,
    #[pyo3(item)]
    alignment: usize,
    /// Whether the graph writes it.
    #[pyo3(item)]
    is_output: bool,
}

impl Spec {
    /// How it is called in messages.
    fn label(&self) -> String {
        if self.name.is_empty() { format!("tensor {}", self.uid) } else { format!("tensor {:?}", self.name) }
    }

    /// Dimensions and strides that say where elements lie: those of more than one element.
    fn steps(&self) -> impl Iterator<Item = (i64, i64)> {
        self.dims.iter().copied().zip(self.strides.iter().copied()).filter(|(dim, _)| *dim != 1)
    }

    /// Whether its elements are smaller than a byte, or have no array type of their own in most programs.
    fn takes_bytes(&self) -> Option<i64> {
        match self.data_type.as_str() {
            "fp4_e2m1" | "int4" => Some(4),
            "fp6_e2m3" | "fp6_e3m2" => Some(6),
            _ => None,
        }
    }

    fn check(&self, view: &View) -> PyResult<()> {
        let wrong = |what: String| Err(ArrayError::new_err(format!("{}: {what}", self.label())));
        let is_host = matches!(view.device.kind, dlpack::CPU | dlpack::CUDA_HOST | dlpack::ROCM_HOST);
        if !is_host {
            return wrong(format!(
                "the array is on device {}:{}, expected host memory",
                view.device.kind, view.device.id
            ));
        }
        if self.is_output && view.read_only {
            return wrong("the array is read-only, expected one that can be written".to_owned());
        }
        if !(view.data as usize).is_multiple_of(self.alignment.max(1)) {
            return Err(Misaligned::new_err(self.label()));
        }
        let dims = view.dims.get(..view.rank).unwrap_or_default();
        let strides = view.strides.get(..view.rank).unwrap_or_default();
        if let Some(bits) = self.takes_bytes() {
            let count = self.dims.iter().fold(1_i64, |count, dim| count.saturating_mul(*dim));
            let bytes = count.saturating_mul(bits).saturating_add(7) / 8;
            let given = dims.iter().fold(1_i64, |count, dim| count.saturating_mul(*dim));
            let packed = dims.iter().zip(strides).rev().try_fold(1_i64, |stride, (dim, of)| {
                (*of == stride || *dim == 1).then_some(stride.saturating_mul(*dim))
            });
            if !matches!(view.data_type, "uint8" | "int8") || packed.is_none() || given < bytes {
                return wrong(format!(
                    "expected {bytes} bytes without gaps, for elements of type {}",
                    self.data_type
                ));
            }
            return Ok(());
        }
        // Bytes stand for 8-bit numbers, which not every library has.
        let same = view.data_type == self.data_type
            || (view.data_type == "uint8" && self.data_type.starts_with("fp8"));
        if !same {
            return wrong(format!("the array is of type {}, expected {}", view.data_type, self.data_type));
        }
        let given = || dims.iter().copied().zip(strides.iter().copied()).filter(|(dim, _)| *dim != 1);
        if !given().map(|(dim, _)| dim).eq(self.steps().map(|(dim, _)| dim)) {
            return wrong(format!("the array has the shape {dims:?}, expected {:?}", self.dims));
        }
        let empty = self.dims.contains(&0);
        if !empty && !given().eq(self.steps()) {
            return wrong(format!(
                "the array has the strides {strides:?} (in elements), expected {:?}",
                self.strides
            ));
        }
        Ok(())
    }
}

pyo3::create_exception!(
    hipdnn,
    Misaligned,
    ArrayError,
    "An array that begins where its plan does not expect it."
);

/// Where an array lies, once one is given.
type Address = Option<*mut c_void>;

/// Memory bound to a plan, kept for the next execution.
struct Prepared {
    pointers: Vec<Address>,
    pack: Option<VariantPack>,
    workspace: Workspace,
}

// SAFETY: the addresses are compared, and used only through the pack of an execution whose arrays are there.
unsafe impl Send for Prepared {}

/// An execution plan: an engine's own, for one graph.
#[pyclass(frozen, module = "hipdnn._native")]
pub struct Plan {
    pub plan: ExecutionPlan,
    session: Arc<Session>,
    tensors: Vec<Spec>,
    workspace_size: usize,
    engine: i64,
    free: Mutex<Vec<Prepared>>,
}

impl Plan {
    pub fn new(session: Arc<Session>, plan: ExecutionPlan, tensors: Vec<Spec>) -> PyResult<Self> {
        let workspace_size = plan.workspace_size().map_err(|error| raise(&error))?;
        let engine = plan.engine_id().map_err(|error| raise(&error))?;
        Ok(Self { plan, session, tensors, workspace_size, engine, free: Mutex::default() })
    }

    /// Binds memory, or takes what was bound to the same.
    fn prepare(&self, pointers: &[Address]) -> hipdnn::Result<Option<Prepared>> {
        let waiting = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut prepared = match waiting {
            Some(prepared) => prepared,
            None => {
                let Some(workspace) = Workspace::new(self.workspace_size) else { return Ok(None) };
                Prepared { pointers: vec![None; pointers.len()], pack: None, workspace }
            }
        };
        if prepared.pack.is_none() || prepared.pointers != pointers {
            prepared.pointers.copy_from_slice(pointers);
            let addresses = pointers.iter().map(|address| address.unwrap_or(ptr::null_mut()));
            let memory: Vec<_> = self.tensors.iter().map(|tensor| tensor.uid).zip(addresses).collect();
            prepared.pack = None;
            prepared.pack =
                Some(VariantPack::new(&self.session.backend, &memory, prepared.workspace.address())?);
        }
        Ok(Some(prepared))
    }

    fn uid(key: &Bound<'_, PyAny>) -> PyResult<i64> {
        match key.cast::<TensorBase>() {
            Ok(tensor) => Ok(tensor.get().uid),
            Err(_) => key.extract(),
        }
    }
}

#[pymethods]
impl Plan {
    /// The bytes that an execution needs besides the tensors. They are kept with the plan.
    #[getter]
    fn workspace_size(&self) -> usize {
        self.workspace_size
    }

    /// The id of its engine.
    #[getter]
    fn engine_id(&self) -> i64 {
        self.engine
    }

    /// Executes the plan with an array for each tensor, given by tensor or uid, and returns when the results are there.
    fn execute(&self, py: Python<'_>, arrays: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut bound = Bindings::new(self.tensors.len());
        for (key, array) in arrays.iter() {
            let uid = Self::uid(&key)?;
            let Some(at) = self.tensors.iter().position(|tensor| tensor.uid == uid) else {
                let label = key.repr().map_or_else(|_| uid.to_string(), |text| text.to_string());
                return Err(PyKeyError::new_err(format!("no memory is bound to {label} of this graph")));
            };
            self.bind(&mut bound, at, &array)?;
        }
        self.run_bound(py, bound)
    }

    /// Executes the plan with an array for each tensor, in the order of the plan's tensors: inputs, then outputs.
    fn run(&self, py: Python<'_>, arrays: &Bound<'_, PyTuple>) -> PyResult<()> {
        if arrays.len() > self.tensors.len() {
            let expected = self.tensors.len();
            return Err(PyTypeError::new_err(format!("{} arrays, expected {expected}", arrays.len())));
        }
        let mut bound = Bindings::new(self.tensors.len());
        for (at, array) in arrays.iter().enumerate() {
            self.bind(&mut bound, at, &array)?;
        }
        self.run_bound(py, bound)
    }
}

/// The memory of an execution, and what keeps it.
struct Bindings {
    pointers: Vec<Address>,
    guards: Vec<Guard>,
}

impl Bindings {
    fn new(count: usize) -> Self {
        Self { pointers: vec![None; count], guards: Vec::with_capacity(count) }
    }
}

impl Plan {
    /// Binds an array to the tensor at a place, where it fits.
    fn bind(&self, bound: &mut Bindings, at: usize, array: &Bound<'_, PyAny>) -> PyResult<()> {
        let (Some(tensor), Some(pointer)) = (self.tensors.get(at), bound.pointers.get_mut(at)) else {
            return Ok(());
        };
        let (view, guard) = view(array, &|| tensor.label())?;
        bound.guards.push(guard);
        tensor.check(&view)?;
        // Keys of a dictionary differ, but a tensor and its uid are two keys.
        if pointer.replace(view.data).is_some() {
            return Err(PyKeyError::new_err(format!("{} has two arrays", tensor.label())));
        }
        Ok(())
    }

    fn run_bound(&self, py: Python<'_>, bound: Bindings) -> PyResult<()> {
        if bound.pointers.iter().any(Option::is_none) {
            let missing = self.tensors.iter().zip(&bound.pointers).filter(|(_, pointer)| pointer.is_none());
            let missing: Vec<_> = missing.map(|(tensor, _)| tensor.label()).collect();
            return Err(PyKeyError::new_err(format!("no array for {}", missing.join(", "))));
        }
        // The addresses go to another scope as numbers, which are of no thread.
        let addresses = Addresses(&bound.pointers);
        let done = py.detach(|| {
            let Some(prepared) = self.prepare(addresses.get())? else { return Ok(false) };
            if let Some(pack) = &prepared.pack {
                // SAFETY: each array was found to have the elements of its tensor, and is kept until this returns; the workspace has the
                // size that the plan asks for.
                self.session.with(|handle| unsafe { self.plan.execute(handle, pack) })?;
            }
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(prepared);
            Ok(true)
        });
        drop(bound.guards);
        match done {
            Ok(true) => Ok(()),
            Ok(false) => Err(PyMemoryError::new_err(format!(
                "no memory for a workspace of {} bytes",
                self.workspace_size
            ))),
            Err(error) => Err(raise(&error)),
        }
    }
}

/// Addresses of arrays that are kept by whoever has them.
struct Addresses<'a>(&'a [Address]);

// SAFETY: numbers, until an execution uses them.
unsafe impl Send for Addresses<'_> {}
// SAFETY: as above.
unsafe impl Sync for Addresses<'_> {}

impl Addresses<'_> {
    fn get(&self) -> &[Address] {
        self.0
    }
}
