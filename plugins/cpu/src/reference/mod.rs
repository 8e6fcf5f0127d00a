//! Kernels that are their formulas: element by element, in the compute type, for any strides.

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

use hipdnn_plugin_sdk::graph::{Graph, Node};

use crate::dtype::element::{Compute, Real};
use crate::kernel::{Kernel, Refusal};
use crate::problem::attention::{Attention, AttentionGradients};
use crate::problem::batchnorm::Batchnorm;
use crate::problem::block_scale::BlockScale;
use crate::problem::convolution::Convolution;
use crate::problem::matmul::Matmul;
use crate::problem::mixture::{Mixture, MixtureGradient};
use crate::problem::normalization::Normalization;
use crate::problem::pointwise::Pointwise;
use crate::problem::reduction::Reduction;
use crate::problem::resample::Resample;

/// Plans one node of a graph that [`prepare`](crate::prepare::prepare) returned.
///
/// The refusal names the argument whose type is not supported, or what is wrong with the node.
pub fn plan_node(graph: &Graph, node: &Node) -> Result<Box<dyn Kernel>, Refusal> {
    match Compute::of(node.compute_type)? {
        Compute::Single => plan_in::<f32>(graph, node),
        Compute::Double => plan_in::<f64>(graph, node),
    }
}

fn plan_in<R: Real>(graph: &Graph, node: &Node) -> Result<Box<dyn Kernel>, Refusal> {
    let operation = &node.operation;
    if let Some(problem) = Convolution::of(graph, operation) {
        convolution::plan::<R>(problem?)
    } else if let Some(problem) = Batchnorm::of(graph, operation) {
        batchnorm::plan::<R>(problem?)
    } else if let Some(problem) = Pointwise::of(graph, operation) {
        pointwise::plan::<R>(problem?)
    } else if let Some(problem) = Attention::of(graph, operation) {
        attention::plan(&problem?)
    } else if let Some(problem) = AttentionGradients::of(graph, operation) {
        attention::plan_gradients(&problem?)
    } else if let Some(problem) = Mixture::of(graph, operation) {
        mixture::plan(&problem?)
    } else if let Some(problem) = MixtureGradient::of(graph, operation) {
        mixture::plan_gradient(&problem?)
    } else if let Some(problem) = Matmul::of(graph, operation) {
        matmul::plan::<R>(problem?)
    } else if let Some(problem) = Reduction::of(graph, operation) {
        reduction::plan::<R>(problem?)
    } else if let Some(problem) = Resample::of(graph, operation) {
        resample::plan::<R>(problem?)
    } else if let Some(problem) = Normalization::of(graph, operation) {
        normalization::plan::<R>(problem?)
    } else if let Some(problem) = BlockScale::of(graph, operation) {
        block_scale::plan(problem?)
    } else {
        Err("operation is not one that the reference computes".to_owned())
    }
}
