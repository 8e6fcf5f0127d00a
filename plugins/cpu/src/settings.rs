//! What a user of CPU_ENGINE chooses with its knobs.

use hipdnn_plugin_sdk::graph::{Graph, Operation};

use crate::threading::partition::Threads;

/// How the steps of a plan are to be computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The threads to use.
    pub threads: Threads,
    /// Whether weights stay the same from one execution of the plan to the next: the weights of convolutions and of their data
    /// gradients, and operand B of matrix multiplications. Kernels may then keep prepacked weights in the plan's memory.
    pub constant_weights: bool,
    /// The algorithm of convolutions.
    pub convolution: Algorithm,
}

/// The algorithm of a convolution. The order is that of the knob's values, which saved plans contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// The algorithm with the least estimated time; [`Algorithm::Winograd`] and [`Algorithm::Winograd4`] in single precision only.
    #[default]
    Automatic,
    /// Implicit GEMM: the input is read in place, or from one copy that all taps of the filter share.
    ImplicitGemm,
    /// GEMM on an unrolled input: the input is copied once for each tap of the filter.
    Unrolled,
    /// Direct convolution with vectors of output channels: forward, and backward data with stride 1.
    Direct,
    /// Winograd F(2 × 2, 3 × 3): filters of 3 × 3 with stride 1, forward and backward data, and forward with stride 2. Fewer
    /// multiplications and larger rounding errors. Other convolutions as [`Algorithm::Automatic`].
    Winograd,
    /// Winograd F(4 × 4, 3 × 3): filters of 3 × 3 with stride 1, forward and backward data. Still fewer multiplications and still
    /// larger rounding errors. Other convolutions as [`Algorithm::Automatic`].
    Winograd4,
    /// im2col tile by tile, just before a tile is multiplied: elements of the compute type, at most two spatial dimensions,
    /// forward and backward data with stride 1.
    Im2col,
}

impl From<Threads> for Settings {
    fn from(threads: Threads) -> Self {
        Self { threads, ..Self::default() }
    }
}

impl Settings {
    /// The settings for a node: weights that the graph itself computes are not constant.
    pub(crate) fn of(self, graph: &Graph, operation: &Operation) -> Self {
        let weights = match operation {
            Operation::ConvolutionForward(convolution) => Some(convolution.w),
            Operation::ConvolutionBackwardData(convolution) => Some(convolution.w),
            Operation::Matmul(matmul) => Some(matmul.b),
            _ => None,
        };
        let given = |uid| !graph.nodes.iter().any(|node| node.operation.outputs().contains(&uid));
        Self { constant_weights: self.constant_weights && weights.is_some_and(given), ..self }
    }
}
