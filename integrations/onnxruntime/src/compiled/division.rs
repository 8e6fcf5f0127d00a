//! Which graphs engines compute, and a program as its engines divide it.

use std::cell::RefCell;
use std::collections::HashMap;

use hipdnn::graph::Graph;
use hipdnn::{GraphBuilder, OperationGraph};

use crate::failure::Result;
use crate::library::{Engines, Library};
use crate::lowering::{Graphs, Program, Work};

/// Asks engines whether they compute the graphs of a program.
pub fn check(library: &Library, engines: &Engines, graphs: &Graphs) -> Result<()> {
    for stage in &graphs.stages {
        if let Work::Graph { graph, .. } = &stage.work {
            with_graph(library, graph, |graph| engines.check(graph))?;
        }
    }
    Ok(())
}

fn with_graph<R>(
    library: &Library,
    graph: &Graph,
    f: impl FnOnce(&OperationGraph) -> Result<R>,
) -> Result<R> {
    library.with_handle(|handle| f(&GraphBuilder::from(graph.clone()).build(handle)?))
}

/// Divides a program as its engines compute it. Layers that are alike are asked about once.
pub fn divide(
    library: &Library,
    engines: &Engines,
    program: &Program,
    name: &str,
) -> std::result::Result<Graphs, String> {
    if engines.gpu().is_none() {
        return program.divide(name);
    }
    let known = RefCell::new(HashMap::new());
    let accepts = |graph: &Graph| {
        let plain = plain(graph);
        let key = format!("{:?} {:?}", plain.nodes, plain.tensors);
        if let Some(answer) = known.borrow().get(&key) {
            return *answer;
        }
        let answer = with_graph(library, &plain, |graph| Ok(engines.accept(graph))).unwrap_or(false);
        known.borrow_mut().insert(key, answer);
        answer
    };
    program.divide_into_parts(name, &accepts)
}

/// The graph without names, its tensors numbered in the order in which they come.
fn plain(graph: &Graph) -> Graph {
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
    plain
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
            plain(&Graph { nodes: vec![node], tensors: vec![tensor(y), tensor(x)], ..Graph::default() })
        };
        let first = layer("a", [7, 4], PointwiseMode::Neg);
        assert_eq!(first, layer("b", [1, 9], PointwiseMode::Neg));
        assert_ne!(first, layer("a", [7, 4], PointwiseMode::Abs));
    }
}
