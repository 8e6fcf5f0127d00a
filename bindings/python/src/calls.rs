//! Computations that PyTorch's tensors were given to before, found again by the tensors' signature.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::device::Place;
use crate::dlpack;
use crate::plan::Plan;
use crate::protocols::Described;
use crate::signature::{self, Known, Signature, Torch};
use crate::storage::has_memory;
use crate::streams::Consumer;
use crate::view::Guard;

/// What tensors have to begin at.
const ALIGNMENT: usize = 16;

/// A plan with where its tensors come from.
struct Call {
    plan: Py<Plan>,
    /// Which of the arguments' tensors each input is.
    inputs: Vec<usize>,
    /// What new tensors are made like. The plan writes the first ones.
    made: Vec<Model>,
    /// How many of these the plan writes.
    written: usize,
    /// Which of them each result is; a result alone is no tuple.
    results: Vec<Option<usize>>,
    is_one: bool,
}

/// What a new tensor is made like.
enum Model {
    /// A tensor that gave its memory up: nothing is left to be read from arguments, which takes a fifth of the time.
    Tensor(Py<PyAny>),
    /// Shape and strides, type and device, of a tensor with gaps.
    Layout(Py<PyTuple>, Py<PyDict>),
}

impl Model {
    fn new(torch: &Torch, made: Made, device: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = device.py();
        let (dims, strides, kind) = made;
        let options = PyDict::new(py);
        options.set_item(intern!(py, "dtype"), kind)?;
        options.set_item(intern!(py, "device"), device)?;
        let layout = (PyTuple::new(py, dims)?, PyTuple::new(py, &strides)?).into_pyobject(py)?;
        // Memory may be short: the result is there, and must not be lost for what spares time later.
        Ok(match Self::without_memory(torch, &layout, &options, &strides) {
            Ok(Some(tensor)) => Self::Tensor(tensor),
            _ => Self::Layout(layout.unbind(), options.unbind()),
        })
    }

    /// A tensor that gave its memory up; none where new ones like it have other strides, which is asked of one that never had memory.
    fn without_memory(
        torch: &Torch,
        layout: &Bound<'_, PyTuple>,
        options: &Bound<'_, PyDict>,
        strides: &[i64],
    ) -> PyResult<Option<Py<PyAny>>> {
        let py = layout.py();
        let (empty_strided, empty_like) = (torch.empty_strided.bind(py), torch.empty_like.bind(py));
        let nowhere = options.copy()?;
        nowhere.set_item(intern!(py, "device"), intern!(py, "meta"))?;
        let like = empty_like.call1((empty_strided.call(layout, Some(&nowhere))?,))?;
        if like.call_method0(intern!(py, "stride"))?.extract::<Vec<i64>>()? != strides {
            return Ok(None);
        }
        let tensor = empty_strided.call(layout, Some(options))?;
        tensor.call_method0(intern!(py, "untyped_storage"))?.call_method1(intern!(py, "resize_"), (0,))?;
        Ok(Some(tensor.unbind()))
    }

    fn make<'py>(&self, py: Python<'py>, torch: &Torch) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Tensor(tensor) => torch.empty_like.bind(py).call1((tensor.bind(py),)),
            Self::Layout(layout, options) => {
                torch.empty_strided.bind(py).call(layout.bind(py), Some(options.bind(py)))
            }
        }
    }
}

/// The computations of a function that one graph each computes, by the signature of its arguments.
#[pyclass(frozen, module = "hipdnn._native")]
pub struct Calls {
    known: Mutex<Known<Box<[i64]>, Arc<Call>>>,
    /// Answer what plans for GPUs depend on besides.
    switches: Vec<Py<PyAny>>,
}

/// Shape, strides and type of a new tensor.
type Made = (Vec<i64>, Vec<i64>, Py<PyAny>);

#[pymethods]
impl Calls {
    #[new]
    fn new(switches: Vec<Py<PyAny>>) -> Self {
        Self { known: Mutex::default(), switches }
    }

    /// Computes what was computed before with such arguments, as new tensors; none where it was not.
    #[pyo3(signature = (*arguments))]
    fn run<'py>(&self, arguments: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = arguments.py();
        let Some(torch) = Torch::get(py)? else { return Ok(None) };
        let Some(signature) = self.signature(torch, arguments)? else { return Ok(None) };
        let call = self.known().get(signature.words.as_slice()).map(Arc::clone);
        match call {
            Some(call) if torch.is_plain(py)? => call.run(arguments, torch, &signature.addresses),
            _ => Ok(None),
        }
    }

    /// Keeps what was computed with such arguments: the plan, which tensor of the arguments each of its inputs is, the new tensors
    /// (those that the plan writes are the first ones), and which of them the results are.
    #[expect(clippy::too_many_arguments, reason = "a call of Python's")]
    fn keep(
        &self,
        arguments: &Bound<'_, PyTuple>,
        device: &Bound<'_, PyAny>,
        plan: Py<Plan>,
        inputs: Vec<usize>,
        made: Vec<Made>,
        written: usize,
        results: Vec<Option<usize>>,
        is_one: bool,
    ) -> PyResult<()> {
        let py = arguments.py();
        let Some(torch) = Torch::get(py)? else { return Ok(()) };
        let Some(signature) = self.signature(torch, arguments)? else { return Ok(()) };
        let made = made.into_iter().map(|made| Model::new(torch, made, device)).collect::<PyResult<_>>()?;
        let call = Call { plan, inputs, made, written, results, is_one };
        let full = signature::keep(&mut self.known(), signature.words.into_boxed_slice(), Arc::new(call));
        drop(full);
        Ok(())
    }

    /// Forgets everything.
    fn clear(&self) {
        let all = std::mem::take(&mut *self.known());
        drop(all);
    }
}

impl Calls {
    fn known(&self) -> MutexGuard<'_, Known<Box<[i64]>, Arc<Call>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The signature of arguments; none where one of them has none.
    fn signature(&self, torch: &Torch, arguments: &Bound<'_, PyTuple>) -> PyResult<Option<Signature>> {
        let mut signature = Signature::default();
        signature.words.reserve(64);
        for argument in arguments.iter_borrowed() {
            if !signature.add(torch, &argument, false)? {
                return Ok(None);
            }
        }
        if signature.device.is_some_and(|device| device.kind != dlpack::CPU) {
            for switch in &self.switches {
                signature.add(torch, &switch.bind(arguments.py()).call0()?, false)?;
            }
        }
        Ok(Some(signature))
    }
}

impl Call {
    /// Computes with tensors at these addresses, which their owner keeps meanwhile.
    fn run<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        torch: &Torch,
        addresses: &[usize],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = arguments.py();
        let mut pointers = Vec::with_capacity(self.inputs.len() + self.written);
        for input in &self.inputs {
            match addresses.get(*input) {
                Some(address) if address.is_multiple_of(ALIGNMENT) && has_memory(*address) => {
                    pointers.push(Some(std::ptr::with_exposed_provenance_mut(*address)));
                }
                _ => return Ok(None),
            }
        }
        let mut made = Vec::with_capacity(self.made.len());
        for (at, model) in self.made.iter().enumerate() {
            let tensor = model.make(py, torch)?;
            if at < self.written {
                match Described::new(&tensor, torch.exchange) {
                    Some(of) if of.address().is_multiple_of(ALIGNMENT) => {
                        pointers.push(Some(std::ptr::with_exposed_provenance_mut(of.address())));
                    }
                    _ => return Ok(None),
                }
            }
            made.push(tensor);
        }
        let plan = self.plan.bind(py);
        let place = plan.get().place();
        let mut consumer = Consumer::default();
        let stream = match place {
            Place::Host => None,
            _ => consumer.of_exchange(py, torch.exchange, place),
        };
        if place != Place::Host && stream.is_none() {
            return Ok(None);
        }
        let hold =
            || arguments.iter().chain(made.iter().cloned()).map(|tensor| Guard::object(&tensor)).collect();
        let (stream, allocator) = (stream.unwrap_or_default(), torch.exchange.allocator);
        // SAFETY: the tensors have the plan's layouts, as those of the same signature had, and are kept until the work is queued.
        unsafe { Plan::queue(plan, &pointers, stream, &[], allocator, false, hold) }?;
        if self.is_one {
            return Ok(self.results.first().copied().flatten().and_then(|at| made.into_iter().nth(at)));
        }
        let results = self.results.iter().map(|at| at.and_then(|at| made.get(at)));
        Ok(Some(PyTuple::new(py, results.collect::<Vec<_>>())?.into_any()))
    }
}
