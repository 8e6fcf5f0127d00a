//! A graph made ready to run: steps in order, and where each finds its tensors.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;

use hipdnn_plugin_planner::prepare::{Prepared, Readers, prepare};
use hipdnn_plugin_planner::workspace::{Place, place_in_steps};
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::gpu::plan_memory::PlanMemory;
use hipdnn_plugin_sdk::gpu::workspace::{ALIGNMENT, Workspace, same_device};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::payload::Payload;
use hipdnn_plugin_sdk::wire::{self, EngineConfig, Layout};
use hipdnn_plugin_sdk::{PluginError, Refusal, bound, buffer};

use crate::handle::Ready;
use crate::intermediate::narrow;
use crate::knob::Options;
use crate::step::fusion::chains;
use crate::step::softmax::{self, Softmax};
use crate::step::{Design, Step, Tensors, design};

/// The most tensors that one operation may have.
const MAX_TENSORS: usize = 32;

/// The form of saved plans.
const PAYLOAD: Payload = Payload { mark: *b"HMIO", version: 2, owner: "the MIOpen engines" };

/// A graph with every decision made. It may run with any handle of the device that it was made on.
pub struct Plan {
    graph: Graph,
    config: EngineConfig,
    steps: Vec<Placed>,
    /// HIP's number of the device that the solutions are for.
    device: i32,
    memory: PlanMemory,
}

struct Placed {
    step: Box<dyn Step>,
    /// The nodes that the step computes, in order.
    nodes: Vec<usize>,
    slots: Box<[Slot]>,
}

/// Where a tensor of a step lies.
#[derive(Clone, Copy)]
enum Slot {
    /// In the caller's memory.
    Bound(i64),
    /// In the workspace, at this offset in bytes.
    Workspace(usize),
    /// An output that nobody marked as one: where the caller binds it, else in the workspace at this offset.
    Unmarked(i64, usize),
    /// The step knows its value from the graph, or it exists only inside the step.
    Value,
}

/// Whether every node of the graph is one that MIOpen computes, as far as that can be found out without a device. Answers whether
/// more depends on which nodes MIOpen has one kernel for.
///
/// # Errors
/// The first node that is not, and why.
pub fn check(graph: &Graph) -> Result<bool, Refusal> {
    let (prepared, narrowed) = narrowed(graph)?;
    let together: HashSet<usize> =
        softmaxes(&prepared, &prepared.readers())?.into_iter().flat_map(|softmax| softmax.nodes).collect();
    for node in prepared.nodes().filter(|node| !together.contains(&node.place)) {
        check_count(node.node.operation.tensors().len())
            .and_then(|()| design(&prepared.graph, &node).map(drop))
            .map_err(|refusal| node.refusal(refusal))?;
    }
    Ok(!narrowed.is_empty())
}

/// A prepared graph with the types that its steps compute, and the virtual tensors that have another type than the graph says.
fn narrowed(graph: &Graph) -> Result<(Prepared, Vec<i64>), String> {
    let mut prepared = prepare(graph)?;
    let narrowed = narrow(&mut prepared.graph);
    if !narrowed.is_empty() {
        prepared.update_problems()?;
    }
    Ok((prepared, narrowed))
}

/// The softmaxes of a graph. The refusal names the node.
fn softmaxes(prepared: &Prepared, readers: &Readers) -> Result<Vec<Softmax>, Refusal> {
    softmax::find(&prepared.graph, readers)
        .map_err(|(place, refusal)| Refusal::new(prepared.refusal(place, refusal)))
}

fn check_count(count: usize) -> Result<(), String> {
    if count > MAX_TENSORS {
        return Err(format!("has {count} tensors, expected at most {MAX_TENSORS}"));
    }
    Ok(())
}

/// What the steps of a saved plan found out.
#[derive(Clone, Debug, Default)]
pub struct Saved(HashMap<usize, Found>);

/// What one step found out.
#[derive(Clone, Debug)]
struct Found {
    /// The number of nodes that it computes.
    nodes: usize,
    bytes: Vec<u8>,
}

impl Saved {
    /// What the step with this last node found out; empty where that is not known. None where the plan had no such step.
    fn step(&self, last: usize, nodes: usize) -> Option<&[u8]> {
        if self.0.is_empty() {
            return Some(&[]);
        }
        self.0.get(&last).filter(|found| found.nodes == nodes).map(|found| found.bytes.as_slice())
    }

    /// The graph and the configuration of a saved plan, and what its steps found out.
    ///
    /// # Errors
    /// When the bytes are no saved plan of this plugin.
    pub fn read(bytes: &[u8]) -> Result<(Graph, EngineConfig, Self), PluginError> {
        let [config, mut found, graph] = PAYLOAD.read(bytes)?;
        let mut steps = HashMap::new();
        while !found.is_empty() {
            let (last, nodes, bytes, rest) =
                part(found).ok_or_else(|| PluginError::invalid_value("a saved solution ends too early"))?;
            steps.insert(last, Found { nodes, bytes: bytes.to_vec() });
            found = rest;
        }
        Ok((wire::read(graph)?, wire::read_engine_config(config)?, Self(steps)))
    }
}

/// The first part of what was found: last node, number of nodes, bytes; and what comes after it.
fn part(found: &[u8]) -> Option<(usize, usize, &[u8], &[u8])> {
    let (last, found) = found.split_first_chunk::<4>()?;
    let (nodes, found) = found.split_first_chunk::<4>()?;
    let (size, found) = found.split_first_chunk::<4>()?;
    let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
    let (bytes, rest) = found.split_at_checked(number(size))?;
    Some((number(last), number(nodes), bytes, rest))
}

/// A step with the tensors that it touches.
struct Made {
    step: Box<dyn Step>,
    /// The nodes that it computes, in order.
    nodes: Vec<usize>,
    /// The step's tensors.
    uids: Vec<i64>,
    /// Those of them that exist only inside the step.
    inside: Vec<i64>,
}

/// The steps of a graph, in order. Chains of nodes become one step where MIOpen has a kernel for them.
fn steps(
    ready: &Ready<'_>,
    prepared: &Prepared,
    options: &Options,
    saved: &Saved,
) -> Result<Vec<Made>, PluginError> {
    let graph = &prepared.graph;
    let readers = prepared.readers();
    // By last node: what a fused step reads may be written between its nodes.
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
        fused.insert(last, Made { step, nodes, uids, inside: Vec::new() });
    }
    for node in prepared.nodes() {
        if taken.get(node.place) == Some(&true) {
            continue;
        }
        for fusion in chains(prepared, node.place, &readers) {
            let Some(last) = fusion.nodes.last().copied() else { continue };
            let Some(known) = saved.step(last, fusion.nodes.len()) else { continue };
            let (uids, inside) = fusion.tensors(graph);
            if uids.len() > MAX_TENSORS {
                continue;
            }
            let step = fusion
                .make(ready, options, known)
                .map_err(|error| error.with_context(|text| node.refusal(text)))?;
            if let Some(step) = step {
                take(&fusion.nodes, &mut taken);
                fused.insert(last, Made { step, nodes: fusion.nodes, uids, inside });
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
        let uids = node.node.operation.tensors();
        let design = check_count(uids.len())
            .and_then(|()| design(graph, &node))
            .map_err(|refusal| Refusal::new(node.refusal(refusal)))?;
        let step = design
            .make(ready, options, saved.step(place, 1).unwrap_or_default())
            .map_err(|error| error.with_context(|text| node.refusal(text)))?;
        steps.push(Made { step, nodes: vec![place], uids, inside: Vec::new() });
    }
    Ok(steps)
}

impl Plan {
    /// Plans a graph that [`check`] accepts.
    ///
    /// # Errors
    /// What MIOpen has no solution for, and MIOpen's own errors; they name the node. `saved` is what steps of the same graph
    /// once found out.
    pub fn new(
        ready: &Ready<'_>,
        original: &Graph,
        config: EngineConfig,
        options: &Options,
        saved: &Saved,
    ) -> Result<Self, PluginError> {
        let (prepared, narrowed) = narrowed(original).map_err(Refusal::new)?;
        let made = steps(ready, &prepared, options, saved)?;
        let Prepared { graph, unmarked, .. } = prepared;
        let touched: Vec<Vec<i64>> = made
            .iter()
            .map(|made| made.uids.iter().copied().filter(|uid| !made.inside.contains(uid)).collect())
            .collect();
        let virtuals = place_in_steps(&graph, &unmarked, touched.iter().map(Vec::as_slice), ALIGNMENT)
            .map_err(Refusal::new)?;
        if let Some(place) = virtuals.places.iter().find(|place| narrowed.contains(&place.uid)) {
            let data_type = graph.tensor(place.uid).map_or("another", |tensor| tensor.data_type.name());
            return Err(PluginError::not_applicable(format!(
                "tensor {}: data type is float, expected {data_type} as in the tensors that it is computed from, since it lies between two kernels",
                place.uid
            )));
        }
        let slot = |place: &Place| match unmarked.contains(&place.uid) {
            true => Slot::Unmarked(place.uid, place.offset),
            false => Slot::Workspace(place.offset),
        };
        let mut slot_of: HashMap<i64, Slot> =
            virtuals.places.iter().map(|place| (place.uid, slot(place))).collect();
        let mut steps = Vec::with_capacity(made.len());
        let mut scratch = 0;
        for Made { step, nodes, uids, inside } in made {
            scratch = scratch.max(step.workspace_size());
            let slots = uids.into_iter().map(|uid| match slot_of.entry(uid) {
                _ if inside.contains(&uid) => Slot::Value,
                Entry::Occupied(slot) => *slot.get(),
                Entry::Vacant(slot) => {
                    let has_value = graph.tensor(uid).is_some_and(|tensor| tensor.value.is_some());
                    *slot.insert(if has_value { Slot::Value } else { Slot::Bound(uid) })
                }
            });
            let slots = slots.collect();
            steps.push(Placed { step, nodes, slots });
        }
        let workspace = Workspace::new(virtuals.size, scratch)?;
        let memory = PlanMemory::new(Gpu::Hip(ready.runtime.hip), workspace);
        Ok(Self { graph: original.clone(), config, steps, device: ready.device, memory })
    }

    /// Makes the memory that a plan has itself, for a plan that will be executed.
    ///
    /// # Errors
    /// HIP's.
    pub fn with_memory(self) -> Result<Self, PluginError> {
        self.memory.make_first()?;
        Ok(self)
    }

    /// The plan as bytes: the configuration, what the steps found out, and the graph.
    ///
    /// # Errors
    /// When a part is larger than the form allows.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        let mut found = Vec::new();
        for Placed { step, nodes, .. } in &self.steps {
            let bytes = step.saved();
            for number in [nodes.last().copied().unwrap_or_default(), nodes.len(), bytes.len()] {
                let number = u32::try_from(number).map_err(|_| {
                    PluginError::internal(format!("{number} is too large a number for a saved plan"))
                })?;
                found.extend(number.to_le_bytes());
            }
            found.extend(bytes);
        }
        PAYLOAD.write(&[
            &wire::write_engine_config(&self.config),
            &found,
            &wire::write(&self.graph, Layout::G2)?,
        ])
    }

    /// Bytes of device memory that callers of [`Plan::execute`] are asked for, at any address.
    pub fn workspace_size(&self) -> usize {
        self.memory.workspace_size()
    }

    /// Puts the work of the graph on the stream of `ready`. Returns when MIOpen has taken it, not when it is done.
    ///
    /// # Errors
    /// When the handle is another device's, a buffer is missing or MIOpen fails.
    ///
    /// # Safety
    /// The buffers are device memory (host memory where a tensor is passed by value at execution), valid for their tensors
    /// until the work is done, and `workspace` is null or valid for [`Plan::workspace_size`] bytes as long.
    pub unsafe fn execute(
        &self,
        ready: &Ready<'_>,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        same_device(self.device, ready.device)?;
        self.memory.run(workspace, ready.stream, |[virtuals, scratch]| {
            let mut pointers = [std::ptr::null_mut(); MAX_TENSORS];
            for Placed { step, slots, .. } in &self.steps {
                for (pointer, slot) in pointers.iter_mut().zip(slots) {
                    *pointer = match *slot {
                        Slot::Bound(uid) => buffer(buffers, uid)?,
                        Slot::Workspace(offset) => virtuals.wrapping_byte_add(offset),
                        Slot::Unmarked(uid, offset) => {
                            bound(buffers, uid).unwrap_or(virtuals.wrapping_byte_add(offset))
                        }
                        Slot::Value => std::ptr::null_mut(),
                    };
                }
                let tensors = Tensors(pointers.get(..slots.len()).unwrap_or_default());
                // SAFETY: the tensors are in the operation's order; the caller vouches for the bound ones and for a workspace that,
                // once aligned, has room for the virtual tensors and for what the largest step needs.
                unsafe { step.run(ready, &tensors, scratch) }?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::BatchnormInference;
    use hipdnn_plugin_sdk::graph::{DataType, Node, Tensor};

    use super::*;

    /// What was found for one step that ends with node `last`.
    fn found(last: u32, nodes: u32, bytes: &[u8]) -> Vec<u8> {
        let numbers = [last, nodes, bytes.len() as u32];
        numbers.iter().flat_map(|number| number.to_le_bytes()).chain(bytes.iter().copied()).collect()
    }

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
        // Nobody marked the result.
        graph.tensors[5].is_virtual = true;
        let refusal = check(&graph).unwrap_err().to_string();
        assert!(
            refusal.contains("node 0 \"it\"") && refusal.contains("data type is half, expected float"),
            "{refusal}"
        );
        graph.tensors[1..5].iter_mut().for_each(|tensor| tensor.data_type = DataType::Float);
        assert_eq!(check(&graph), Ok(false));
        // The result as wide as frontends make what is virtual: no number that was rounded too early is written to it.
        graph.tensors[5].data_type = DataType::Float;
        let refusal = check(&graph).unwrap_err().to_string();
        assert!(refusal.contains("data type is float, expected half"), "{refusal}");
    }

    #[test]
    fn what_steps_found_is_read_by_their_last_node() {
        let bytes = [found(2, 3, b"chain"), found(3, 1, b"")].concat();
        let (last, nodes, solution, rest) = part(&bytes).unwrap();
        assert_eq!((last, nodes, solution), (2, 3, &b"chain"[..]));
        assert_eq!(part(rest), Some((3, 1, &b""[..], &b""[..])));
        for cut in 0..17 {
            assert_eq!(part(&bytes[..cut]), None, "{cut} bytes");
        }
        assert_eq!(part(&[0xff; 64]), None);
        let saved = Saved(HashMap::from([(2, Found { nodes: 3, bytes: solution.to_vec() })]));
        assert_eq!(saved.step(2, 3), Some(&b"chain"[..]));
        // A plan that was saved with other steps is not searched for chains again.
        assert_eq!((saved.step(2, 2), saved.step(1, 2)), (None, None));
        assert_eq!(Saved::default().step(1, 2), Some(&[][..]));
    }
}
