//! PyTorch's functions, each passed on, or computed the way that calls with the same signature went before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use crate::plan;
use crate::signature::{Known, MOST, Signature, Torch, keep};

/// How often a function was computed here from one place of a program, by which plans, and why it was not.
#[pyclass(frozen, module = "hipdnn._native")]
pub struct Counts {
    routed: AtomicU64,
    /// The numbers of the ways that calls went, whose plans are known.
    ways: Mutex<Known<u64, ()>>,
    /// Is called with the plans of a way that is new here.
    #[pyo3(get)]
    ran: Py<PyAny>,
    /// A counter of reasons.
    #[pyo3(get)]
    reasons: Py<PyAny>,
}

#[pymethods]
impl Counts {
    #[new]
    fn new(reasons: Py<PyAny>, ran: Py<PyAny>) -> Self {
        Self { routed: AtomicU64::new(0), ways: Mutex::default(), ran, reasons }
    }

    #[getter]
    fn routed(&self) -> u64 {
        self.routed.load(Ordering::Relaxed)
    }

    /// Counts a call that was computed here.
    fn add(&self) {
        self.routed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counts {
    /// Counts a call that goes on in PyTorch.
    fn add_reason(&self, reason: &Bound<'_, PyString>) -> PyResult<()> {
        let reasons = self.reasons.bind(reason.py());
        let before: u64 = reasons.get_item(reason)?.extract()?;
        reasons.set_item(reason, before + 1)
    }

    /// Goes a way, and notes its plans where no call from here went it before.
    fn along<T>(&self, py: Python<'_>, way: u64, go: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        let is_new = {
            let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
            if ways.len() >= MOST {
                ways.clear();
            }
            ways.insert(way, ()).is_none()
        };
        if !is_new {
            return go();
        }
        let (result, plans) = plan::noted(go)?;
        self.ran.bind(py).call1((plans,))?;
        Ok(result)
    }
}

/// What an operation is given.
enum Piece {
    /// An argument of the call, by its number, names after numbers.
    Argument(usize),
    /// The same in another type.
    Cast(usize, Py<PyAny>),
    Constant(Py<PyAny>),
}

/// The number of the next way.
static WAYS: AtomicU64 = AtomicU64::new(0);

/// What a call comes down to.
enum Way {
    Here(Operation),
    /// PyTorch's own, for a reason.
    Elsewhere(Py<PyString>),
}

/// An operation with what it is given.
struct Operation {
    number: u64,
    operation: Py<PyAny>,
    pieces: Vec<Piece>,
    /// Whether the first of its results is what the call answers.
    takes_first: bool,
}

impl Operation {
    fn go<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let named = kwargs.map(|kwargs| kwargs.values());
        let given = |at: usize| match (at.checked_sub(args.len()), &named) {
            (Some(at), Some(named)) => named.get_item(at),
            _ => args.get_item(at),
        };
        let mut values = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            values.push(match piece {
                Piece::Argument(at) => given(*at)?,
                Piece::Cast(at, kind) => given(*at)?.call_method1(intern!(py, "to"), (kind,))?,
                Piece::Constant(value) => value.bind(py).clone(),
            });
        }
        let result = self.operation.bind(py).call1(PyTuple::new(py, values)?)?;
        if self.takes_first { result.cast_into::<PyTuple>()?.get_item(0) } else { Ok(result) }
    }
}

/// A function and the place that it is called from: addresses of function and code, and where in the code.
type Place = [usize; 3];

/// Who calls, by place.
#[derive(Default)]
struct Sites {
    /// Code, and whether it is that of PyTorch or this package. It is kept, so that no other comes to lie at its address.
    codes: Known<usize, (Py<PyAny>, bool)>,
    counts: Known<Place, Py<Counts>>,
}

/// What becomes of calls of PyTorch's functions.
#[pyclass(frozen, module = "hipdnn._native")]
pub struct Router {
    handlers: Py<PyDict>,
    /// Computes what has no known way: function, handler, arguments, names and counts.
    search: Py<PyAny>,
    /// The counts of a function's name, a file and a line.
    counts_of: Py<PyAny>,
    /// Whether code belongs to PyTorch or this package.
    is_inside: Py<PyAny>,
    /// What is raised where no engine applies.
    unsupported: Py<PyType>,
    frame: Py<PyAny>,
    sites: Mutex<Sites>,
    ways: Mutex<Known<Box<[i64]>, Arc<Way>>>,
}

#[pymethods]
impl Router {
    #[new]
    fn new(
        py: Python<'_>,
        handlers: Py<PyDict>,
        search: Py<PyAny>,
        counts_of: Py<PyAny>,
        is_inside: Py<PyAny>,
        unsupported: Py<PyType>,
    ) -> PyResult<Self> {
        let frame = py.import("sys")?.getattr("_getframe")?.unbind();
        let (sites, ways) = Default::default();
        Ok(Self { handlers, search, counts_of, is_inside, unsupported, frame, sites, ways })
    }

    /// Keeps the operation that a call came down to: what it is given is arguments by number with a type (or none) that they are cast
    /// to, or constants.
    #[pyo3(signature = (func, args, kwargs, operation, pieces, takes_first))]
    fn keep(
        &self,
        func: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
        operation: Py<PyAny>,
        pieces: Vec<(Option<usize>, Py<PyAny>)>,
        takes_first: bool,
    ) -> PyResult<()> {
        let py = func.py();
        let pieces = pieces.into_iter().map(|(at, value)| match at {
            None => Piece::Constant(value),
            Some(at) if value.is_none(py) => Piece::Argument(at),
            Some(at) => Piece::Cast(at, value),
        });
        let number = WAYS.fetch_add(1, Ordering::Relaxed);
        let way = Operation { number, operation, pieces: pieces.collect(), takes_first };
        self.keep_way(func, args, kwargs, Way::Here(way))
    }

    /// Keeps why a call went on in PyTorch, as all calls with its signature do.
    fn keep_elsewhere(
        &self,
        func: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
        reason: Py<PyString>,
    ) -> PyResult<()> {
        self.keep_way(func, args, kwargs, Way::Elsewhere(reason))
    }

    /// Forgets whose counts are whose.
    fn forget_sites(&self) {
        let all = std::mem::take(&mut *self.sites());
        drop(all);
    }

    /// Forgets how calls were computed.
    fn forget(&self) {
        let all = std::mem::take(&mut *self.ways());
        drop(all);
    }
}

/// The signature of a call; none where an argument has none.
fn signature(
    torch: &Torch,
    func: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Option<Signature>> {
    let mut signature = Signature::default();
    signature.words.reserve(64);
    // Handlers keep their functions.
    signature.words.extend([func.as_ptr().addr(), args.len()].map(|word| word.cast_signed() as i64));
    for value in args.iter_borrowed() {
        if !signature.add(torch, &value, true)? {
            return Ok(None);
        }
    }
    // What tensors are asked may be Python code, which may change the dictionary.
    let named: Vec<_> = kwargs.into_iter().flatten().collect();
    for (name, value) in named {
        if !(signature.add(torch, &name, true)? && signature.add(torch, &value, true)?) {
            return Ok(None);
        }
    }
    signature.add_modes(func.py(), torch)?;
    Ok(Some(signature))
}

impl Router {
    /// Keeps what a call came down to, if it has a signature.
    fn keep_way(
        &self,
        func: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
        way: Way,
    ) -> PyResult<()> {
        let py = func.py();
        let Some(torch) = Torch::get(py)?.filter(|torch| torch.is_plain(py).unwrap_or(false)) else {
            return Ok(());
        };
        let kwargs = kwargs.filter(|kwargs| !kwargs.is_empty());
        if let Some(signature) = signature(torch, func, args, kwargs)? {
            let full = keep(&mut self.ways(), signature.words.into_boxed_slice(), Arc::new(way));
            drop(full);
        }
        Ok(())
    }

    fn sites(&self) -> MutexGuard<'_, Sites> {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ways(&self) -> MutexGuard<'_, Known<Box<[i64]>, Arc<Way>>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<'py>(
        &self,
        func: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = func.py();
        let Some(handler) = self.handlers.bind(py).get_item(func)? else {
            return func.call(args, kwargs);
        };
        let counts = self.counts(func)?;
        if let Some(torch) = Torch::get(py)?
            && torch.is_plain(py)?
            && let Some(signature) = signature(torch, func, args, kwargs)?
        {
            let way = self.ways().get(signature.words.as_slice()).map(Arc::clone);
            match way.as_deref() {
                Some(Way::Here(operation)) => {
                    match counts.get().along(py, operation.number, || operation.go(args, kwargs)) {
                        Ok(result) => {
                            counts.get().add();
                            return Ok(result);
                        }
                        Err(error) if !error.get_type(py).is_subclass(self.unsupported.bind(py))? => {
                            return Err(error);
                        }
                        Err(_) => {}
                    }
                }
                Some(Way::Elsewhere(reason)) => {
                    counts.get().add_reason(reason.bind(py))?;
                    return func.call(args, kwargs);
                }
                None => {}
            }
        }
        self.search.bind(py).call1((func, handler, args, kwargs, counts))
    }

    /// The counts of a function for the line of the program that called it.
    fn counts<'py>(&self, func: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Counts>> {
        let py = func.py();
        let mut frame = self.frame.bind(py).call0()?;
        let code = loop {
            let code = frame.getattr(intern!(py, "f_code"))?;
            if !self.belongs(&code)? {
                break code;
            }
            let back = frame.getattr(intern!(py, "f_back"))?;
            if back.is_none() {
                break code;
            }
            frame = back;
        };
        let at: usize = frame.getattr(intern!(py, "f_lasti"))?.extract().unwrap_or(0);
        let place = [func.as_ptr().addr(), code.as_ptr().addr(), at];
        if let Some(counts) = self.sites().counts.get(&place) {
            return Ok(counts.bind(py).clone());
        }
        let name = func.getattr(intern!(py, "__name__"))?;
        let (file, line) =
            (code.getattr(intern!(py, "co_filename"))?, frame.getattr(intern!(py, "f_lineno"))?);
        let counts = self.counts_of.bind(py).call1((name, (file, line)))?.cast_into::<Counts>()?;
        self.sites().counts.insert(place, counts.clone().unbind());
        Ok(counts)
    }

    /// Whether code belongs to PyTorch or this package.
    fn belongs(&self, code: &Bound<'_, PyAny>) -> PyResult<bool> {
        let address = code.as_ptr().addr();
        if let Some((_, is_inside)) = self.sites().codes.get(&address) {
            return Ok(*is_inside);
        }
        let is_inside = self.is_inside.bind(code.py()).call1((code,))?.is_truthy()?;
        let mut sites = self.sites();
        // Programs that make code while they run.
        let full = (sites.codes.len() >= MOST).then(|| std::mem::take(&mut *sites));
        sites.codes.insert(address, (code.clone().unbind(), is_inside));
        drop(sites);
        drop(full);
        Ok(is_inside)
    }
}

/// The base of a mode of PyTorch's that asks a router.
#[pyclass(subclass, frozen, module = "hipdnn._native")]
pub struct Mode {
    router: Py<Router>,
}

#[pymethods]
impl Mode {
    #[new]
    fn new(router: Py<Router>) -> Self {
        Self { router }
    }

    #[pyo3(signature = (func, types, args=None, kwargs=None))]
    fn __torch_function__<'py>(
        &self,
        func: &Bound<'py, PyAny>,
        types: &Bound<'py, PyAny>,
        args: Option<Bound<'py, PyTuple>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = types;
        let args = args.unwrap_or_else(|| PyTuple::empty(func.py()));
        self.router.get().call(func, &args, kwargs.filter(|kwargs| !kwargs.is_empty()))
    }
}

/// What PyTorch's functions that are written in Python call where something may override them: PyTorch's own such function, but for calls
/// that come to a mode here, whose router is asked at once.
#[pyclass(frozen, module = "hipdnn._native")]
pub struct Overrides {
    usual: Py<PyAny>,
    has_mode: Py<PyAny>,
    pop: Py<PyAny>,
    push: Py<PyAny>,
}

#[pymethods]
impl Overrides {
    #[new]
    fn new(py: Python<'_>, usual: Py<PyAny>) -> PyResult<Self> {
        let native = py.import("torch")?.getattr("_C")?;
        let of = |name: &str| native.getattr(name).map(Bound::unbind);
        Ok(Self {
            usual,
            has_mode: of("_is_torch_function_mode_enabled")?,
            pop: of("_pop_torch_function_stack")?,
            push: of("_push_on_torch_function_stack")?,
        })
    }

    #[pyo3(signature = (public_api, relevant_args, *args, **kwargs))]
    fn __call__<'py>(
        &self,
        public_api: &Bound<'py, PyAny>,
        relevant_args: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = public_api.py();
        if self.has_mode.bind(py).call0()?.is_truthy()? {
            // Modes are asked before tensors' types are, each without those above it.
            let top = self.pop.bind(py).call0()?;
            let result =
                top.cast::<Mode>().map(|mode| mode.get().router.get().call(public_api, args, kwargs));
            self.push.bind(py).call1((&top,))?;
            if let Ok(result) = result {
                return result;
            }
        }
        let all = [public_api, relevant_args].into_iter().cloned().chain(args.iter());
        self.usual.bind(py).call(PyTuple::new(py, all.collect::<Vec<_>>())?, kwargs)
    }
}
