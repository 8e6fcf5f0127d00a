//! Chains of nodes that one call can compute: a product, factors, a summand, a bias and an activation, in this order.

mod call;

use crate::Refusal;
use crate::layout::MAX_RANK;
use crate::prepare::{CheckedNode, Prepared, Readers, prepare};
use crate::problem::matmul::Matmul;
use crate::problem::pointwise::{Broadcast, Pointwise};
use crate::problem::{Operand, Problem};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode, operation};
use hipdnn_plugin_sdk::{PluginError, Refusal as PluginRefusal};

use crate::product::Product;
pub use call::{Scalar, Tensors};

/// What the libraries apply to each element of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// max(0, x)
    Relu,
    /// GELU, by the formula with tanh.
    Gelu,
    /// x / (1 + exp(-x))
    Swish,
}

/// What is computed, without the tensors' names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chain {
    /// The product with its summand.
    pub product: Product,
    /// Whether sums are in double precision.
    pub double: bool,
    /// The bits of the factor of the product, a double.
    pub alpha: u64,
    /// The type of the bias, which has an element for each row of the product.
    pub bias: Option<DataType>,
    /// The activation.
    pub activation: Option<Activation>,
    /// How many numbers in memory the product is multiplied by, as products of 8-bit floats are.
    pub scales: usize,
}

/// A chain of nodes of a graph.
#[derive(Clone, Debug)]
pub struct Part {
    /// The nodes, in order.
    pub nodes: Vec<usize>,
    /// What they compute.
    pub chain: Chain,
    /// Of which tensors.
    pub tensors: Tensors<i64>,
}

impl AsRef<Self> for Part {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The longest chain that begins with this product.
///
/// # Errors
/// Why neither the product alone nor a chain behind it can be computed.
fn longest(prepared: &Prepared, first: usize, readers: &Readers) -> Result<Part, Refusal> {
    let mut builder = Builder::begin(prepared, first)?;
    let mut longest = builder.part();
    // A node that is no link of the chain is said to be so when its turn comes.
    while let Some(place) = builder.next(readers) {
        if builder.add(place).is_err() {
            break;
        }
        // A result in the middle may have a type that only registers have.
        let part = builder.part();
        if part.is_ok() || longest.is_err() {
            longest = part;
        }
    }
    longest
}

/// Why a node that reads the result of a chain is no link of it.
///
/// # Errors
/// The first thing that is not taken.
fn explain(prepared: &Prepared, chain: &Part, place: usize) -> Result<(), Refusal> {
    let Some((first, rest)) = chain.nodes.split_first() else { return Ok(()) };
    let mut builder = Builder::begin(prepared, *first)?;
    for node in rest {
        builder.add(*node)?;
    }
    builder.add(place)?;
    builder.part()?;
    let result = chain.tensors.c;
    Err(format!(
        "reads tensor {result}, which others read, too, or which is not virtual, expected a product that only it reads"
    ))
}

/// Whether every node of the graph may belong to a chain that begins with a product, found out without a device.
///
/// # Errors
/// The first node that does not, and why.
pub fn check(graph: &Graph) -> Result<(), PluginRefusal> {
    match partition(&prepare(graph)?, Ok) {
        Ok(_) => Ok(()),
        Err(error) => Err(PluginRefusal::new(error.message().to_owned())),
    }
}

/// The chains that a graph falls into, each as long as it can be, in an order in which they can be computed, and what `make`
/// makes of them. Nothing computes what a shorter chain would leave over.
///
/// # Errors
/// Those of `make`, and why a node is in no chain; they name the node.
pub fn partition<T: AsRef<Part>>(
    prepared: &Prepared,
    mut make: impl FnMut(Part) -> Result<T, PluginError>,
) -> Result<Vec<T>, PluginError> {
    let readers = prepared.readers();
    let mut parts: Vec<T> = Vec::new();
    let mut taken = vec![false; prepared.problems.len()];
    for node in prepared.nodes() {
        let first = node.place;
        if taken.get(first) == Some(&true) {
            continue;
        }
        let refuse = |refusal| PluginRefusal::new(node.refusal(refusal));
        // A node behind a product is refused for what keeps it out of the product's call.
        let inputs = node.node.operation.inputs();
        let before = parts.iter().map(T::as_ref).find(|part| inputs.contains(&part.tensors.c));
        if !matches!(node.problem, Problem::Matmul(_))
            && let Some(before) = before
        {
            explain(prepared, before, first).map_err(refuse)?;
        }
        let part = longest(prepared, first, &readers).map_err(refuse)?;
        let made = make(part).map_err(|error| error.with_context(|text| node.refusal(text)))?;
        for place in &made.as_ref().nodes {
            if let Some(taken) = taken.get_mut(*place) {
                *taken = true;
            }
        }
        parts.push(made);
    }
    // What a chain reads may be written between its nodes.
    parts.sort_by_key(|made| made.as_ref().nodes.last().copied());
    Ok(parts)
}

/// Whether elements are of a type that sums are kept or results are written in.
fn is_computed(data_type: DataType) -> bool {
    matches!(data_type, DataType::Float | DataType::Half | DataType::Bfloat16 | DataType::Double)
}

/// Whether elements are floats of 8 bits.
pub fn is_small(data_type: DataType) -> bool {
    matches!(data_type, DataType::Fp8E4m3 | DataType::Fp8E5m2)
}

/// An operand that is added.
#[derive(Clone, Copy)]
struct Added {
    uid: i64,
    operand: Operand,
    strides: [usize; MAX_RANK],
}

/// A chain that may become longer.
struct Builder<'a> {
    prepared: &'a Prepared,
    nodes: Vec<usize>,
    node: &'a operation::Matmul,
    /// With the result of the chain in the place of c.
    matmul: Matmul,
    result: i64,
    double: bool,
    alpha: Option<f64>,
    scales: Vec<i64>,
    summand: Option<Added>,
    /// The bias, and whether it has an element for each column of the operation's result and not for each row.
    bias: Option<(Added, bool)>,
    activation: Option<Activation>,
}

impl<'a> Builder<'a> {
    fn begin(prepared: &'a Prepared, first: usize) -> Result<Self, Refusal> {
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
                return Err(
                    "operation is none that this plugin begins with (a product of matrices)".to_owned()
                );
            }
        };
        let Operation::Matmul(operation) = &node.operation else {
            return Err("operation is no product".to_owned());
        };
        let double = matmul.a.data_type == DataType::Double;
        let builder = Self {
            prepared,
            nodes: vec![first],
            node: operation,
            result: operation.c,
            matmul,
            double,
            alpha: None,
            scales: Vec::new(),
            summand: None,
            bias: None,
            activation: None,
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

    /// The only reader of the result, where nobody else can see it.
    fn next(&self, readers: &Readers) -> Option<usize> {
        match readers.get(&self.result)?.as_slice() {
            [reader] if self.prepared.graph.tensor(self.result)?.is_virtual => Some(*reader),
            _ => None,
        }
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

    /// Refuses numbers that the host has.
    fn in_memory(&self, name: &str, uid: i64) -> Result<(), Refusal> {
        let by_value = self
            .prepared
            .graph
            .tensor(uid)
            .is_some_and(|tensor| tensor.value.is_some() || tensor.is_runtime_pass_by_value);
        if by_value { Err(format!("{name}: is passed by value, expected device memory")) } else { Ok(()) }
    }

    /// Takes in the node that reads the result.
    fn add(&mut self, place: usize) -> Result<(), Refusal> {
        let CheckedNode { node, problem, .. } = self.prepared.node(place).ok_or("there is no such node")?;
        let (Operation::Pointwise(operation), Problem::Pointwise(pointwise)) = (&node.operation, problem)
        else {
            return Err(
                "operation does not follow a product in one call (an addition, a scale or an activation)"
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
            return Err("comes after an activation, expected nothing".to_owned());
        }
        match pointwise.mode {
            PointwiseMode::Mul => self.scale(operation, pointwise)?,
            PointwiseMode::Add => self.added(operation, pointwise)?,
            mode => self.activation = Some(activation(mode, pointwise)?),
        }
        let dims = |operand: &Operand| operand.layout;
        if dims(&pointwise.output).dims() != dims(&self.matmul.c).dims() {
            return Err(format!(
                "out_0: dims {:?}, expected {:?} as the product has",
                dims(&pointwise.output).dims(),
                dims(&self.matmul.c).dims()
            ));
        }
        self.matmul.c = pointwise.output;
        self.result = operation.out_0;
        self.nodes.push(place);
        Ok(())
    }

    /// The operand of a node that is not the result so far, its name and its place.
    fn other(&self, operation: &operation::Pointwise) -> Result<(&'static str, i64, usize), Refusal> {
        let second = operation.in_1.ok_or("in_1: absent, expected a tensor")?;
        Ok(if operation.in_0 == self.result { ("in_1", second, 1) } else { ("in_0", operation.in_0, 0) })
    }

    fn scale(&mut self, operation: &operation::Pointwise, pointwise: &Pointwise) -> Result<(), Refusal> {
        let (name, uid, place) = self.other(operation)?;
        let number =
            self.prepared.graph.tensor(uid).and_then(|tensor| tensor.value).and_then(|value| value.as_f64());
        let is_second = number.is_some() && self.alpha.is_some();
        if is_second || self.summand.is_some() || self.bias.is_some() {
            return Err("operation: is mul after another operation, expected it directly after the product"
                .to_owned());
        }
        if number.is_some() {
            self.alpha = number;
            return Ok(());
        }
        if !is_small(self.matmul.a.data_type) {
            return Err(format!("{name}: is in memory, expected a number in the graph"));
        }
        self.in_memory(name, uid)?;
        let scale =
            pointwise.inputs.get(place).ok_or_else(|| format!("{name}: absent, expected a tensor"))?;
        let Operand { data_type, layout, .. } = &scale.operand;
        if *data_type != DataType::Float || layout.elements() != 1 {
            return Err(format!(
                "{name}: is {} of dims {:?}, expected one float that scales the product",
                data_type.name(),
                layout.dims()
            ));
        }
        if self.scales.len() == 2 {
            return Err(format!("{name}: is a third scale, expected one for each factor at most"));
        }
        self.scales.push(uid);
        Ok(())
    }

    fn added(&mut self, operation: &operation::Pointwise, pointwise: &Pointwise) -> Result<(), Refusal> {
        let (name, uid, place) = self.other(operation)?;
        self.in_memory(name, uid)?;
        let Broadcast { operand, strides } =
            *pointwise.inputs.get(place).ok_or_else(|| format!("{name}: absent, expected a tensor"))?;
        let added = Added { uid, operand, strides };
        let batch = self.matmul.batch;
        let dims = operand.layout.dims();
        let missing = (batch + 2).saturating_sub(dims.len());
        let dim =
            |axis: usize| axis.checked_sub(missing).and_then(|axis| dims.get(axis).copied()).unwrap_or(1);
        let stride = |axis: usize| strides.get(axis).copied().unwrap_or(0);
        let (rows, columns) = (dim(batch), dim(batch + 1));
        let one_for_all = (0..batch).all(|axis| dim(axis) == 1);
        let (m, n) = (self.matmul.m, self.matmul.n);
        let by_column = rows == 1 && columns == n && (n == 1 || stride(batch + 1) == 1);
        let by_row = columns == 1 && rows == m && (m == 1 || stride(batch) == 1);
        if self.bias.is_none() && one_for_all && (by_column || by_row) {
            // A single element for a single row is one for each of its columns, too.
            self.bias = Some((added, by_column));
            return Ok(());
        }
        if rows == m && columns == n && self.summand.is_none() {
            self.summand = Some(added);
            return Ok(());
        }
        Err(format!(
            "{name}: dims {dims:?}, expected those of the product, [{m}, {n}] at the end, or one row of {n} or one column of {m} that \
             lies side by side, and one of each kind"
        ))
    }

    /// The chain up to here.
    fn part(&self) -> Result<Part, Refusal> {
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
        let by_column = self.bias.map(|(_, by_column)| by_column);
        let product = Product::of(
            matmul,
            self.summand.as_ref().map(|added| (&added.operand, added.strides)),
            by_column,
        )?;
        product.check_numbers()?;
        let (mut a, mut b) = (self.node.a, self.node.b);
        if product.swapped {
            std::mem::swap(&mut a, &mut b);
        }
        Ok(Part {
            nodes: self.nodes.clone(),
            chain: Chain {
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
                scales: [self.scales.first().copied(), self.scales.get(1).copied()],
            },
        })
    }
}

/// The libraries' activation for a mode.
fn activation(mode: PointwiseMode, pointwise: &Pointwise) -> Result<Activation, Refusal> {
    let numbers = &pointwise.activation;
    match mode {
        PointwiseMode::ReluFwd if numbers.lower_clip != 0.0 => {
            Err(format!("relu_lower_clip: is {}, expected 0", numbers.lower_clip))
        }
        PointwiseMode::ReluFwd if numbers.lower_clip_slope != 0.0 => {
            Err(format!("relu_lower_clip_slope: is {}, expected 0", numbers.lower_clip_slope))
        }
        PointwiseMode::ReluFwd => match numbers.upper_clip {
            Some(upper) => Err(format!("relu_upper_clip: is {upper}, expected none")),
            None => Ok(Activation::Relu),
        },
        PointwiseMode::GeluApproxTanhFwd => Ok(Activation::Gelu),
        PointwiseMode::SwishFwd if numbers.swish_beta == 1.0 => Ok(Activation::Swish),
        PointwiseMode::SwishFwd => Err(format!("swish_beta: is {}, expected 1", numbers.swish_beta)),
        other => Err(format!(
            "operation: is {}, expected an addition, RELU, GELU by the formula with tanh, or SWISH after a product",
            other.name()
        )),
    }
}

#[cfg(test)]
mod tests;
