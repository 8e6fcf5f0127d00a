//! A session's execution provider: claims nodes and compiles them.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, c_char, c_int};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hipdnn::graph::Graph;

use crate::compiled::{self, Chain, Residence};
use crate::context;
use crate::failure::{Failure, Result};
use crate::hash::Map;
use crate::library::{Engines, Library};
use crate::lowering::{Lowering, Work};
use crate::model::{self, Element, Model};
use crate::operators;
use crate::options::{Options, Pool};
use crate::ort::*;
use crate::partition::{self, Verdict};
use crate::profile;
use crate::samples::Samples;
use crate::terminate;
use crate::weights::Weights;

mod compute;
mod saved;
mod steps;

use compute::Compute;

/// The provider's name.
pub const NAME: &CStr = c"HipDNNExecutionProvider";

/// `ORT_LOGGING_LEVEL_INFO`.
const INFORMATION: c_int = 1;

/// With more subgraphs in a graph than this, engines use the session's threads: these spin after every node of ONNX Runtime's own, and
/// the engine's threads would compete with them for processors.
const FEW_SUBGRAPHS: usize = 1;

/// The graphs that a node becomes, and whether the engine computes them, by their digest.
type Answers = Map<u64, Vec<(Vec<Graph>, std::result::Result<(), String>)>>;

/// An execution provider. ONNX Runtime accesses its first member.
#[repr(C)]
pub struct Ep {
    base: OrtEp,
    ort: Ort,
    options: Options,
    logger: *const OrtLogger,
    library: &'static Library,
    engines: Engines,
    /// Identifies what compiled models are made for.
    compatibility: CString,
    /// Whether any nodes were claimed.
    has_taken: AtomicBool,
    /// The GPU memory for the session's tensors in ONNX Runtime; null if it keeps them on the host.
    memory: *const OrtMemoryDevice,
    /// The engine's answers about graphs.
    answers: Mutex<Answers>,
    /// The names of values that groups of several steps write.
    stepped: Mutex<HashSet<String>>,
    /// Where the session's plans share packed weights, if the engine has such a store.
    weights: Option<Arc<Weights>>,
    /// What made it, and releases it.
    _factory: Arc<dyn Any + Send + Sync>,
}

impl Ep {
    /// A provider, owned by the caller until [`Ep::release`]. `memory` is the GPU memory for ONNX Runtime's tensors.
    pub fn create(
        (ort, factory): (Ort, Arc<dyn Any + Send + Sync>),
        options: Options,
        logger: *const OrtLogger,
        memory: Option<*const OrtMemoryDevice>,
    ) -> Result<*mut OrtEp> {
        let library = Library::open()?;
        let engines = library.engines(&options)?;
        if !options.knobs.is_empty() {
            library.with_handle(|handle| engines.check_settings(handle, &options.knobs))?;
        }
        if let Some(path) = &options.report {
            open_report(path)?;
        }
        terminate::find(ort);
        let base = OrtEp {
            ort_version_supported: ort.version,
            get_name,
            get_capability,
            compile,
            release_node_compute_infos,
            optional: [ptr::null(); 3],
            on_run_start: Some(on_run_start),
            on_run_end: Some(on_run_end),
            memory: [ptr::null(); 2],
            compatibility: Some(compatibility),
            kernels: [ptr::null(); 3],
            create_profiler: Some(create_profiler),
            captured: [ptr::null(); 5],
            on_session_initialization_end: Some(on_session_initialization_end),
            get_default_memory_device: memory.map(|_| get_default_memory_device as _),
            later: [ptr::null(); 1],
        };
        let compatibility = CString::new(context::compatibility()).unwrap_or_default();
        let weights = Weights::new().filter(|_| engines.gpu().is_none()).map(Arc::new);
        let ep = Self {
            base,
            ort,
            options,
            logger,
            library,
            engines,
            compatibility,
            has_taken: AtomicBool::new(false),
            memory: memory.unwrap_or(ptr::null()),
            answers: Mutex::default(),
            stepped: Mutex::default(),
            weights,
            _factory: factory,
        };
        Ok(Box::into_raw(Box::new(ep)).cast())
    }

    /// Destroys a provider.
    ///
    /// # Safety
    /// The pointer is null or from [`Ep::create`], and this is its last use.
    pub unsafe fn release(ep: *mut OrtEp) {
        if !ep.is_null() {
            // SAFETY: the pointer is null or from [`Ep::create`], and this is its last use, as this function requires; it is that of the
            // whole struct.
            drop(unsafe { Box::from_raw(ep.cast::<Self>()) });
        }
    }

    /// Whether the engine computes a node's lowered graphs: asks about each graph once.
    fn ask(&self, lowering: &Lowering<'_>) -> std::result::Result<(), String> {
        let graphs = compiled::divide(self.library, &self.engines, &lowering.program, "node")?;
        let asked = graphs.stages.iter().filter_map(|stage| match &stage.work {
            Work::Graph { graph, .. } => Some(compiled::plain((**graph).clone()).0),
            Work::Host { .. } => None,
        });
        let asked: Vec<Graph> = asked.collect();
        let digest = asked.iter().fold(0, |all, graph| compiled::digest(graph).wrapping_add(all << 1));
        let answers = || self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |answers: &Answers| {
            answers
                .get(&digest)?
                .iter()
                .find(|(graphs, _)| *graphs == asked)
                .map(|(_, answer)| answer.clone())
        };
        if let Some(answer) = find(&answers()) {
            return answer;
        }
        let answer = compiled::check(self.library, &self.engines, &graphs).map_err(|failure| failure.text);
        answers().entry(digest).or_default().push((asked, answer.clone()));
        answer
    }

    /// The decisions about nodes, and the steps of each in its group.
    fn verdicts(&self, model: &Model) -> (Vec<Verdict>, Vec<usize>) {
        let mut samples = Samples::new(model);
        let mut candidates: Vec<_> = model
            .nodes
            .iter()
            .map(|node| {
                if operators::is_open(node) && self.engines.gpu().is_some() {
                    return Err("the number of its results is not known on GPUs".to_owned());
                }
                let is_small = |id: &usize| {
                    model.values.get(*id).and_then(|value| value.element).is_some_and(Element::is_small)
                };
                // A node EPContext has no inputs of these.
                if (self.engines.gpu().is_some() || self.options.context.is_on)
                    && node.inputs.iter().chain(&node.outputs).flatten().any(is_small)
                {
                    return Err("elements have 4 bits, or are floats of 8, on a GPU or in a compiled model"
                        .to_owned());
                }
                if !node.taken_by.is_empty() && node.taken_by.as_bytes() != NAME.to_bytes() {
                    return Err(format!("{} has taken it", node.taken_by));
                }
                partition::judge(model, node, self.options.take, &mut samples, &|lowering| self.ask(lowering))
            })
            .collect();
        // On GPUs nothing is read between steps.
        let way = (self.options.take, self.engines.gpu().is_none());
        let (mut verdicts, steps) = partition::divide_by_shapes(model, &mut candidates, way, samples);
        // Each compiled subgraph is one.
        let taken = |verdict: &Verdict| match verdict {
            Verdict::Taken(group) => *group + 1,
            Verdict::Left(_) => 0,
        };
        let mut next = verdicts.iter().map(taken).max().unwrap_or(0);
        for (node, verdict) in model.nodes.iter().zip(&mut verdicts) {
            if context::is_own(node) {
                *verdict = Verdict::Taken(next);
                next += 1;
            }
        }
        (verdicts, steps)
    }

    /// The subgraph of a fused node, one of `count` of a graph, and the path of its model.
    ///
    /// # Safety
    /// Graph and node are alive during the call.
    unsafe fn subgraph(
        &self,
        graph: *const OrtGraph,
        node: *const OrtNode,
        count: usize,
    ) -> Result<(Chain, PathBuf)> {
        let ort = self.ort;
        // SAFETY: graph and node are alive during the call, as this function requires.
        let (mut model, name, path) = unsafe {
            let name = ort.text("the name of a fused node", |to| ort.api.Node_GetName(node, to))?;
            let path = ort.text("the path of a model", |to| ort.api.Graph_GetModelPath(graph, to))?;
            (model::of_fused(ort, graph, node)?, name, PathBuf::from(path))
        };
        let mut saved = HashMap::new();
        let is_loaded = model.nodes.iter().any(context::is_own);
        if is_loaded {
            let folder = path.parent().map(Path::to_owned).unwrap_or_default();
            let loaded = context::load(&model, &folder)?;
            steps::check_loaded(&loaded.model, self.engines.gpu().is_some())?;
            (model, saved) = (loaded.model, loaded.plans);
        }
        let mut options = self.options.clone();
        if options.pool == Pool::Auto {
            options.pool = if count > FEW_SUBGRAPHS { Pool::Session } else { Pool::Engine };
        }
        let place = if self.memory.is_null() { Residence::Host } else { Residence::Gpu };
        let steps = self.steps(&model, is_loaded);
        let saved = (self.weights.as_ref(), Arc::new(saved));
        let chain =
            Chain::new((&name, model), &steps, &options, (self.library, &self.engines, place), saved)?;
        Ok((chain, path))
    }

    fn capability(&self, graph: *const OrtGraph, info: *mut OrtEpGraphSupportInfo) -> Result<()> {
        // SAFETY: ONNX Runtime's graph is alive during the call.
        let source = unsafe { model::of_graph(self.ort, graph) }?;
        // ONNX Runtime rejects fused nodes there: a function's body has no version for their domain, and 1.23 gives nodes of two graphs one name.
        let reason = if source.is_inlined {
            Some("ONNX Runtime fuses nothing in a function's body inside of another node")
        } else if self.ort.version < 24 && (source.is_nested || self.has_taken.load(Ordering::Relaxed)) {
            Some("ONNX Runtime 1.23 fuses nodes of one graph only, expected 1.24 or newer")
        } else {
            None
        };
        let (verdicts, steps) = match reason {
            Some(reason) => {
                (source.raw.iter().map(|_| Verdict::Left(reason.to_owned())).collect(), Vec::new())
            }
            None => self.verdicts(&source.model),
        };
        self.note_steps(&source.model, &verdicts, &steps);
        let groups = verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Taken(group) => Some(*group + 1),
            Verdict::Left(_) => None,
        });
        let groups = groups.max().unwrap_or(0);
        self.has_taken.fetch_or(groups > 0, Ordering::Relaxed);
        for group in 0..groups {
            let nodes: Vec<*const OrtNode> = source
                .raw
                .iter()
                .zip(&verdicts)
                .filter(|(_, verdict)| **verdict == Verdict::Taken(group))
                .map(|(node, _)| *node)
                .collect();
            let options = OrtNodeFusionOptions {
                ort_version_supported: self.ort.version,
                drop_constant_initializers: false,
            };
            // SAFETY: the nodes belong to the graph in question, and the array has the given number.
            let status = unsafe {
                self.ort.ep.EpGraphSupportInfo_AddNodesToFuse(
                    info,
                    nodes.as_ptr(),
                    nodes.len(),
                    &raw const options,
                )
            };
            self.ort.check(status, "taking nodes")?;
        }
        self.log(&source.model, &verdicts);
        self.report(&source.model, &verdicts)
    }

    /// Logs the reason for each node that is not claimed, in the session's log.
    fn log(&self, model: &Model, verdicts: &[Verdict]) {
        for (node, verdict) in model.nodes.iter().zip(verdicts) {
            if let Verdict::Left(reason) = verdict {
                let text = format!("hipDNN leaves {}: {reason}", node.title());
                self.ort.log(self.logger, INFORMATION, &text);
            }
        }
    }

    /// Writes a line of JSON to the report file from the options.
    fn report(&self, model: &Model, verdicts: &[Verdict]) -> Result<()> {
        let Some(path) = &self.options.report else { return Ok(()) };
        let nodes: Vec<serde_json::Value> = model
            .nodes
            .iter()
            .zip(verdicts)
            .map(|(node, verdict)| {
                let names = |ids: &[Option<usize>]| -> Vec<String> {
                    let name = |id: &usize| model.values.get(*id).map(|value| value.name.clone());
                    ids.iter().flatten().filter_map(name).collect()
                };
                let (group, reason) = match verdict {
                    Verdict::Taken(group) => (Some(*group), None),
                    Verdict::Left(reason) => (None, Some(reason.as_str())),
                };
                serde_json::json!({
                    "name": node.name, "domain": node.domain, "operator": node.operator, "since": node.since,
                    "inputs": names(&node.inputs), "outputs": names(&node.outputs), "subgraph": group, "reason": reason,
                })
            })
            .collect();
        let line = format!("{}\n", serde_json::json!({ "nodes": nodes }));
        let written = open_report(path)?.write_all(line.as_bytes());
        written.map_err(|error| cannot_report(path, &error))
    }
}

fn cannot_report(path: &Path, error: &std::io::Error) -> Failure {
    Failure::argument(format!("option report: {} cannot be written: {error}", path.display()))
}

/// The file of the option `report`, to be appended to.
fn open_report(path: &Path) -> Result<File> {
    let file = File::options().create(true).append(true).open(path);
    file.map_err(|error| cannot_report(path, &error))
}

/// # Safety
/// `ep` is one that this library made, and lives as long as the result.
unsafe fn of<'a>(ep: *mut OrtEp) -> &'a Ep {
    // SAFETY: ONNX Runtime passes what `Ep::create` made, which lives until it is released; it is never changed.
    unsafe { &*ep.cast::<Ep>() }
}

/// # Safety
/// ONNX Runtime calls this with a provider of this library; pointers are null or valid as its interface says.
unsafe extern "C" fn get_name(_: *const OrtEp) -> *const c_char {
    NAME.as_ptr()
}

/// # Safety
/// ONNX Runtime calls this with a provider of this library; pointers are null or valid as its interface says.
unsafe extern "C" fn get_capability(
    ep: *mut OrtEp,
    graph: *const OrtGraph,
    info: *mut OrtEpGraphSupportInfo,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its provider.
    let ep = unsafe { of(ep) };
    guard(ep.ort, "GetCapability", || ep.capability(graph, info))
}

/// # Safety
/// ONNX Runtime calls this with a provider of this library; pointers are null or valid as its interface says.
unsafe extern "C" fn compile(
    ep: *mut OrtEp,
    graphs: *const *const OrtGraph,
    fused: *const *const OrtNode,
    count: usize,
    infos: *mut *mut OrtNodeComputeInfo,
    contexts: *mut *mut OrtNode,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its provider.
    let ep = unsafe { of(ep) };
    guard(ep.ort, "Compile", || {
        let mut made = Vec::with_capacity(count);
        for at in 0..count {
            // SAFETY: both arrays have `count` entries, alive during the call.
            let (graph, node) = unsafe { (graphs.add(at).read(), fused.add(at).read()) };
            // SAFETY: graph and node are alive during the call.
            made.push(unsafe { ep.subgraph(graph, node, count) }?);
        }
        if ep.options.context.is_on && !contexts.is_null() {
            for (at, (subgraph, path)) in made.iter().enumerate() {
                let node = saved::node(ep.ort, subgraph, &ep.options, path)?;
                // SAFETY: the array has room for `count` nodes, which ONNX Runtime owns from here on.
                unsafe { contexts.add(at).write(node) };
            }
        }
        for (at, (subgraph, _)) in made.into_iter().enumerate() {
            // SAFETY: the array has room for `count` entries.
            unsafe { infos.add(at).write(Compute::create(ep.ort, subgraph)) };
        }
        Ok(())
    })
}

/// # Safety
/// ONNX Runtime calls this with a provider of this library; pointers are null or valid as its interface says.
unsafe extern "C" fn compatibility(ep: *mut OrtEp, _: *const OrtGraph) -> *const c_char {
    // SAFETY: ONNX Runtime passes its provider, which keeps the text.
    unsafe { of(ep) }.compatibility.as_ptr()
}

/// # Safety
/// ONNX Runtime calls this with a provider of this library; pointers are null or valid as its interface says.
unsafe extern "C" fn on_run_start(_: *mut OrtEp, options: *const OrtRunOptions) -> *mut OrtStatus {
    terminate::set_run(options);
    ptr::null_mut()
}

/// # Safety
/// ONNX Runtime calls this with a provider of this library; pointers are null or valid as its interface says.
unsafe extern "C" fn on_run_end(_: *mut OrtEp, _: *const OrtRunOptions, _: bool) -> *mut OrtStatus {
    terminate::set_run(ptr::null());
    ptr::null_mut()
}

/// # Safety
/// ONNX Runtime calls this with a provider of this library; pointers are null or valid as its interface says.
unsafe extern "C" fn create_profiler(ep: *mut OrtEp, made: *mut *mut OrtEpProfilerImpl) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its provider.
    let ep = unsafe { of(ep) };
    guard(ep.ort, "CreateProfiler", || {
        if made.is_null() {
            return Err(Failure::argument("CreateProfiler: the output is null"));
        }
        // SAFETY: `made` is not null, as was checked above, and callers pass one that is writable.
        unsafe { made.write(profile::create(ep.ort)) };
        Ok(())
    })
}

/// # Safety
/// ONNX Runtime calls this with a provider of this library; pointers are null or valid as its interface says.
unsafe extern "C" fn get_default_memory_device(
    ep: *const OrtEp,
    memory: *mut *const OrtMemoryDevice,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its provider.
    let ep = unsafe { of(ep.cast_mut()) };
    guard(ep.ort, "GetDefaultMemoryDevice", || {
        if memory.is_null() {
            return Err(Failure::argument("GetDefaultMemoryDevice: the output is null"));
        }
        // SAFETY: `memory` is not null, as was checked above, and callers pass one that is writable.
        unsafe { memory.write(ep.memory) };
        Ok(())
    })
}

/// The engines' answers are only needed while nodes are claimed.
///
/// # Safety
/// ONNX Runtime calls this with a provider of this library; pointers are null or valid as its interface says.
unsafe extern "C" fn on_session_initialization_end(ep: *mut OrtEp) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its provider.
    let ep = unsafe { of(ep) };
    guard(ep.ort, "OnSessionInitializationEnd", || {
        *ep.answers.lock().unwrap_or_else(PoisonError::into_inner) = Answers::default();
        ep.stepped.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    })
}

/// # Safety
/// ONNX Runtime calls this with a provider of this library; pointers are null or valid as its interface says.
unsafe extern "C" fn release_node_compute_infos(
    _: *mut OrtEp,
    infos: *mut *mut OrtNodeComputeInfo,
    count: usize,
) {
    for at in 0..count {
        // SAFETY: the array has `count` entries that `compile` made; each is released once.
        let info = unsafe { infos.add(at).read() };
        if !info.is_null() {
            // SAFETY: `compile` made it from a whole `Compute`, and each is released once.
            drop(unsafe { Box::from_raw(info.cast::<Compute>()) });
        }
    }
}
