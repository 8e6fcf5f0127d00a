//! What padding holds.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The value of `HIPDNN_ATTR_RESAMPLE_PADDING_MODE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnPaddingMode_t {
    /// The engine's choice.
    HIPDNN_PADDING_NOT_SET = 0,
    /// Negative infinity.
    HIPDNN_PADDING_NEG_INF_PAD = 1,
    /// Zero.
    HIPDNN_PADDING_ZERO_PAD = 2,
}
