//! Parts of a graph that cuDNN computes in one call each.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use hipdnn_plugin_planner::divide::divide;
use hipdnn_plugin_planner::plan::Found;
use hipdnn_plugin_planner::prepare::Prepared;
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::batchnorm::Batchnorm;
use hipdnn_plugin_sdk::gpu::check_alignment;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::numerics::{CEnum, NumericalNote};
use hipdnn_plugin_sdk::{Numerics, PluginError, Refusal};
use parking_lot::Mutex;

use crate::compiled::{Compiled, Maker};
use crate::cudnn::Cudnn;
use crate::descriptor::uid;
use crate::handle::Ready;
use crate::knob::Options;
use crate::lowering::{Lowered, Place, lower};
use crate::lt::step;
use crate::matrices;

/// Maximum number of tensors that are not virtual, including constants and scratch tensors.
const MAX_PLACED: usize = 128;

/// Number of divided graphs that are remembered.
const DIVISIONS: usize = 32;

/// A part of a graph with its cuDNN plan.
#[derive(Debug)]
pub struct Part {
    /// The nodes, in order.
    pub nodes: Vec<usize>,
    /// The uids in the graph of the tensors passed to it.
    pub tensors: Vec<i64>,
    compiled: Arc<Compiled>,
    /// What cuDNN says that it does to numbers, nothing of a saved plan, and how matrix instructions add up.
    numerics: Box<Numerics>,
    /// cuDNN's uids of the tensors in `sources`.
    uids: Vec<i64>,
    sources: Vec<Source>,
    /// Bytes of its scratch memory before the plan's workspace.
    own: usize,
    /// Contents that parts of it are filled with before each execution, by offset.
    fills: Vec<(usize, Vec<u8>)>,
}

/// The location of a cuDNN tensor.
#[derive(Debug)]
enum Source {
    /// A tensor passed to the part, by its index, and its alignment.
    Given(usize, usize),
    /// A constant of the graph.
    Constant(Box<u64>),
    /// An offset in the part's scratch memory.
    Scratch(usize),
}

impl Part {
    fn new(
        lowered: Lowered,
        nodes: Vec<usize>,
        (compiled, numerics): (Arc<Compiled>, Numerics),
    ) -> Result<Self, Refusal> {
        let (mut uids, mut sources) = (Vec::new(), Vec::new());
        for (place, tensor) in lowered.described.tensors.iter().enumerate() {
            sources.push(match tensor.place {
                Place::Virtual => continue,
                Place::Given(index) => Source::Given(index, usize::try_from(tensor.alignment).unwrap_or(1)),
                Place::Host(index) => Source::Given(index, 1),
                Place::Constant(bytes) => Source::Constant(Box::new(u64::from_ne_bytes(bytes))),
                Place::Scratch(offset) => Source::Scratch(offset),
            });
            uids.push(uid(place));
        }
        if sources.len() > MAX_PLACED {
            let count = sources.len();
            return Err(Refusal::new(format!(
                "has {count} tensors and constants for cuDNN, expected at most {MAX_PLACED}"
            )));
        }
        let (own, fills) = (lowered.described.scratch, lowered.described.fills);
        Ok(Self {
            nodes,
            tensors: lowered.uids,
            compiled,
            numerics: Box::new(numerics),
            uids,
            sources,
            own,
            fills,
        })
    }

    /// Bytes of device memory that an execution needs in addition to the tensors passed.
    ///
    /// # Errors
    /// When they exceed the address space.
    pub fn scratch(&self) -> Result<usize, Refusal> {
        let size = self.own.checked_add(self.compiled.workspace_size);
        size.ok_or_else(|| Refusal::new("the workspace would be larger than the address space"))
    }

    /// What it does to numbers, as far as that is known.
    pub fn numerics(&self) -> Numerics {
        Numerics::clone(&self.numerics)
    }

    /// Whether cuDNN compiled kernels for it, as far as it tells.
    pub fn is_runtime_compiled(&self) -> bool {
        self.compiled.is_runtime_compiled
    }

    /// The plan as written by cuDNN; empty if its engine cannot be saved, so that the search must be
    /// repeated.
    ///
    /// # Errors
    /// When cuDNN is not available.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        Ok(self.compiled.json(Cudnn::find()?).unwrap_or_default())
    }

    /// Queues the work on the stream of a ready cuDNN handle.
    ///
    /// # Errors
    /// When a tensor is misaligned, or cuDNN fails.
    ///
    /// # Safety
    /// The tensors are those of the part, valid until the work is done, as is `scratch` for [`Part::scratch`]
    /// bytes.
    pub unsafe fn run(
        &self,
        ready: &Ready,
        tensors: &[*mut c_void],
        scratch: *mut c_void,
    ) -> Result<(), PluginError> {
        let mut pointers = [std::ptr::null_mut(); MAX_PLACED];
        for (pointer, source) in pointers.iter_mut().zip(&self.sources) {
            *pointer = match source {
                Source::Given(place, alignment) => {
                    let (Some(uid), Some(given)) = (self.tensors.get(*place), tensors.get(*place)) else {
                        return Err(PluginError::internal("a tensor that a part was not given"));
                    };
                    check_alignment(*uid, *given, *alignment)?;
                    *given
                }
                Source::Constant(number) => std::ptr::from_ref(&**number).cast_mut().cast(),
                Source::Scratch(offset) => scratch.wrapping_byte_add(*offset),
            };
        }
        let pointers = pointers.get(..self.sources.len()).unwrap_or_default();
        for (offset, bytes) in &self.fills {
            // SAFETY: the part's own memory has room for them, which it keeps until the work is done.
            unsafe { ready.upload(scratch.wrapping_byte_add(*offset), bytes) }?;
        }
        let workspace = scratch.wrapping_byte_add(self.own);
        // SAFETY: this thread has the handle; the tensors are valid until the work is done, and `scratch` has room for what the plan
        // needs behind the part's own, as this function requires.
        unsafe { self.compiled.run(ready.maker.cudnn, ready.handle, &self.uids, pointers, workspace) }
    }
}

/// A divided graph: the inputs of planning, and its parts.
struct Division {
    graph: Graph,
    options: Options,
    context: usize,
    parts: Vec<Range<usize>>,
}

/// Graphs divided in this process, latest last: after a query whether a graph is supported, it is usually
/// planned.
static KNOWN: Mutex<VecDeque<Division>> = Mutex::new(VecDeque::new());

/// The parts of a graph: the whole graph if cuDNN accepts it, else consecutive parts. `saved` contains
/// earlier results for it.
///
/// # Errors
/// What is not supported here or by cuDNN: for the whole graph if it is not to be divided, else for the first
/// node that is in no part that cuDNN accepts.
pub fn parts(
    maker: impl FnOnce() -> Result<Maker, PluginError>,
    prepared: &Prepared,
    options: &Options,
    saved: &Found,
) -> Result<Vec<Part>, PluginError> {
    let count = prepared.graph.nodes.len();
    let whole = lower(prepared, 0..count);
    let may_divide = may_divide(prepared);
    if let Err(refusal) = &whole {
        // If a single node is refused for the same reason, no part can contain it; skip the remaining
        // queries.
        let is_of = |node| lower(prepared, node..node + 1).is_err_and(|own| own == *refusal);
        if !may_divide || (0..count).any(is_of) {
            return Err(Refusal::new(refusal.clone()).into());
        }
    }
    let maker = maker()?;
    let mut whole = Some(whole);
    let mut make = |nodes: Range<usize>| {
        if nodes.len() > 1 && has_attention(prepared, &nodes) {
            return Err(Refusal::new("attention is not combined with other nodes").into());
        }
        let lowered = match whole.take_if(|_| nodes.len() == count) {
            Some(whole) => whole,
            None => lower(prepared, nodes.clone()),
        };
        let lowered = lowered.map_err(Refusal::new)?;
        // Plans saved by another version of cuDNN are made anew.
        let json = saved.of(&nodes.clone().collect::<Vec<_>>()).filter(|json| !json.is_empty());
        let loaded = json.and_then(|json| Compiled::load(maker, json).ok());
        let compiled = match loaded {
            Some(loaded) => Arc::new(loaded),
            None => Compiled::of(maker, &lowered.described, options)
                .map_err(|error| named(prepared, &nodes, error))?,
        };
        let nodes: Vec<usize> = nodes.collect();
        let noted = compiled.numerical.iter().filter_map(|note| NumericalNote::from_raw(*note));
        let numerics = noted.fold(Numerics::default(), Numerics::note);
        let numerics = matrices::of_nodes(prepared, &nodes, maker.capability(), numerics);
        Ok(Part::new(lowered, nodes, (compiled, numerics))?)
    };
    let context = maker.context.addr();
    let known = saved.ranges(count).or_else(|| known(&prepared.graph, options, context));
    if let Some(parts) = known {
        let made: Result<Vec<Part>, PluginError> = parts.into_iter().map(&mut make).collect();
        if made.is_ok() {
            return made;
        }
    }
    if !may_divide {
        return make(0..count).map(|part| vec![part]);
    }
    let made = divide(count, make)?;
    if made.len() > 1 {
        let range = |part: &Part| Some(*part.nodes.first()?..*part.nodes.last()? + 1);
        let parts = made.iter().filter_map(range).collect();
        remember(Division { graph: prepared.graph.clone(), options: options.clone(), context, parts });
    }
    Ok(made)
}

/// Adds the node to cuDNN's refusal, if there is only one.
fn named(prepared: &Prepared, nodes: &Range<usize>, error: PluginError) -> PluginError {
    if nodes.len() == 1 { error.with_context(|text| prepared.refusal(nodes.start, text)) } else { error }
}

/// Whether nodes include attention or its gradients, which cuDNN is not asked to fuse: version 9.19 crashes
/// the process for some.
fn has_attention(prepared: &Prepared, nodes: &Range<usize>) -> bool {
    let is_attention =
        |problem: &Problem| matches!(problem, Problem::Attention(_) | Problem::AttentionGradients(_));
    prepared.problems.get(nodes.clone()).is_some_and(|problems| problems.iter().any(is_attention))
}

/// Whether a graph that cuDNN does not accept whole is worth several calls. What NVRTC_ENGINE or
/// CUBLASLT_ENGINE computes in fewer kernels is left to them: pointwise operations, reductions,
/// normalizations of rows, and chains that begin with a matmul.
fn may_divide(prepared: &Prepared) -> bool {
    let needs_library = |problem: &Problem| match problem {
        Problem::Convolution(_)
        | Problem::Matmul(_)
        | Problem::Attention(_)
        | Problem::AttentionGradients(_) => true,
        Problem::Batchnorm(batchnorm) => !matches!(**batchnorm, Batchnorm::Inference(_)),
        Problem::Pointwise(_)
        | Problem::Mixture(_)
        | Problem::MixtureGradient(_)
        | Problem::Reduction(_)
        | Problem::Resample(_)
        | Problem::Normalization(_)
        | Problem::BlockScale(_) => false,
    };
    prepared.problems.len() > 1 && prepared.problems.iter().any(needs_library) && !step::takes(prepared)
}

impl Division {
    fn is_of(&self, graph: &Graph, options: &Options, context: usize) -> bool {
        self.context == context && self.options == *options && self.graph == *graph
    }
}

fn known(graph: &Graph, options: &Options, context: usize) -> Option<Vec<Range<usize>>> {
    let known = KNOWN.lock();
    known.iter().rev().find(|known| known.is_of(graph, options, context)).map(|known| known.parts.clone())
}

fn remember(division: Division) {
    let mut known = KNOWN.lock();
    known.retain(|other| !other.is_of(&division.graph, &division.options, division.context));
    if known.len() >= DIVISIONS {
        known.pop_front();
    }
    known.push_back(division);
}

#[cfg(test)]
mod tests;
