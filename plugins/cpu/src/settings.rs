//! What users choose with the knobs of CPU_ENGINE.

use hipdnn_plugin_sdk::graph::{Graph, Operation};

use crate::threading::partition::Threads;

/// How to compute the steps of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The threads to use.
    pub threads: Threads,
    /// Whether weights stay the same between executions of the plan: the filters of convolutions forward and
    /// backward data, and operand B of matrix multiplications. Kernels may then keep prepacked weights in the
    /// plan's memory.
    pub constant_weights: bool,
    /// Whether the plan shares packed weights with others (`tensor::store`): if the kernels get the weights at the
    /// address that the caller binds.
    pub shares_weights: bool,
    /// The algorithm of convolutions.
    pub convolution: Algorithm,
    /// Whether no convolution is transformed by Winograd, even if [`Settings::convolution`] asks for it.
    pub avoids_winograd: bool,
}

/// Declares the algorithms, each with its name and a description for the knob.
macro_rules! algorithms {
    ($($(#[$meta:meta])+ $algorithm:ident = $name:literal, $about:expr;)+) => {
        /// The algorithm of a convolution: an entry of the list of algorithms, selected by the knob.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Algorithm {
            $($(#[$meta])+ $algorithm,)+
        }

        impl Algorithm {
            /// The values of the knob.
            pub const VALUES: [Self; [$($name),+].len()] = [$(Self::$algorithm),+];

            /// The name of the value and of its entry in the list of algorithms.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$algorithm => $name,)+
                }
            }

            /// The description of the value for the knob.
            pub(crate) const fn about(self) -> &'static str {
                match self {
                    $(Self::$algorithm => $about,)+
                }
            }
        }
    };
}

// Saved plans contain indices into this list, so append new algorithms.
algorithms! {
    /// Chosen by the list of algorithms.
    #[default]
    Automatic = "automatic",
        "the first that applies in an ordered list, or the least estimated time; winograd only in single precision";
    /// Implicit GEMM: the input is read in place, or from one copy that all elements of the filter share.
    ImplicitGemm = "implicit-gemm",
        "the input is read in place, or from one copy that all elements of the filter share";
    /// GEMM on an unrolled input.
    Unrolled = "unrolled", "GEMM, the input is copied for each element of the filter";
    /// Direct convolution with vectors of output channels.
    Direct = "direct",
        "vectors of output channels; forward, and backward data with stride 1; else as implicit-gemm or unrolled";
    /// Winograd F(2 × 2, 3 × 3).
    Winograd = "winograd-2x2",
        "filters of 3 x 3 with stride 1, and forward with stride 2; larger rounding errors; else as automatic";
    /// Winograd F(4 × 4, 3 × 3).
    Winograd4 = "winograd-4x4",
        "filters of 3 x 3 with stride 1; larger rounding errors than winograd-2x2; else as automatic";
    /// im2col tile by tile, just before the tile is multiplied.
    Im2col = "im2col",
        "the input is copied tile by tile; one or two spatial dimensions, elements of the compute type; else as \
         implicit-gemm or unrolled";
    /// Matrix multiplication, for filters that cover the image.
    Matmul = "matmul", "filters that cover their image; this and all below: else as automatic";
    /// Converts whole operands, then consults the list again.
    Converted = "converted",
        "whole operands of types that no other algorithm reads are converted first, as with any value";
    /// Depthwise convolution and its gradients.
    Depthwise = "depthwise", "one input channel in a group; also with the values up to 6";
    /// Backward weights with vectors of output channels.
    BackwardWeightsByChannel = "backward-weights-by-channel", "vectors of output channels";
    /// Backward weights as dot products.
    BackwardWeights = "backward-weights", "dot products; also with the values up to 6";
    /// Direct convolution on pairs of `bfloat16` values.
    DirectBfloat16 = "direct-bfloat16", "pairs of bfloat16 with AVX512_BF16";
    /// Direct convolution, two tiles at a time.
    DirectTwoTiles = "direct-two-tiles", "direct, if most tiles are computed two at a time";
    /// Direct convolution of small images.
    DirectSmall = "direct-small", "rows of outputs that are shorter than a vector";
    /// Bytes, summed in 32-bit integers.
    DirectInt8 = "direct-int8", "bytes, summed as 32-bit integers";
}

impl From<Threads> for Settings {
    fn from(threads: Threads) -> Self {
        Self { threads, ..Self::default() }
    }
}

impl Settings {
    /// The settings for a node: weights computed by the graph itself are not constant.
    pub(crate) fn of(self, graph: &Graph, operation: &Operation) -> Self {
        let weights = match operation {
            Operation::ConvolutionForward(convolution) => Some(convolution.w),
            Operation::ConvolutionBackwardData(convolution) => Some(convolution.w),
            Operation::Matmul(matmul) => Some(matmul.b),
            _ => None,
        };
        let given = |uid| !graph.nodes.iter().any(|node| node.operation.outputs().contains(&uid));
        let is_bound = |uid| graph.tensors.iter().any(|tensor| tensor.uid == uid && tensor.value.is_none());
        let constant_weights = self.constant_weights && weights.is_some_and(given);
        let shares_weights = self.shares_weights && constant_weights && weights.is_some_and(is_bound);
        Self { constant_weights, shares_weights, ..self }
    }
}
