//! The execution provider of a session: says what it takes, compiles that, and executes it.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use crate::compiled::{self, Input, Subgraph};
use crate::failure::{Failure, Result};
use crate::library::Library;
use crate::lowering::{Lowering, Work};
use crate::model::{self, Element, Model};
use crate::options::Options;
use crate::ort::*;
use crate::partition::{self, Verdict};

/// The provider's name.
pub const NAME: &CStr = c"HipDNNExecutionProvider";

/// `ORT_LOGGING_LEVEL_INFO`.
const INFORMATION: c_int = 1;

/// An execution provider. ONNX Runtime knows it by its first member.
#[repr(C)]
pub struct Ep {
    base: OrtEp,
    ort: Ort,
    options: Options,
    logger: *const OrtLogger,
    library: &'static Library,
    engine: i64,
    /// What the engine said of graphs, by their text.
    answers: Mutex<HashMap<String, std::result::Result<(), String>>>,
}

impl Ep {
    /// A provider, owned by whoever calls until it is given to [`Ep::release`].
    pub fn create(ort: Ort, options: Options, logger: *const OrtLogger) -> Result<*mut OrtEp> {
        let library = Library::open()?;
        let engine = library.engine(&options.engine)?;
        let base = OrtEp {
            ort_version_supported: ort.version,
            get_name,
            get_capability,
            compile,
            release_node_compute_infos,
            optional: [ptr::null(); 8],
            later: [ptr::null(); 12],
        };
        let ep = Self { base, ort, options, logger, library, engine, answers: Mutex::default() };
        Ok(Box::into_raw(Box::new(ep)).cast())
    }

    /// Ends a provider.
    ///
    /// # Safety
    /// The pointer is null or from [`Ep::create`], and this is its last use.
    pub unsafe fn release(ep: *mut OrtEp) {
        if !ep.is_null() {
            // SAFETY: the caller vouches for the pointer, which is that of the whole struct.
            drop(unsafe { Box::from_raw(ep.cast::<Self>()) });
        }
    }

    /// Whether the engine computes what a node was lowered to: each graph is asked about once.
    fn ask(&self, lowering: &Lowering<'_>) -> std::result::Result<(), String> {
        let graphs = lowering.program.divide("node")?;
        let mut text = String::new();
        for stage in &graphs.stages {
            if let Work::Graph { graph, .. } = &stage.work {
                let unnamed = graph.nodes.iter().map(|node| (node.compute_type, &node.operation));
                text += &format!("{:?} {:?}\n", unnamed.collect::<Vec<_>>(), graph.tensors);
            }
        }
        let answers = || self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers().get(&text) {
            return answer.clone();
        }
        let answer = compiled::check(self.library, self.engine, &graphs).map_err(|failure| failure.text);
        answers().insert(text, answer.clone());
        answer
    }

    fn verdicts(&self, model: &Model) -> Vec<Verdict> {
        let candidates: Vec<_> = model
            .nodes
            .iter()
            .map(|node| {
                if !node.taken_by.is_empty() && node.taken_by.as_bytes() != NAME.to_bytes() {
                    return Err(format!("{} has taken it", node.taken_by));
                }
                partition::judge(model, node, self.options.take, &|lowering| self.ask(lowering))
            })
            .collect();
        partition::divide(model, &candidates, self.options.take)
    }

    fn capability(&self, graph: *const OrtGraph, info: *mut OrtEpGraphSupportInfo) -> Result<()> {
        // SAFETY: ONNX Runtime's graph is alive during the call.
        let source = unsafe { model::of_graph(self.ort, graph) }?;
        // ONNX Runtime refuses fused nodes there: that graph has no version of their domain.
        let verdicts = if source.is_inlined {
            let reason = "ONNX Runtime fuses nothing in a function's body inside of another node";
            source.raw.iter().map(|_| Verdict::Left(reason.to_owned())).collect()
        } else {
            self.verdicts(&source.model)
        };
        let groups = verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Taken(group) => Some(*group + 1),
            Verdict::Left(_) => None,
        });
        for group in 0..groups.max().unwrap_or(0) {
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
            // SAFETY: the nodes are of the graph that is asked about, and the array has the number that is given.
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

    /// The reason for each node that is left, in the session's log.
    fn log(&self, model: &Model, verdicts: &[Verdict]) {
        for (node, verdict) in model.nodes.iter().zip(verdicts) {
            if let Verdict::Left(reason) = verdict {
                let text = format!("hipDNN leaves {}: {reason}", node.title());
                self.ort.log(self.logger, INFORMATION, &text);
            }
        }
    }

    /// A line of JSON in the file that the options name.
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
        let cannot =
            |error: std::io::Error| Failure::argument(format!("option report: {}: {error}", path.display()));
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(cannot)?;
        file.write_all(line.as_bytes()).map_err(cannot)
    }
}

unsafe fn of<'a>(ep: *mut OrtEp) -> &'a Ep {
    // SAFETY: ONNX Runtime passes what `Ep::create` made, which lives until it is released; it is never changed.
    unsafe { &*ep.cast::<Ep>() }
}

unsafe extern "C" fn get_name(_: *const OrtEp) -> *const c_char {
    NAME.as_ptr()
}

unsafe extern "C" fn get_capability(
    ep: *mut OrtEp,
    graph: *const OrtGraph,
    info: *mut OrtEpGraphSupportInfo,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its provider.
    let ep = unsafe { of(ep) };
    guard(ep.ort, "GetCapability", || ep.capability(graph, info))
}

unsafe extern "C" fn compile(
    ep: *mut OrtEp,
    graphs: *const *const OrtGraph,
    fused: *const *const OrtNode,
    count: usize,
    infos: *mut *mut OrtNodeComputeInfo,
    _contexts: *mut *mut OrtNode,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes its provider.
    let ep = unsafe { of(ep) };
    guard(ep.ort, "Compile", || {
        let mut made = Vec::with_capacity(count);
        for at in 0..count {
            // SAFETY: both arrays have `count` entries, alive during the call.
            let (graph, node) = unsafe { (graphs.add(at).read(), fused.add(at).read()) };
            // SAFETY: as above.
            let (model, name) = unsafe {
                let name = ep.ort.text("the name of a fused node", |to| ep.ort.api.Node_GetName(node, to))?;
                (model::of_fused(ep.ort, graph, node)?, name)
            };
            made.push(Subgraph::new(&name, model, ep.options.clone(), ep.library, ep.engine)?);
        }
        for (at, subgraph) in made.into_iter().enumerate() {
            // SAFETY: the array has room for `count` entries.
            unsafe { infos.add(at).write(Compute::create(ep.ort, subgraph)) };
        }
        Ok(())
    })
}

unsafe extern "C" fn release_node_compute_infos(
    _: *mut OrtEp,
    infos: *mut *mut OrtNodeComputeInfo,
    count: usize,
) {
    for at in 0..count {
        // SAFETY: the array has `count` entries that `compile` made; each is released once.
        let info = unsafe { infos.add(at).read() };
        if !info.is_null() {
            // SAFETY: as above; the pointer is that of the whole struct.
            drop(unsafe { Box::from_raw(info.cast::<Compute>()) });
        }
    }
}

/// What executes a fused node. ONNX Runtime knows it by its first member.
#[repr(C)]
struct Compute {
    base: OrtNodeComputeInfo,
    ort: Ort,
    subgraph: Subgraph,
}

impl Compute {
    fn create(ort: Ort, subgraph: Subgraph) -> *mut OrtNodeComputeInfo {
        let base =
            OrtNodeComputeInfo { ort_version_supported: ort.version, create_state, compute, release_state };
        Box::into_raw(Box::new(Self { base, ort, subgraph })).cast()
    }

    fn run(&self, context: *mut OrtKernelContext) -> Result<()> {
        let (ort, api) = (self.ort, self.ort.api);
        let count = self.subgraph.model().inputs.len();
        // SAFETY: the context is alive during the call, as all values that it hands out.
        let inputs = (0..count).map(|at| unsafe { self.input(context, at) }).collect::<Result<Vec<_>>>()?;
        let output = |at: usize, dims: &[i64]| {
            // SAFETY: the context is alive, the dimensions have the number that is given, and the value is that of the output.
            unsafe {
                let value = ort.value("making an output", ptr::null_mut(), |to| {
                    api.KernelContext_GetOutput(context, at, dims.as_ptr(), dims.len(), to)
                })?;
                ort.value("the memory of an output", ptr::null_mut(), |to| {
                    api.GetTensorMutableData(value, to)
                })
            }
        };
        // SAFETY: ONNX Runtime's tensors have as many elements as their shapes say, in host memory.
        unsafe { self.subgraph.execute(&inputs, output) }
    }

    unsafe fn input(&self, context: *mut OrtKernelContext, at: usize) -> Result<Input> {
        let (ort, api) = (self.ort, self.ort.api);
        // SAFETY: the caller vouches for the context.
        let value =
            ort.value("an input", ptr::null(), |to| unsafe { api.KernelContext_GetInput(context, at, to) })?;
        if value.is_null() {
            return Err(Failure::ep(format!("hipDNN: input {at} is absent")));
        }
        let (element, dims) = if ort.version >= 24 {
            let (mut kind, mut dims, mut count) = (0, ptr::null(), 0);
            // SAFETY: the value is alive during the call, and so are the dimensions that it points to.
            let status = unsafe {
                api.GetTensorElementTypeAndShapeDataReference(
                    value,
                    &raw mut kind,
                    &raw mut dims,
                    &raw mut count,
                )
            };
            ort.check(status, "the shape of an input")?;
            let dims = if count == 0 || dims.is_null() {
                Vec::new()
            } else {
                // SAFETY: ONNX Runtime points to as many dimensions as it says.
                unsafe { std::slice::from_raw_parts(dims, count) }.to_vec()
            };
            (kind, dims)
        } else {
            // SAFETY: the value is alive during the call; what describes it is ours to release.
            unsafe {
                let info =
                    ort.value("an input's type", ptr::null_mut(), |to| api.GetTensorTypeAndShape(value, to))?;
                let element = ort.value("an input's type", 0, |to| api.GetTensorElementType(info, to));
                let dims = ort.array(
                    "an input's shape",
                    0_i64,
                    |count| api.GetDimensionsCount(info, count),
                    |items, count| api.GetDimensions(info, items, count),
                );
                api.ReleaseTensorTypeAndShapeInfo(info);
                (element?, dims?)
            }
        };
        // SAFETY: as above.
        let data =
            ort.value("an input's memory", ptr::null(), |to| unsafe { api.GetTensorData(value, to) })?;
        Ok(Input { dims, element: Element::from_onnx(element), data })
    }
}

unsafe extern "C" fn create_state(
    info: *mut OrtNodeComputeInfo,
    _: *mut OrtNodeComputeContext,
    state: *mut *mut c_void,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes what `compile` made. Runs share it, so there is no other state.
    let ort = unsafe { (*info.cast::<Compute>()).ort };
    guard(ort, "CreateState", || {
        if state.is_null() {
            return Err(Failure::argument("CreateState: the output is null"));
        }
        // SAFETY: the output was checked above.
        unsafe { state.write(info.cast()) };
        Ok(())
    })
}

unsafe extern "C" fn compute(
    info: *mut OrtNodeComputeInfo,
    _: *mut c_void,
    context: *mut OrtKernelContext,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes what `compile` made, which lives until it is released; it is never changed.
    let compute = unsafe { &*info.cast::<Compute>() };
    guard(compute.ort, "Compute", || compute.run(context))
}

unsafe extern "C" fn release_state(_: *mut OrtNodeComputeInfo, _: *mut c_void) {}
