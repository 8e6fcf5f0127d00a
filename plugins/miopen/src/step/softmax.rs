//! Softmax, its logarithm and their gradients, which graphs express as these chains of nodes:
//!
//! | | Nodes |
//! |---|---|
//! | softmax | m = max x, d = x - m, e = exp d, s = sum e, y = e / s |
//! | its logarithm | m, d, e and s as before, l = log s, y = d - l |
//! | gradient of softmax | p = dy y, s = sum p, d = dy - s, dx = d y |
//! | gradient of its logarithm | s = sum dy, e = exp y, p = e s, dx = dy - p |

use std::collections::HashMap;
use std::ffi::{c_int, c_void};

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::layout::Layout;
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation, PointwiseMode, ReductionMode};

use super::{Design, ONE, Step, Tensors, ZERO, factor, missing, require};
use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::{Miopen, SOFTMAX_ACCURATE, SOFTMAX_CHANNEL, SOFTMAX_LOG};
use crate::object::Object;
use crate::operand::{Shape, memory_order, without_bfloat16};

/// Nodes that form one softmax.
pub struct Softmax {
    /// Their indices in the graph, in order.
    pub nodes: Vec<usize>,
    /// The tensors of the step.
    pub uids: Vec<i64>,
    /// The step.
    pub design: SoftmaxDesign,
}

/// A softmax described for MIOpen.
pub struct SoftmaxDesign {
    /// [outer, summed, 1, inner], whatever the dimensions were.
    shape: Shape,
    logarithm: bool,
    backward: bool,
}

/// Why the nodes around this one are not a softmax that MIOpen supports.
type Refused = (usize, Refusal);

/// Every softmax of a prepared graph, and every gradient of one.
///
/// # Errors
/// The index of a node that can only be computed as part of a softmax, and why MIOpen does not support that
/// softmax.
pub fn find(graph: &Graph, readers: &HashMap<i64, Vec<usize>>) -> Result<Vec<Softmax>, Refused> {
    let mut writers = HashMap::new();
    for (place, node) in graph.nodes.iter().enumerate() {
        writers.extend(node.operation.outputs().into_iter().map(|uid| (uid, place)));
    }
    let finder = Finder { graph, readers, writers };
    let mut found = Vec::new();
    for place in 0..graph.nodes.len() {
        let chain = if let Some(forward) = finder.forward(place) {
            Some(forward.map_err(|refusal| (place, format!("as part of a softmax: {refusal}")))?)
        } else {
            finder.logarithm_gradient(place).or_else(|| finder.gradient(place))
        };
        let Some(chain) = chain else { continue };
        match finder.softmax(&chain) {
            Ok(softmax) => found.push(softmax),
            // The nodes of this gradient can be computed one by one.
            Err(_) if chain.backward && !chain.logarithm => {}
            Err(refusal) => return Err((place, format!("as part of a softmax: {refusal}"))),
        }
    }
    Ok(found)
}

/// The nodes of a softmax candidate.
struct Chain {
    nodes: Vec<usize>,
    /// Tensors between the nodes, each with the nodes that may read it.
    between: Vec<(i64, Vec<usize>)>,
    /// x and y, or y, dy and dx.
    uids: Vec<i64>,
    /// The tensor with the sums.
    sum: i64,
    logarithm: bool,
    backward: bool,
}

struct Finder<'a> {
    graph: &'a Graph,
    readers: &'a HashMap<i64, Vec<usize>>,
    /// The node that writes each tensor.
    writers: HashMap<i64, usize>,
}

impl<'a> Finder<'a> {
    fn readers(&self, uid: i64) -> &[usize] {
        self.readers.get(&uid).map(Vec::as_slice).unwrap_or_default()
    }

    fn pointwise(&self, place: usize, mode: PointwiseMode) -> Option<&'a Pointwise> {
        match &self.graph.nodes.get(place)?.operation {
            Operation::Pointwise(node) if node.operation == mode => Some(node),
            _ => None,
        }
    }

    fn reduction(&self, place: usize, mode: ReductionMode) -> Option<&'a Reduction> {
        match &self.graph.nodes.get(place)?.operation {
            Operation::Reduction(node) if node.mode == mode => Some(node),
            _ => None,
        }
    }

    /// The pointwise node of this mode that writes a tensor.
    fn written_by(&self, uid: i64, mode: PointwiseMode) -> Option<(usize, &'a Pointwise)> {
        let place = *self.writers.get(&uid)?;
        Some((place, self.pointwise(place, mode)?))
    }

    /// The first matching node that reads a tensor.
    fn read_by<T>(&self, uid: i64, wanted: impl Fn(usize) -> Option<T>) -> Option<(usize, T)> {
        self.readers(uid).iter().find_map(|place| Some((*place, wanted(*place)?)))
    }

    /// The softmax whose exponentials this node computes: exp(x - max x); none if it is something else.
    fn forward(&self, exp: usize) -> Option<Result<Chain, Refusal>> {
        let powers = self.pointwise(exp, PointwiseMode::Exp)?;
        let (sub, below) = self.written_by(powers.in_0, PointwiseMode::Sub)?;
        let most = below.in_1?;
        let max = *self.writers.get(&most)?;
        let x = below.in_0;
        if self.reduction(max, ReductionMode::Max)?.in_ != x {
            return None;
        }
        Some(self.forward_of([max, sub, exp], [x, most, powers.in_0, powers.out_0]))
    }

    fn forward_of(
        &self,
        [max, sub, exp]: [usize; 3],
        [x, most, below, powers]: [i64; 4],
    ) -> Result<Chain, Refusal> {
        let sum_of = |place| self.reduction(place, ReductionMode::Add);
        let (add, sum) = self
            .read_by(powers, sum_of)
            .ok_or("the exponentials are not summed, expected a reduction add")?;
        let sum = sum.out;
        let mut nodes = vec![max, sub, exp, add];
        if let Some((div, node)) = self.read_by(sum, |place| self.pointwise(place, PointwiseMode::Div)) {
            if (node.in_0, node.in_1) != (powers, Some(sum)) {
                return Err("the dividend of the sum is not the exponentials".to_owned());
            }
            nodes.push(div);
            let between =
                vec![(most, vec![sub]), (below, vec![exp]), (powers, vec![add, div]), (sum, vec![div])];
            return Ok(Chain {
                nodes,
                between,
                uids: vec![x, node.out_0],
                sum,
                logarithm: false,
                backward: false,
            });
        }
        let log_of = |place| self.pointwise(place, PointwiseMode::Log);
        let (log, node) = self
            .read_by(sum, log_of)
            .ok_or("neither a quotient by the sum nor its logarithm is computed, expected one of them")?;
        let logarithm = node.out_0;
        let less = |place| {
            let node = self.pointwise(place, PointwiseMode::Sub)?;
            (node.in_0 == below && node.in_1 == Some(logarithm)).then_some(node.out_0)
        };
        let (less, y) = self
            .read_by(logarithm, less)
            .ok_or("the logarithm of the sum is not subtracted from x less its maximum")?;
        nodes.extend([log, less]);
        let between = vec![
            (most, vec![sub]),
            (below, vec![exp, less]),
            (powers, vec![add]),
            (sum, vec![log]),
            (logarithm, vec![less]),
        ];
        Ok(Chain { nodes, between, uids: vec![x, y], sum, logarithm: true, backward: false })
    }

    /// The gradient whose last node this is: (dy - sum(dy y)) y.
    fn gradient(&self, last: usize) -> Option<Chain> {
        let node = self.pointwise(last, PointwiseMode::Mul)?;
        let dx = node.out_0;
        [(node.in_0, node.in_1?), (node.in_1?, node.in_0)].into_iter().find_map(|(less, y)| {
            let (sub, difference) = self.written_by(less, PointwiseMode::Sub)?;
            let (dy, sum) = (difference.in_0, difference.in_1?);
            let add = *self.writers.get(&sum)?;
            let products = self.reduction(add, ReductionMode::Add)?.in_;
            let (mul, product) = self.written_by(products, PointwiseMode::Mul)?;
            if ![(dy, Some(y)), (y, Some(dy))].contains(&(product.in_0, product.in_1)) {
                return None;
            }
            Some(Chain {
                nodes: vec![mul, add, sub, last],
                between: vec![(products, vec![add]), (sum, vec![sub]), (less, vec![last])],
                uids: vec![y, dy, dx],
                sum,
                logarithm: false,
                backward: true,
            })
        })
    }

    /// The gradient whose exponentials this node computes: dy - exp(y) sum(dy).
    fn logarithm_gradient(&self, exp: usize) -> Option<Chain> {
        let node = self.pointwise(exp, PointwiseMode::Exp)?;
        let (y, powers) = (node.in_0, node.out_0);
        let (mul, node) = self.read_by(powers, |place| self.pointwise(place, PointwiseMode::Mul))?;
        let sum = if node.in_0 == powers { node.in_1? } else { node.in_0 };
        let products = node.out_0;
        let add = *self.writers.get(&sum)?;
        let dy = self.reduction(add, ReductionMode::Add)?.in_;
        let (sub, node) = self.read_by(products, |place| self.pointwise(place, PointwiseMode::Sub))?;
        if (node.in_0, node.in_1) != (dy, Some(products)) {
            return None;
        }
        Some(Chain {
            nodes: vec![add, exp, mul, sub],
            between: vec![(powers, vec![mul]), (sum, vec![mul]), (products, vec![sub])],
            uids: vec![y, dy, node.out_0],
            sum,
            logarithm: true,
            backward: true,
        })
    }

    fn layout(&self, uid: i64) -> Result<(DataType, Layout), Refusal> {
        let tensor = self.graph.tensor(uid).ok_or_else(|| format!("tensor {uid} is absent"))?;
        if tensor.value.is_some() || tensor.is_runtime_pass_by_value {
            return Err(format!("tensor {uid} is passed by value, expected device memory"));
        }
        Ok((tensor.data_type, Layout::of(tensor)?))
    }

    fn softmax(&self, chain: &Chain) -> Result<Softmax, Refusal> {
        for (uid, readers) in &chain.between {
            let mut others = self.readers(*uid).iter().filter(|place| !readers.contains(place));
            if let Some(other) = others.next() {
                return Err(format!("tensor {uid} is read by node {other}, too, expected its nodes alone"));
            }
            if !self.graph.tensor(*uid).is_some_and(|tensor| tensor.is_virtual) {
                return Err(format!("tensor {uid} is not virtual, as MIOpen gives the result alone"));
            }
        }
        for place in &chain.nodes {
            match self.graph.nodes.get(*place) {
                Some(node) if node.compute_type != DataType::Float => {
                    return Err(format!("compute type is {}, expected float", node.compute_type.name()));
                }
                _ => {}
            }
        }
        let first = *chain.uids.first().ok_or("it has no tensors")?;
        let (data_type, layout) = self.layout(first)?;
        without_bfloat16(&format!("tensor {first}"), data_type)?;
        for uid in &chain.uids {
            let (of, other) = self.layout(*uid)?;
            if (of, &other) != (data_type, &layout) {
                return Err(format!(
                    "tensor {uid} is {} with dims {:?} and strides {:?}, expected {} with {:?} and {:?} as tensor {first}",
                    of.name(),
                    other.dims(),
                    other.strides(),
                    data_type.name(),
                    layout.dims(),
                    layout.strides()
                ));
            }
        }
        let sum = self.graph.tensor(chain.sum).ok_or("the sum is absent")?;
        let shape = shape(first, data_type, &layout, &sum.dims)?;
        let mut nodes = chain.nodes.clone();
        nodes.sort_unstable();
        Ok(Softmax {
            nodes,
            uids: chain.uids.clone(),
            design: SoftmaxDesign { shape, logarithm: chain.logarithm, backward: chain.backward },
        })
    }
}

/// A tensor as [outer, summed, 1, inner], if the summed dimensions are adjacent in memory.
fn shape(uid: i64, data_type: DataType, layout: &Layout, left: &[i64]) -> Result<Shape, Refusal> {
    if left.len() != layout.rank() {
        return Err(format!("the sum has {} dimensions, expected {}", left.len(), layout.rank()));
    }
    if layout.extent() != layout.elements() || !layout.is_injective() {
        return Err(format!(
            "tensor {uid} has dims {:?} and strides {:?}, expected no gaps",
            layout.dims(),
            layout.strides()
        ));
    }
    let [mut outer, mut added, mut inner] = [1, 1, 1];
    for axis in memory_order(layout) {
        let dim = layout.dims().get(axis).copied().unwrap_or(1);
        let is_added = dim > 1 && left.get(axis) == Some(&1);
        match (is_added, added > 1) {
            _ if dim == 1 => {}
            (true, _) if inner > 1 => {
                return Err(format!(
                    "the dims summed from {:?} to {left:?} are not adjacent in memory",
                    layout.dims()
                ));
            }
            (true, _) => added *= dim,
            (false, true) => inner *= dim,
            (false, false) => outer *= dim,
        }
    }
    Shape::new("x", data_type, &[outer, added, 1, inner], &[added * inner, inner, inner, 1])
}

impl Design for SoftmaxDesign {
    fn check(&self, miopen: &Miopen) -> Result<(), PluginError> {
        require(&[
            ("miopenSoftmaxForward_V2", self.backward || miopen.miopenSoftmaxForward_V2.is_some()),
            ("miopenSoftmaxBackward_V2", !self.backward || miopen.miopenSoftmaxBackward_V2.is_some()),
        ])
    }

    fn make(&self, ready: &Ready<'_>, _: &Options, _: &[u8]) -> Result<Box<dyn Step>, PluginError> {
        let miopen = ready.runtime.miopen;
        self.check(miopen)?;
        Ok(Box::new(SoftmaxStep {
            descriptor: self.shape.descriptor(miopen)?,
            algorithm: if self.logarithm { SOFTMAX_LOG } else { SOFTMAX_ACCURATE },
            backward: self.backward,
        }))
    }
}

struct SoftmaxStep {
    descriptor: Object,
    algorithm: c_int,
    backward: bool,
}

impl Step for SoftmaxStep {
    fn call(&self) -> &'static str {
        if self.backward { "miopenSoftmaxBackward_V2" } else { "miopenSoftmaxForward_V2" }
    }

    unsafe fn run(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        _: *mut c_void,
    ) -> Result<(), PluginError> {
        let miopen = ready.runtime.miopen;
        let descriptor = self.descriptor.get();
        if self.backward {
            let backward =
                miopen.miopenSoftmaxBackward_V2.ok_or_else(|| missing("miopenSoftmaxBackward_V2"))?;
            // SAFETY: the descriptor is alive, and y, dy and dx are valid for it until the work is done, as this function requires.
            let status = unsafe {
                backward(
                    ready.handle(),
                    factor(&ONE),
                    descriptor,
                    tensors.at(0),
                    descriptor,
                    tensors.at(1),
                    factor(&ZERO),
                    descriptor,
                    tensors.at(2),
                    self.algorithm,
                    SOFTMAX_CHANNEL,
                )
            };
            return Ok(miopen.check("miopenSoftmaxBackward_V2", status)?);
        }
        let forward = miopen.miopenSoftmaxForward_V2.ok_or_else(|| missing("miopenSoftmaxForward_V2"))?;
        // SAFETY: the descriptor is alive, and x and y are valid for it until the work is done, as this function requires.
        let status = unsafe {
            forward(
                ready.handle(),
                factor(&ONE),
                descriptor,
                tensors.at(0),
                factor(&ZERO),
                descriptor,
                tensors.at(1),
                self.algorithm,
                SOFTMAX_CHANNEL,
            )
        };
        Ok(miopen.check("miopenSoftmaxForward_V2", status)?)
    }
}

#[cfg(test)]
mod tests;
