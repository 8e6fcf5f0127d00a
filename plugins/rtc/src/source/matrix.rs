//! Nodes that kernels of the crate `hipdnn-kernels` compute.

use hipdnn_kernels::target::MatrixShape;
use hipdnn_kernels::{Target, form, print};
use hipdnn_plugin_lowering::attention::Whole;
use hipdnn_plugin_lowering::way::Way;
use hipdnn_plugin_lowering::{convolution, product};
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::convolution::{Convolution, Direction};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node};

use super::kernel::{Argument, Kernel};
use crate::Refusal;

/// The kernels of a node, if it is of this kind. What they leave for each other is added to the graph.
pub fn kernels(
    graph: &mut Graph,
    node: &Node,
    problem: &Problem,
    way: Way<'_>,
) -> Option<Result<Vec<Kernel>, Refusal>> {
    let wholes = match problem {
        Problem::Matmul(own) => product::kernels(graph, node, own, way, None),
        Problem::Convolution(own) if suits(graph, node, own) => {
            convolution::kernels(graph, node, own, way, None)
        }
        _ => return None,
    };
    Some(wholes.map(|wholes| wholes.iter().map(|whole| of_whole(whole, way.target)).collect()))
}

/// Whether a kernel with matrix tiles computes a convolution: a forward one only if no other node of its kernel would read it.
fn suits(graph: &Graph, node: &Node, own: &Convolution) -> bool {
    let is_virtual = |uid: &i64| graph.tensor(*uid).is_some_and(|tensor| tensor.is_virtual);
    let is_read = own.direction == Direction::Forward && node.operation.outputs().iter().any(is_virtual);
    !is_read && convolution::suits(own)
}

/// The kernel of a launch, whose parameters are these tensors. Its nodes are added by the caller.
fn made(launch: &hipdnn_kernels::product::Launch, uids: &[i64], target: &Target) -> Kernel {
    let kernel = &launch.kernel;
    let arguments = kernel.parameters.iter().zip(uids).map(|(parameter, uid)| match parameter {
        form::Parameter::Memory { alignment, .. } => Argument::Memory { uid: *uid, alignment: *alignment },
        form::Parameter::Number(_) => Argument::Number { uid: *uid, data_type: DataType::Double },
    });
    let [across, down, _] = launch.grid;
    Kernel {
        name: kernel.name.clone(),
        nodes: Vec::new(),
        text: print::c::kernel(kernel, target.language),
        arguments: arguments.collect(),
        block: kernel.threads,
        grid: across,
        down,
        shared: print::c::shared_at_launch(kernel, target.language),
        is_tiled: true,
        has_matrices: kernel.shapes.iter().any(MatrixShape::is_matrix),
    }
}

/// A kernel of a node that is computed by itself.
pub(super) fn of_whole(whole: &Whole, target: &Target) -> Kernel {
    let uids: Vec<i64> = whole.arguments.iter().map(hipdnn_plugin_lowering::Argument::uid).collect();
    let mut kernel = made(&whole.launch, &uids, target);
    for (to, from) in kernel.arguments.iter_mut().zip(&whole.arguments) {
        if let (
            Argument::Number { data_type, .. },
            hipdnn_plugin_lowering::Argument::Number { data_type: own, .. },
        ) = (to, from)
        {
            *data_type = *own;
        }
    }
    kernel
}
