//! Generates source from graphs: kernels in a C++ dialect that hipRTC and NVRTC compile, each with its own
//! header.
//!
//! This module does not depend on a device or library. Nodes are collected in a [`group`] as long as one
//! kernel can compute them, reading each element or row once; [`kernel`] writes the source.

mod body;
pub mod group;
pub mod kernel;
pub mod node;
pub mod pointwise;
pub mod split;
pub mod strip;
pub mod value;
pub mod walk;
pub mod window;

use std::collections::{HashMap, HashSet};

use hipdnn_plugin_lowering::statistics::spelled_out;
use hipdnn_plugin_planner::plan::{Placed, StepTensors};
use hipdnn_plugin_planner::prepare::{Prepared, in_node, prepare};
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_sdk::graph::Graph;

use crate::Refusal;
use group::Group;
use kernel::Kernel;
use node::Item;

/// HIP's definitions for the kernels.
pub const HIP: &str = include_str!("hip.h");
/// CUDA's definitions for the kernels.
pub const CUDA: &str = include_str!("cuda.h");
/// Code shared by all kernels.
pub const PRELUDE: &str = include_str!("prelude.h");

/// A graph as a sequence of kernels.
#[derive(Clone, Debug)]
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
        let kernels = self.kernels.iter().map(|kernel| kernel.text.as_str());
        [language, PRELUDE].into_iter().chain(kernels).collect::<Vec<_>>().join("\n")
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
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether workgroups share rows if these are few and long.
    pub shares_rows: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { shares_rows: true }
    }
}

/// As [`generate`], with options.
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
        // Nothing reads it and no caller asked for it: skip it.
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
