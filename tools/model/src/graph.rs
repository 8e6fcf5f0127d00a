//! Graphs, of which nothing but whether they are equal is asked.

use std::sync::Arc;

/// A finalized graph.
pub struct FrozenGraph(pub Arc<VerifiedGraph>);

impl FrozenGraph {
    /// Whether the plan cache may know it.
    pub fn is_cached(&self) -> bool {
        true
    }

    /// What does not depend on the handle.
    pub fn verified(&self) -> &Arc<VerifiedGraph> {
        &self.0
    }
}

/// A graph: its number.
pub struct VerifiedGraph {
    /// Graphs with the same one are equal.
    pub number: u64,
}

impl VerifiedGraph {
    /// The number of what equal graphs have in common.
    pub fn hash(&self) -> Option<u64> {
        Some(self.number)
    }

    /// Whether both are the same.
    pub fn is_equal(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        self.number == other.number
    }

    /// How many bytes are kept with it.
    pub fn size(&self) -> usize {
        1
    }
}

/// The graphs that a thread was given last.
pub mod recent {
    /// None of them.
    #[derive(Default)]
    pub struct Recent;
}
