//! Chains of nodes that one library call computes: a matmul, factors, a summand, a bias and an activation, in
//! this order.

mod call;
mod links;
mod sums;

use crate::Refusal;
use crate::layout::MAX_RANK;
use crate::prepare::{CheckedNode, Prepared, Readers, prepare};
use crate::problem::matmul::Matmul;
use crate::problem::{Operand, Problem};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode, operation};
use hipdnn_plugin_sdk::{PluginError, Refusal as PluginRefusal};

use crate::product::Product;
pub use call::{Scalar, Tensors};
pub use sums::{Summed, Sums};

/// The library's activation functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// max(0, x)
    Relu,
    /// GELU, tanh approximation.
    Gelu,
    /// x / (1 + exp(-x))
    Swish,
    /// x times the derivative of that GELU at the auxiliary matrix.
    GeluBackward,
}

/// A computation, without the tensors' uids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chain {
    /// The matmul with its summand.
    pub product: Product,
    /// Whether accumulation is in double precision.
    pub double: bool,
    /// The bits of alpha, a double.
    pub alpha: u64,
    /// The type of the bias, which has an element for each row of the matmul.
    pub bias: Option<DataType>,
    /// The activation.
    pub activation: Option<Activation>,
    /// Number of scales in device memory that multiply the matmul, as for 8-bit floats.
    pub scales: usize,
    /// Sums computed along with the matmul.
    pub sums: Option<Sums>,
}

/// A chain of nodes of a graph.
#[derive(Clone, Debug)]
pub struct Part {
    /// The nodes, in order.
    pub nodes: Vec<usize>,
    /// The matmul and what follows it, each node reading the output of the previous one.
    pub links: Vec<usize>,
    /// What they compute.
    pub chain: Chain,
    /// The tensors' uids.
    pub tensors: Tensors<i64>,
}

impl AsRef<Self> for Part {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The longest chain that begins with this matmul.
///
/// # Errors
/// Why neither the matmul alone nor a chain that begins with it can be computed.
fn longest(prepared: &Prepared, first: usize, readers: &Readers, taken: &[bool]) -> Result<Part, Refusal> {
    let mut builder = Builder::begin(prepared, readers, taken, first)?;
    let mut longest = builder.part();
    // A node that cannot join the chain is reported when its turn comes.
    while let Some(place) = builder.next() {
        if builder.add(place).is_err() {
            break;
        }
        // An intermediate result may have a type that only exists in registers.
        let part = builder.part();
        if part.is_ok() || longest.is_err() {
            longest = part;
        }
    }
    longest
}

/// Why a node that reads the result of a chain cannot join it.
///
/// # Errors
/// The first unsupported feature.
fn explain(prepared: &Prepared, readers: &Readers, chain: &Part, place: usize) -> Result<(), Refusal> {
    let Some((first, rest)) = chain.links.split_first() else { return Ok(()) };
    let mut builder = Builder::begin(prepared, readers, &[], *first)?;
    for node in rest {
        builder.add(*node)?;
    }
    builder.add(place)?;
    builder.part()?;
    let result = chain.tensors.c;
    Err(format!(
        "reads tensor {result}, which others read, too, or which is not virtual, expected the result of a matmul that only it reads"
    ))
}

/// Whether every node of the graph may belong to a chain that begins with a matmul, determined without a
/// device.
///
/// # Errors
/// The first node that cannot, and why.
pub fn check(graph: &Graph) -> Result<(), PluginRefusal> {
    match partition(&prepare(graph)?, Ok) {
        Ok(_) => Ok(()),
        Err(error) => Err(PluginRefusal::new(error.message().to_owned())),
    }
}

/// Splits a graph into chains, each as long as possible, in an executable order, and applies `make` to each.
/// Shorter chains would leave nodes that nothing else computes.
///
/// # Errors
/// Those of `make`, or why a node is in no chain; they name the node.
pub fn partition<T: AsRef<Part>>(
    prepared: &Prepared,
    mut make: impl FnMut(Part) -> Result<T, PluginError>,
) -> Result<Vec<T>, PluginError> {
    let readers = prepared.readers();
    let mut parts: Vec<T> = Vec::new();
    let mut taken = vec![false; prepared.problems.len()];
    // A sum may belong to a matmul that follows it.
    let is_sum = |node: &CheckedNode<'_>| matches!(node.problem, Problem::Reduction(_));
    let (sums, others): (Vec<_>, Vec<_>) = prepared.nodes().partition(is_sum);
    for node in others.into_iter().chain(sums) {
        let first = node.place;
        if taken.get(first) == Some(&true) {
            continue;
        }
        let refuse = |refusal| PluginRefusal::new(node.refusal(refusal));
        // Report why the node cannot join the call of the matmul before it.
        let inputs = node.node.operation.inputs();
        let before = parts.iter().map(T::as_ref).find(|part| inputs.contains(&part.tensors.c));
        if !matches!(node.problem, Problem::Matmul(_))
            && let Some(before) = before
        {
            explain(prepared, &readers, before, first).map_err(refuse)?;
        }
        let part = longest(prepared, first, &readers, &taken).map_err(refuse)?;
        let made = make(part).map_err(|error| error.with_context(|text| node.refusal(text)))?;
        for place in &made.as_ref().nodes {
            if let Some(taken) = taken.get_mut(*place) {
                *taken = true;
            }
        }
        parts.push(made);
    }
    // Other parts may write what a chain reads between its nodes. Nothing waits for its sums.
    parts.sort_by_key(|made| made.as_ref().links.last().copied());
    Ok(parts)
}

/// Whether accumulators or results can have this type.
fn is_computed(data_type: DataType) -> bool {
    matches!(data_type, DataType::Float | DataType::Half | DataType::Bfloat16 | DataType::Double)
}

/// Whether elements are 8-bit floats.
pub fn is_small(data_type: DataType) -> bool {
    matches!(data_type, DataType::Fp8E4m3 | DataType::Fp8E5m2)
}

/// An operand of an addition.
#[derive(Clone, Copy)]
struct Added {
    uid: i64,
    operand: Operand,
    strides: [usize; MAX_RANK],
}

/// The strides of an operand broadcast to the result's shape: 0 along dimensions of 1.
fn spread(operand: &Operand) -> [usize; MAX_RANK] {
    let mut strides = [0; MAX_RANK];
    let axes = operand.layout.dims().iter().zip(operand.layout.strides());
    for (spread, (dim, stride)) in strides.iter_mut().zip(axes) {
        *spread = if *dim == 1 { 0 } else { *stride };
    }
    strides
}

/// A chain under construction.
struct Builder<'a> {
    prepared: &'a Prepared,
    readers: &'a Readers,
    /// Nodes that belong to other chains.
    taken: &'a [bool],
    links: Vec<usize>,
    node: &'a operation::Matmul,
    /// Its c is the result of the chain so far.
    matmul: Matmul,
    result: i64,
    double: bool,
    alpha: Option<f64>,
    scales: Vec<i64>,
    summand: Option<Added>,
    /// The bias, and whether it has an element per column rather than per row of the operation's result.
    bias: Option<(Added, bool)>,
    activation: Option<Activation>,
    auxiliary: Option<Added>,
}

impl<'a> Builder<'a> {
    fn begin(
        prepared: &'a Prepared,
        readers: &'a Readers,
        taken: &'a [bool],
        first: usize,
    ) -> Result<Self, Refusal> {
        let CheckedNode { node, problem, .. } = prepared.node(first).ok_or("there is no such node")?;
        let matmul = match problem {
            Problem::Matmul(matmul) => **matmul,
            Problem::Convolution(_)
            | Problem::Batchnorm(_)
            | Problem::Pointwise(_)
            | Problem::Attention(_)
            | Problem::AttentionGradients(_)
            | Problem::Mixture(_)
            | Problem::MixtureGradient(_)
            | Problem::Reduction(_)
            | Problem::Resample(_)
            | Problem::Normalization(_)
            | Problem::BlockScale(_) => {
                return Err("operation cannot begin a chain, expected a matmul".to_owned());
            }
        };
        let Operation::Matmul(operation) = &node.operation else {
            return Err("operation is not a matmul".to_owned());
        };
        let double = matmul.a.data_type == DataType::Double;
        let builder = Self {
            prepared,
            readers,
            taken,
            links: vec![first],
            node: operation,
            result: operation.c,
            matmul,
            double,
            alpha: None,
            scales: Vec::new(),
            summand: None,
            bias: None,
            activation: None,
            auxiliary: None,
        };
        builder.check_compute_type(node)?;
        for (name, uid, operand) in [("a", operation.a, &matmul.a), ("b", operation.b, &matmul.b)] {
            builder.in_memory(name, uid)?;
            if !is_computed(operand.data_type) && !is_small(operand.data_type) {
                return Err(format!(
                    "{name}: data type is {}, expected float, half, bfloat16, double, fp8_e4m3 or fp8_e5m2",
                    operand.data_type.name()
                ));
            }
        }
        let [a, b] = [matmul.a.data_type, matmul.b.data_type];
        if a != b && !(is_small(a) && is_small(b)) {
            return Err(format!(
                "b: data type is {}, expected {} as in a",
                matmul.b.data_type.name(),
                matmul.a.data_type.name()
            ));
        }
        Ok(builder)
    }

    /// The only reader of the result, if the result is virtual or the call writes it as well.
    fn next(&self) -> Option<usize> {
        match self.readers.get(&self.result)?.as_slice() {
            [reader] if self.is_virtual() || self.is_kept_by(*reader) => Some(*reader),
            _ => None,
        }
    }

    fn is_virtual(&self) -> bool {
        self.prepared.graph.tensor(self.result).is_some_and(|tensor| tensor.is_virtual)
    }

    fn check_compute_type(&self, node: &Node) -> Result<(), Refusal> {
        let expected = if self.double { DataType::Double } else { DataType::Float };
        if node.compute_type != expected {
            return Err(format!(
                "compute type is {}, expected {} for these factors",
                node.compute_type.name(),
                expected.name()
            ));
        }
        Ok(())
    }

    /// Refuses scalars in host memory.
    fn in_memory(&self, name: &str, uid: i64) -> Result<(), Refusal> {
        let by_value = self
            .prepared
            .graph
            .tensor(uid)
            .is_some_and(|tensor| tensor.value.is_some() || tensor.is_runtime_pass_by_value);
        if by_value { Err(format!("{name}: is passed by value, expected device memory")) } else { Ok(()) }
    }

    /// Appends the node that reads the result.
    fn add(&mut self, place: usize) -> Result<(), Refusal> {
        let CheckedNode { node, problem, .. } = self.prepared.node(place).ok_or("there is no such node")?;
        let (Operation::Pointwise(operation), Problem::Pointwise(pointwise)) = (&node.operation, problem)
        else {
            return Err(
                "operation does not follow a matmul in one call (an addition, a scale or an activation)"
                    .to_owned(),
            );
        };
        self.check_compute_type(node)?;
        let between = self.matmul.c.data_type;
        if !is_computed(between) {
            return Err(format!(
                "tensor {}: data type is {}, expected float, half, bfloat16 or double between the nodes of a chain",
                self.result,
                between.name()
            ));
        }
        if self.activation.is_some() {
            return Err("follows an activation, expected the end of the chain".to_owned());
        }
        match pointwise.mode {
            PointwiseMode::Mul => self.scale(operation, pointwise)?,
            PointwiseMode::Add => self.added(operation, pointwise)?,
            PointwiseMode::GeluApproxTanhBwd => self.gradient(operation, pointwise)?,
            mode => self.activation = Some(links::activation(mode, pointwise)?),
        }
        if self.activation == Some(Activation::Gelu) && !self.is_virtual() {
            let kept = Added { uid: self.result, operand: self.matmul.c, strides: spread(&self.matmul.c) };
            self.auxiliary = Some(kept);
        }
        let dims = |operand: &Operand| operand.layout;
        if dims(&pointwise.output).dims() != dims(&self.matmul.c).dims() {
            return Err(format!(
                "out_0: dims {:?}, expected {:?} as the matmul has",
                dims(&pointwise.output).dims(),
                dims(&self.matmul.c).dims()
            ));
        }
        self.matmul.c = pointwise.output;
        self.result = operation.out_0;
        self.links.push(place);
        Ok(())
    }

    /// The chain so far, with sums if the graph asks for them and the call supports them.
    fn part(&self) -> Result<Part, Refusal> {
        let with = |asked: &sums::Asked| self.part_with(Some(asked)).ok();
        self.sums().iter().find_map(with).map_or_else(|| self.part_with(None), Ok)
    }

    fn part_with(&self, sums: Option<&sums::Asked>) -> Result<Part, Refusal> {
        let matmul = &self.matmul;
        let (factor, result) = (matmul.a.data_type, matmul.c.data_type);
        let from_small = is_small(factor) && matches!(result, DataType::Half | DataType::Bfloat16);
        let wider = result == DataType::Float && factor != DataType::Double;
        if result != factor && !wider && !from_small || is_small(result) {
            let expected = if is_small(factor) { "float, half or bfloat16" } else { factor.name() };
            return Err(format!("c: data type is {}, expected {expected}", result.name()));
        }
        if let Some(added) = self.summand.filter(|added| added.operand.data_type != result) {
            return Err(format!(
                "the summand: data type is {}, expected {} as in the result",
                added.operand.data_type.name(),
                result.name()
            ));
        }
        if let Some((added, _)) = self.bias {
            let is = added.operand.data_type;
            let (fits, expected) = if is_small(factor) {
                let of_small = if result == DataType::Half { result } else { DataType::Bfloat16 };
                (is == of_small, format!("{} for these factors", of_small.name()))
            } else {
                let fits = is == result || !self.double && is == DataType::Float;
                (fits, format!("{} as in the result, or float", result.name()))
            };
            if !fits {
                return Err(format!("the bias: data type is {}, expected {expected}", is.name()));
            }
        }
        if is_small(factor) && self.auxiliary.is_some() {
            return Err(format!(
                "a: data type is {}, expected a wider one with a gradient or an activation whose input is saved",
                factor.name()
            ));
        }
        if let Some(added) = self.auxiliary.filter(|added| added.operand.data_type != result) {
            return Err(format!(
                "tensor {}: data type is {}, expected {} as in the result of its activation or gradient",
                added.uid,
                added.operand.data_type.name(),
                result.name()
            ));
        }
        let by_column = self.bias.map(|(_, by_column)| by_column);
        let by_column = by_column.or_else(|| sums.and_then(|asked| asked.by_column));
        let others = [&self.summand, &self.auxiliary];
        let others = others.map(|other| other.as_ref().map(|added| (&added.operand, added.strides)));
        let product = Product::of(matmul, others, by_column)?;
        product.check_numbers()?;
        if (self.auxiliary.is_some() || sums.is_some()) && product.calls.len() > 1 {
            return Err(format!(
                "c: takes {} calls, expected one with a gradient or an activation whose input is saved",
                product.calls.len()
            ));
        }
        if sums.is_some() && product.batch > 1 {
            return Err(format!("c: has {} matrices, expected one with sums", product.batch));
        }
        let (mut a, mut b) = (self.node.a, self.node.b);
        if product.swapped {
            std::mem::swap(&mut a, &mut b);
        }
        let mut nodes = self.links.clone();
        nodes.extend(sums.map(|asked| asked.node));
        nodes.sort_unstable();
        Ok(Part {
            nodes,
            links: self.links.clone(),
            chain: Chain {
                sums: sums.map(|asked| asked.seen(product.swapped)),
                product,
                double: self.double,
                alpha: self.alpha.unwrap_or(1.0).to_bits(),
                bias: self.bias.map(|(added, _)| added.operand.data_type),
                activation: self.activation,
                scales: self.scales.len(),
            },
            tensors: Tensors {
                a,
                b,
                c: self.result,
                summand: self.summand.map(|added| added.uid),
                bias: self.bias.map(|(added, _)| added.uid),
                auxiliary: self.auxiliary.map(|added| added.uid),
                sums: sums.map(|asked| asked.uid),
                scales: [self.scales.first().copied(), self.scales.get(1).copied()],
            },
        })
    }
}

#[cfg(test)]
mod tests;
