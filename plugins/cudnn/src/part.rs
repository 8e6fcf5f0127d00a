//! A part of a graph that cuDNN computes in one call, and the parts that a graph is divided into.

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
use hipdnn_plugin_sdk::{PluginError, Refusal};
use parking_lot::Mutex;

use crate::compiled::{Compiled, Maker};
use crate::cudnn::Cudnn;
use crate::descriptor::uid;
use crate::handle::Ready;
use crate::knob::Options;
use crate::lowering::{Lowered, Place, lower};
use crate::lt::step;

/// The most tensors that are not virtual, with numbers and those in the workspace.
const MAX_PLACED: usize = 128;

/// How many graphs are remembered that were divided.
const DIVISIONS: usize = 32;

/// A part of a graph with cuDNN's plan.
#[derive(Debug)]
pub struct Part {
    /// The nodes, in order.
    pub nodes: Vec<usize>,
    /// The tensors that it is given, by their uids in the graph.
    pub tensors: Vec<i64>,
    compiled: Arc<Compiled>,
    /// cuDNN's uids of the tensors below.
    uids: Vec<i64>,
    sources: Vec<Source>,
    /// Bytes of its memory before those of cuDNN's plan.
    own: usize,
    /// What parts of these are filled with before each execution, by offsets.
    fills: Vec<(usize, Vec<u8>)>,
}

/// Where a tensor of cuDNN's is found.
#[derive(Debug)]
enum Source {
    /// One that the part is given, by its place, at a multiple of the number.
    Given(usize, usize),
    /// A number of the graph.
    Constant(Box<u64>),
    /// An offset in the part's memory.
    Scratch(usize),
}

impl Part {
    fn new(lowered: Lowered, nodes: Range<usize>, compiled: Arc<Compiled>) -> Result<Self, Refusal> {
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
                "cuDNN would get {count} tensors and numbers, expected at most {MAX_PLACED}"
            )));
        }
        let (own, fills) = (lowered.described.scratch, lowered.described.fills);
        Ok(Self { nodes: nodes.collect(), tensors: lowered.uids, compiled, uids, sources, own, fills })
    }

    /// Bytes of device memory that an execution needs beside the tensors that it is given.
    ///
    /// # Errors
    /// When they are more than the address space has.
    pub fn scratch(&self) -> Result<usize, Refusal> {
        let size = self.own.checked_add(self.compiled.workspace_size);
        size.ok_or_else(|| Refusal::new("the workspace would be larger than the address space"))
    }

    /// Whether cuDNN compiled kernels for it, as far as it says.
    pub fn is_runtime_compiled(&self) -> bool {
        self.compiled.is_runtime_compiled
    }

    /// What cuDNN writes of its plan; nothing where its engine cannot be written, and the plan is to be looked for again.
    ///
    /// # Errors
    /// When there is no cuDNN.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        Ok(self.compiled.json(Cudnn::find()?).unwrap_or_default())
    }

    /// Puts the work on the stream of the handle of cuDNN's that is ready.
    ///
    /// # Errors
    /// When a tensor is not aligned as was promised, or cuDNN fails.
    ///
    /// # Safety
    /// The tensors are those of the part, valid until the work is done, and `scratch` is as long valid for [`Part::scratch`] bytes.
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
        // SAFETY: this thread has the handle; the caller vouches for the tensors, and for memory that has room for what the plan needs
        // behind the part's own.
        unsafe { self.compiled.run(ready.maker.cudnn, ready.handle, &self.uids, pointers, workspace) }
    }
}

/// A graph that was divided: what it was planned with, and its parts.
struct Division {
    graph: Graph,
    options: Options,
    context: usize,
    parts: Vec<Range<usize>>,
}

/// What was divided in this process, the last at the end: whoever is asked whether a graph is supported plans it next.
static KNOWN: Mutex<VecDeque<Division>> = Mutex::new(VecDeque::new());

/// The parts of a graph: the whole graph if cuDNN takes it, else parts of it one after the other. `saved` is what was once found for it.
///
/// # Errors
/// What is not lowered, and what cuDNN has no engine for: of the whole graph where it is not to be divided, else of the first node that is
/// in no part that cuDNN takes.
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
        // A node that is refused for the same alone is in no part, and cuDNN need not be asked for the others.
        let is_of = |node| lower(prepared, node..node + 1).is_err_and(|own| own == *refusal);
        if !may_divide || (0..count).any(is_of) {
            return Err(Refusal::new(refusal.clone()).into());
        }
    }
    let maker = maker()?;
    let mut whole = Some(whole);
    let mut make = |nodes: Range<usize>| {
        if nodes.len() > 1 && has_attention(prepared, &nodes) {
            return Err(Refusal::new("attention is a part of its own").into());
        }
        let lowered = match whole.take_if(|_| nodes.len() == count) {
            Some(whole) => whole,
            None => lower(prepared, nodes.clone()),
        };
        let lowered = lowered.map_err(Refusal::new)?;
        // What another version of cuDNN wrote is made anew.
        let json = saved.of(&nodes.clone().collect::<Vec<_>>()).filter(|json| !json.is_empty());
        let loaded = json.and_then(|json| Compiled::load(maker, json).ok());
        let compiled = match loaded {
            Some(loaded) => Arc::new(loaded),
            None => Compiled::of(maker, &lowered.described, options)
                .map_err(|error| named(prepared, &nodes, error))?,
        };
        Ok(Part::new(lowered, nodes, compiled)?)
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

/// Says which node cuDNN refuses, where it is only one.
fn named(prepared: &Prepared, nodes: &Range<usize>, error: PluginError) -> PluginError {
    if nodes.len() == 1 { error.with_context(|text| prepared.refusal(nodes.start, text)) } else { error }
}

/// Whether nodes are attention or its gradients, which cuDNN is not asked for beside others: version 9.19 ends the process for some.
fn has_attention(prepared: &Prepared, nodes: &Range<usize>) -> bool {
    let is_attention =
        |problem: &Problem| matches!(problem, Problem::Attention(_) | Problem::AttentionGradients(_));
    prepared.problems.get(nodes.clone()).is_some_and(|problems| problems.iter().any(is_attention))
}

/// Whether a graph that cuDNN does not take whole is worth several calls. What NVRTC_ENGINE or CUBLASLT_ENGINE computes in fewer is left
/// to them: operations on elements, reductions and normalizations of rows, and chains behind products.
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
