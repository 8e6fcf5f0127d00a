//! What both engines make of one node: a kernel that is planned once and run many times.

pub use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_sdk::graph::Graph;

use crate::prepare::CheckedNode;
use crate::problem::pointers;

/// The computation of one node, with every decision made.
pub trait Kernel: Send + Sync {
    /// Bytes of memory that a run may use for itself, aligned to 64 bytes.
    fn scratch_size(&self) -> usize {
        0
    }

    /// Whether what the tensors say of places in other tensors (lengths, offsets, indices) is in range. Called before each
    /// run; allocates nothing unless it fails.
    ///
    /// # Safety
    /// As for [`Kernel::run`].
    unsafe fn check(&self, _tensors: &[*mut u8]) -> Result<(), Refusal> {
        Ok(())
    }

    /// Computes the node. Allocates nothing and takes no lock.
    ///
    /// # Safety
    /// `tensors` are the first elements of the operation's tensors in the order of [`pointers`], each
    /// valid for its extent, and [`Kernel::check`] found no fault with them; what is written overlaps nothing else, except that
    /// the new running statistics of a batch normalization may lie exactly where the old ones do. `scratch` is valid for
    /// [`Kernel::scratch_size`] bytes.
    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8);
}

/// A part of a graph that one kernel computes.
pub struct Part {
    /// The last of its nodes, at whose place in the graph it runs.
    pub node: usize,
    /// The tensors that the kernel gets pointers to, in its order.
    pub tensors: Vec<i64>,
    /// What computes it.
    pub kernel: Box<dyn Kernel>,
}

impl Part {
    /// The part of one node.
    pub fn of_node(
        graph: &Graph,
        node: CheckedNode<'_>,
        choose: impl FnOnce(&CheckedNode<'_>) -> Result<Box<dyn Kernel>, Refusal>,
    ) -> Result<Self, Refusal> {
        let kernel = choose(&node).map_err(|refusal| node.refusal(refusal))?;
        Ok(Self { node: node.place, tensors: pointers(graph, &node.node.operation), kernel })
    }
}

/// The most tensors that one operation may have.
pub const MAX_TENSORS: usize = 32;
