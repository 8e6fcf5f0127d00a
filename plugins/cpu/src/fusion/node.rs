//! The kernels of CPU_ENGINE.
//!
//! `parts` divides a graph into fused steps. [`plan_node`] decides everything about one node that does not
//! depend on memory: algorithm, instruction set, thread count. The reference engine computes what it refuses.

use hipdnn_plugin_sdk::graph::{Graph, Node};

use crate::fusion::checked;
use crate::fusion::exact::compute_of;
use crate::kernel::{Kernel, Refusal};
use crate::norm::rows::Fused;
use crate::prepare::CheckedNode;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::{attention, batchnorm, block_scale, conv, matmul, moe, norm, pointwise, pooling, reduction};

/// Plans one node of a graph with resolved types. A refusal says why the reference must compute it.
pub fn plan_node(graph: &Graph, node: &Node) -> Result<Box<dyn Kernel>, Refusal> {
    let problem = Problem::of(graph, &node.operation)?;
    plan_node_at(
        graph,
        &CheckedNode { place: 0, node, problem: &problem },
        Isa::detect(),
        Settings::default(),
    )
}

pub(crate) fn plan_node_at(
    graph: &Graph,
    node: &CheckedNode<'_>,
    isa: Isa,
    settings: impl Into<Settings>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let settings = settings.into();
    let threads = settings.threads;
    let operation = &node.node.operation;
    let compute = compute_of(node)?;
    match node.problem {
        Problem::Convolution(convolution) => {
            let kernel = conv::plan(convolution, compute, isa, settings.of(graph, operation), None)?;
            checked::plan(node, kernel)
        }
        Problem::Matmul(matmul) => {
            let kernel = matmul::plan(matmul, compute, isa, settings.of(graph, operation), None)?;
            checked::plan(node, kernel)
        }
        Problem::Attention(attention) => attention::plan(attention, compute, isa, threads),
        Problem::AttentionGradients(gradients) => attention::plan_gradients(gradients, compute, isa, threads),
        Problem::Batchnorm(batchnorm) => batchnorm::plan(batchnorm, compute, isa, threads, None),
        Problem::Pointwise(pointwise) => pointwise::plan(pointwise, compute, isa, threads),
        Problem::Normalization(normalization) => {
            norm::plan(normalization, compute, isa, threads, Fused::default())
        }
        Problem::Reduction(reduction) => reduction::plan(reduction, compute, isa, threads),
        Problem::Resample(resample) => pooling::plan(resample, compute, isa, threads),
        Problem::Mixture(mixture) => moe::plan(mixture, compute, isa, threads),
        Problem::MixtureGradient(gradient) => moe::plan_gradient(gradient, compute, isa, threads),
        Problem::BlockScale(block_scale) => block_scale::plan(block_scale, isa, threads),
    }
}
