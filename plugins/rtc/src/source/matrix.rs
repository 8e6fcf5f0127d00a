//! Nodes that kernels of the crate `hipdnn-kernels` compute.

use hipdnn_kernels::{Target, form, print};
use hipdnn_plugin_lowering::attention::{self, Whole};
use hipdnn_plugin_lowering::following::{self, Multiplied};
use hipdnn_plugin_lowering::node::Item;
use hipdnn_plugin_lowering::numerics::of_kernel;
use hipdnn_plugin_lowering::way::Way;
use hipdnn_plugin_lowering::{Options, group};
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::convolution::Direction;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node};

use super::group::Group;
use super::kernel::{Argument, Kernel};
use crate::Refusal;

/// Elements of a product's result above which what follows is a kernel of its own: as an epilogue it takes longer
/// than that kernel and its launch (on an H200, 16 million elements 80 beside 35 µs).
const MOST_FOLLOWED: usize = 1 << 18;

/// The rows of the product that decides for any number of rows where bits must not depend on it: a kernel of its own approximates
/// functions differently.
const ROWS: usize = 64;

/// A part of a program.
pub enum Part {
    /// A walk over elements or rows, and its nodes.
    Walked(Box<Group>, Vec<Node>),
    /// A product or convolution with matrix tiles, and whether what follows may be its epilogue.
    Multiplied(Box<Multiplied>, bool),
    /// Kernels of whole nodes.
    Whole(Vec<Whole>, Vec<usize>),
}

impl following::Part for Part {
    fn reads(&self) -> Vec<i64> {
        match self {
            Self::Walked(group, _) => group.reads().collect(),
            Self::Multiplied(own, _) => own.kernels.iter().flat_map(Whole::reads).collect(),
            Self::Whole(wholes, _) => wholes.iter().flat_map(Whole::reads).collect(),
        }
    }

    fn multiplied(&self) -> Option<&Multiplied> {
        match self {
            Self::Multiplied(own, true) => Some(own),
            _ => None,
        }
    }

    /// The walk in the typed form, if it is over elements.
    fn group(&self, graph: &Graph) -> Option<group::Group> {
        let Self::Walked(own, nodes) = self else { return None };
        if own.domain.reduced.is_some() || own.gathers() {
            return None;
        }
        let options = Options { has_doubles: true, batch_invariant: own.batch_invariant };
        let mut made: Option<group::Group> = None;
        for node in nodes {
            let problem = Problem::of(graph, &node.operation).ok()?;
            let item = Item::of(node, problem, options).ok()?;
            if made.as_ref().is_some_and(|made| !item.fits(made)) {
                return None;
            }
            let to = made.get_or_insert_with(|| group::Group::new(item.domain()));
            item.add(to, graph).ok()?;
        }
        let mut made = made?;
        made.retain(|uid| own.stores.iter().any(|store| store.uid == uid));
        made.nodes.clone_from(&own.nodes);
        Some(made)
    }

    fn of_kernels(kernels: Vec<Whole>, nodes: Vec<usize>) -> Self {
        Self::Whole(kernels, nodes)
    }
}

/// The part of a node that kernels of its own compute, if it is of this kind. What they leave for each other is added to the graph.
pub fn part(
    graph: &mut Graph,
    place: usize,
    node: &Node,
    problem: &Problem,
    way: Way<'_>,
) -> Option<Result<Part, Refusal>> {
    if let Some(kernels) = attention::kernels(graph, node, problem, way) {
        return Some(kernels.map(|kernels| Part::Whole(kernels, vec![place])));
    }
    let multiplied = Multiplied::of(graph, place, node, problem, way)?;
    let is_forward = matches!(problem, Problem::Convolution(own) if own.direction == Direction::Forward);
    if is_forward && multiplied.is_err() {
        // A walk may compute it.
        return None;
    }
    let elements = match problem {
        Problem::Matmul(own) if way.shares => own.c.layout.elements(),
        Problem::Matmul(own) => ROWS * own.n,
        _ => 0,
    };
    Some(multiplied.map(|own| Part::Multiplied(Box::new(own), elements <= MOST_FOLLOWED)))
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
        numerics: of_kernel(kernel, target),
    }
}

/// A kernel of whole nodes.
pub(super) fn of_whole(whole: &Whole, target: &Target, nodes: &[usize]) -> Kernel {
    let uids: Vec<i64> = whole.arguments.iter().map(hipdnn_plugin_lowering::Argument::uid).collect();
    let mut kernel = Kernel { nodes: nodes.to_vec(), ..made(&whole.launch, &uids, target) };
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
