//! Executing plans with arrays: each array is described and bound to its tensor.

use std::mem;
use std::sync::atomic::{AtomicI64, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::device::{Place, Stream};
use crate::device_array::DeviceArray;
use crate::dlpack::Allocator;
use crate::error::{ArrayError, Elsewhere, EngineError, Error, Failure, because, shown};
use crate::later;
use crate::plan::{Address, Plan};
use crate::protocols::Reader;
use crate::spec::Spec;
use crate::view::Guard;

/// The base of Python's tensors.
#[pyclass(subclass, frozen, module = "hipdnn._native")]
pub struct TensorBase {
    /// The tensor's number in its graph.
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

    /// Changes its number.
    fn _renumber(&self, uid: i64) {
        self.uid.store(uid, Ordering::Relaxed);
    }
}

/// The memory of an execution, its guards, and its place.
struct Bindings {
    pointers: Vec<Address>,
    guards: Vec<Guard>,
    /// Guards of GPU arrays whose owners do not know the stream, and could reuse the memory as soon as they are released.
    unordered: Vec<Guard>,
    reader: Reader,
    /// The place of the first array, and the index of its tensor.
    place: Option<(Place, usize)>,
    /// Streams of arrays, other than the execution's.
    others: Vec<Stream>,
    /// An allocator for the execution's stream.
    allocator: Option<Allocator>,
}

impl Bindings {
    fn new(count: usize) -> Self {
        Self {
            pointers: vec![None; count],
            guards: Vec::with_capacity(count),
            unordered: Vec::new(),
            reader: Reader::default(),
            place: None,
            others: Vec::new(),
            allocator: None,
        }
    }
}

impl Plan {
    /// Binds an array to a tensor, if it fits.
    fn bind(&self, bound: &mut Bindings, at: usize, array: &Bound<'_, PyAny>) -> PyResult<()> {
        let (Some(tensor), Some(pointer)) = (self.tensors.get(at), bound.pointers.get_mut(at)) else {
            return Ok(());
        };
        bound.guards.push(bound.reader.read(array, &|| tensor.label())?);
        let view = &bound.reader.view;
        let place = tensor.place(view)?;
        // Keys of a dictionary differ, but a tensor and its uid are two keys.
        if pointer.replace(view.data).is_some() {
            return Err(ArrayError::new_err(format!("{}: has two arrays, expected one", tensor.label())));
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
            if place != self.place() {
                // The plan for that device checks it.
                return Ok(());
            }
            if matches!(place, Place::Vulkan(_)) && !array.is_instance_of::<DeviceArray>() {
                let refused = |failure: Failure| {
                    let text = "expected a hipdnn.DeviceArray, or an address of one's memory";
                    ArrayError::new_err(format!("{}: {text}: {failure}", tensor.label()))
                };
                place.check(view.data).map_err(refused)?;
            }
            if place != Place::Host {
                let stream = bound.reader.consumer.settle(array.py(), place, view.stream)?;
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
        tensor.check(view)
    }

    fn run_bound(slf: &Bound<'_, Self>, mut bound: Bindings, is_partial: bool) -> PyResult<()> {
        let plan = slf.get();
        if !is_partial && bound.pointers.iter().any(Option::is_none) {
            let missing = plan.tensors.iter().zip(&bound.pointers).filter(|(_, pointer)| pointer.is_none());
            let missing: Vec<_> = missing.map(|(tensor, _)| tensor.label()).collect();
            return Err(ArrayError::new_err(format!("no array for {}", missing.join(", "))));
        }
        if let Some((place, _)) = bound.place.filter(|(place, _)| *place != plan.place()) {
            let device = place.device();
            return Err(Elsewhere::new_err((device.kind, device.id)));
        }
        let (stream, is_marked) = (bound.reader.consumer.stream(), !bound.unordered.is_empty());
        let guards = mem::take(&mut bound.guards);
        // SAFETY: each array was checked to have the elements of its tensor, and is kept until the work is queued.
        let mark = unsafe {
            let (pointers, others) = (&bound.pointers, &bound.others);
            Self::queue(slf, pointers, stream, others, bound.allocator, is_marked, || guards)
        };
        let mark = mark.map_err(|error| plan.final_where_in_place(slf.py(), error, &bound.pointers))?;
        if let Some(mark) = mark {
            later::keep(mark, bound.unordered);
        }
        Ok(())
    }

    /// Makes an engine's error final if outputs alias inputs: no other engine could compute from overwritten inputs.
    fn final_where_in_place(&self, py: Python<'_>, error: PyErr, pointers: &[Address]) -> PyErr {
        if !error.is_instance_of::<EngineError>(py) {
            return error;
        }
        let of = |is_output| {
            let tensors = self.tensors.iter().zip(pointers);
            // A missing input and a missing output are no one memory.
            tensors
                .filter(move |(tensor, _)| tensor.is_output == is_output)
                .filter_map(|(_, pointer)| pointer.as_ref())
        };
        let is_in_place = of(true).any(|output| of(false).any(|input| input == output));
        if is_in_place { Error::new_err(error.value(py).to_string()) } else { error }
    }
}

/// The uid for a key of a mapping of arrays: a tensor, or its uid.
pub fn uid_of(key: &Bound<'_, PyAny>) -> PyResult<i64> {
    if let Ok(tensor) = key.cast::<TensorBase>() {
        return Ok(tensor.get().uid());
    }
    key.extract().map_err(|cause| {
        because(key.py(), cause, |_| {
            let key = shown(key);
            ArrayError::new_err(format!(
                "execute: the key is {key}, expected a tensor of the graph or its uid"
            ))
        })
    })
}

#[pymethods]
impl Plan {
    /// The workspace size in bytes of an execution.
    #[getter]
    fn workspace_size(&self) -> usize {
        self.workspace_size
    }

    /// The id of its engine; 0 if there is nothing to compute.
    #[getter]
    fn engine_id(&self) -> i64 {
        self.engine.unwrap_or(0)
    }

    /// Describes the plan as JSON; raises an error if its plugin does not.
    fn description(&self, py: Python<'_>) -> PyResult<String> {
        let plan = self.native()?;
        py.detach(|| plan.description()).map_err(|error| Failure::from(error).into_py())
    }

    /// Kind and number of the device that it was made for.
    #[getter]
    fn device(&self) -> (i32, i32) {
        let device = self.place().device();
        (device.kind, device.id)
    }

    /// Executes the plan with an array for each tensor, given by tensor or uid. Returns when the results are there, or on a GPU when
    /// the work is queued. If `partial`, arrays may be missing: the engine fails if it needs them.
    #[pyo3(signature = (arrays, partial=false))]
    fn execute(slf: &Bound<'_, Self>, arrays: &Bound<'_, PyDict>, partial: bool) -> PyResult<()> {
        let plan = slf.get();
        let mut bound = Bindings::new(plan.tensors.len());
        // Copied first: reading arrays may run Python code that changes the dictionary.
        let given: Vec<_> = arrays.iter().collect();
        for (key, array) in given {
            let uid = uid_of(&key)?;
            let Some(at) = plan.tensors.iter().position(|tensor| tensor.uid == uid) else {
                let key = shown(&key);
                return Err(ArrayError::new_err(format!(
                    "execute: {key} takes no array: expected a tensor of this graph that is not virtual and has no value"
                )));
            };
            plan.bind(&mut bound, at, &array)?;
        }
        Self::run_bound(slf, bound, partial)
    }

    /// As `execute`, with the arrays in the order of the plan's tensors: inputs, then outputs.
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
        Self::run_bound(slf, bound, false)
    }
}
