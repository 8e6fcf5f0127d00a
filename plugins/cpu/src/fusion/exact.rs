//! Picks the floating-point type in which fast kernels compute `int32` and `boolean` nodes exactly.
//!
//! Double precision holds every 32-bit integer and all sums and differences of two. A product that it rounds
//! exceeds 2⁵³, where a 32-bit result saturates anyway. Booleans are ordinary values.

use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode, ReductionMode};

use crate::conv::problem::terms;
use crate::dtype::element::{Arithmetic, Compute};
use crate::dtype::sums;
use crate::fusion::state::Fusion;
use crate::kernel::Refusal;
use crate::pointwise::chain::Value;
use crate::prepare::CheckedNode;
use crate::problem::Problem;
use crate::problem::convolution::Direction;
use crate::problem::pointwise::Pointwise;
use crate::problem::reduction::Reduction;

/// The type in which a fast kernel computes a node, or why the reference must.
pub(crate) fn compute_of(node: &CheckedNode<'_>) -> Result<Compute, Refusal> {
    let truth = match Arithmetic::of(node.node.compute_type)? {
        Arithmetic::Floating(compute) => return Ok(compute),
        Arithmetic::Integer => false,
        Arithmetic::Truth => true,
    };
    match node.problem {
        Problem::Pointwise(pointwise) if truth => of_truth(pointwise),
        Problem::Pointwise(pointwise) => of_integers(pointwise),
        Problem::Matmul(matmul) if !truth => {
            of_products([matmul.a.data_type, matmul.b.data_type], matmul.k as f64)
        }
        Problem::Convolution(convolution) if !truth && convolution.direction == Direction::Forward => {
            of_products([convolution.x.data_type, convolution.w.data_type], terms(convolution))
        }
        Problem::Reduction(reduction) if !truth => of_reduction(reduction),
        _ => Err(only_reference(node.node.compute_type)),
    }
}

impl Fusion<'_> {
    /// Whether a node that joins a double-precision chain computes in single precision; `None` if it cannot
    /// join.
    pub(crate) fn is_rounded(&self, node: &CheckedNode<'_>) -> Option<bool> {
        let own = compute_of(node).ok()?;
        match Arithmetic::of(node.node.compute_type).ok()? {
            Arithmetic::Floating(_) if !self.integers => (own == self.compute).then_some(false),
            Arithmetic::Floating(Compute::Single) => is_same_rounded(node.problem).then_some(true),
            Arithmetic::Floating(Compute::Double) => None,
            Arithmetic::Integer => self.integers.then_some(false),
            Arithmetic::Truth => Some(false),
        }
    }

    /// A value rounded to single precision.
    pub(crate) fn rounded(&mut self, value: Value) -> Option<Value> {
        let data_type = match value {
            Value::Input(input) => self.chain.inputs.get(input)?.data_type,
            Value::Step(step) => self.chain.steps.get(step)?.stored,
        };
        Some(match data_type {
            DataType::Int32 | DataType::Double => {
                self.chain.push_mode(PointwiseMode::Identity, vec![value], DataType::Float)
            }
            _ => value,
        })
    }
}

/// Whether a node gives the same in single precision as in double precision and rounded: single operations do,
/// functions of several do not.
fn is_same_rounded(problem: &Problem) -> bool {
    use PointwiseMode as M;
    let Problem::Pointwise(pointwise) = problem else { return false };
    match pointwise.mode {
        M::Abs
        | M::Neg
        | M::Identity
        | M::Ceil
        | M::Floor
        | M::Sqrt
        | M::Reciprocal
        | M::Add
        | M::Sub
        | M::Mul
        | M::Div
        | M::Max
        | M::Min
        | M::BinarySelect => true,
        M::ReluFwd => pointwise.activation.lower_clip_slope == 0.0,
        mode => mode.is_logical(),
    }
}

/// Whether a node's compute type is `int32`.
pub(crate) fn is_of_integers(node: &CheckedNode<'_>) -> bool {
    node.node.compute_type == DataType::Int32
}

fn only_reference(compute: DataType) -> Refusal {
    format!("compute type is {}, which only the reference supports for this operation", compute.name())
}

/// Products of integers, which a GEMM sums exactly, if need be only [those that are
/// small](crate::fusion::checked). Floats are truncated first.
fn of_products(operands: [DataType; 2], terms: f64) -> Result<Compute, Refusal> {
    match operands.iter().find(|operand| sums::largest(**operand).is_none()) {
        Some(other) => Err(format!("an operand is {}, expected integers", other.name())),
        None => Ok(sums::exact(operands, terms, Compute::Single)),
    }
}

/// Whether elements are integers of 8 to 32 bits.
fn is_whole(data_type: DataType) -> bool {
    matches!(data_type, DataType::Int32 | DataType::Int8 | DataType::Uint8 | DataType::Boolean)
}

fn all_whole(mut operands: impl Iterator<Item = DataType>) -> Result<(), Refusal> {
    match operands.find(|operand| !is_whole(*operand)) {
        Some(other) => Err(format!("an operand is {}, expected int32, int8, uint8 or boolean", other.name())),
        None => Ok(()),
    }
}

fn of_integers(p: &Pointwise) -> Result<Compute, Refusal> {
    use PointwiseMode as M;
    all_whole(p.inputs.iter().map(|input| input.operand.data_type))?;
    match p.mode {
        M::Abs
        | M::Neg
        | M::Identity
        | M::Ceil
        | M::Floor
        | M::Add
        | M::Sub
        | M::Max
        | M::Min
        | M::BinarySelect => Ok(Compute::Double),
        mode if mode.is_logical() => Ok(Compute::Double),
        // These saturate where double precision is inexact.
        M::Mul | M::AddSquare if is_whole(p.output.data_type) => Ok(Compute::Double),
        // Stores truncate. A boolean would turn a fraction into true.
        M::Div if is_whole(p.output.data_type) && p.output.data_type != DataType::Boolean => {
            Ok(Compute::Double)
        }
        M::ReluFwd | M::ReluBwd => {
            let clips = [p.activation.lower_clip, p.activation.upper_clip.unwrap_or(0.0)];
            match clips.iter().all(|clip| clip.fract() == 0.0) && p.activation.lower_clip_slope == 0.0 {
                true => Ok(Compute::Double),
                false => Err("a RELU with a slope, or with clips that are not integers".to_owned()),
            }
        }
        mode => Err(format!("operation is {}, which double precision does not compute exactly", mode.name())),
    }
}

fn of_truth(p: &Pointwise) -> Result<Compute, Refusal> {
    use PointwiseMode as M;
    let types = || p.inputs.iter().map(|input| input.operand.data_type);
    let of_booleans = || types().all(|of| of == DataType::Boolean);
    match p.mode {
        // Single precision would round tiny doubles to 0.
        M::LogicalAnd | M::LogicalOr | M::LogicalNot if types().all(|of| of != DataType::Double) => {
            Ok(Compute::Single)
        }
        M::Identity | M::Mul | M::Max | M::Min | M::BinarySelect if of_booleans() => Ok(Compute::Single),
        mode if mode.is_logical() && of_booleans() => Ok(Compute::Single),
        _ => Err(only_reference(DataType::Boolean)),
    }
}

fn of_reduction(p: &Reduction) -> Result<Compute, Refusal> {
    use ReductionMode as M;
    all_whole([p.x.data_type].into_iter())?;
    // Means and norms are truncated.
    match p.mode {
        M::Max | M::Min | M::Amax | M::Add | M::Norm1 | M::Mul | M::MulNoZeros => Ok(Compute::Double),
        _ => Err(only_reference(DataType::Int32)),
    }
}
