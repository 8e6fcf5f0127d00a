//! A graph as a sequence of MIOpen steps.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;

use hipdnn_plugin_planner::numerics::{Engine, LIBRARY, of_amd, sums};
use hipdnn_plugin_planner::plan::{self, Call, Found, MAX_TENSORS, Placed, StepTensors};
use hipdnn_plugin_planner::prepare::{CheckedNode, Prepared, Readers, prepare};
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::convolution::Direction;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::{DataType, Graph};
use hipdnn_plugin_sdk::numerics::note;
use hipdnn_plugin_sdk::payload::{Payload, Request};
use hipdnn_plugin_sdk::{Numerics, PluginError, Refusal};

use crate::handle::Ready;
use crate::intermediate::narrow;
use crate::knob::Options;
use crate::miopen::Miopen;
use crate::step::fusion::chains;
use crate::step::softmax::{self, Softmax};
use crate::step::{Design, Step, Tensors, design};

/// The format of saved plans.
pub const PAYLOAD: Payload = Payload { mark: *b"HMIO", version: 2, owner: "the MIOpen engines" };

/// A complete plan.
pub type Plan = plan::Plan<Made>;

/// A step ready to run.
pub struct Made {
    step: Box<dyn Step>,
    /// The nodes that it computes, in order.
    nodes: Vec<usize>,
    tensors: StepTensors,
    numerics: Numerics,
}

impl Call for Made {
    fn nodes(&self) -> &[usize] {
        &self.nodes
    }

    fn library(&self) -> &'static str {
        "MIOpen"
    }

    fn call(&self) -> Cow<'static, str> {
        self.step.call().into()
    }

    fn engine(&self) -> Engine {
        LIBRARY
    }

    fn numerics(&self) -> Numerics {
        self.numerics.clone()
    }
}

/// Checks that MIOpen supports every node of the graph, as far as this is known without a device: an existing MIOpen may be too old
/// for a node. Returns whether more depends on which fused kernels MIOpen has.
///
/// # Errors
/// The first unsupported node, and why, or the first function that is missing.
pub fn check(graph: &Graph, miopen: Option<&Miopen>) -> Result<bool, Refusal> {
    let (prepared, narrowed) = narrowed(graph)?;
    let has_functions = |design: &dyn Design, place: usize| {
        let missing = miopen.and_then(|miopen| design.check(miopen).err());
        let refusal = |error: PluginError| Refusal::new(prepared.refusal(place, error.message().to_owned()));
        missing.map_or(Ok(()), |error| Err(refusal(error)))
    };
    let mut together = HashSet::new();
    for softmax in softmaxes(&prepared, &prepared.readers())? {
        has_functions(&softmax.design, softmax.nodes.last().copied().unwrap_or_default())?;
        together.extend(softmax.nodes);
    }
    for node in prepared.nodes().filter(|node| !together.contains(&node.place)) {
        has_functions(&*design_of(&prepared, &node)?, node.place)?;
    }
    Ok(!narrowed.is_empty())
}

/// A prepared graph with the types that its steps compute, and the virtual tensors whose type was changed.
fn narrowed(graph: &Graph) -> Result<(Prepared, Vec<i64>), String> {
    let mut prepared = prepare(graph)?;
    let narrowed = narrow(&mut prepared.graph);
    if !narrowed.is_empty() {
        prepared.update_problems()?;
    }
    Ok((prepared, narrowed))
}

/// The softmaxes of a graph. A refusal names the node.
fn softmaxes(prepared: &Prepared, readers: &Readers) -> Result<Vec<Softmax>, Refusal> {
    softmax::find(&prepared.graph, readers)
        .map_err(|(place, refusal)| Refusal::new(prepared.refusal(place, refusal)))
}

/// The design of a node. A refusal names it.
fn design_of(prepared: &Prepared, node: &CheckedNode<'_>) -> Result<Box<dyn Design>, Refusal> {
    let count = node.node.operation.tensors().len();
    let design = match count {
        0..=MAX_TENSORS => design(&prepared.graph, node),
        _ => Err(format!("has {count} tensors, expected at most {MAX_TENSORS}")),
    };
    design.map_err(|refusal| Refusal::new(node.refusal(refusal)))
}

/// What MIOpen may do to the numbers of some nodes, as it does not tell which of its solutions does what.
fn numerics_of(prepared: &Prepared, nodes: &[usize], options: &Options) -> Numerics {
    let mut numerics = Numerics::default();
    for node in nodes.iter().filter_map(|place| prepared.node(*place)) {
        let scatters = matches!(node.problem, Problem::Resample(own) if own.backward);
        let repeats = options.deterministic && !options.benchmarking;
        numerics = numerics.note_if((scatters || sums(&node).is_some()) && !repeats, note::NONDETERMINISTIC);
        if let Problem::Convolution(own) = node.problem {
            let has_window = own.window.iter().take(own.spatial).any(|side| *side > 1);
            let [left, right] = match own.direction {
                Direction::Forward => [&own.x, &own.w],
                Direction::BackwardData => [&own.y, &own.w],
                Direction::BackwardFilter => [&own.x, &own.y],
            };
            numerics = [left, right]
                .into_iter()
                .fold(numerics, |numerics, operand| numerics.matrix_sums(of_amd(operand.data_type)))
                .note_if(has_window, note::WINOGRAD)
                .note_if(has_window && own.x.data_type == DataType::Float, note::FFT)
                // MIOpen rounds gradients of half to bfloat16 on gfx90a (its documentation, MI200 MFMA behavior specifics).
                .note_if(
                    own.x.data_type == DataType::Half && own.direction != Direction::Forward,
                    note::DOWN_CONVERT_INPUTS,
                )
                // Matrix instructions of gfx90a do so.
                .note_if(own.x.data_type == DataType::Half, note::FLUSH_SUBNORMALS);
        }
    }
    numerics
}

/// The steps of a graph, in order. A chain of nodes becomes one step if MIOpen has a fused kernel for it.
fn steps(
    ready: &Ready<'_>,
    prepared: &Prepared,
    options: &Options,
    saved: &Found,
) -> Result<Vec<Made>, PluginError> {
    let graph = &prepared.graph;
    let readers = prepared.readers();
    // Keyed by last node: inputs of a fused step may be written between its nodes.
    let mut fused: HashMap<usize, Made> = HashMap::new();
    let mut taken = vec![false; graph.nodes.len()];
    let take = |nodes: &[usize], taken: &mut [bool]| {
        for place in nodes {
            if let Some(taken) = taken.get_mut(*place) {
                *taken = true;
            }
        }
    };
    for Softmax { nodes, uids, design } in softmaxes(prepared, &readers)? {
        let Some(last) = nodes.last().copied() else { continue };
        let step = design
            .make(ready, options, &[])
            .map_err(|error| error.with_context(|text| prepared.refusal(last, text)))?;
        take(&nodes, &mut taken);
        let numerics = numerics_of(prepared, &nodes, options);
        fused.insert(last, Made { step, nodes, tensors: uids.into(), numerics });
    }
    for node in prepared.nodes() {
        if taken.get(node.place) == Some(&true) {
            continue;
        }
        for fusion in chains(prepared, node.place, &readers) {
            let Some(last) = fusion.nodes.last().copied() else { continue };
            // If a plan was saved with other steps, do not search for chains again.
            let known = if saved.is_empty() { Some(&[][..]) } else { saved.of(&fusion.nodes) };
            let Some(known) = known else { continue };
            let (all, inside) = fusion.tensors(graph);
            if all.len() > MAX_TENSORS {
                continue;
            }
            let step = fusion
                .make(ready, options, known)
                .map_err(|error| error.with_context(|text| node.refusal(text)))?;
            if let Some(step) = step {
                take(&fusion.nodes, &mut taken);
                let numerics = numerics_of(prepared, &fusion.nodes, options);
                let tensors = StepTensors { all, inside };
                fused.insert(last, Made { step, nodes: fusion.nodes, tensors, numerics });
                break;
            }
        }
    }
    let mut steps = Vec::with_capacity(graph.nodes.len());
    for node in prepared.nodes() {
        let place = node.place;
        if let Some(made) = fused.remove(&place) {
            steps.push(made);
        }
        if taken.get(place) == Some(&true) {
            continue;
        }
        let nodes = vec![place];
        let step = design_of(prepared, &node)?
            .make(ready, options, saved.of(&nodes).unwrap_or_default())
            .map_err(|error| error.with_context(|text| node.refusal(text)))?;
        let numerics = numerics_of(prepared, &nodes, options);
        steps.push(Made { step, nodes, tensors: node.node.operation.tensors().into(), numerics });
    }
    Ok(steps)
}

/// Plans a graph that [`check`] accepts. `saved` contains earlier results for it.
///
/// # Errors
/// What MIOpen has no solution for, and MIOpen's own errors; they name the node.
pub fn plan(
    ready: &Ready<'_>,
    request: Request,
    options: &Options,
    saved: &Found,
) -> Result<Plan, PluginError> {
    let (prepared, narrowed) = narrowed(&request.graph).map_err(Refusal::new)?;
    let steps = steps(ready, &prepared, options, saved)?;
    let Prepared { graph, unmarked, .. } = prepared;
    let placed =
        Placed::new(&graph, &unmarked, steps.iter().map(|made| &made.tensors)).map_err(Refusal::new)?;
    let mut between = placed.virtuals().places.iter().map(|place| place.uid);
    if let Some(uid) = between.find(|uid| narrowed.contains(uid)) {
        let data_type = graph.tensor(uid).map_or("another", |tensor| tensor.data_type.name());
        return Err(PluginError::not_applicable(format!(
            "tensor {uid}: data type is float, expected {data_type} as in the tensors that it is computed from, since it lies between two kernels"
        )));
    }
    let scratch = steps.iter().map(|made| made.step.workspace_size()).max().unwrap_or(0);
    Plan::new(ready.entered.device, request, steps, placed, scratch)
}

/// The plan as bytes.
///
/// # Errors
/// When a part exceeds the format's limit.
pub fn save(plan: &Plan) -> Result<Vec<u8>, PluginError> {
    let mut found = Found::default();
    for Made { step, nodes, .. } in plan.steps() {
        found.add(nodes, step.saved());
    }
    PAYLOAD.write_plan(plan.request(), &found.write()?)
}

/// Queues a plan's work on the stream of `ready`. Returns when MIOpen has accepted it, not when it is done.
///
/// # Errors
/// When the handle is of another device, a buffer is missing or MIOpen fails.
///
/// # Safety
/// As for [`plan::Plan::execute`].
pub unsafe fn execute(
    plan: &Plan,
    ready: &Ready<'_>,
    buffers: &[hipdnnPluginDeviceBuffer_t],
    workspace: *mut c_void,
) -> Result<(), PluginError> {
    let (device, stream) = (ready.entered.device, ready.entered.stream);
    let run = |made: &Made, tensors: &[*mut c_void], scratch| {
        // SAFETY: `execute` passes the plan's tensors, valid until the work is done, and a workspace with room for what the largest step
        // needs.
        unsafe { made.step.run(ready, &Tensors(tensors), scratch) }
    };
    // SAFETY: buffers and workspace are valid for the sizes of the plan.
    unsafe { plan.execute(device, stream, buffers, workspace, run) }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::BatchnormInference;
    use hipdnn_plugin_sdk::graph::{DataType, Node, Tensor};

    use super::*;

    #[test]
    fn parameters_in_half_are_refused_with_a_reason() {
        let half = |uid, dims: [i64; 4]| {
            Tensor::new(
                uid,
                DataType::Half,
                &dims,
                &[dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1],
            )
        };
        let image = |uid| half(uid, [2, 3, 4, 5]);
        let parameters = (2..=5).map(|uid| half(uid, [1, 3, 1, 1]));
        let operation = BatchnormInference { x: 1, mean: 2, inv_variance: 3, scale: 4, bias: 5, y: 6 }.into();
        let mut graph = Graph {
            tensors: std::iter::once(image(1)).chain(parameters).chain([image(6)]).collect(),
            nodes: vec![Node { name: "it".to_owned(), compute_type: DataType::Float, operation }],
            ..Graph::default()
        };
        // The result is not marked as an output.
        graph.tensors[5].is_virtual = true;
        let refusal = check(&graph, None).unwrap_err().to_string();
        assert!(
            refusal.contains("node 0 \"it\"") && refusal.contains("data type is half, expected float"),
            "{refusal}"
        );
        graph.tensors[1..5].iter_mut().for_each(|tensor| tensor.data_type = DataType::Float);
        assert_eq!(check(&graph, None), Ok(false));
        // The result is float, as frontends make virtual tensors: it must not receive values that were
        // rounded to half.
        graph.tensors[5].data_type = DataType::Float;
        let refusal = check(&graph, None).unwrap_err().to_string();
        assert!(refusal.contains("data type is float, expected half"), "{refusal}");
    }
}

#[cfg(test)]
mod numerics_tests;
