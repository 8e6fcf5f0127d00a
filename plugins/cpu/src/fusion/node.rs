//! The kernels of CPU_ENGINE.
//!
//! `parts` divides a graph into fused steps; [`plan_node`] decides everything about one node that does not depend on memory: the form of the computation, the
//! instructions of this processor, how many threads it is worth. What it refuses, the reference engine computes.

use hipdnn_plugin_sdk::graph::{Graph, Node};

use crate::dtype::element::Compute;
use crate::kernel::{Kernel, Refusal};
use crate::problem::attention::{Attention, AttentionGradients};
use crate::problem::batchnorm::Batchnorm;
use crate::problem::convolution::Convolution;
use crate::problem::matmul::Matmul;
use crate::problem::normalization::Normalization;
use crate::problem::pointwise::Pointwise;
use crate::problem::reduction::Reduction;
use crate::problem::resample::Resample;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::threading::partition::Threads;

/// Plans one node of a graph whose types are resolved. A refusal says why the reference is to compute the node.
pub fn plan_node(graph: &Graph, node: &Node) -> Result<Box<dyn Kernel>, Refusal> {
    plan_node_at(graph, node, Isa::detect(), Settings::default())
}

/// Plans one node for these threads.
pub fn plan_node_for(graph: &Graph, node: &Node, threads: Threads) -> Result<Box<dyn Kernel>, Refusal> {
    plan_node_at(graph, node, Isa::detect(), threads)
}

pub(crate) fn plan_node_at(
    graph: &Graph,
    node: &Node,
    isa: Isa,
    settings: impl Into<Settings>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let settings = settings.into();
    let threads = settings.threads;
    let compute = Compute::of(node.compute_type)?;
    if let Some(convolution) = Convolution::of(graph, &node.operation) {
        let convolution = convolution?;
        if crate::depthwise::covers(&convolution) {
            return crate::depthwise::plan(&convolution, compute, isa, threads, None);
        }
        return crate::conv::plan(&convolution, compute, isa, settings.of(graph, &node.operation), None);
    }
    if let Some(matmul) = Matmul::of(graph, &node.operation) {
        return crate::matmul::plan(&matmul?, compute, isa, settings.of(graph, &node.operation), None);
    }
    if let Some(attention) = Attention::of(graph, &node.operation) {
        return crate::attention::plan(&attention?, compute, isa, threads);
    }
    if let Some(gradients) = AttentionGradients::of(graph, &node.operation) {
        return crate::attention::plan_gradients(&gradients?, compute, isa, threads);
    }
    if let Some(batchnorm) = Batchnorm::of(graph, &node.operation) {
        return crate::batchnorm::plan(&batchnorm?, compute, isa, threads, None);
    }
    if let Some(pointwise) = Pointwise::of(graph, &node.operation) {
        return crate::pointwise::plan(&pointwise?, compute, isa, threads);
    }
    if let Some(normalization) = Normalization::of(graph, &node.operation) {
        return crate::norm::plan(
            &normalization?,
            compute,
            isa,
            threads,
            crate::norm::rows::Fused::default(),
        );
    }
    if let Some(reduction) = Reduction::of(graph, &node.operation) {
        return crate::reduction::plan(&reduction?, compute, isa, threads);
    }
    if let Some(resample) = Resample::of(graph, &node.operation) {
        return crate::pooling::plan(&resample?, compute, isa, threads);
    }
    Err(format!("operation is {}, which has no fast kernel", node.operation.spec().name))
}
