//! Products and convolutions with what follows them: element-wise nodes become the epilogue of their kernels.

use std::collections::HashSet;

use hipdnn_kernels::domain::Epilogue;
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_sdk::graph::{Graph, Node};

use crate::attention::Whole;
use crate::group::{Group, MAX_TENSORS};
use crate::way::Way;
use crate::{Argument, convolution, product};

/// A product or convolution that kernels of its own compute.
#[derive(Clone, Debug)]
pub struct Multiplied {
    /// Its kernels.
    pub kernels: Vec<Whole>,
    /// Its place in the graph.
    pub place: usize,
    node: Node,
    problem: Problem,
    name: String,
}

/// Where a program's kernels come from: each part is some nodes of the graph.
pub trait Part: Sized {
    /// The tensors in memory that it reads.
    fn reads(&self) -> Vec<i64>;
    /// The product or convolution, if it is one.
    fn multiplied(&self) -> Option<&Multiplied>;
    /// Its values and nodes, if it computes elements or rows.
    fn group(&self, graph: &Graph) -> Option<Group>;
    /// The part of kernels for some nodes.
    fn of_kernels(kernels: Vec<Whole>, nodes: Vec<usize>) -> Self;
}

impl Multiplied {
    /// The kernels of a product or convolution; none if the node is another, or a convolution that is too small for matrix tiles.
    ///
    /// # Errors
    /// What is not supported.
    pub fn of(
        graph: &mut Graph,
        place: usize,
        node: &Node,
        problem: &Problem,
        way: Way<'_>,
    ) -> Option<Result<Self, Refusal>> {
        let is_multiplied = match problem {
            Problem::Matmul(_) => true,
            Problem::Convolution(own) => convolution::suits(own),
            _ => false,
        };
        let kernels = is_multiplied.then(|| written(graph, node, problem, way, None))?;
        let (node, name) = (node.clone(), way.name.to_owned());
        Some(kernels.map(|kernels| Self { kernels, place, node, problem: problem.clone(), name }))
    }

    /// The kernels with a group as their epilogue: where nothing else reads the result, and the group reads its elements in their places.
    fn followed_by(&self, group: &Group, graph: &mut Graph, way: Way<'_>) -> Option<Vec<Whole>> {
        let [result] = *self.node.operation.outputs().as_slice() else { return None };
        if group.tensors + self.node.operation.tensors().len() > MAX_TENSORS {
            return None;
        }
        let epilogue = group.epilogue_of(graph.tensor(result)?)?;
        let way = Way { name: &self.name, ..way };
        // The kernels without it stay where one cannot be written.
        written(graph, &self.node, &self.problem, way, Some(epilogue)).ok()
    }

    /// Whether only a kernel that goes on from the result sees it.
    fn is_hidden(&self, graph: &Graph, unmarked: &HashSet<i64>, readers: impl Fn(i64) -> usize) -> bool {
        self.node.operation.outputs().iter().all(|uid| {
            let is_virtual = graph.tensor(*uid).is_some_and(|tensor| tensor.is_virtual);
            is_virtual && !unmarked.contains(uid) && readers(*uid) == 1
        })
    }
}

fn written(
    graph: &mut Graph,
    node: &Node,
    problem: &Problem,
    way: Way<'_>,
    epilogue: Option<(Epilogue, Vec<Argument>)>,
) -> Result<Vec<Whole>, Refusal> {
    match problem {
        Problem::Matmul(own) => product::kernels(graph, node, own, way, epilogue),
        Problem::Convolution(own) => convolution::kernels(graph, node, own, way, epilogue),
        _ => Err("is neither a product nor a convolution".to_owned()),
    }
}

/// The parts, where a product or convolution and what directly follows it are one if they can be. Kernels keep the names that they have.
pub fn followed<P: Part>(parts: Vec<P>, graph: &mut Graph, unmarked: &HashSet<i64>, way: Way<'_>) -> Vec<P> {
    let reads: Vec<Vec<i64>> = parts.iter().map(Part::reads).collect();
    let readers = |uid: i64| reads.iter().filter(|reads| reads.contains(&uid)).count();
    let mut joined: Vec<P> = Vec::with_capacity(parts.len());
    for part in parts {
        let hidden = joined.last().and_then(Part::multiplied);
        let whole = hidden.filter(|own| own.is_hidden(graph, unmarked, readers)).and_then(|own| {
            let group = part.group(graph)?;
            let kernels = own.followed_by(&group, graph, way)?;
            Some(P::of_kernels(kernels, [&[own.place], group.nodes.as_slice()].concat()))
        });
        match whole {
            Some(whole) => {
                joined.pop();
                joined.push(whole);
            }
            None => joined.push(part),
        }
    }
    joined
}
