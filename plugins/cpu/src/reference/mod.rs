//! Kernels that follow the formulas: element by element, in the compute type, for any strides.

pub(crate) mod attention;
pub(crate) mod batchnorm;
pub(crate) mod block_scale;
pub(crate) mod convolution;
pub(crate) mod kernel;
pub(crate) mod matmul;
pub(crate) mod mixture;
pub(crate) mod normalization;
pub(crate) mod pointwise;
pub(crate) mod reduction;
pub(crate) mod resample;

use hipdnn_plugin_planner::in_own_frame;

use crate::dtype::element::{Arithmetic, Compute, ComputeType, is_integer};
use crate::dtype::integer::{Integer, Truth};
use crate::kernel::{Kernel, Refusal};
use crate::prepare::CheckedNode;
use crate::problem::Problem;
use crate::problem::convolution::Direction;

/// Plans one node of a graph that [`prepare`](crate::prepare::prepare) returned.
///
/// The refusal names the argument with an unsupported dtype.
pub fn plan_node(node: &CheckedNode<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    match Arithmetic::of(node.node.compute_type)? {
        Arithmetic::Floating(Compute::Single) => plan_in::<f32>(node.problem),
        Arithmetic::Floating(Compute::Double) => plan_in::<f64>(node.problem),
        Arithmetic::Integer => plan_exact::<Integer>(node),
        Arithmetic::Truth => plan_exact::<Truth>(node),
    }
}

/// Plans a node whose compute type is integer or boolean.
fn plan_exact<R: ComputeType>(node: &CheckedNode<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    match node.problem {
        Problem::Convolution(problem) if problem.direction == Direction::Forward => {
            in_own_frame(|| convolution::plan::<R>(**problem))
        }
        Problem::Pointwise(problem) => {
            pointwise::check_exact(problem, node.node.compute_type)?;
            in_own_frame(|| pointwise::plan::<R>((**problem).clone()))
        }
        Problem::Matmul(problem) => in_own_frame(|| matmul::plan::<R>(**problem)),
        Problem::Reduction(problem) => in_own_frame(|| reduction::plan::<R>(**problem)),
        Problem::Resample(problem) if !problem.backward => in_own_frame(|| resample::plan::<R>(**problem)),
        _ => Err(format!(
            "compute type is {}, expected float, double, half or bfloat16 for this operation",
            node.node.compute_type.name()
        )),
    }
}

fn plan_in<R: ComputeType>(problem: &Problem) -> Result<Box<dyn Kernel>, Refusal> {
    match problem {
        Problem::Convolution(problem) if convolution::sums_integers(problem) => {
            in_own_frame(|| convolution::plan::<Integer>(**problem))
        }
        Problem::Convolution(problem) => in_own_frame(|| convolution::plan::<R>(**problem)),
        Problem::Batchnorm(problem) => in_own_frame(|| batchnorm::plan::<R>(**problem)),
        Problem::Pointwise(problem) => in_own_frame(|| pointwise::plan::<R>((**problem).clone())),
        Problem::Attention(problem) => attention::plan(problem),
        Problem::AttentionGradients(problem) => attention::plan_gradients(problem),
        Problem::Mixture(problem) => in_own_frame(|| mixture::plan(problem)),
        Problem::MixtureGradient(problem) => in_own_frame(|| mixture::plan_gradient(problem)),
        Problem::Matmul(problem) if [&problem.a, &problem.b].iter().all(|of| is_integer(of.data_type)) => {
            in_own_frame(|| matmul::plan::<Integer>(**problem))
        }
        Problem::Matmul(problem) => in_own_frame(|| matmul::plan::<R>(**problem)),
        Problem::Reduction(problem) => in_own_frame(|| reduction::plan::<R>(**problem)),
        Problem::Resample(problem) => in_own_frame(|| resample::plan::<R>(**problem)),
        Problem::Normalization(problem) => in_own_frame(|| normalization::plan::<R>(problem.clone())),
        Problem::BlockScale(problem) => in_own_frame(|| block_scale::plan(problem.clone())),
    }
}
