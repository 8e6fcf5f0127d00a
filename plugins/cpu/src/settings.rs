//! What a user of CPU_ENGINE chooses with its knobs.

use hipdnn_plugin_sdk::graph::{Graph, Operation};

use crate::threading::partition::Threads;

/// How the steps of a plan are to be computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The threads to use.
    pub threads: Threads,
    /// Whether weights stay the same from one execution of the plan to the next: the filters of convolutions and of their
    /// data gradients, and the right factors of matrix products. Kernels may keep what they make of them, in
    /// memory of the plan.
    pub constant_weights: bool,
    /// The form of convolutions.
    pub convolution: Algorithm,
}

/// How a convolution becomes a product of matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// The form that is guessed to take the least time; [`Algorithm::Winograd`] and [`Algorithm::Winograd4`] in single precision alone.
    #[default]
    Automatic,
    /// The input is read where it is, or in a copy in which a tap of the window is a distance.
    ImplicitGemm,
    /// The input is copied once for each tap.
    Unrolled,
    /// Vectors are of output channels instead of outputs, where there is such a form: of a convolution, and of a data gradient with
    /// step 1.
    Direct,
    /// Winograd's algorithm F(2 × 2, 3 × 3) for windows of 3 × 3 with step 1, forward and in data gradients, and forward with step 2:
    /// fewer multiplications, and results that are farther from the exact ones. For all else as [`Algorithm::Automatic`].
    Winograd,
    /// Winograd's algorithm F(4 × 4, 3 × 3) for windows of 3 × 3 with step 1, forward and in data gradients: fewer multiplications still,
    /// and results that are farther still from the exact ones. For all else as [`Algorithm::Automatic`].
    Winograd4,
    /// The input is copied tile by tile, as it is multiplied, where there is such a form: for numbers of the type that is computed in, of
    /// up to two spatial dimensions, forward and in data gradients with step 1.
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
