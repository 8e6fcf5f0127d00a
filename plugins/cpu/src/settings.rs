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

/// The algorithm of a convolution: an entry of the list of algorithms, and the value of the knob that asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// What the list of algorithms chooses.
    #[default]
    Automatic,
    /// Implicit GEMM: the input is read in place, or from one copy that all elements of the filter share.
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
    /// Matrix multiplication, of a filter that covers its image.
    Matmul,
    /// Whole operands are converted first, then the list is asked again.
    Converted,
    /// Depthwise convolution and its gradients.
    Depthwise,
    /// Backward weights with vectors of output channels.
    BackwardWeightsByChannel,
    /// Backward weights as scalar products.
    BackwardWeights,
    /// Direct convolution on pairs of `bfloat16`.
    DirectBfloat16,
    /// Direct convolution, two tiles at a time.
    DirectTwoTiles,
    /// Direct convolution of small images.
    DirectSmall,
    /// Bytes, summed as integers of 32 bits.
    DirectInt8,
}

impl Algorithm {
    /// The values of the knob. Saved plans contain their places in this list, so they stay where they are.
    pub(crate) const VALUES: [Self; 16] = [
        Self::Automatic,
        Self::ImplicitGemm,
        Self::Unrolled,
        Self::Direct,
        Self::Winograd,
        Self::Winograd4,
        Self::Im2col,
        Self::Matmul,
        Self::Converted,
        Self::Depthwise,
        Self::BackwardWeightsByChannel,
        Self::BackwardWeights,
        Self::DirectBfloat16,
        Self::DirectTwoTiles,
        Self::DirectSmall,
        Self::DirectInt8,
    ];

    /// The name of a value, which is that of its entry in the list of algorithms.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::ImplicitGemm => "implicit-gemm",
            Self::Unrolled => "unrolled",
            Self::Direct => "direct",
            Self::Winograd => "winograd-2x2",
            Self::Winograd4 => "winograd-4x4",
            Self::Im2col => "im2col",
            Self::Matmul => "matmul",
            Self::Converted => "converted",
            Self::Depthwise => "depthwise",
            Self::BackwardWeightsByChannel => "backward-weights-by-channel",
            Self::BackwardWeights => "backward-weights",
            Self::DirectBfloat16 => "direct-bfloat16",
            Self::DirectTwoTiles => "direct-two-tiles",
            Self::DirectSmall => "direct-small",
            Self::DirectInt8 => "direct-int8",
        }
    }

    /// What a value means, for the text of the knob.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Automatic => {
                "the first that applies in an ordered list, or the least estimated time; winograd only in single precision"
            }
            Self::ImplicitGemm => {
                "the input is read in place, or from one copy that all elements of the filter share"
            }
            Self::Unrolled => "GEMM, the input is copied for each element of the filter",
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
            Self::Matmul => "a filter that covers its image; this and all below: else as automatic",
            Self::Converted => {
                "whole operands of types that no other reads are converted first, as with any value"
            }
            Self::Depthwise => "one input channel in a group, with the values up to 6 too",
            Self::BackwardWeightsByChannel => "vectors of output channels",
            Self::BackwardWeights => "scalar products, with the values up to 6 too",
            Self::DirectBfloat16 => "pairs of bfloat16 with AVX512_BF16",
            Self::DirectTwoTiles => "direct where most tiles are computed two at a time",
            Self::DirectSmall => "rows of outputs that are shorter than a vector",
            Self::DirectInt8 => "bytes, summed as integers of 32 bits",
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
