//! Graphs as source: kernels in a C++ that hipRTC compiles, and another compiler with other words in front.
//!
//! Nothing here knows a device or a library. Nodes are gathered into [`group`]s as long as one kernel can compute them, each
//! element or row read once, and written as text by [`kernel`].

pub mod group;
pub mod kernel;
pub mod node;
pub mod pointwise;
pub mod statistics;
pub mod value;
pub mod walk;
pub mod window;

use std::collections::{HashMap, HashSet};

use hipdnn_plugin_planner::layout::{Layout, storage_size};
use hipdnn_plugin_planner::prepare::{Prepared, in_node, prepare};
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::workspace::{Place, Places, arrange};
use hipdnn_plugin_sdk::graph::Graph;

use crate::Refusal;
use group::Group;
use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;
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
    /// The virtual tensors that one kernel leaves for another, and the outputs that nobody marked. Each kernel is one step.
    pub places: Places,
    /// The latter, which lie where the caller binds them.
    pub unmarked: HashSet<i64>,
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
                next = item.rest();
            }
            Ok(())
        };
        add().map_err(|refusal| in_node(place, &node, refusal))?;
    }
    // The last group that reads each tensor from memory.
    let mut readers: HashMap<i64, usize> = HashMap::new();
    for (number, group) in groups.iter().enumerate() {
        readers.extend(group.reads().map(|uid| (uid, number)));
    }
    let virtuals: HashSet<i64> =
        graph.tensors.iter().filter(|tensor| tensor.is_virtual).map(|tensor| tensor.uid).collect();
    let mut places = Vec::new();
    let mut kernels = Vec::new();
    for (number, group) in groups.iter_mut().enumerate() {
        group.stores.retain(|store| !virtuals.contains(&store.uid) || readers.contains_key(&store.uid));
        for store in &group.stores {
            if (virtuals.contains(&store.uid) || unmarked.contains(&store.uid))
                && let Some(tensor) = graph.tensor(store.uid)
            {
                let last = readers.get(&store.uid).copied().unwrap_or(number);
                let size = storage_size(tensor.data_type, Layout::of(tensor)?.extent())?;
                places.push(Place { uid: store.uid, first: number, last, size, offset: 0 });
            }
        }
        // What nobody reads and nobody asked for need not be computed.
        if !group.stores.is_empty() {
            kernels.push(kernel::write(group, format!("kernel_{}", kernels.len()))?);
        }
    }
    Ok(Program { kernels, places: arrange(places, ALIGNMENT)?, unmarked })
}

#[cfg(test)]
mod tests;
