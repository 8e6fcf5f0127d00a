//! Convolution or cross-correlation.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The value of `HIPDNN_ATTR_CONVOLUTION_CONV_MODE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnConvolutionMode_t {
    /// The filter is flipped in every spatial dimension, as in mathematics.
    HIPDNN_CONVOLUTION = 0,
    /// The filter is not flipped, as is usual for neural networks.
    HIPDNN_CROSS_CORRELATION = 1,
}
