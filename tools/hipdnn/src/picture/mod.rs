//! A picture of a graph: operations as filled boxes, tensors as outlined ones, layer by layer from top to bottom.
//!
//! `diagram` makes boxes and edges of a graph, `layers` assigns boxes to layers, `order` sorts the boxes of a layer to
//! reduce crossings, `place` assigns coordinates, `svg` draws them. `dot` leaves all that to Graphviz.

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

/// The nodes' shares of an error.
pub struct Shares {
    /// The engine.
    pub engine: String,
    /// For each node its share, from 0 to 1, and a line.
    pub of_nodes: Vec<(f64, String)>,
}

/// What a picture shows besides the graph.
#[derive(Clone, Copy)]
enum Marks<'a> {
    Nothing,
    Plan(&'a Planned),
    Shares(&'a Shares),
}

impl<'a> Marks<'a> {
    /// The plan, if it is one.
    fn planned(self) -> Option<&'a Planned> {
        match self {
            Self::Plan(planned) => Some(planned),
            _ => None,
        }
    }

    /// A node's share of the error.
    fn share(self, node: usize) -> Option<&'a (f64, String)> {
        match self {
            Self::Shares(shares) => shares.of_nodes.get(node),
            _ => None,
        }
    }

    /// The engine.
    fn engine(self) -> Option<&'a str> {
        match self {
            Self::Nothing => None,
            Self::Plan(planned) => Some(&planned.engine),
            Self::Shares(shares) => Some(&shares.engine),
        }
    }
}

/// The SVG of a graph, with the steps of a plan if given.
pub fn svg(graph: &Graph, planned: Option<&Planned>) -> Result<String> {
    draw(graph, planned.map_or(Marks::Nothing, Marks::Plan))
}

/// The SVG of a graph whose nodes are coloured by their share of an error.
pub fn svg_of_shares(graph: &Graph, shares: &Shares) -> Result<String> {
    draw(graph, Marks::Shares(shares))
}

fn draw(graph: &Graph, marks: Marks<'_>) -> Result<String> {
    if graph.nodes.len() > MOST_NODES {
        return Err(Failure::work(format!(
            "the graph has {} nodes, a picture is drawn of at most {MOST_NODES}",
            graph.nodes.len()
        )));
    }
    let diagram = diagram::Diagram::new(graph, marks);
    let mut layered = layers::Layered::new(&diagram);
    order::sort(&mut layered);
    let placed = place::Placed::new(&diagram, &layered);
    Ok(svg::draw(graph, marks, &diagram, &placed))
}

/// The graph in Graphviz' language.
pub fn dot(graph: &Graph) -> String {
    dot::write(&graph.name, &diagram::Diagram::new(graph, Marks::Nothing))
}

#[cfg(test)]
mod tests;
