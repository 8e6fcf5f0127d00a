//! A picture of a graph: operations as filled boxes, tensors as outlined ones, layer by layer from top to bottom.
//!
//! [`diagram`] makes boxes and edges of a graph, [`layers`] assigns boxes to layers, [`order`] sorts the boxes of a layer to
//! reduce crossings, [`place`] assigns coordinates, [`mod@svg`] draws them. [`mod@dot`] leaves all that to Graphviz.

mod diagram;
mod dot;
mod layers;
mod order;
mod place;
mod svg;
pub mod text;

use crate::failure::{Failure, Result};
use crate::graph::Graph;
use crate::steps::Step;

/// Larger pictures are not useful.
const MOST_NODES: usize = 1000;

/// An engine's plan for a graph.
pub struct Planned {
    /// The engine.
    pub engine: String,
    /// The steps of its plan.
    pub steps: Vec<Step>,
    /// The milliseconds of each step, if known.
    pub times: Vec<Option<f64>>,
}

/// The SVG of a graph, with the steps of a plan if given.
pub fn svg(graph: &Graph, planned: Option<&Planned>) -> Result<String> {
    if graph.nodes.len() > MOST_NODES {
        return Err(Failure::work(format!(
            "the graph has {} nodes, a picture is drawn of at most {MOST_NODES}",
            graph.nodes.len()
        )));
    }
    let diagram = diagram::Diagram::new(graph, planned);
    let mut layered = layers::Layered::new(&diagram);
    order::sort(&mut layered);
    let placed = place::Placed::new(&diagram, &layered);
    Ok(svg::draw(graph, planned, &diagram, &placed))
}

/// The graph in Graphviz' language.
pub fn dot(graph: &Graph) -> String {
    dot::write(&graph.name, &diagram::Diagram::new(graph, None))
}

#[cfg(test)]
mod tests;
