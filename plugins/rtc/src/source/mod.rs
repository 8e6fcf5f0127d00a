//! Graphs as source: kernels in a C++ that hipRTC compiles, and another compiler with other words in front.
//!
//! Nothing here knows a device or a library. Nodes are gathered into [`group`]s as long as one kernel can compute them, each
//! element or row read once, and written as text by [`kernel`].

pub mod group;
pub mod kernel;
pub mod node;
pub mod pointwise;
mod spelling;
pub mod split;
pub mod statistics;
pub mod strip;
pub mod training;
pub mod value;
pub mod walk;
pub mod window;

use std::collections::{HashMap, HashSet};

use hipdnn_plugin_planner::plan::{Placed, StepTensors};
use hipdnn_plugin_planner::prepare::{Prepared, in_node, prepare};
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_sdk::graph::Graph;

use crate::Refusal;
use group::Group;
use kernel::Kernel;
use node::Item;
use statistics::spelled_out;

/// What HIP's language calls what kernels need.
pub const HIP: &str = include_str!("hip.h");
/// What CUDA's language calls them.
pub const CUDA: &str = include_str!("cuda.h");
/// What all kernels share.
pub const PRELUDE: &str = include_str!("prelude.h");

/// A graph as kernels that run one after the other.
#[derive(Clone, Debug)]
pub struct Program {
    /// The kernels, in their order.
    pub kernels: Vec<Kernel>,
    /// Where the tensors of each kernel lie, in the order of its arguments. In the workspace are the virtual tensors that one kernel
    /// leaves for another, and unmarked outputs, where they are not bound.
    pub placed: Placed,
}

impl Program {
    /// The source of all kernels, with the words of a language in front.
    pub fn source(&self, language: &str) -> String {
        let kernels = self.kernels.iter().map(|kernel| kernel.text.as_str());
        [language, PRELUDE].into_iter().chain(kernels).collect::<Vec<_>>().join("\n")
    }
}

/// Writes the kernels of a graph.
///
/// # Errors
/// The first node that is not computed, and why.
pub fn generate(graph: &Graph) -> Result<Program, Refusal> {
    generate_with(graph, Options::default())
}

/// What can be chosen of the kernels.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether workgroups share rows where these are few and long.
    pub shares_rows: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { shares_rows: true }
    }
}

/// As [`generate`], with choices.
///
/// # Errors
/// As [`generate`].
pub fn generate_with(graph: &Graph, options: Options) -> Result<Program, Refusal> {
    let Prepared { mut graph, problems, unmarked } = prepare(graph)?;
    let mut groups: Vec<Group> = Vec::new();
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
    for (place, node, problem) in nodes {
        let add = || {
            let mut next = Some(Item::of(&node, problem)?);
            while let Some(item) = next {
                match groups.last_mut() {
                    Some(group) if item.fits(group) => item.add(group, &graph)?,
                    _ => {
                        let mut group = Group::new(item.domain());
                        item.add(&mut group, &graph)?;
                        groups.push(group);
                    }
                }
                if let Some(group) = groups.last_mut()
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
    let read: HashSet<i64> = groups.iter().flat_map(Group::reads).collect();
    let virtuals: HashSet<i64> =
        graph.tensors.iter().filter(|tensor| tensor.is_virtual).map(|tensor| tensor.uid).collect();
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut walked = HashMap::new();
    for mut group in groups {
        group.stores.retain(|store| !virtuals.contains(&store.uid) || read.contains(&store.uid));
        // What no node reads and no caller asked for need not be computed.
        if group.stores.is_empty() {
            continue;
        }
        let parts = if options.shares_rows { split::split(group, &mut graph)? } else { vec![group] };
        for mut part in parts {
            part.turn(&mut walked);
            kernels.push(kernel::write(&part, format!("kernel_{}", kernels.len()))?);
        }
    }
    let tensors: Vec<StepTensors> = kernels.iter().map(Kernel::tensors).collect();
    Ok(Program { placed: Placed::new(&graph, &unmarked, tensors.iter())?, kernels })
}

#[cfg(test)]
mod tests;
