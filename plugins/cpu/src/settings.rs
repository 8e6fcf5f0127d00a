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

/// The algorithm of a convolution that the knob asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// What the list of algorithms chooses.
    #[default]
    Automatic,
    /// Implicit GEMM: the input is read in place, or from one copy that all taps of the filter share.
    ImplicitGemm,
    /// GEMM on an unrolled input.
    Unrolled,
    /// Direct convolution with vectors of output channels.
    Direct,
    /// Winograd F(2 × 2, 3 × 3).
    Winograd,
    /// Winograd F(4 × 4, 3 × 3).
    Winograd4,
    /// im2col tile by tile, just before a tile is multiplied.
    Im2col,
}

impl Algorithm {
    /// The values of the knob. Saved plans contain their places in this list, so they stay where they are.
    pub(crate) const VALUES: [Self; 7] = [
        Self::Automatic,
        Self::ImplicitGemm,
        Self::Unrolled,
        Self::Direct,
        Self::Winograd,
        Self::Winograd4,
        Self::Im2col,
    ];

    /// The name of a value, which is that of an entry of the list of algorithms.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::ImplicitGemm => "implicit-gemm",
            Self::Unrolled => "unrolled",
            Self::Direct => "direct",
            Self::Winograd => "winograd-2x2",
            Self::Winograd4 => "winograd-4x4",
            Self::Im2col => "im2col",
        }
    }

    /// What a value means, for the text of the knob.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Automatic => {
                "the first that applies in an ordered list, or the least estimated time; winograd only in single precision"
            }
            Self::ImplicitGemm => {
                "the input is read in place, or from one copy that all taps of the filter share"
            }
            Self::Unrolled => "GEMM, the input is copied for each tap of the filter",
            Self::Direct => {
                "vectors of output channels; forward, and backward data with stride 1; else as implicit-gemm or unrolled"
            }
            Self::Winograd => {
                "filters of 3 x 3 with stride 1, and forward with stride 2; larger rounding errors; else as automatic"
            }
            Self::Winograd4 => {
                "filters of 3 x 3 with stride 1; larger rounding errors than winograd-2x2; else as automatic"
            }
            Self::Im2col => {
                "the input is copied tile by tile; one or two spatial dimensions, elements of the compute type; else as \
                 implicit-gemm or unrolled"
            }
        }
    }
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
