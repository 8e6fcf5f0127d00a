//! The open `libhipdnn_backend.so` and its engines, one per process.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hipdnn::graph::operation::Pointwise;
use hipdnn::graph::{DataType, Graph, Node, PointwiseMode, Tensor};
use hipdnn::hardware::{CaptureStream, CapturedWork, Gpu, Stream};
use hipdnn::{
    Backend, Engine, EngineConfig, EngineInfo, ExecutionPlan, GraphBuilder, Handle, KnobSetting,
    OperationGraph,
};
use hipdnn_plugin_sdk::engine_kind::{EngineDevice, Implementation};

use crate::best::Best;
use crate::failure::{Failure, Result};
use crate::options::{BATCH_INVARIANT, CPU_ENGINE, Device, OWN_KNOBS, Options};
use crate::threads::Threads;

/// The library with its idle handles.
pub struct Library {
    backend: Backend,
    idle: Mutex<Vec<Handle>>,
    /// The same for executions on a GPU.
    on_streams: Mutex<OnStreams>,
    threads: Option<Threads>,
    /// The Vulkan device with its number, once a session has named one.
    vulkan: Mutex<Option<(i32, Gpu)>>,
}

/// The handles with streams.
#[derive(Default)]
struct OnStreams {
    /// The idle ones.
    idle: Vec<OnStream>,
    /// The number in use.
    used: usize,
    /// The number of consecutive runs that began while no other was in progress.
    alone: usize,
}

/// After this many such runs, threads are assumed not to run concurrently.
const ALONE: usize = 4;

/// A handle with its own stream, so that several threads run concurrently on a GPU.
pub struct OnStream {
    /// The handle, dropped before its streams.
    pub handle: Handle,
    /// The stream.
    pub stream: Stream,
    gpu: Gpu,
    to_capture: OnceCell<CaptureStream>,
}

impl OnStream {
    fn new(backend: &Backend, gpu: Gpu) -> Result<Self> {
        let (handle, stream) = (Handle::new(backend)?, Stream::new(gpu)?);
        // SAFETY: the stream outlives the handle.
        unsafe { handle.set_stream(stream.as_ptr()) }?;
        Ok(Self { handle, stream, gpu, to_capture: OnceCell::new() })
    }

    /// Captures what `work` executes with the handle, without executing it.
    pub fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<CapturedWork> {
        let to_capture = match self.to_capture.get() {
            Some(stream) => stream,
            None => {
                let made = CaptureStream::new(self.gpu)?;
                self.to_capture.get_or_init(|| made)
            }
        };
        // SAFETY: both streams outlive the handle.
        unsafe { self.handle.set_stream(to_capture.as_ptr()) }?;
        let captured = to_capture.capture(work);
        // SAFETY: the streams outlive the handle.
        unsafe { self.handle.set_stream(self.stream.as_ptr()) }?;
        captured
    }
}

/// The variable with the folder of a library to use instead of the one beside this file.
const VARIABLE: &str = "HIPDNN_BACKEND_LIBRARY_PATH";

/// The engine of cuDNN.
const CUDNN: &str = "CUDNN_ENGINE";

/// The behavior note of engines whose executions can be captured.
const CAN_BE_CAPTURED: &str = "supports graph capture";

static LIBRARY: OnceLock<Library> = OnceLock::new();

impl Library {
    /// The library, opened at the first successful call: the one in the folder from the environment, the one beside this file,
    /// or else the one that the crate `hipdnn` finds.
    pub fn open() -> Result<&'static Self> {
        if let Some(library) = LIBRARY.get() {
            return Ok(library);
        }
        let named = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let own = || own_folder().filter(|folder| folder.join("libhipdnn_backend.so").is_file());
        let backend = Backend::open(named.or_else(own).as_deref())?;
        // A handle loads the plugins. If another thread has opened the library meanwhile, its objects stay.
        let first = Handle::new(&backend)?;
        Ok(LIBRARY.get_or_init(|| Self {
            backend,
            idle: Mutex::new(vec![first]),
            on_streams: Mutex::default(),
            threads: Threads::find(),
            vulkan: Mutex::default(),
        }))
    }

    /// How its CPU engine borrows threads, if it can.
    pub fn threads(&self) -> Option<Threads> {
        self.threads
    }

    /// Runs `f` with an exclusive handle.
    pub fn with_handle<R>(&self, f: impl FnOnce(&Handle) -> Result<R>) -> Result<R> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let handle = match taken {
            Some(handle) => handle,
            None => Handle::new(&self.backend)?,
        };
        let result = f(&handle);
        idle().push(handle);
        result
    }

    /// Runs `f` with an exclusive handle and its stream, and with whether threads have recently run one
    /// after the other. `f` waits for its work.
    pub fn on_stream<R>(&self, gpu: Gpu, f: impl FnOnce(&OnStream, bool) -> Result<R>) -> Result<R> {
        let all = || self.on_streams.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, is_alone) = {
            let mut all = all();
            all.used += 1;
            all.alone = if all.used == 1 { all.alone.saturating_add(1) } else { 0 };
            let own = all.idle.iter().rposition(|idle| idle.gpu.is_vulkan() == gpu.is_vulkan());
            (own.map(|at| all.idle.remove(at)), all.alone >= ALONE)
        };
        let own = taken.map_or_else(|| OnStream::new(&self.backend, gpu), Ok);
        let result = own.as_ref().map_err(Clone::clone).and_then(|own| f(own, is_alone));
        let mut all = all();
        all.used -= 1;
        all.idle.extend(own.ok());
        result
    }

    /// The Vulkan device of this number, or else the process's; the handles of a process compute on one.
    pub fn vulkan(&self, number: Option<i32>) -> Result<Gpu> {
        let mut opened = self.vulkan.lock().unwrap_or_else(PoisonError::into_inner);
        let number = number.or(opened.map(|(known, _)| known)).unwrap_or(0);
        match *opened {
            Some((known, gpu)) if known == number => Ok(gpu),
            Some((known, _)) => Err(Failure::argument(format!(
                "option device: is \"vulkan:{number}\", expected \"vulkan:{known}\", on which this process computes"
            ))),
            None => {
                let gpu = self.with_handle(|handle| Ok(Gpu::vulkan(handle, number)?));
                let gpu = gpu.map_err(|failure| {
                    let text = failure.text;
                    Failure::argument(format!("option device: is \"vulkan:{number}\", and {text}"))
                })?;
                *opened = Some((number, gpu));
                Ok(gpu)
            }
        }
    }

    /// The engines for these options.
    pub fn engines(&self, options: &Options) -> Result<Engines> {
        let engines = self.with_handle(|handle| Ok(handle.engines()?))?;
        let of_device = |engine: &&EngineInfo| match (engine.of.device, options.device) {
            (EngineDevice::Host, device) => device == Device::Cpu,
            (EngineDevice::Vulkan, device) => matches!(device, Device::Vulkan(_)),
            (_, device) => device == Device::Gpu,
        };
        let all: Vec<&EngineInfo> = engines.iter().filter(of_device).collect();
        let path = self.backend.path();
        let name = match (&options.engine, options.device) {
            (Some(name), _) => Some(name.as_str()),
            (None, Device::Cpu) if all.iter().any(|engine| engine.name == CPU_ENGINE) => Some(CPU_ENGINE),
            // Another plugin's engine for CPUs, the only one here.
            (None, Device::Cpu) => {
                all.iter().find(|engine| !engine.is_reference()).map(|engine| engine.name.as_str())
            }
            (None, Device::Gpu | Device::Vulkan(_)) => None,
        };
        let chosen: Vec<EngineInfo> = all
            .iter()
            .filter(|engine| name.is_none_or(|name| engine.name == name))
            .map(|engine| EngineInfo::clone(engine))
            .collect();
        let chosen = if options.batch_invariant { self.having(chosen, BATCH_INVARIANT)? } else { chosen };
        match (chosen.as_slice(), options.device) {
            ([], _) => Err(Failure::argument(format!(
                "engine {}: {path} has no engine of this name for the device, {}",
                name.unwrap_or("of a GPU"),
                match all.as_slice() {
                    [] if engines.is_empty() =>
                        "as it found no plugin in its folder hipdnn_plugins/engines or where HIPDNN_PLUGIN_DIR says"
                            .to_owned(),
                    [] => "and no other for the device".to_owned(),
                    some => {
                        let names: Vec<_> = some.iter().map(|engine| engine.name.as_str()).collect();
                        format!("expected one of {}", names.join(", "))
                    }
                }
            ))),
            ([engine, ..], Device::Cpu) => Ok(Engines::One(engine.id)),
            (_, Device::Vulkan(number)) => {
                Ok(Engines::of_gpu(self.vulkan(Some(number))?, chosen, options.report.is_some()))
            }
            (_, Device::Gpu) => match Gpu::find() {
                Ok(gpu) => Ok(Engines::of_gpu(gpu, chosen, options.report.is_some())),
                Err(error) => Err(Failure::argument(format!("option device: is \"gpu\", and {error}"))),
            },
        }
    }
}

impl Library {
    /// The engines with a knob that results need; an error if all lack it.
    fn having(&self, engines: Vec<EngineInfo>, knob: &str) -> Result<Vec<EngineInfo>> {
        self.with_handle(|handle| {
            let graph = GraphBuilder::from(smallest()).build(handle)?;
            let has = |engine: &EngineInfo| {
                let knobs = Engine::new(&graph, engine.id).and_then(|engine| engine.knobs());
                knobs.is_ok_and(|knobs| knobs.iter().any(|known| known.id == knob))
            };
            let (with, without): (Vec<_>, Vec<_>) = engines.into_iter().partition(has);
            if with.is_empty() && !without.is_empty() {
                let names: Vec<&str> = without.iter().map(|engine| engine.name.as_str()).collect();
                let names = names.join(", ");
                return Err(Failure::argument(format!("option {knob}: {names} without the knob {knob:?}")));
            }
            Ok(with)
        })
    }
}

/// The engines that a session computes with.
#[derive(Clone, Debug)]
pub enum Engines {
    /// A single one, on the application's memory.
    One(i64),
    /// The library's best choice among these for each graph, on GPU memory.
    OfGpu(Gpu, Arc<OfGpu>),
}

/// The engines of a GPU.
#[derive(Debug)]
pub struct OfGpu {
    engines: Vec<EngineInfo>,
    /// Whether the user wants to know why graphs are refused. The library only logs the reasons.
    explains: bool,
    /// Whether they compute graphs, by their text.
    known: Mutex<HashMap<String, bool>>,
    /// Whether executions can be captured, by engine id.
    captured: Mutex<HashMap<i64, bool>>,
}

impl Engines {
    fn of_gpu(gpu: Gpu, engines: Vec<EngineInfo>, explains: bool) -> Self {
        let (known, captured) = Default::default();
        Self::OfGpu(gpu, Arc::new(OfGpu { engines, explains, known, captured }))
    }

    /// The GPU, if they compute on one.
    pub fn gpu(&self) -> Option<Gpu> {
        match self {
            Self::One(_) => None,
            Self::OfGpu(gpu, ..) => Some(*gpu),
        }
    }

    /// Whether a maker's library is among them.
    pub fn has_library(&self) -> bool {
        let is_library = |engine: &EngineInfo| engine.of.implementation == Implementation::Library;
        matches!(self, Self::OfGpu(_, own) if own.engines.iter().any(is_library))
    }

    /// Whether cuDNN is among them.
    pub fn has_cudnn(&self) -> bool {
        matches!(self, Self::OfGpu(_, own) if own.engines.iter().any(|engine| engine.name == CUDNN))
    }

    /// The best engine, if it computes a graph.
    fn best(&self, graph: &OperationGraph, best: Best) -> Option<Engine> {
        let Self::OfGpu(_, own) = self else { return None };
        let engine = own.engines.iter().find(|engine| best.is(engine))?;
        Engine::new(graph, engine.id).ok()
    }

    /// The GPU engines that can compute a graph, best first.
    fn offered(&self, graph: &OperationGraph) -> Result<Vec<i64>> {
        let Self::OfGpu(_, own) = self else { return Ok(Vec::new()) };
        let offer = graph.offer()?;
        let is_own = |id: &i64| own.engines.iter().any(|engine| engine.id == *id);
        Ok(offer.engines.into_iter().filter(is_own).collect())
    }

    /// Whether one of them computes a graph.
    pub fn accept(&self, graph: &OperationGraph, best: Best) -> bool {
        match self {
            Self::One(id) => Engine::new(graph, *id).is_ok(),
            Self::OfGpu(..) => {
                self.best(graph, best).is_some()
                    || self.offered(graph).is_ok_and(|engines| !engines.is_empty())
            }
        }
    }

    /// Whether one of them computes a graph without generated kernels.
    pub fn accept_by_library(&self, graph: &OperationGraph, best: Best) -> bool {
        let Self::OfGpu(_, own) = self else { return false };
        if best != Best::Generated && self.best(graph, best).is_some() {
            return true;
        }
        let is_generated = |engine: &EngineInfo| engine.of.implementation == Implementation::Generated;
        let others = |id: &i64| own.engines.iter().any(|engine| engine.id == *id && !is_generated(engine));
        self.offered(graph).is_ok_and(|engines| engines.iter().any(others))
    }

    /// Whether they compute the graph with this text; calls `ask` once.
    pub fn known(&self, text: &str, ask: impl FnOnce() -> bool) -> bool {
        let Self::OfGpu(_, own) = self else { return ask() };
        let answers = || own.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers().get(text) {
            return *answer;
        }
        let answer = ask();
        answers().insert(text.to_owned(), answer);
        answer
    }

    /// Whether executions of a plan can be captured. Asks its engine once, about the graph that `graph` returns.
    pub fn capture(&self, plan: &ExecutionPlan, graph: impl FnOnce() -> Result<OperationGraph>) -> bool {
        let Self::OfGpu(_, own) = self else { return false };
        let answers = || own.captured.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(id) = plan.engine_id() else { return false };
        if let Some(answer) = answers().get(&id) {
            return *answer;
        }
        let notes = graph().and_then(|graph| Ok(Engine::new(&graph, id)?.behavior_notes()?));
        let answer = notes.is_ok_and(|notes| notes.iter().any(|note| note == CAN_BE_CAPTURED));
        answers().insert(id, answer);
        answer
    }

    /// Returns an error that says why none of them computes a graph.
    pub fn check(&self, graph: &OperationGraph) -> Result<()> {
        match self {
            Self::One(id) => Engine::new(graph, *id).map(|_| ()).map_err(Failure::from),
            Self::OfGpu(..) if self.accept(graph, Best::Unknown) => Ok(()),
            Self::OfGpu(_, own) => Err(refusal(graph, own)),
        }
    }

    /// Rejects knobs of the application that none of them has, and values that a knob does not have.
    pub fn check_settings(&self, handle: &Handle, settings: &[KnobSetting]) -> Result<()> {
        let graph = GraphBuilder::from(smallest()).build(handle)?;
        let ids = match self {
            Self::One(id) => vec![*id],
            Self::OfGpu(_, own) => own.engines.iter().map(|engine| engine.id).collect(),
        };
        let (mut known, mut all_answer) = (Vec::new(), true);
        for id in ids {
            // The knobs of engines without this operation are not known.
            let Ok(engine) = Engine::new(&graph, id) else {
                all_answer = false;
                continue;
            };
            let knobs = engine.knobs()?;
            let is_its = |setting: &&KnobSetting| knobs.iter().any(|knob| knob.id == setting.id);
            let own: Vec<KnobSetting> = settings.iter().filter(is_its).cloned().collect();
            // Values are checked with the plan; those of GPUs would compile kernels.
            let made = EngineConfig::new(&engine, &own).and_then(|config| match self {
                Self::One(_) => ExecutionPlan::new(&config).map(drop),
                Self::OfGpu(..) => Ok(()),
            });
            made.map_err(|error| Failure::argument(format!("option knobs: {}", Failure::from(error).text)))?;
            known.extend(knobs.into_iter().map(|knob| knob.id));
        }
        match settings.iter().find(|setting| !known.contains(&setting.id)) {
            Some(unknown) if all_answer && !known.is_empty() => Err(no_knob(&unknown.id, &known)),
            _ => Ok(()),
        }
    }

    /// A plan of the best of them.
    pub fn plan(
        &self,
        graph: &OperationGraph,
        settings: &[KnobSetting],
        best: Best,
    ) -> Result<ExecutionPlan> {
        let own = match self {
            Self::One(id) => {
                let engine = Engine::new(graph, *id)?;
                check_knobs(&engine, settings)?;
                return Ok(ExecutionPlan::new(&EngineConfig::new(&engine, settings)?)?);
            }
            Self::OfGpu(_, own) => own,
        };
        if let Some(engine) = self.best(graph, best)
            && let Ok(plan) = plan_with(&engine, settings)
        {
            return Ok(plan);
        }
        let offered = self.offered(graph)?;
        let mut plans = offered.iter().map(|id| plan_with(&Engine::new(graph, *id)?, settings));
        match plans.next() {
            None => Err(refusal(graph, own)),
            // If the best one fails, another may succeed; if none does, the best one's error is reported.
            Some(first) => first.or_else(|failure| plans.find_map(Result::ok).ok_or(failure)),
        }
    }
}

/// The graph with which engines are asked for their knobs: ReLU of a few numbers, which every engine computes.
fn smallest() -> Graph {
    let tensor = |uid| Tensor::new(uid, DataType::Float, &[1, 8], &[8, 1]);
    let operation = Pointwise::new(PointwiseMode::ReluFwd, 1, None, 2).into();
    let node = Node { name: "relu".to_owned(), compute_type: DataType::Float, operation };
    Graph { nodes: vec![node], tensors: vec![tensor(1), tensor(2)], ..Graph::default() }
}

/// Rejects a knob requested by the application that the engine lacks.
fn check_knobs(engine: &Engine, settings: &[KnobSetting]) -> Result<()> {
    let is_asked = |setting: &&KnobSetting| !OWN_KNOBS.contains(&setting.id.as_str());
    let mut asked = settings.iter().filter(is_asked).peekable();
    if asked.peek().is_none() {
        return Ok(());
    }
    let known: Vec<String> = engine.knobs()?.into_iter().map(|knob| knob.id).collect();
    match asked.find(|setting| !known.contains(&setting.id)) {
        None => Ok(()),
        Some(unknown) => Err(no_knob(&unknown.id, &known)),
    }
}

fn no_knob(id: &str, known: &[String]) -> Failure {
    let known = known.join(", ");
    Failure::argument(format!("option knobs: the engine has no {id:?}, expected one of {known}"))
}

/// A plan of an engine, with the knobs that it has: a GPU's engines share a session's settings.
fn plan_with(engine: &Engine, settings: &[KnobSetting]) -> Result<ExecutionPlan> {
    let known = if settings.is_empty() { Vec::new() } else { engine.knobs()? };
    let own = settings.iter().filter(|setting| known.iter().any(|knob| knob.id == setting.id));
    let own: Vec<KnobSetting> = own.cloned().collect();
    Ok(ExecutionPlan::new(&EngineConfig::new(engine, &own)?)?)
}

/// Why GPU engines do not compute a graph.
fn refusal(graph: &OperationGraph, own: &OfGpu) -> Failure {
    let text = "no engine of the GPU computes it";
    if !own.explains {
        return Failure::ep(format!("{text}; a session with the option report says why"));
    }
    let reason = |engine: &EngineInfo| format!("{}: {}", engine.name, graph.reason(engine, ""));
    let reasons: Vec<String> = own.engines.iter().map(reason).collect();
    Failure::ep(format!("{text}: {}", reasons.join("; ")))
}

/// The folder of the file with this code.
fn own_folder() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let here: fn() -> Option<PathBuf> = own_folder;
    // SAFETY: the address is that of a function, and the function writes only to the local `info`.
    let found = unsafe { libc::dladdr(here as *const c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's string ends with a NUL and lives as long as this library, which stays loaded.
    let file = unsafe { CStr::from_ptr(info.dli_fname) }.to_str().ok()?;
    let file = std::path::absolute(Path::new(file)).ok()?;
    Some(file.parent()?.to_owned())
}
