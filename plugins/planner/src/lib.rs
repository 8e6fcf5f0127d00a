//! From a graph as a plugin gets it to numbers that its kernels are planned with, the same for every processor.
//!
//! [`prepare`](prepare::prepare) resolves and checks a graph and says what each node asks for, one [`problem`] for each kind of
//! node. [`layout`] has where the elements of a tensor lie, [`workspace`] the places of the tensors that exist only between nodes, and
//! [`plan`] what plans for a GPU have in common, [`shapes`] executions with other shapes; plans [`ahead`] are for a GPU that is not here.

pub mod ahead;
pub mod chain;
pub mod divide;
pub mod layout;
pub mod plan;
pub mod prepare;
pub mod problem;
pub mod product;
pub mod shapes;
pub mod step;
pub mod workspace;

/// Calls a function in a stack frame of its own. Threads that plan may have little stack: what makes one of many large things, each
/// in an arm of a match, would else have room for all of them.
#[inline(never)]
pub fn in_own_frame<R>(call: impl FnOnce() -> R) -> R {
    call()
}

/// Why a graph is not computed: names the first thing that is not supported.
pub type Refusal = String;
