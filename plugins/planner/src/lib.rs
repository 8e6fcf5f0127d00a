//! From a graph as a plugin gets it to numbers that its kernels are planned with, the same for every processor.
//!
//! [`prepare`](prepare::prepare) resolves and checks a graph, [`problem`] has the numbers of each kind of node, [`layout`]
//! where the elements of a tensor lie, and [`workspace`] the places of the tensors that exist only between nodes.

pub mod layout;
pub mod prepare;
pub mod problem;
pub mod workspace;

/// Why a graph is not computed: names the first thing that is not supported.
pub type Refusal = String;
