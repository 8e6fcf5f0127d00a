//! Translates graphs into the parameters from which plugins plan their kernels, the same for every device.
//!
//! [`prepare`](prepare::prepare) resolves and checks a graph and derives a [`problem`] from each node.
//! [`layout`] describes where a tensor's elements are, [`workspace`] places the virtual tensors. [`plan`] is
//! the common part of GPU plans, [`shapes`] handles executions with other shapes, and [`ahead`] plans for a
//! GPU that is not present.

pub mod ahead;
pub mod chain;
pub mod divide;
pub mod layout;
pub mod numerics;
pub mod plan;
pub mod prepare;
pub mod problem;
pub mod product;
pub mod shapes;
pub mod step;
pub mod workspace;

/// Calls a function in its own stack frame. Planning threads may have small stacks: otherwise a function that
/// builds large values in the arms of a match would reserve space for all of them.
#[inline(never)]
pub fn in_own_frame<R>(call: impl FnOnce() -> R) -> R {
    call()
}

/// Why a graph is refused: names the first unsupported feature.
pub type Refusal = String;
