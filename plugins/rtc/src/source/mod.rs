//! Generates source from graphs: kernels in a C++ dialect that hipRTC and NVRTC compile, each with its own
//! header.
//!
//! This module does not depend on a device or library. Nodes are collected in a [`group`] as long as one
//! kernel can compute them, reading each element or row once; [`kernel`] writes the source.

mod body;
pub mod group;
pub mod kernel;
pub mod matrix;
pub mod node;
pub mod pointwise;
pub mod split;
pub mod strip;
pub mod value;
pub mod walk;
pub mod window;

use std::collections::{HashMap, HashSet};

use hipdnn_kernels::Target;
use hipdnn_kernels::target::Language;
use hipdnn_plugin_lowering::attention::Whole;
use hipdnn_plugin_lowering::following;
use hipdnn_plugin_lowering::statistics::spelled_out;
use hipdnn_plugin_lowering::way::Way;
use hipdnn_plugin_planner::plan::{Placed, StepTensors};
use hipdnn_plugin_planner::prepare::{Prepared, in_node, prepare};
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_sdk::graph::{Graph, Node};

use crate::Refusal;
use group::Group;
use kernel::Kernel;
use matrix::Part;
use node::Item;

/// HIP's definitions for the kernels.
pub const HIP: &str = include_str!("hip.h");
/// CUDA's definitions for the kernels.
pub const CUDA: &str = include_str!("cuda.h");
/// Code shared by all kernels.
pub const PRELUDE: &str = include_str!("prelude.h");

/// A graph as a sequence of kernels.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The kernels, in order.
    pub kernels: Vec<Kernel>,
    /// The memory of each kernel's tensors, in the order of its arguments. The workspace has virtual tensors
    /// that one kernel leaves for another, and unmarked outputs that are not bound.
    pub placed: Placed,
}

impl Program {
    /// The source of all kernels, preceded by a platform's definitions.
    pub fn source(&self, language: &str) -> String {
        let (tiled, own): (Vec<&Kernel>, Vec<&Kernel>) =
            self.kernels.iter().partition(|kernel| kernel.is_tiled);
        let mut source = String::new();
        if !own.is_empty() {
            source.push_str(&[language, PRELUDE].join("\n"));
        }
        for kernel in own {
            source.push('\n');
            source.push_str(&kernel.text);
        }
        if !tiled.is_empty() {
            let of = if language == CUDA { Language::Cuda } else { Language::Hip };
            // Both sets of definitions have the same names.
            source.push_str("\nnamespace tiled {\n");
            source.push_str(&hipdnn_kernels::print::c::preamble(of));
            for kernel in tiled {
                source.push_str(&kernel.text);
            }
            source.push_str("}\n");
        }
        source
    }
}

/// Writes the kernels of a graph.
///
/// # Errors
/// The first unsupported node, and why.
pub fn generate(graph: &Graph) -> Result<Program, Refusal> {
    generate_with(graph, Options::default())
}

/// Options of code generation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether workgroups share rows if these are few and long.
    pub shares_rows: bool,
    /// Whether the bits of an item of a batch depend on it alone: then workgroups share no rows and no keys, and divide dot products
    /// alike for any batch.
    pub batch_invariant: bool,
    /// The device of kernels with matrix tiles. Without it the program shows only whether the graph is supported.
    pub target: Option<Target>,
}

impl Default for Options {
    fn default() -> Self {
        Self { shares_rows: true, batch_invariant: false, target: None }
    }
}

impl Options {
    /// The options for an architecture.
    #[must_use]
    pub fn on(self, architecture: &str) -> Self {
        Self { target: Target::of(architecture), ..self }
    }
}

/// As [`generate`], with options.
///
/// # Errors
/// As [`generate`].
pub fn generate_with(graph: &Graph, options: Options) -> Result<Program, Refusal> {
    let Prepared { mut graph, problems, unmarked } = prepare(graph)?;
    let mut parts: Vec<Part> = Vec::new();
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
    // Where the device is not known, any shows what is supported.
    let any = || Target::of("gfx1030").ok_or_else(|| "there is no device to write kernels for".to_owned());
    let target = options.target.clone().map_or_else(any, Ok)?;
    for (place, node, problem) in nodes {
        let name = format!("tiles_{place}");
        let way = Way { target: &target, name: &name, shares: !options.batch_invariant };
        let part = matrix::part(&mut graph, place, &node, &problem, way);
        let added = match part {
            Some(part) => part.map(|part| parts.push(part)),
            None => add(&mut parts, &graph, place, &node, problem),
        };
        added.map_err(|refusal| in_node(place, &node, refusal))?;
    }
    let read: HashSet<i64> = parts.iter().flat_map(following::Part::reads).collect();
    let virtuals: HashSet<i64> =
        graph.tensors.iter().filter(|tensor| tensor.is_virtual).map(|tensor| tensor.uid).collect();
    for part in &mut parts {
        if let Part::Walked(group, _) = part {
            group.batch_invariant = options.batch_invariant;
            group.stores.retain(|store| !virtuals.contains(&store.uid) || read.contains(&store.uid));
        }
    }
    // What nothing reads and no caller asked for is skipped.
    parts.retain(|part| !matches!(part, Part::Walked(group, _) if group.stores.is_empty()));
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut walked = HashMap::new();
    let way = Way { target: &target, name: "", shares: !options.batch_invariant };
    for part in following::followed(parts, &mut graph, &unmarked, way) {
        let mut whole = |wholes: Vec<Whole>, nodes: &[usize]| {
            kernels.extend(wholes.iter().map(|whole| matrix::of_whole(whole, &target, nodes)));
        };
        let group = match part {
            Part::Multiplied(own, _) => {
                whole(own.kernels, &[own.place]);
                continue;
            }
            Part::Whole(wholes, nodes) => {
                whole(wholes, &nodes);
                continue;
            }
            Part::Walked(group, _) => *group,
        };
        let parts = if options.shares_rows && !options.batch_invariant {
            split::split(group, &mut graph)?
        } else {
            vec![group]
        };
        for mut part in parts {
            part.turn(&mut walked);
            kernels.push(kernel::write(&part, format!("kernel_{}", kernels.len()))?);
        }
    }
    let tensors: Vec<StepTensors> = kernels.iter().map(Kernel::tensors).collect();
    Ok(Program { placed: Placed::new(&graph, &unmarked, tensors.iter())?, kernels })
}

/// Adds a node to the last group, or to a new one.
fn add(
    parts: &mut Vec<Part>,
    graph: &Graph,
    place: usize,
    node: &Node,
    problem: Problem,
) -> Result<(), Refusal> {
    let mut next = Some(Item::of(node, problem)?);
    while let Some(item) = next {
        if !matches!(parts.last(), Some(Part::Walked(group, _)) if item.fits(group)) {
            parts.push(Part::Walked(Box::new(Group::new(item.domain())), Vec::new()));
        }
        if let Some(Part::Walked(group, nodes)) = parts.last_mut() {
            item.add(group, graph)?;
            nodes.push(node.clone());
            if group.nodes.last() != Some(&place) {
                group.nodes.push(place);
            }
        }
        next = item.rest();
    }
    Ok(())
}

#[cfg(test)]
mod batchnorm_tests;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod tiled_tests;
