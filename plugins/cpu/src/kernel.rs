//! The kernel of a node in both engines: planned once, run many times.

pub use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::in_own_frame;
use hipdnn_plugin_sdk::graph::Graph;

use crate::prepare::CheckedNode;
use crate::problem::pointers;

/// The planned computation of a node or a fused part.
pub trait Kernel: Send + Sync {
    /// Bytes of scratch memory of a run, aligned to 64 bytes.
    fn scratch_size(&self) -> usize {
        0
    }

    /// Whether lengths, offsets and indices in tensors are in range. Called before each run; allocates nothing unless it fails.
    ///
    /// # Safety
    /// As for [`Kernel::run`].
    unsafe fn check(&self, _tensors: &[*mut u8]) -> Result<(), Refusal> {
        Ok(())
    }

    /// Computes the node. Allocates nothing and takes no lock.
    ///
    /// # Safety
    /// `tensors` are the first elements of the operation's tensors in the order of [`pointers`], each valid for its extent, and
    /// [`Kernel::check`] found no fault with them; what is written overlaps nothing else, except that the new running statistics
    /// of a batch normalization may lie exactly where the old ones do. `scratch` is valid for [`Kernel::scratch_size`] bytes.
    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8);

    /// What it is.
    fn facts(&self) -> Facts;

    /// What was chosen to compute the node, where there was a choice; after it what was chosen to compute its parts.
    fn choices(&self) -> Vec<&Choice> {
        Vec::new()
    }
}

/// The names of the algorithms of a kernel: those that were chosen, or its own where there was no choice.
pub(crate) fn algorithms(kernel: &dyn Kernel) -> Vec<&'static str> {
    let chosen: Vec<_> = kernel.choices().iter().map(|choice| choice.name).collect();
    if chosen.is_empty() { vec![kernel.facts().algorithm] } else { chosen }
}

/// What a kernel is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The name of the algorithm.
    pub algorithm: &'static str,
    /// The largest tile of its micro-kernel and the type of its accumulators, or which of its forms it is; empty where
    /// there is no such thing.
    pub tile: String,
    /// The most threads that share the work.
    pub threads: usize,
}

/// The algorithm of the reference.
pub const REFERENCE: &str = "reference";

impl Facts {
    /// Those of the reference.
    pub(crate) const fn reference() -> Self {
        Self { algorithm: REFERENCE, tile: String::new(), threads: 1 }
    }

    /// Those of a kernel without a micro-kernel.
    pub(crate) fn new(algorithm: &'static str, threads: usize) -> Self {
        Self { algorithm, tile: String::new(), threads }
    }

    /// Those of a kernel around a micro-kernel with so many rows and columns of accumulators of a type, each of which takes up so
    /// many terms at once.
    pub(crate) fn tiled<T>(
        algorithm: &'static str,
        threads: usize,
        [rows, columns]: [usize; 2],
        terms: usize,
    ) -> Self {
        let dtype = match std::any::type_name::<T>() {
            "f32" => "float",
            "f64" => "double",
            "i32" => "int32",
            other => other,
        };
        let pairs = if terms > 1 { ", sums of pairs" } else { "" };
        let tile = format!("{rows} x {columns} {dtype}{pairs}");
        Self { algorithm, tile, threads }
    }
}

/// What computes a node, and why nothing else does.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The name of the algorithm.
    pub name: &'static str,
    /// Its estimated nanoseconds on one thread, where estimates decided.
    pub estimate: Option<f64>,
    /// The algorithms that were passed over, each with the reason.
    pub passed_over: Vec<(&'static str, Refusal)>,
}

/// Plans a kernel in a stack frame of its own.
pub(crate) fn boxed<K: Kernel + 'static>(
    plan: impl FnOnce() -> Result<K, Refusal>,
) -> Result<Box<dyn Kernel>, Refusal> {
    in_own_frame(|| {
        // On the heap first: moved from there into its box, the kernel is on the stack once and not twice.
        let mut planned = Box::new(Err(Refusal::new()));
        *planned = plan();
        Ok(Box::new((*planned)?) as Box<dyn Kernel>)
    })
}

/// A kernel that was chosen.
pub(crate) struct Chosen {
    pub(crate) kernel: Box<dyn Kernel>,
    pub(crate) choice: Choice,
}

impl Chosen {
    /// The reference, which computes what a fast kernel refused.
    pub(crate) fn reference(kernel: Box<dyn Kernel>, refusal: Refusal) -> Self {
        let passed_over = vec![("fast kernel", refusal)];
        Self { kernel, choice: Choice { name: REFERENCE, estimate: None, passed_over } }
    }
}

impl Kernel for Chosen {
    fn scratch_size(&self) -> usize {
        self.kernel.scratch_size()
    }

    unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        // SAFETY: `check` of the chosen kernel gets the tensors that this one requires.
        unsafe { self.kernel.check(tensors) }
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        // SAFETY: the tensors are those of the chosen kernel, whose `scratch_size` is the one reported here.
        unsafe { self.kernel.run(tensors, scratch) }
    }

    fn facts(&self) -> Facts {
        self.kernel.facts()
    }

    fn choices(&self) -> Vec<&Choice> {
        std::iter::once(&self.choice).chain(self.kernel.choices()).collect()
    }
}

/// A part of a graph that one kernel computes.
pub struct Part {
    /// The last of its nodes, at whose place in the graph it runs.
    pub node: usize,
    /// All of them.
    pub members: Vec<usize>,
    /// The tensors that the kernel gets pointers to, in its order.
    pub tensors: Vec<i64>,
    /// The kernel.
    pub kernel: Box<dyn Kernel>,
    /// Whether the kernel may write an element of the result before it reads the same element of an operand.
    pub writes_early: bool,
}

impl Part {
    /// The part of one node.
    pub fn of_node(
        graph: &Graph,
        node: CheckedNode<'_>,
        choose: impl FnOnce(&CheckedNode<'_>) -> Result<Box<dyn Kernel>, Refusal>,
    ) -> Result<Self, Refusal> {
        let kernel = choose(&node).map_err(|refusal| node.refusal(refusal))?;
        let members = vec![node.place];
        let tensors = pointers(graph, &node.node.operation);
        Ok(Self { node: node.place, members, tensors, kernel, writes_early: false })
    }
}

/// The most tensors that one operation may have.
pub const MAX_TENSORS: usize = 32;
