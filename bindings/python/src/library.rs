//! Libraries and their graphs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hipdnn::{
    Backend, Engine, EngineConfig, ExecutionPlan, Handle, KnobRange, KnobSetting, KnobValue, NumericalNote,
    RankingOutcome, WantedNotes, ahead,
};
use hipdnn_plugin_sdk::numerics::name_of;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::device::Place;
use crate::error::Failure;
use crate::plan::Plan;
use crate::session::Session;
use crate::spec::Spec;
use crate::tuning::{Answer, Wish, tune};

/// An open `libhipdnn_backend.so`.
#[pyclass(frozen, module = "hipdnn._native")]
pub struct Library {
    session: Arc<Session>,
}

/// Name, id, plugin, version, type, and the numbers of what it computes on and where its kernels come from.
pub type EngineTuple = (String, i64, String, String, String, (u32, u32));

/// A Vulkan device in Python.
type VulkanTuple = (i32, String, String, String, u64, bool);

/// Engines for Python.
pub fn engine_tuples(engines: Vec<hipdnn::EngineInfo>) -> Vec<EngineTuple> {
    engines.into_iter().map(|e| (e.name, e.id, e.plugin, e.version, e.kind, e.of.numbers().into())).collect()
}

/// A knob: its name, description, whether it is deprecated, its default, and what it takes: the least, the greatest (of a text:
/// length), the step, and the listed values.
type KnobTuple = (String, String, bool, Py<PyAny>, (Py<PyAny>, Py<PyAny>, i64, Vec<Py<PyAny>>));

fn knob_tuple(py: Python<'_>, knob: hipdnn::Knob) -> PyResult<KnobTuple> {
    let number = |value: i64| PyResult::Ok(value.into_pyobject(py)?.into_any().unbind());
    let float = |value: f64| PyResult::Ok(value.into_pyobject(py)?.into_any().unbind());
    let text = |value: &String| PyResult::Ok(value.into_pyobject(py)?.into_any().unbind());
    let default = match &knob.default {
        KnobValue::Int(value) => number(*value)?,
        KnobValue::Float(value) => float(*value)?,
        KnobValue::Text(value) => text(value)?,
    };
    let range = match &knob.range {
        KnobRange::Int { values, bounds } => {
            let (least, greatest, step) = bounds.unwrap_or((0, 0, 1));
            let values = values.iter().map(|value| number(*value)).collect::<PyResult<_>>()?;
            (number(least)?, number(greatest)?, step, values)
        }
        KnobRange::Float(bounds) => {
            let (least, greatest) = bounds.unwrap_or_default();
            (float(least)?, float(greatest)?, 0, Vec::new())
        }
        KnobRange::Text(values) => {
            (number(0)?, number(knob.longest.into())?, 0, values.iter().map(text).collect::<PyResult<_>>()?)
        }
    };
    Ok((knob.id, knob.description, knob.deprecated, default, range))
}

/// Knob settings from Python, given as text or number.
fn settings_of(knobs: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Vec<KnobSetting>> {
    let setting = |(id, value): (String, Bound<'_, PyAny>)| {
        let value = if let Ok(number) = value.extract::<i64>() {
            KnobValue::Int(number)
        } else if let Ok(number) = value.extract::<f64>() {
            KnobValue::Float(number)
        } else {
            KnobValue::Text(value.extract()?)
        };
        Ok(KnobSetting { id, value })
    };
    knobs.into_iter().map(setting).collect()
}

impl Library {
    /// The library with its handles.
    pub fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    fn finalized(
        &self,
        py: Python<'_>,
        place: Place,
        read: impl FnOnce(&Backend) -> hipdnn::Result<hipdnn::OperationGraph> + Send,
    ) -> PyResult<OperationGraph> {
        let session = Arc::clone(&self.session);
        let graph = py.detach(|| {
            let graph = read(&session.backend)?;
            session.plan(place, |handle| graph.finalize(handle))?;
            Ok(graph)
        });
        let graph = graph.map_err(Failure::into_py)?;
        Ok(OperationGraph { session, place, graph: Mutex::new(graph) })
    }
}

#[pymethods]
impl Library {
    /// Opens the library at `path`, or searches for it.
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(py: Python<'_>, path: Option<PathBuf>) -> PyResult<Self> {
        let backend =
            py.detach(|| Backend::open(path.as_deref())).map_err(|error| Failure::from(error).into_py())?;
        Ok(Self { session: Arc::new(Session::new(backend)) })
    }

    /// The file that was opened.
    #[getter]
    fn path(&self) -> &str {
        self.session.backend.path()
    }

    /// Its version, if the library tells.
    #[getter]
    fn version(&self) -> Option<String> {
        self.session.backend.version()
    }

    /// Destroys the idle handles, with the plans that the library caches for them.
    fn reset(&self, py: Python<'_>) {
        py.detach(|| self.session.reset());
    }

    /// Every loaded engine.
    fn engines(&self, py: Python<'_>) -> PyResult<Vec<EngineTuple>> {
        let engines =
            py.detach(|| self.session.plan(Place::Host, Handle::engines)).map_err(Failure::into_py)?;
        Ok(engine_tuples(engines))
    }

    /// The Vulkan devices: number, name, kind, version, bytes of memory, and whether `VULKAN_ENGINE` can compute on it.
    fn vulkan_devices(&self, py: Python<'_>) -> PyResult<Vec<VulkanTuple>> {
        let devices = py.detach(|| self.session.plan(Place::Host, hipdnn::hardware::vulkan_devices));
        let tuple = |of: hipdnn::hardware::VulkanDevice| {
            (of.number, of.name, of.kind.to_string(), of.version, of.memory_bytes, of.is_usable)
        };
        Ok(devices.map_err(Failure::into_py)?.into_iter().map(tuple).collect())
    }

    /// Opens a device for arrays; only those of Vulkan have to be.
    fn open_device(&self, py: Python<'_>, device: Place) -> PyResult<()> {
        py.detach(|| self.session.plan(device, |_| Ok(()))).map_err(Failure::into_py)
    }

    /// Loads engine plugins from these files and folders; alone, or besides the library's own. Handles must not be alive.
    fn set_engine_plugin_paths(&self, py: Python<'_>, paths: Vec<PathBuf>, alone: bool) -> PyResult<()> {
        let set = || {
            self.session.end_idle();
            let backend = &self.session.backend;
            if alone {
                backend.set_engine_plugin_paths(&paths)
            } else {
                backend.add_engine_plugin_paths(&paths)
            }
        };
        py.detach(set).map_err(|error| Failure::from(error).into_py())
    }

    /// The library's own JSON of a graph in JSON, which is not checked further.
    fn text_of(&self, py: Python<'_>, json: &str) -> PyResult<String> {
        let text =
            py.detach(|| hipdnn::OperationGraph::from_json(&self.session.backend, json.as_bytes())?.json());
        text.map_err(|error| Failure::from(error).into_py())
    }

    /// The library's JSON of a graph in bytes.
    fn text_of_bytes(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<String> {
        let text = py.detach(|| hipdnn::OperationGraph::from_bytes(&self.session.backend, bytes)?.json());
        text.map_err(|error| Failure::from(error).into_py())
    }

    /// The bytes of a graph in JSON.
    fn bytes_of<'py>(&self, py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes =
            py.detach(|| hipdnn::OperationGraph::from_json(&self.session.backend, json.as_bytes())?.bytes());
        Ok(PyBytes::new(py, &bytes.map_err(|error| Failure::from(error).into_py())?))
    }

    /// A finalized graph from JSON, for a device.
    fn graph(&self, py: Python<'_>, json: &str, device: Place) -> PyResult<OperationGraph> {
        self.finalized(py, device, |backend| hipdnn::OperationGraph::from_json(backend, json.as_bytes()))
    }

    /// The graph in a container, finalized for the host.
    fn graph_of(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<OperationGraph> {
        self.finalized(py, Place::Host, |backend| hipdnn::OperationGraph::from_bytes(backend, bytes))
    }

    /// A saved plan for a device, with the tensors of its graph.
    fn load(&self, py: Python<'_>, bytes: &[u8], tensors: Vec<Spec>, device: Place) -> PyResult<Plan> {
        let session = Arc::clone(&self.session);
        let plan = py
            .detach(|| session.plan(device, |handle| ExecutionPlan::from_bytes(handle, bytes)))
            .map_err(Failure::into_py)?;
        Plan::new(session, Some(plan), tensors, device)
    }

    /// The bytes of a file with a plan for a graph in JSON, for this process's target device.
    fn compile<'py>(&self, py: Python<'py>, json: &str, device: &str) -> PyResult<Bound<'py, PyBytes>> {
        let made = py.detach(|| {
            self.session.plan(Place::Host, |handle| {
                let graph = hipdnn::OperationGraph::from_json(&self.session.backend, json.as_bytes())?;
                graph.finalize(handle)?;
                let (all, offer) = (handle.engines()?, offer(&graph, handle)?);
                let find = |id: &i64| all.iter().find(|engine| engine.id == *id).cloned();
                let engines: Vec<_> =
                    offer.engines.iter().filter_map(find).map(|engine| (engine, Vec::new())).collect();
                match ahead::make(handle, &graph, &engines, device)? {
                    Ok(entry) => ahead::write(&[entry]),
                    Err(reasons) => Err(hipdnn::Error::Argument(reasons.join("\n"))),
                }
            })
        });
        Ok(PyBytes::new(py, &made.map_err(Failure::into_py)?))
    }

    /// The named or only graph of a file with plans made ahead of time, with the plan that fits or a new one.
    fn unpack<'py>(
        &self,
        py: Python<'py>,
        bytes: &[u8],
        graph: Option<&str>,
    ) -> PyResult<(Bound<'py, PyBytes>, Option<String>)> {
        let found = py.detach(|| {
            self.session.plan(Place::Host, |handle| {
                let found = ahead::load(handle, bytes, graph)?;
                Ok((found.plan.bytes_with(&found.graph)?, found.reason))
            })
        });
        let (container, reason) = found.map_err(Failure::into_py)?;
        Ok((PyBytes::new(py, &container), reason))
    }

    /// A plan for a graph with nothing to compute: executions only check the arrays.
    fn nothing(&self, tensors: Vec<Spec>, device: Place) -> PyResult<Plan> {
        Plan::new(Arc::clone(&self.session), None, tensors, device)
    }
}

/// Discards the library's log while it exists: the library reads the variable once, before its first line. Python's own native
/// functions set it, so that no signal handler runs in between.
struct Quiet<'py>(Bound<'py, PyModule>);

impl<'py> Quiet<'py> {
    const VARIABLE: &'static str = "HIPDNN_LOG_FILE";

    fn new(py: Python<'py>) -> PyResult<Self> {
        let os = py.import("os")?;
        os.call_method1("putenv", (Self::VARIABLE, os.getattr("devnull")?))?;
        Ok(Self(os))
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // The same module set the variable, so it can be unset.
        drop(self.0.call_method1("unsetenv", (Self::VARIABLE,)));
    }
}

/// A finalized graph of operations.
#[pyclass(frozen, module = "hipdnn._native")]
pub struct OperationGraph {
    session: Arc<Session>,
    place: Place,
    graph: Mutex<hipdnn::OperationGraph>,
}

impl OperationGraph {
    /// Runs `f` without the interpreter's lock.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&hipdnn::OperationGraph, &Handle) -> hipdnn::Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| {
            let graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
            self.session.plan(self.place, |handle| f(&graph, handle))
        })
        .map_err(Failure::into_py)
    }

    /// The same graph, not finalized, and a handle of its own for the same device.
    pub fn copied(&self, py: Python<'_>) -> PyResult<(hipdnn::OperationGraph, Handle)> {
        let backend = &self.session.backend;
        self.with(py, |graph, _| {
            let copy = hipdnn::OperationGraph::from_bytes(backend, &graph.bytes()?)?;
            Ok((copy, Handle::new(backend)?))
        })
    }
}

/// The names of numerical notes that are selected, and deselected.
type NoteNames = (Vec<String>, Vec<String>);

fn wanted((selected, deselected): NoteNames) -> PyResult<WantedNotes> {
    let note = |name: String| {
        let note = NumericalNote::all().iter().find(|note| name_of(**note) == name);
        note.copied().ok_or_else(|| {
            let known: Vec<_> = NumericalNote::all().iter().map(|note| name_of(*note)).collect();
            PyValueError::new_err(format!("notes: has {name:?}, expected some of {}", known.join(", ")))
        })
    };
    let notes = |names: Vec<String>| names.into_iter().map(note).collect::<PyResult<_>>();
    Ok(WantedNotes { selected: notes(selected)?, deselected: notes(deselected)? })
}

/// The engines for a graph, including any that cannot be configured.
fn offer(graph: &hipdnn::OperationGraph, handle: &Handle) -> hipdnn::Result<hipdnn::Offer> {
    graph.offer().or_else(|error| match error {
        hipdnn::Error::Status { status: hipdnn::Status::Plugin, .. } => graph.offer_one_by_one(handle),
        other => Err(other),
    })
}

#[pymethods]
impl OperationGraph {
    /// The library's JSON of the graph.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |graph, _| graph.json())
    }

    /// The ids of the supporting engines, best first, and the library's reasons if there are none.
    fn offer(&self, py: Python<'_>) -> PyResult<(Vec<i64>, String)> {
        self.with(py, |graph, handle| offer(graph, handle).map(|offer| (offer.engines, offer.reasons)))
    }

    /// Every engine: its name, id and plugin, its rank if it supports the graph, else the reason.
    /// With `quietly`, the library's log is kept off standard error meanwhile.
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    #[pyo3(signature = (quietly=false))]
    fn explain(
        &self,
        py: Python<'_>,
        quietly: bool,
    ) -> PyResult<Vec<(String, i64, String, Option<usize>, Option<String>)>> {
        let _quiet = quietly.then(|| Quiet::new(py)).transpose()?;
        let verdicts = self.with(py, |graph, handle| graph.explain_offer(handle, &offer(graph, handle)?))?;
        Ok(verdicts
            .into_iter()
            .map(|v| (v.engine.name, v.engine.id, v.engine.plugin, v.rank, v.reason))
            .collect())
    }

    /// Describes the plan of an engine with its default settings, as JSON.
    fn describe(&self, py: Python<'_>, engine: i64) -> PyResult<String> {
        self.with(py, |graph, _| {
            ExecutionPlan::new(&EngineConfig::new(&Engine::new(graph, engine)?, &[])?)?.description()
        })
    }

    /// The knobs of an engine: id, description, default and choices in words.
    fn knobs(&self, py: Python<'_>, engine: i64) -> PyResult<Vec<(String, String, String, String)>> {
        let knobs = self.with(py, |graph, _| Engine::new(graph, engine)?.knobs())?;
        Ok(knobs
            .into_iter()
            .map(|knob| (knob.id.clone(), knob.description.clone(), knob.default.to_string(), knob.choices()))
            .collect())
    }

    /// The knobs of an engine: name, description, whether deprecated, default, and what it takes.
    fn tunables(&self, py: Python<'_>, engine: i64) -> PyResult<Vec<KnobTuple>> {
        let knobs = self.with(py, |graph, _| Engine::new(graph, engine)?.knobs())?;
        knobs.into_iter().map(|knob| knob_tuple(py, knob)).collect()
    }

    /// The behavior notes of an engine.
    fn notes(&self, py: Python<'_>, engine: i64) -> PyResult<Vec<String>> {
        self.with(py, |graph, _| Engine::new(graph, engine)?.behavior_notes())
    }

    /// Raises an error if an engine cannot have some numerical notes and not others.
    fn expect_notes(&self, py: Python<'_>, engine: i64, notes: NoteNames) -> PyResult<()> {
        let notes = wanted(notes)?;
        self.with(py, |graph, _| {
            EngineConfig::with_notes(&Engine::new(graph, engine)?, &[], &notes).map(drop)
        })
    }

    /// The workspace size in bytes that an engine expects of its plan with knobs set; 0 if it does not tell.
    fn estimate(&self, py: Python<'_>, engine: i64, knobs: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<i64> {
        let settings = settings_of(knobs)?;
        self.with(py, |graph, _| {
            let config = EngineConfig::new(&Engine::new(graph, engine)?, &settings)?;
            Ok(config.workspace_size().unwrap_or(0).max(0))
        })
    }

    /// Records engines for graphs that compute the same, best first, with the milliseconds that each took. Returns what became of it.
    fn write_times(&self, py: Python<'_>, best_first: Vec<(i64, f64)>) -> PyResult<&'static str> {
        let time = |ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok();
        let times: Vec<_> = best_first.into_iter().map(|(engine, ms)| (engine, time(ms))).collect();
        let outcome = self.with(py, |graph, handle| handle.write_times(graph, &times))?;
        Ok(match outcome {
            RankingOutcome::Written => "WRITTEN",
            RankingOutcome::Unchanged => "UNCHANGED",
            RankingOutcome::Unkeyable => "DECLINED_UNKEYABLE",
            RankingOutcome::NoEngines => "NOT_ATTEMPTED_NO_SUCCESSFUL_ENGINE",
            RankingOutcome::Disabled | RankingOutcome::Unknown(_) => "DECLINED_DISABLED",
        })
    }

    /// The plan of an engine with its knobs set, given as text or number, and more of them so that it has some numerical notes
    /// and not others.
    fn plan(
        &self,
        py: Python<'_>,
        engine: i64,
        knobs: Vec<(String, Bound<'_, PyAny>)>,
        tensors: Vec<Spec>,
        notes: NoteNames,
    ) -> PyResult<Plan> {
        let (settings, notes) = (settings_of(knobs)?, wanted(notes)?);
        let plan = self.with(py, |graph, _| {
            ExecutionPlan::new(&EngineConfig::with_notes(&Engine::new(graph, engine)?, &settings, &notes)?)
        })?;
        Plan::new(Arc::clone(&self.session), Some(plan), tensors, self.place)
    }

    /// The bytes of the graph and its plan.
    fn save(&self, py: Python<'_>, plan: &Plan) -> PyResult<Vec<u8>> {
        let plan = plan.native()?;
        self.with(py, |graph, _| plan.bytes_with(graph))
    }

    /// Searches for the fastest engine and its knobs with three functions: the first prepares an engine with knob settings,
    /// the second executes what was prepared so many times and returns the seconds, the third is told the progress.
    #[pyo3(signature = (strategy, budget, values, engines, functions))]
    fn tune<'py>(
        &self,
        py: Python<'py>,
        strategy: String,
        budget: f64,
        values: usize,
        engines: Vec<i64>,
        functions: [Bound<'py, PyAny>; 3],
    ) -> PyResult<Answer> {
        // Python functions may use this graph meanwhile, so the search has its own.
        let (graph, handle) = self.copied(py)?;
        graph.finalize(&handle).map_err(|error| Failure::from(error).into_py())?;
        let wish = Wish { strategy, budget, values, engines };
        tune(py, &handle, &graph, &wish, functions)
    }
}
