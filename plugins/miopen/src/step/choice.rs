//! Selects the step for a node.

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::prepare::CheckedNode;
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::normalization::Normalization;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node};

use super::{Design, tensor_op};
use crate::step::activation::ActivationDesign;
use crate::step::batchnorm::BatchnormDesign;
use crate::step::convolution::ConvolutionDesign;
use crate::step::normalization::NormalizationDesign;
use crate::step::normalization::gradient::GradientDesign;
use crate::step::pooling::PoolingDesign;
use crate::step::reduction::ReductionDesign;
use crate::step::tensor_op::TensorOpDesign;

/// The design of a node of a graph.
///
/// # Errors
/// The first feature that MIOpen does not support.
pub fn design(graph: &Graph, node: &CheckedNode<'_>) -> Result<Box<dyn Design>, Refusal> {
    let Node { compute_type, operation, .. } = node.node;
    if *compute_type != DataType::Float {
        return Err(format!("compute type is {}, expected float", compute_type.name()));
    }
    Ok(match node.problem {
        Problem::Convolution(convolution) => Box::new(ConvolutionDesign::of(convolution)?),
        Problem::Batchnorm(batchnorm) => Box::new(BatchnormDesign::of(graph, operation, batchnorm)?),
        Problem::Pointwise(pointwise) if tensor_op::operation(pointwise.mode).is_some() => {
            Box::new(TensorOpDesign::of(graph, operation, pointwise)?)
        }
        Problem::Pointwise(pointwise) => Box::new(ActivationDesign::of(pointwise)?),
        Problem::Resample(pooling) => Box::new(PoolingDesign::of(pooling)?),
        Problem::Reduction(reduction) => Box::new(ReductionDesign::of(reduction)?),
        Problem::Normalization(Normalization::Forward(forward)) => {
            Box::new(NormalizationDesign::of(graph, operation, forward)?)
        }
        Problem::Normalization(Normalization::Backward(backward)) => Box::new(GradientDesign::of(backward)?),
        Problem::Attention(_)
        | Problem::AttentionGradients(_)
        | Problem::Mixture(_)
        | Problem::MixtureGradient(_)
        | Problem::Matmul(_)
        | Problem::BlockScale(_) => {
            return Err(
                "operation is not one of those that this plugin supports (convolutions, normalizations, softmax, pooling, reductions, activations, add, sub, mul, min, max)"
                    .to_owned(),
            );
        }
    })
}
