//! Tensors whose elements are those of other tensors: transposes, slices, concatenations, which graphs have no node for.
//!
//! The nodes between two views are a graph of their own for an engine. Views are of elements, not of memory, so that each is a
//! list of indices, whatever operations it stands for.

use std::collections::HashSet;
use std::ops::Range;

use crate::graph::Graph;
use crate::tensor::Array;

/// A tensor that nodes read.
#[derive(Clone, Debug)]
pub struct View {
    /// Its uid.
    pub uid: i64,
    /// The tensors whose elements it has.
    pub sources: Vec<i64>,
    /// Numbers that it has, too.
    pub numbers: Vec<f64>,
    /// For each of its elements, the place of that in all sources one after the other and the numbers.
    pub elements: Vec<usize>,
}

/// The views of a graph.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// All of them; none is a source of another.
    pub all: Vec<View>,
    /// Tensors that the graph writes for views only.
    pub inner: HashSet<i64>,
}

impl View {
    /// Its elements, if all its sources are known.
    fn array<'v>(&self, graph: &Graph, known: impl Fn(i64) -> Option<&'v Array>) -> Option<Array> {
        let sources = self.sources.iter().map(|uid| known(*uid).map(|array| array.values.as_slice()));
        let sources = sources.chain([Some(self.numbers.as_slice())]).collect::<Option<Vec<&[f64]>>>()?;
        let dims = graph.tensor(self.uid)?.dims.iter();
        let dims: Vec<usize> = dims.map(|dim| usize::try_from(*dim).ok()).collect::<Option<_>>()?;
        let value = |place: &usize| {
            let mut place = *place;
            for source in &sources {
                match source.get(place) {
                    Some(value) => return Some(*value),
                    None => place -= source.len(),
                }
            }
            None
        };
        let values = self.elements.iter().map(value).collect::<Option<Vec<f64>>>()?;
        (dims.iter().product::<usize>() == values.len()).then_some(Array { dims, values })
    }
}

impl Views {
    /// Those that are not known yet and whose sources all are.
    pub fn made<'v>(&self, graph: &Graph, known: impl Fn(i64) -> Option<&'v Array>) -> Vec<(i64, Array)> {
        let unknown = self.all.iter().filter(|view| known(view.uid).is_none());
        unknown.filter_map(|view| Some((view.uid, view.array(graph, &known)?))).collect()
    }

    /// The tensors whose elements a tensor has, if it is a view.
    pub fn sources(&self, uid: i64) -> &[i64] {
        self.all.iter().find(|view| view.uid == uid).map_or(&[], |view| &view.sources)
    }

    /// Whether a tensor that a plan writes is one of the graph's results, not a view's source or of a later part.
    pub fn is_result(&self, graph: &Graph, uid: i64) -> bool {
        !self.inner.contains(&uid) && graph.tensor(uid).is_some_and(|tensor| !tensor.is_virtual)
    }

    /// Whether a view has elements of a tensor.
    pub fn read(&self, uid: i64) -> bool {
        self.all.iter().any(|view| view.sources.contains(&uid))
    }

    /// The graph's nodes in runs, none of which reads a view of what it writes.
    pub fn runs(&self, graph: &Graph) -> Vec<Range<usize>> {
        let (mut runs, mut first) = (Vec::new(), 0);
        let mut written: HashSet<i64> = HashSet::new();
        for (place, node) in graph.nodes.iter().enumerate() {
            let mut sources = node.inputs.iter().flat_map(|port| self.sources(port.uid));
            if sources.any(|uid| written.contains(uid)) {
                runs.push(first..place);
                first = place;
                written.clear();
            }
            written.extend(node.outputs.iter().map(|port| port.uid));
        }
        if first < graph.nodes.len() {
            runs.push(first..graph.nodes.len());
        }
        runs
    }

    /// A graph for a picture: its nodes read the sources of views instead of these.
    pub fn joined(&self, graph: &Graph) -> Graph {
        let mut joined = graph.clone();
        for node in &mut joined.nodes {
            let ports = std::mem::take(&mut node.inputs);
            for port in ports {
                match self.sources(port.uid) {
                    [] => node.inputs.push(port),
                    sources => node.inputs.extend(sources.iter().map(|uid| {
                        let mut port = port.clone();
                        port.uid = *uid;
                        port
                    })),
                }
            }
        }
        let is_view = |uid: i64| !self.sources(uid).is_empty();
        for tensor in joined.tensors.iter_mut().filter(|tensor| self.inner.contains(&tensor.uid)) {
            tensor.is_virtual = true;
        }
        joined.without_tensors(is_view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{graph, pointwise, tensor};

    /// `y` is computed from the transpose of `x`'s exponentials beside a number, `z` from the exponentials themselves.
    fn transposed() -> (Graph, Views) {
        let mut tensors = vec![tensor(1, "x", &[2, 2], false), tensor(2, "e", &[2, 2], false)];
        tensors.extend([tensor(3, "view", &[5, 1], false), tensor(4, "t", &[5, 1], true)]);
        tensors.extend([tensor(5, "y", &[5, 1], false), tensor(6, "z", &[2, 2], false)]);
        let nodes = vec![
            pointwise("", "exp", 1, None, 2),
            pointwise("", "neg", 2, None, 6),
            pointwise("", "abs", 3, None, 4),
            pointwise("", "neg", 4, None, 5),
        ];
        let view = View { uid: 3, sources: vec![2], numbers: vec![9.0], elements: vec![0, 2, 1, 3, 4] };
        (graph("", tensors, nodes), Views { all: vec![view], inner: HashSet::from([2]) })
    }

    #[test]
    fn elements_are_those_of_the_sources_and_then_numbers() {
        let (graph, views) = transposed();
        let array = Array { dims: vec![2, 2], values: vec![1.0, 2.0, 3.0, 4.0] };
        assert!(views.made(&graph, |_| None).is_empty());
        let made = views.made(&graph, |uid| (uid == 2).then_some(&array));
        let expected = Array { dims: vec![5, 1], values: vec![1.0, 3.0, 2.0, 4.0, 9.0] };
        assert_eq!(made, [(3, expected.clone())]);
        assert!(views.made(&graph, |uid| Some(if uid == 2 { &array } else { &expected })).is_empty());
    }

    #[test]
    fn a_run_ends_where_a_view_of_it_is_read() {
        let (graph, views) = transposed();
        assert_eq!(views.runs(&graph), [0..2, 2..4]);
        assert_eq!(Views::default().runs(&graph).len(), 1);
    }

    #[test]
    fn sources_of_views_alone_are_no_results() {
        let (graph, views) = transposed();
        assert_eq!([2, 4, 5, 6].map(|uid| views.is_result(&graph, uid)), [false, false, true, true]);
        assert!(Views::default().is_result(&graph, 2));
    }

    #[test]
    fn a_picture_leads_from_sources_to_readers() {
        let (graph, views) = transposed();
        let joined = views.joined(&graph);
        assert_eq!(joined.nodes[2].inputs.iter().map(|port| port.uid).collect::<Vec<_>>(), [2]);
        assert!(joined.tensor(3).is_none() && joined.tensor(2).unwrap().is_virtual);
    }
}
