//! Graphs as kernels in the typed form of `hipdnn-kernels`: what plugins that generate code for GPUs share.
//!
//! [`lower`] checks a graph, writes kernels with matrix tiles for products, convolutions and attention, collects other nodes in a
//! [`group`] as long as one kernel can compute them, reading each element or row once, and writes a kernel for each, or makes it the
//! epilogue of the product or convolution before it. [`statistics`] expands nodes whose statistics must be computed first.

mod adding;
pub mod attention;
pub mod batchnorm;
mod block_scale;
mod codes;
pub mod convolution;
pub mod following;
pub mod gather;
pub mod group;
pub mod memory;
mod mixture;
pub mod node;
pub mod numerics;
pub mod pointwise;
pub mod product;
pub mod rows;
pub mod spelling;
pub mod statistics;
pub mod training;
pub mod way;
pub mod window_limits;

use std::collections::HashSet;

pub use adding::check_floats;
use hipdnn_kernels::Target;
use hipdnn_kernels::domain::Written;
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::prepare::{Prepared, in_node, prepare};
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::block_scale::BlockScale;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node};

use crate::attention::Whole;
use crate::following::{Multiplied, followed};
use crate::group::Group;
use crate::node::Item;
use crate::statistics::spelled_out;

/// What is passed to a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The address of a tensor.
    Memory(i64),
    /// The only element of a tensor that is passed at execution, as a double.
    Number {
        /// The tensor.
        uid: i64,
        /// The type of the element.
        data_type: DataType,
    },
}

impl Argument {
    /// The tensor.
    pub fn uid(&self) -> i64 {
        match self {
            Self::Memory(uid) | Self::Number { uid, .. } => *uid,
        }
    }
}

/// A kernel of a graph.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The kernel and its workgroups.
    pub written: Written,
    /// Its arguments, in the order of its parameters.
    pub arguments: Vec<Argument>,
    /// The nodes that it computes.
    pub nodes: Vec<usize>,
}

/// A graph as kernels in order.
#[derive(Clone, Debug)]
pub struct Program {
    /// The kernels.
    pub kernels: Vec<Lowered>,
    /// The graph, with the tensors between kernels.
    pub graph: Graph,
    /// Outputs that executions may leave out.
    pub unmarked: HashSet<i64>,
}

/// What a device computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether it has doubles.
    pub has_doubles: bool,
    /// Whether the bits of an item of a batch depend on it alone.
    pub batch_invariant: bool,
}

/// Writes the kernels of a graph for a device.
///
/// # Errors
/// The first node that is not supported, and why.
pub fn lower(graph: &Graph, target: &Target, options: Options) -> Result<Program, Refusal> {
    let Prepared { mut graph, problems, unmarked } = prepare(graph)?;
    let given = std::mem::take(&mut graph.nodes);
    let mut nodes = Vec::with_capacity(given.len());
    for (place, (node, problem)) in given.into_iter().zip(problems).enumerate() {
        match spelled_out(&mut graph, &node, &problem) {
            None => nodes.push((place, node, problem)),
            Some(spelled) => {
                for node in spelled {
                    let problem = Problem::of(&graph, &node.operation)
                        .map_err(|refusal| in_node(place, &node, refusal))?;
                    nodes.push((place, node, problem));
                }
            }
        }
    }
    let mut parts: Vec<Part> = Vec::new();
    for (place, node, problem) in nodes {
        let add = || {
            if let Some(part) = whole(&mut graph, place, &node, &problem, target, options) {
                parts.push(part?);
                return Ok(());
            }
            if let Some(groups) = mixture::groups(&mut graph, &node, &problem, options) {
                parts.extend(groups?.into_iter().map(|mut group| {
                    group.nodes.push(place);
                    Part::Walked(Box::new(group))
                }));
                return Ok(());
            }
            let mut next = Some(Item::of(&node, problem, options)?);
            while let Some(item) = next {
                match parts.last_mut() {
                    Some(Part::Walked(group)) if item.fits(group) => item.add(group, &graph)?,
                    _ => {
                        let mut group = Group::new(item.domain());
                        item.add(&mut group, &graph)?;
                        parts.push(Part::Walked(Box::new(group)));
                    }
                }
                if let Some(Part::Walked(group)) = parts.last_mut()
                    && group.nodes.last() != Some(&place)
                {
                    group.nodes.push(place);
                }
                next = item.rest();
            }
            Ok(())
        };
        add().map_err(|refusal| in_node(place, &node, refusal))?;
    }
    let read: HashSet<i64> = parts.iter().flat_map(following::Part::reads).collect();
    let virtuals: HashSet<i64> =
        graph.tensors.iter().filter(|tensor| tensor.is_virtual).map(|tensor| tensor.uid).collect();
    for part in &mut parts {
        if let Part::Walked(group) = part {
            group.retain(|uid| !virtuals.contains(&uid) || read.contains(&uid));
        }
    }
    // What nothing reads and no caller asked for is skipped.
    parts.retain(|part| !matches!(part, Part::Walked(group) if group.is_empty()));
    let mut kernels = Vec::with_capacity(parts.len());
    let way = way::Way { target, name: "", shares: !options.batch_invariant };
    for part in followed(parts, &mut graph, &unmarked, way) {
        let mut group = match part {
            Part::Walked(group) => *group,
            Part::Multiplied(own) => {
                kernels.extend(own.kernels.into_iter().map(|whole| of_whole(whole, &[own.place])));
                continue;
            }
            Part::Whole(wholes, nodes) => {
                kernels.extend(wholes.into_iter().map(|whole| of_whole(whole, &nodes)));
                continue;
            }
        };
        let name = format!("kernel_{}", kernels.len());
        group.program.is_invariant = options.batch_invariant;
        let written = group.program.write(&name, target)?;
        kernels.push(Lowered { written, arguments: group.arguments, nodes: group.nodes });
    }
    Ok(Program { kernels, graph, unmarked })
}

/// A part of a program.
enum Part {
    /// A walk over elements or rows.
    Walked(Box<Group>),
    /// A product or convolution.
    Multiplied(Box<Multiplied>),
    /// Kernels of whole nodes.
    Whole(Vec<Whole>, Vec<usize>),
}

impl following::Part for Part {
    fn reads(&self) -> Vec<i64> {
        match self {
            Self::Walked(group) => group.reads().collect(),
            Self::Multiplied(own) => own.kernels.iter().flat_map(Whole::reads).collect(),
            Self::Whole(wholes, _) => wholes.iter().flat_map(Whole::reads).collect(),
        }
    }

    fn multiplied(&self) -> Option<&Multiplied> {
        if let Self::Multiplied(own) = self { Some(own) } else { None }
    }

    fn group(&self, _: &Graph) -> Option<Group> {
        if let Self::Walked(group) = self { Some(group.as_ref().clone()) } else { None }
    }

    fn of_kernels(kernels: Vec<Whole>, nodes: Vec<usize>) -> Self {
        Self::Whole(kernels, nodes)
    }
}

fn of_whole(whole: Whole, nodes: &[usize]) -> Lowered {
    let Whole { launch, arguments } = whole;
    let written = Written { kernel: launch.kernel, groups: launch.grid };
    Lowered { written, arguments, nodes: nodes.to_vec() }
}

/// The part of a node that is computed by itself.
fn whole(
    graph: &mut Graph,
    place: usize,
    node: &Node,
    problem: &Problem,
    target: &Target,
    options: Options,
) -> Option<Result<Part, Refusal>> {
    let kind = match problem {
        Problem::Attention(_) | Problem::AttentionGradients(_) => "attention",
        Problem::Matmul(_) => "product",
        Problem::Convolution(own) if convolution::suits(own) => "product",
        Problem::BlockScale(BlockScale::Quantize(_)) => "quantize",
        _ => return None,
    };
    if node.compute_type == DataType::Double && !options.has_doubles {
        return Some(Err(node::NO_DOUBLES.to_owned()));
    }
    let name = format!("{kind}_{place}");
    let way = way::Way { target, name: &name, shares: !options.batch_invariant };
    let of_kernels = |kernels: Vec<Whole>| Part::Whole(kernels, vec![place]);
    if let Problem::BlockScale(BlockScale::Quantize(own)) = problem {
        return Some(block_scale::quantize(graph, node, own, way).map(|whole| of_kernels(vec![whole])));
    }
    if let Some(multiplied) = Multiplied::of(graph, place, node, problem, way) {
        // What tiles do not compute, a walk may.
        return multiplied.ok().map(|own| Ok(Part::Multiplied(Box::new(own))));
    }
    attention::kernels(graph, node, problem, way).map(|kernels| kernels.map(of_kernels))
}

#[cfg(test)]
mod tests;
