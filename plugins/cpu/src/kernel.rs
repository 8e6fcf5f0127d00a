//! The kernel of a node, in both engines: planned once, run many times.

pub use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::in_own_frame;
use hipdnn_plugin_sdk::graph::{DataType, Graph};

use crate::prepare::CheckedNode;
use crate::problem::pointers;

/// The planned computation of a node or a fused part.
pub trait Kernel: Send + Sync {
    /// Bytes of scratch memory that a run needs, aligned to 64 bytes.
    fn scratch_size(&self) -> usize {
        0
    }

    /// Checks that lengths, offsets and indices in tensors are in range. Called before each run; allocates
    /// only if it fails.
    ///
    /// # Safety
    /// As for [`Kernel::run`].
    unsafe fn check(&self, _tensors: &[*mut u8]) -> Result<(), Refusal> {
        Ok(())
    }

    /// Computes the node. Allocates nothing and takes no lock.
    ///
    /// # Safety
    /// `tensors` point to the first elements of the operation's tensors, in the order of [`pointers`], each
    /// valid for its extent, and [`Kernel::check`] accepted them. Outputs overlap nothing else, except that
    /// the new running statistics of a batch normalization may be exactly the old ones. `scratch` is valid
    /// for [`Kernel::scratch_size`] bytes.
    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8);

    /// Describes the kernel.
    fn facts(&self) -> Facts;

    /// What was chosen to compute the node, if there was a choice, followed by the choices for its parts.
    fn choices(&self) -> Vec<&Choice> {
        Vec::new()
    }
}

/// The names of a kernel's algorithms: the chosen ones, or its own if there was no choice.
pub(crate) fn algorithms(kernel: &dyn Kernel) -> Vec<&'static str> {
    let chosen: Vec<_> = kernel.choices().iter().map(|choice| choice.name).collect();
    if chosen.is_empty() { vec![kernel.facts().algorithm] } else { chosen }
}

/// A description of a kernel, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The name of the algorithm.
    pub algorithm: &'static str,
    /// The largest tile of its micro-kernel with the type of its accumulators, or the kernel's variant; empty
    /// if neither exists.
    pub tile: String,
    /// The most threads that share the work.
    pub threads: usize,
    /// The type of its micro-kernel's accumulators.
    pub accumulator: Option<DataType>,
    /// Whether instructions add products of two neighbours at once, which flush subnormal numbers.
    pub pairs: bool,
    /// Whether matrix instructions multiply.
    pub matrix: bool,
}

/// The algorithm of the reference.
pub const REFERENCE: &str = "reference";

impl Facts {
    /// The facts of the reference.
    pub(crate) const fn reference() -> Self {
        let (accumulator, pairs, matrix) = (None, false, false);
        Self { algorithm: REFERENCE, tile: String::new(), threads: 1, accumulator, pairs, matrix }
    }

    /// The facts of a kernel without a micro-kernel.
    pub(crate) fn new(algorithm: &'static str, threads: usize) -> Self {
        Self { algorithm, threads, ..Self::reference() }
    }

    /// The facts of a kernel whose micro-kernel has this many rows and columns of accumulators of type `T`,
    /// each of which adds this many terms at once.
    pub(crate) fn tiled<T>(
        algorithm: &'static str,
        threads: usize,
        [rows, columns]: [usize; 2],
        terms: usize,
    ) -> Self {
        let accumulator = match std::any::type_name::<T>() {
            "f32" => Some(DataType::Float),
            "f64" => Some(DataType::Double),
            "i32" => Some(DataType::Int32),
            _ => None,
        };
        let pairs = terms > 1;
        let dtype = accumulator.map_or(std::any::type_name::<T>(), DataType::name);
        let tile = format!("{rows} x {columns} {dtype}{}", if pairs { ", sums of pairs" } else { "" });
        Self { tile, accumulator, pairs, ..Self::new(algorithm, threads) }
    }
}

/// The algorithm chosen for a node, and why others were not.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The name of the algorithm.
    pub name: &'static str,
    /// Its estimated nanoseconds on one thread, where estimates decided.
    pub estimate: Option<f64>,
    /// The algorithms that were passed over, each with the reason.
    pub passed_over: Vec<(&'static str, Refusal)>,
}

/// Plans a kernel in a separate stack frame.
pub(crate) fn boxed<K: Kernel + 'static>(
    plan: impl FnOnce() -> Result<K, Refusal>,
) -> Result<Box<dyn Kernel>, Refusal> {
    in_own_frame(|| {
        // Planned directly on the heap, the kernel is on the stack once instead of twice.
        let mut planned = Box::new(Err(Refusal::new()));
        *planned = plan();
        Ok(Box::new((*planned)?) as Box<dyn Kernel>)
    })
}

/// A kernel and how it was chosen.
pub(crate) struct Chosen {
    pub(crate) kernel: Box<dyn Kernel>,
    pub(crate) choice: Choice,
}

impl Chosen {
    /// The reference, for what a fast kernel refused.
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
    /// The last of its nodes, at whose position in the graph it runs.
    pub node: usize,
    /// All of its nodes.
    pub members: Vec<usize>,
    /// The tensors whose pointers the kernel gets, in this order.
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
