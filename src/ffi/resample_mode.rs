//! How pooling reduces a window.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The value of `HIPDNN_ATTR_RESAMPLE_MODE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnResampleMode_t {
    /// Greatest.
    HIPDNN_RESAMPLE_MAXPOOL = 1,
    /// Mean of the elements inside the data.
    HIPDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING = 2,
    /// Sum divided by the size of the window.
    HIPDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING = 3,
}
