//! Divides a graph into fused parts.
//!
//! Element-wise nodes are computed while their operands are in cache: chains of them in one pass over memory,
//! and epilogues on each block of a producer's output. Intermediate tensors that only the part reads are
//! never stored. The backward pass of a RELU joins that of the batch normalization before it. Any other node
//! is its own part.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use hipdnn_plugin_planner::in_own_frame;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation, PointwiseMode, ReductionMode, Tensor};

use crate::dtype::element::Compute;
use crate::fusion::checked::may_exceed;
use crate::fusion::delayed;
use crate::fusion::exact;
use crate::fusion::node::plan_node_at;
use crate::fusion::quantized;
use crate::fusion::state::{CHAIN_SLOTS, Candidate, Fusion, is_chainable, result, slot_of, with_result};
use crate::fusion::table;
use crate::fusion::uses::Uses;
use crate::kernel::{Chosen, Kernel, Part, Refusal};
use crate::layout::MAX_RANK;
use crate::norm::rows::Fused;
use crate::pointwise::chain::{Chain, Input, MAX_INPUTS, MAX_STEPS, Value};
use crate::pointwise::program::can_compute;
use crate::pointwise::{Epilogue, plan_chain, plan_rows};
use crate::prepare::{CheckedNode, Prepared};
use crate::problem::batchnorm::{Batchnorm, Parameter, Spread};
use crate::problem::pointwise::Broadcast;
use crate::problem::reduction::Reduction;
use crate::problem::{Operand, Problem, pointers};
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::{batchnorm, conv, matmul, norm, reference};

/// Divides a graph into parts, listed in an order in which they can run.
///
/// # Errors
/// When no kernel computes a node.
pub fn parts(prepared: &Prepared, settings: Settings) -> Result<Vec<Part>, Refusal> {
    parts_at(prepared, Isa::detect(), settings)
}

/// The same for an instruction set, which the processor must have.
///
/// # Errors
/// When no kernel computes a node.
pub fn parts_at(prepared: &Prepared, isa: Isa, settings: impl Into<Settings>) -> Result<Vec<Part>, Refusal> {
    let settings = settings.into();
    let graph = &prepared.graph;
    let uses = Uses::of(graph);
    let mut taken = vec![false; graph.nodes.len()];
    let chain = |index, taken: &[bool]| {
        let fusion = Fusion::begin(prepared, &uses, index, taken, true);
        fusion.as_ref().map_or(0, Fusion::nodes_of_largest)
    };
    let mut parts = in_own_frame(|| quantized::parts(prepared, &uses, &mut taken, (isa, settings), chain));
    parts.extend(in_own_frame(|| table::parts(prepared, &uses, &mut taken, (isa, settings))));
    for node in prepared.nodes() {
        let index = node.place;
        if taken[index] {
            continue;
        }
        if let Some(part) = crate::fusion::relu_backward::part(prepared, &uses, index, isa, settings.threads)
        {
            part.members.iter().for_each(|member| taken[*member] = true);
            parts.push(part);
            continue;
        }
        let begun = |is_producer| Fusion::begin(prepared, &uses, index, &taken, is_producer);
        let mut fusion = begun(!is_chainable(&node.node.operation));
        // A batch normalization by planes is faster than the chain of its four operations, unless the chain is longer.
        if batchnorm::has_planes(&node) {
            let nodes_of_largest = fusion.as_ref().map_or(0, Fusion::nodes_of_largest);
            fusion = begun(true).filter(|own| own.nodes_of_largest() >= nodes_of_largest).or(fusion);
        }
        let fused = fusion.and_then(|fusion| {
            let larger = fusion.normalized(&taken, isa, settings);
            let larger = larger.or_else(|| in_own_frame(|| fusion.separable(&taken, isa, settings)));
            larger.or_else(|| fusion.part(isa, settings))
        });
        if let Some(part) = fused {
            part.members.iter().for_each(|member| taken[*member] = true);
            parts.push(part);
        } else {
            parts.push(Part::of_node(graph, node, |node| {
                plan_node_at(graph, node, isa, settings)
                    .or_else(|refusal| Ok(Box::new(Chosen::reference(reference::plan_node(node)?, refusal))))
            })?);
        }
    }
    // A part runs at the position of its last node: all operands exist by then.
    parts.sort_by_key(|part| part.node);
    Ok(parts)
}

impl<'a> Fusion<'a> {
    /// A fusion that begins with a node, as the chain's first member or its producer, grown with all free
    /// nodes that can join; `None` if nothing can follow the node.
    pub(crate) fn begin(
        prepared: &'a Prepared,
        uses: &'a Uses<'a>,
        index: usize,
        taken: &[bool],
        is_producer: bool,
    ) -> Option<Self> {
        let checked = prepared.node(index)?;
        let node = checked.node;
        let uid = result(&node.operation)?;
        let tensor = uses.tensors.get(&uid)?;
        if !tensor.is_virtual {
            return None;
        }
        let integers = exact::is_of_integers(&checked);
        let own = exact::compute_of(&checked).ok()?;
        let compute = if integers { Compute::Double } else { own };
        let dims = match &node.operation {
            Operation::Reduction(reduction) => uses.tensors.get(&reduction.in_)?.dims.clone(),
            _ => tensor.dims.clone(),
        };
        let mut fusion = Self {
            prepared,
            uses,
            compute,
            integers,
            dims,
            reduced: None,
            producer: None,
            members: Vec::new(),
            chain: Chain::default(),
            reads: Vec::new(),
            values: HashMap::new(),
            largest: None,
            without_reductions: None,
        };
        if is_producer {
            if !can_compute(compute, tensor.data_type) {
                return None;
            }
            fusion.producer = Some(index);
            fusion.members.push(index);
            // The last member determines its slot and strides.
            let operand = uses.operand(uid, 0)?;
            fusion.chain.inputs.push(Input::replaced(&operand));
            fusion.values.insert(uid, Value::Input(0));
        } else {
            fusion.add(checked)?;
        }
        fusion.grow(taken);
        Some(fusion)
    }

    /// How many nodes its largest part has.
    fn nodes_of_largest(&self) -> usize {
        self.largest.map_or(0, |largest| largest.members)
    }

    /// Adds element-wise nodes until none fits.
    fn grow(&mut self, taken: &[bool]) {
        let mut candidates = BinaryHeap::new();
        let mut seen = BTreeSet::new();
        loop {
            if let Some(uid) = self.last_result() {
                if !self.uses.tensors.get(&uid).is_some_and(|tensor| tensor.is_virtual) {
                    return;
                }
                for reader in self.uses.readers(uid) {
                    if seen.insert(*reader) {
                        candidates.push(Reverse(*reader));
                    }
                }
            }
            // In graph order, so that a candidate's operands join the chain before it.
            let next = std::iter::from_fn(|| candidates.pop().map(|Reverse(index)| index)).find(|index| {
                let node = self.prepared.graph.nodes.get(*index);
                !taken.get(*index).copied().unwrap_or(true)
                    && self.members.last().is_none_or(|last| last < index)
                    && node.is_some_and(|node| is_chainable(&node.operation))
            });
            let Some(node) = next.and_then(|index| self.prepared.node(index)) else { return };
            let feeders = crate::fusion::feeders::of(self, node.node, taken);
            let before = (!feeders.is_empty()).then(|| self.clone());
            let fed = feeders
                .into_iter()
                .all(|feeder| self.prepared.node(feeder).is_some_and(|node| self.add(node).is_some()));
            let mut added = fed && self.add(node).is_some();
            if let Some(before) = before.filter(|_| !added) {
                *self = before;
                added = self.add(node).is_some();
            }
            if added {
                self.note_if_complete();
            }
        }
    }

    pub(crate) fn last_result(&self) -> Option<i64> {
        self.members.last().and_then(|last| result(&self.prepared.graph.nodes.get(*last)?.operation))
    }

    /// Adds a node to the chain; on failure returns `None` and leaves the chain unchanged.
    fn add(&mut self, node: CheckedNode<'_>) -> Option<()> {
        let (steps, inputs, reads) = (self.chain.steps.len(), self.chain.inputs.len(), self.reads.len());
        let reduced = self.reduced.clone();
        let value = self.append(node);
        if value.is_none() || self.chain.inputs.len() > MAX_INPUTS || self.chain.steps.len() > MAX_STEPS {
            self.chain.steps.truncate(steps);
            self.chain.inputs.truncate(inputs);
            self.reads.truncate(reads);
            self.reduced = reduced;
            return None;
        }
        self.values.insert(result(&node.node.operation)?, value?);
        self.members.push(node.place);
        Some(())
    }

    fn append(&mut self, checked: CheckedNode<'_>) -> Option<Value> {
        let CheckedNode { node, problem, .. } = checked;
        let tensor = self.uses.tensors.get(&result(&node.operation)?)?;
        let is_single = self.is_rounded(&checked)?;
        if !can_compute(self.compute, tensor.data_type) {
            return None;
        }
        if self.integers && !matches!(problem, Problem::Pointwise(_)) {
            return None;
        }
        if let (Operation::Reduction(operation), Problem::Reduction(reduction)) = (&node.operation, problem) {
            return self.append_reduction(reduction, operation.in_, tensor);
        }
        let one = self.is_of_rows(&tensor.dims);
        if tensor.dims != self.dims && !one {
            return None;
        }
        match (&node.operation, problem) {
            // Batch normalizations of one value per row are not fused.
            (Operation::BatchnormInference(_), _) if one => None,
            (Operation::Pointwise(operation), Problem::Pointwise(pointwise)) => {
                let uids = [Some(operation.in_0), operation.in_1, operation.in_2];
                let mut operands = Vec::with_capacity(pointwise.inputs.len());
                for (input, uid) in pointwise.inputs.iter().zip(uids) {
                    let value = self.operand(*input, uid?)?;
                    operands.push(if is_single { self.rounded(value)? } else { value });
                }
                let mut value = self.chain.push(pointwise, operands);
                if let Some(step) = self.chain.steps.last_mut() {
                    step.one = one;
                    if is_single && step.stored != DataType::Float {
                        step.stored = DataType::Float;
                        value = self.chain.push_mode(PointwiseMode::Identity, vec![value], tensor.data_type);
                    }
                }
                Some(value)
            }
            (Operation::BatchnormInference(operation), Problem::Batchnorm(batchnorm)) => {
                let Batchnorm::Inference(inference) = **batchnorm else { return None };
                let Spread::InvVariance(inv) = inference.spread else { return None };
                let x = self.operand(of_own_shape(&inference.x), operation.x)?;
                let mut parameter = |parameter, uid| self.operand(by_channel(&inference.x, &parameter), uid);
                let mean = parameter(inference.mean, operation.mean)?;
                let inv = parameter(inv, operation.inv_variance)?;
                let scale = parameter(inference.scale, operation.scale)?;
                let bias = parameter(inference.bias, operation.bias)?;
                // The order of roundings of the kernel for one node.
                let own = dtype_of(self.compute);
                let deviation = self.chain.push_mode(PointwiseMode::Sub, vec![x, mean], own);
                let factor = self.chain.push_mode(PointwiseMode::Mul, vec![inv, scale], own);
                let scaled = self.chain.push_mode(PointwiseMode::Mul, vec![deviation, factor], own);
                Some(self.chain.push_mode(PointwiseMode::Add, vec![scaled, bias], tensor.data_type))
            }
            _ => None,
        }
    }

    /// Whether these dimensions are those of one value per row.
    fn is_of_rows(&self, dims: &[i64]) -> bool {
        let Some(reduced) = &self.reduced else { return false };
        dims.len() == self.dims.len()
            && dims
                .iter()
                .zip(&self.dims)
                .zip(reduced)
                .all(|((own, dim), reduced)| *own == if *reduced { 1 } else { *dim })
    }

    /// Adds a reduction of the chain's shape to one value per row.
    fn append_reduction(&mut self, reduction: &Reduction, input: i64, result: &Tensor) -> Option<Value> {
        if self.producer.is_some()
            || reduction.is_of_single()
            || self.uses.tensors.get(&input)?.dims != self.dims
        {
            return None;
        }
        // Products and sums of squares may overflow single precision although the result does not.
        let is_wide =
            matches!(reduction.mode, ReductionMode::Mul | ReductionMode::MulNoZeros | ReductionMode::Norm2);
        if is_wide && self.compute == Compute::Single || !crate::reduction::holds(reduction, self.compute) {
            return None;
        }
        let reduced = reduction.reduced.get(..self.dims.len())?.to_vec();
        if self.reduced.get_or_insert_with(|| reduced.clone()) != &reduced {
            return None;
        }
        let value = self.operand(of_own_shape(&reduction.x), input)?;
        Some(self.chain.push_reduction(reduction.mode, value, result.data_type))
    }

    /// The value of a tensor that a node reads: a member's result, or an input of the chain.
    fn operand(&mut self, broadcast: Broadcast, uid: i64) -> Option<Value> {
        if let Some(value) = self.values.get(&uid) {
            return Some(*value);
        }
        let written_by_producer = self.producer.and_then(|index| self.prepared.graph.nodes.get(index));
        if written_by_producer.is_some_and(|node| node.operation.outputs().contains(&uid))
            || !can_compute(self.compute, broadcast.operand.data_type)
        {
            return None;
        }
        let operand = Operand { slot: CHAIN_SLOTS + slot_of(&mut self.reads, uid), ..broadcast.operand };
        Some(self.chain.input(&Broadcast { operand, ..broadcast }))
    }

    /// Records the current state as a candidate if only members read the results of all members but the last.
    fn note_if_complete(&mut self) {
        let [inner @ .., _] = self.members.as_slice() else { return };
        let Some(last) = self.last_result() else { return };
        let are_internal = inner.iter().all(|member| {
            let Some(node) = self.prepared.graph.nodes.get(*member) else { return false };
            let own = result(&node.operation);
            node.operation.outputs().iter().all(|uid| {
                // A producer's other outputs, such as statistics, exist once the last member is done.
                if Some(*uid) != own {
                    return self.uses.readers(*uid).iter().all(|reader| self.members.last() < Some(reader));
                }
                self.uses.tensors.get(uid).is_some_and(|tensor| tensor.is_virtual)
                    && self.uses.readers(*uid).iter().all(|reader| self.members.contains(reader))
            })
        });
        // A producer writes into the last result's memory, in its own dtype.
        let fits = self.producer.is_none_or(|producer| {
            let own = self.prepared.graph.nodes.get(producer).and_then(|node| result(&node.operation));
            let data_type = |uid| self.uses.tensors.get(&uid).map(|tensor| tensor.data_type);
            let types = (own.and_then(data_type), data_type(last));
            let sums = self.prepared.problems.get(producer);
            let are_sums = matches!(sums, Some(Problem::Convolution(_) | Problem::Matmul(_)));
            // Or 32-bit integers in the same bytes, which the chain converts.
            types.0 == types.1 || (are_sums && types == (Some(DataType::Int32), Some(DataType::Float)))
        });
        // The reduction's own kernel sums in another order, and is as fast without whole rows around it.
        let has_rows = self.producer.is_some() || !self.chain.steps.iter().all(|step| step.one);
        if are_internal && fits && has_rows && !delayed::reads(self.prepared, self.uses, &self.members) {
            self.largest = Some(Candidate {
                members: self.members.len(),
                steps: self.chain.steps.len(),
                inputs: self.chain.inputs.len(),
                result: last,
            });
            if !self.chain.reduces() {
                self.without_reductions = self.largest;
            }
        }
    }

    /// The part of several nodes; `None` if fusing does not pay or no kernel exists.
    fn part(self, isa: Isa, settings: Settings) -> Option<Part> {
        let Self { largest, without_reductions, .. } = self;
        let part = largest.and_then(|largest| self.clone().part_of(largest, isa, settings));
        part.or_else(|| self.part_of(without_reductions?, isa, settings))
    }

    /// Returns to an earlier state.
    pub(crate) fn truncate_to(&mut self, largest: Candidate) {
        self.members.truncate(largest.members);
        self.chain.steps.truncate(largest.steps);
        self.chain.inputs.truncate(largest.inputs);
    }

    /// Assigns slots to the chain's inputs.
    pub(crate) fn assign_slots(&mut self, tensors: &mut Vec<i64>) -> Option<()> {
        for input in &mut self.chain.inputs {
            if let Some(read) = input.slot.checked_sub(CHAIN_SLOTS) {
                input.slot = slot_of(tensors, *self.reads.get(read)?);
            }
        }
        Some(())
    }

    /// The epilogue for a producer whose result is overwritten.
    pub(crate) fn epilogue_of<'b>(&'b mut self, output: &'b Operand, isa: Isa) -> Option<Epilogue<'b>> {
        let own = self.chain.inputs.first_mut()?;
        *own = Input { data_type: own.data_type, ..Input::replaced(output) };
        Some(Epilogue { chain: &self.chain, output, compute: self.compute, isa })
    }

    fn part_of(mut self, largest: Candidate, isa: Isa, settings: Settings) -> Option<Part> {
        self.truncate_to(largest);
        let index = *self.members.last()?;
        let (mut tensors, operation) =
            match self.producer.and_then(|index| self.prepared.graph.nodes.get(index)) {
                Some(node) => {
                    let operation = with_result(&node.operation, largest.result)?;
                    (pointers(&self.prepared.graph, &operation), Some(operation))
                }
                None => (vec![largest.result], None),
            };
        self.assign_slots(&mut tensors)?;
        let slot = tensors.iter().position(|uid| *uid == largest.result)?;
        let output = self.uses.operand(largest.result, slot)?;
        // A producer writes its values where the result will be.
        let writes_early = operation.is_some();
        let kernel = match operation {
            None if self.chain.reduces() => {
                let dims: Vec<usize> = self.dims.iter().map(|dim| *dim as usize).collect();
                plan_rows(&self.chain, &dims, &self.reduced?, &output, self.compute, isa, settings.threads)
                    .ok()?
            }
            None => plan_chain(&self.chain, &output, self.compute, isa, settings.threads).ok()?,
            Some(operation) => {
                let graph = &self.prepared.graph;
                let producer = self.prepared.node(self.producer?).filter(|node| !may_exceed(node.problem))?;
                let compute = exact::compute_of(&producer).ok()?;
                let epilogue = self.epilogue_of(&output, isa)?;
                plan_producer(graph, &operation, compute, settings, epilogue).ok()?
            }
        };
        Some(Part { node: index, members: self.members, tensors, kernel, writes_early })
    }
}

/// Plans a node with an epilogue.
fn plan_producer(
    graph: &Graph,
    operation: &Operation,
    compute: Compute,
    settings: Settings,
    epilogue: Epilogue,
) -> Result<Box<dyn Kernel>, Refusal> {
    let isa = epilogue.isa;
    // The producer writes its own dtype, which the chain reads.
    let own = epilogue.chain.inputs.first().map_or(epilogue.output.data_type, |input| input.data_type);
    let mut problem = Problem::of(graph, operation)?;
    match &mut problem {
        Problem::Convolution(convolution) => {
            convolution.y.data_type = own;
            conv::plan(convolution, compute, isa, settings.of(graph, operation), Some(epilogue))
        }
        Problem::Matmul(matmul) => {
            matmul.c.data_type = own;
            matmul::plan(matmul, compute, isa, settings.of(graph, operation), Some(epilogue))
        }
        Problem::Batchnorm(batchnorm) => {
            batchnorm::plan(batchnorm, compute, isa, settings.threads, Some(epilogue))
        }
        Problem::Normalization(normalization) => {
            let fused = Fused { prologue: None, epilogue: Some(epilogue.plan()?) };
            norm::plan(normalization, compute, isa, settings.threads, fused)
        }
        Problem::Pointwise(_)
        | Problem::Attention(_)
        | Problem::AttentionGradients(_)
        | Problem::Mixture(_)
        | Problem::MixtureGradient(_)
        | Problem::Reduction(_)
        | Problem::Resample(_)
        | Problem::BlockScale(_) => {
            Err(format!("operation is {}, which has no epilogue", operation.spec().name))
        }
    }
}

/// The dtype of the compute type.
fn dtype_of(compute: Compute) -> DataType {
    match compute {
        Compute::Single => DataType::Float,
        Compute::Double => DataType::Double,
    }
}

/// An operand of the chain's own shape. Dimensions of 1 get stride 0 as elsewhere: equal operands are one
/// input.
fn of_own_shape(operand: &Operand) -> Broadcast {
    let mut strides = [0; MAX_RANK];
    for ((to, stride), dim) in strides.iter_mut().zip(operand.layout.strides()).zip(operand.layout.dims()) {
        *to = if *dim == 1 { 0 } else { *stride };
    }
    Broadcast { operand: *operand, strides }
}

/// One value per channel of x.
fn by_channel(x: &Operand, parameter: &Parameter) -> Broadcast {
    let operand = Operand { slot: parameter.slot, data_type: parameter.data_type, layout: x.layout };
    let mut strides = [0; MAX_RANK];
    if let Some(stride) = strides.get_mut(1) {
        *stride = parameter.stride;
    }
    Broadcast { operand, strides }
}
