//! How pooling reduces a window.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The value of `HIPDNN_ATTR_RESAMPLE_MODE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnResampleMode_t {
    /// Maximum.
    HIPDNN_RESAMPLE_MAXPOOL = 1,
    /// Average without padding.
    HIPDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING = 2,
    /// Average with padding: the sum divided by the window size.
    HIPDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING = 3,
}
