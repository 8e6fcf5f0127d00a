//! Chains of operations that MIOpen fuses into one kernel: a forward convolution, a bias, a batch
//! normalization with given statistics and an activation, all of them optional.

mod problem;
mod training;

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use hipdnn_plugin_planner::prepare::{CheckedNode, Prepared, Readers};
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::convolution::Direction;
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::ffi::HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
use hipdnn_plugin_sdk::graph::{Graph, Operation, PointwiseMode};

use super::activation::{ActivationDesign, Function};
use super::batchnorm::{BatchnormDesign, Inference, Inverse};
use super::convolution::ConvolutionDesign;
use super::tensor_op::TensorOpDesign;
use super::{HostScalar, Step, Tensors};
use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::{
    ACTIVATION_Y, BATCHNORM_BIAS, BATCHNORM_EPSILON, BATCHNORM_MEAN, BATCHNORM_MOMENTUM, BATCHNORM_SCALE,
    BATCHNORM_VARIANCE, BATCHNORM_X, BATCHNORM_Y, BIAS, BIAS_Y, CONVOLUTION_W, CONVOLUTION_X, FLOAT,
    miopenTensorArgument_t,
};
use crate::operand::Shape;
use crate::solution::{Solution, argument};
use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;
use problem::available;
use training::Statistics;

/// Maximum number of tensors of a run: three of a convolution, a bias, five of a batch normalization, y; or
/// those of the gradient of a batch normalization with an activation.
const MAX_ARGUMENTS: usize = 13;

/// Everything that determines MIOpen's search for a fused kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chain {
    links: Vec<Link>,
    /// The shape behind the convolution, or of all tensors without one.
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Link {
    Convolution(Box<ConvolutionDesign>),
    Bias,
    Batchnorm,
    /// MIOpen's mode, and the bits of its parameters.
    Activation(c_int, [u64; 3]),
    /// A batch normalization with the statistics of x, and whether it updates running statistics.
    Training(bool),
    /// The gradient of a batch normalization with saved statistics.
    BatchnormGradient,
    /// MIOpen's mode, and the bits of its parameters.
    ActivationGradient(c_int, [u64; 3]),
}

/// Nodes that may become one step, in order.
pub struct Fusion {
    /// Their indices in the graph.
    pub nodes: Vec<usize>,
    chain: Chain,
    /// The tensors of a run except the batch normalization's ε and variance: MIOpen's ids, and the indices
    /// among the nodes' tensors.
    arguments: Vec<(c_uint, usize)>,
    spread: Option<Spread>,
    /// The statistics of a batch normalization in training.
    statistics: Option<Statistics>,
}

/// The variance of a batch normalization.
#[derive(Clone, Copy)]
struct Spread {
    slot: usize,
    /// None if the tensor has 1/√(variance + ε).
    epsilon: Option<HostScalar>,
    channels: c_int,
}

/// A chain while it is followed through the graph.
struct Builder<'a> {
    prepared: &'a Prepared,
    nodes: Vec<usize>,
    links: Vec<Link>,
    shape: Shape,
    arguments: Vec<(c_uint, usize)>,
    spread: Option<Spread>,
    /// Number of tensors of the nodes so far.
    tensors: usize,
    /// The last output: its uid, and its index among the nodes' tensors.
    result: (i64, usize),
}

/// The chains that begin at a node, longest first. Tensors between their nodes are virtual and have no other
/// readers.
pub fn chains(prepared: &Prepared, first: usize, readers: &Readers) -> Vec<Fusion> {
    if let Some(fusion) = training::forward(prepared, first, readers) {
        return vec![fusion];
    }
    if let Some(fusion) = training::gradient(prepared, first, readers) {
        return vec![fusion];
    }
    let mut found = Vec::new();
    let Some(mut builder) = Builder::begin(prepared, first) else { return found };
    while let Some(next) = next(&prepared.graph, builder.result.0, readers) {
        if builder.add(next).is_none() {
            break;
        }
        found.push(builder.fusion());
    }
    found.reverse();
    found
}

/// The only reader of a virtual tensor.
fn next(graph: &Graph, uid: i64, readers: &Readers) -> Option<usize> {
    match readers.get(&uid)?.as_slice() {
        [reader] if graph.tensor(uid)?.is_virtual => Some(*reader),
        _ => None,
    }
}

fn position(operation: &Operation, uid: i64) -> Option<usize> {
    operation.tensors().iter().position(|tensor| *tensor == uid)
}

fn bits(function: &Function) -> [u64; 3] {
    function.numbers.map(f64::to_bits)
}

impl<'a> Builder<'a> {
    fn begin(prepared: &'a Prepared, first: usize) -> Option<Self> {
        let CheckedNode { node, problem, .. } = prepared.node(first)?;
        let operation = &node.operation;
        let mut builder = Self {
            prepared,
            nodes: vec![first],
            links: Vec::new(),
            shape: Shape { data_type: FLOAT, dims: Vec::new(), strides: Vec::new() },
            arguments: Vec::new(),
            spread: None,
            tensors: operation.tensors().len(),
            result: (0, 0),
        };
        match problem {
            Problem::Convolution(convolution) if convolution.direction == Direction::Forward => {
                let design = ConvolutionDesign::of(convolution).ok().filter(|design| !design.has_margin())?;
                let [x, w, y] = design.slots;
                builder.arguments.extend([(CONVOLUTION_X, x), (CONVOLUTION_W, w)]);
                builder.shape = design.y.clone();
                builder.links.push(Link::Convolution(Box::new(design)));
                builder.result = (*operation.outputs().first()?, y);
            }
            Problem::Batchnorm(batchnorm) => {
                let design = BatchnormDesign::of(&prepared.graph, operation, batchnorm).ok()?;
                builder.shape = design.shape.clone();
                builder.arguments.push((BATCHNORM_X, design.inference()?.x));
                builder.batchnorm(&design, 0)?;
                builder.result.0 = *operation.outputs().first()?;
            }
            // Others cannot begin a chain and are computed alone.
            _ => return None,
        }
        Some(builder)
    }

    /// Appends the node that reads the last output. None if MIOpen has no kernel for that.
    fn add(&mut self, place: usize) -> Option<()> {
        let CheckedNode { node, problem, .. } = self.prepared.node(place)?;
        let (graph, operation) = (&self.prepared.graph, &node.operation);
        let base = self.tensors;
        let input = graph.tensor(self.result.0)?;
        let last = self.links.last()?;
        match (operation, problem) {
            (Operation::Pointwise(node), Problem::Pointwise(pointwise))
                if pointwise.mode == PointwiseMode::Add =>
            {
                if !matches!(last, Link::Convolution(_)) {
                    return None;
                }
                TensorOpDesign::of(graph, operation, pointwise).ok()?;
                let other = if node.in_0 == self.result.0 { node.in_1? } else { node.in_0 };
                let bias = pointwise
                    .inputs
                    .iter()
                    .find(|input| position(operation, other) == Some(input.operand.slot))?;
                let (dims, out) = (bias.operand.layout.dims(), pointwise.output.layout.dims());
                let channel = dims.len().checked_sub(out.len().checked_sub(1)?)?;
                let is_bias = dims.get(channel) == out.get(1)
                    && dims.iter().enumerate().all(|(axis, dim)| axis == channel || *dim == 1);
                let output = graph.tensor(node.out_0)?;
                let same = output.dims == input.dims && output.strides == input.strides;
                if !is_bias || !same {
                    return None;
                }
                self.links.push(Link::Bias);
                self.arguments.push((BIAS, base + bias.operand.slot));
                self.result = (node.out_0, base + pointwise.output.slot);
            }
            (_, Problem::Batchnorm(batchnorm)) => {
                if !matches!(last, Link::Convolution(_) | Link::Bias) {
                    return None;
                }
                let design = BatchnormDesign::of(graph, operation, batchnorm).ok()?;
                // The last output must be the x of the batch normalization, not a statistic.
                if position(operation, self.result.0) != Some(design.inference()?.x) {
                    return None;
                }
                self.batchnorm(&design, base)?;
                self.result.0 = *operation.outputs().first()?;
            }
            (Operation::Pointwise(node), Problem::Pointwise(pointwise)) if pointwise.inputs.len() == 1 => {
                if matches!(last, Link::Activation(..)) {
                    return None;
                }
                ActivationDesign::of(pointwise).ok()?;
                let function = Function::of(pointwise.mode, &pointwise.activation).ok()?;
                self.links.push(Link::Activation(function.mode, bits(&function)));
                self.result = (node.out_0, base + pointwise.output.slot);
            }
            _ => return None,
        }
        self.tensors += operation.tensors().len();
        self.nodes.push(place);
        Some(())
    }

    fn batchnorm(&mut self, design: &BatchnormDesign, base: usize) -> Option<()> {
        let Inference { y, mean, spread, epsilon, scale, bias, .. } = design.inference()?;
        self.links.push(Link::Batchnorm);
        self.arguments.extend([
            (BATCHNORM_SCALE, base + scale),
            (BATCHNORM_BIAS, base + bias),
            (BATCHNORM_MEAN, base + mean),
        ]);
        self.spread = Some(Spread {
            slot: base + spread,
            epsilon: epsilon.map(|epsilon| epsilon.moved(base)),
            channels: design.channels,
        });
        self.result.1 = base + y;
        Some(())
    }

    /// The chain so far.
    fn fusion(&self) -> Fusion {
        let result = match self.links.last() {
            Some(Link::Bias) => BIAS_Y,
            Some(Link::Batchnorm) => BATCHNORM_Y,
            _ => ACTIVATION_Y,
        };
        let mut arguments = self.arguments.clone();
        arguments.push((result, self.result.1));
        Fusion {
            nodes: self.nodes.clone(),
            chain: Chain { links: self.links.clone(), shape: self.shape.clone() },
            arguments,
            spread: self.spread,
            statistics: None,
        }
    }
}

impl Fusion {
    /// The tensors of the nodes, node by node, and those that exist only between the nodes.
    pub fn tensors(&self, graph: &Graph) -> (Vec<i64>, Vec<i64>) {
        let operations =
            || self.nodes.iter().filter_map(|place| graph.nodes.get(*place)).map(|node| &node.operation);
        let all = operations().flat_map(Operation::tensors).collect();
        // Only what the next node reads; statistics are outputs of the chain.
        let links = operations().zip(operations().skip(1));
        let between = links
            .flat_map(|(from, to)| {
                let read = to.inputs();
                from.outputs().into_iter().filter(move |uid| read.contains(uid))
            })
            .collect();
        (all, between)
    }

    /// The step that computes all nodes; none if MIOpen has no kernel for them.
    ///
    /// # Errors
    /// MIOpen's.
    pub fn make(
        &self,
        ready: &Ready<'_>,
        options: &Options,
        saved: &[u8],
    ) -> Result<Option<Box<dyn Step>>, PluginError> {
        let miopen = ready.runtime.miopen;
        if !available(miopen) {
            return Ok(None);
        }
        let solution = match Solution::of(ready, options, &self.chain, saved) {
            Ok(Some(solution)) => solution,
            Ok(None) => return Ok(None),
            // The workspace limit is exceeded; the nodes may need less one by one.
            Err(error) if error.status() == HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE => return Ok(None),
            Err(error) => return Err(error),
        };
        let inverse = match self.spread {
            Some(Spread { epsilon: None, channels, .. }) => {
                Some(Inverse::new(miopen, self.chain.shape.dims.len(), channels)?)
            }
            _ => None,
        };
        Ok(Some(Box::new(FusedStep {
            solution,
            arguments: self.arguments.clone(),
            spread: self.spread,
            inverse,
            statistics: self.statistics,
        })))
    }
}

struct FusedStep {
    solution: Solution,
    arguments: Vec<(c_uint, usize)>,
    spread: Option<Spread>,
    inverse: Option<Inverse>,
    statistics: Option<Statistics>,
}

impl FusedStep {
    /// Bytes of workspace before the solution's own, for the variance or unused statistics.
    fn own_size(&self) -> usize {
        self.inverse.as_ref().map_or(0, |inverse| inverse.size().next_multiple_of(ALIGNMENT))
            + self.statistics.as_ref().map_or(0, Statistics::workspace_size)
    }
}

impl Step for FusedStep {
    fn call(&self) -> &'static str {
        "miopenRunSolution"
    }

    fn workspace_size(&self) -> usize {
        self.own_size() + self.solution.workspace_size()
    }

    fn saved(&self) -> &[u8] {
        self.solution.saved()
    }

    unsafe fn run(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        let mut arguments = [argument(0, ptr::null_mut()); MAX_ARGUMENTS + 2];
        for (to, (id, slot)) in arguments.iter_mut().zip(&self.arguments) {
            *to = argument(*id, tensors.at(*slot));
        }
        let mut count = self.arguments.len();
        // ε and the weight of the new statistics.
        let mut scalars = (0.0_f64, 0.0_f64);
        if let Some(statistics) = &self.statistics {
            // SAFETY: the tensors are those of the chain, as this function requires.
            scalars = unsafe { statistics.begin(ready, tensors) }?;
            let numbers = [
                argument(BATCHNORM_EPSILON, (&raw mut scalars.0).cast()),
                argument(BATCHNORM_MOMENTUM, (&raw mut scalars.1).cast()),
            ];
            let more = statistics.arguments(tensors, workspace).into_iter().chain(numbers);
            for (to, argument) in arguments.iter_mut().skip(count).zip(more) {
                *to = argument;
                count += 1;
            }
        }
        if let Some(spread) = &self.spread {
            let mut variance = tensors.at(spread.slot);
            if let Some(inverse) = &self.inverse {
                // SAFETY: the workspace has room for a parameter, and the tensors are valid for their extent, as this function requires.
                unsafe { inverse.run(ready, variance, workspace) }?;
                variance = workspace;
            }
            if let Some(given) = &spread.epsilon {
                // SAFETY: a bound scalar is in host memory of its type, as the operation's tensors are passed.
                scalars.0 = unsafe { given.read(tensors) };
            }
            let more = [
                argument(BATCHNORM_VARIANCE, variance),
                argument(BATCHNORM_EPSILON, (&raw mut scalars.0).cast()),
            ];
            for (to, argument) in arguments.iter_mut().skip(count).zip(more) {
                *to = argument;
                count += 1;
            }
        }
        let arguments: &[miopenTensorArgument_t] = arguments.get(..count).unwrap_or_default();
        let rest = workspace.wrapping_byte_add(self.own_size());
        // SAFETY: the arguments are those of the problem, valid until the work is done, as this function requires, and ε is read during
        // the call.
        unsafe { self.solution.run(ready, arguments, rest) }
    }
}

#[cfg(test)]
mod tests;
