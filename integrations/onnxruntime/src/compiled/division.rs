//! Which graphs engines compute, and a program as its engines divide it.

use std::collections::HashMap;

use hipdnn::graph::{Graph, Operation};
use hipdnn::{GraphBuilder, OperationGraph};

use crate::failure::Result;
use crate::library::{Engines, Library};
use crate::lowering::{Graphs, Place, Program, Work};

/// Asks engines whether they compute the graphs of a program.
pub fn check(library: &Library, engines: &Engines, graphs: &Graphs) -> Result<()> {
    for stage in &graphs.stages {
        if let Work::Graph { graph, .. } = &stage.work
            && !(engines.gpu().is_some() && is_known(library, engines, graph))
        {
            with_graph(library, graph, |graph| engines.check(graph))?;
        }
    }
    Ok(())
}

/// Whether engines of a GPU compute a graph, or one that is alike.
fn is_known(library: &Library, engines: &Engines, graph: &Graph) -> bool {
    let (plain, _) = plain(graph);
    let is_bound = is_bound_by_memory(&plain);
    let ask = || with_graph(library, &plain, |graph| Ok(engines.accept(graph, is_bound))).unwrap_or(false);
    engines.known(&key(&plain), ask)
}

/// Whether a graph does little with each element that it reads.
pub fn is_bound_by_memory(graph: &Graph) -> bool {
    graph.nodes.iter().all(|node| {
        matches!(
            node.operation,
            Operation::Pointwise(_)
                | Operation::Reduction(_)
                | Operation::Layernorm(_)
                | Operation::RmsNorm(_)
        )
    })
}

fn with_graph<R>(
    library: &Library,
    graph: &Graph,
    f: impl FnOnce(&OperationGraph) -> Result<R>,
) -> Result<R> {
    library.with_handle(|handle| f(&GraphBuilder::from(graph.clone()).build(handle)?))
}

/// Divides a program as its engines compute it. Layers that are alike are asked about once in a session.
pub fn divide(
    library: &Library,
    engines: &Engines,
    program: &Program,
    name: &str,
) -> std::result::Result<Graphs, String> {
    if engines.gpu().is_none() {
        return program.divide(name);
    }
    let accepts = |graph: &Graph| is_known(library, engines, graph);
    program.divide_into_parts(name, &accepts)
}

/// What graphs have in common that one plan computes.
pub fn key(graph: &Graph) -> String {
    format!("{:?} {:?}", graph.nodes, graph.tensors)
}

/// The graph without names, its tensors numbered in the order in which they come, and the new number of each.
pub fn plain(graph: &Graph) -> (Graph, HashMap<i64, i64>) {
    let mut plain = graph.clone();
    plain.name.clear();
    let mut places = HashMap::new();
    let mut place = |uid: i64| {
        let next = places.len() as i64 + 1;
        *places.entry(uid).or_insert(next)
    };
    for node in &mut plain.nodes {
        node.name.clear();
        node.operation.for_each_tensor(|uid| *uid = place(*uid));
    }
    for tensor in &mut plain.tensors {
        tensor.uid = place(tensor.uid);
        tensor.name.clear();
    }
    plain.tensors.sort_by_key(|tensor| tensor.uid);
    (plain, places)
}

/// A graph and its bindings as GPUs execute them: layers that are alike have one plan there, which packs no weights.
pub fn as_planned(graph: &Graph, bindings: Vec<(i64, Place)>) -> (Graph, Vec<(i64, Place)>) {
    let (graph, numbers) = plain(graph);
    let numbered = bindings.into_iter().filter_map(|(uid, place)| Some((*numbers.get(&uid)?, place)));
    (graph, numbered.collect())
}

#[cfg(test)]
mod tests {
    use hipdnn::graph::operation::Pointwise;
    use hipdnn::graph::{DataType, Node, PointwiseMode, Tensor};

    use super::*;

    #[test]
    fn layers_are_alike_whatever_their_names_and_numbers_are() {
        let layer = |name: &str, [x, y]: [i64; 2], mode| {
            let operation = Pointwise::new(mode, x, None, y).into();
            let tensor = |uid| Tensor::new(uid, DataType::Float, &[2, 3], &[3, 1]);
            let node = Node { name: name.to_owned(), compute_type: DataType::Float, operation };
            let graph = Graph { nodes: vec![node], tensors: vec![tensor(y), tensor(x)], ..Graph::default() };
            as_planned(&graph, vec![(y, Place::Output(0, 0)), (x, Place::Input(0, 0))])
        };
        let first = layer("a", [7, 4], PointwiseMode::Neg);
        assert_eq!(first.1, [(2, Place::Output(0, 0)), (1, Place::Input(0, 0))]);
        assert_eq!(first, layer("b", [1, 9], PointwiseMode::Neg));
        assert_ne!(first, layer("a", [7, 4], PointwiseMode::Abs));
    }
}
