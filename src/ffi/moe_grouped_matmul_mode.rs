//! How the tokens of a mixture of experts are routed.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The value of `HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MODE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnMoeGroupedMatmulMode_t {
    /// Tokens already lie in the order of their experts.
    HIPDNN_MOE_GROUPED_MATMUL_MODE_NONE = 0,
    /// Tokens are read through their index.
    HIPDNN_MOE_GROUPED_MATMUL_MODE_GATHER = 1,
    /// Results are written through the tokens' index.
    HIPDNN_MOE_GROUPED_MATMUL_MODE_SCATTER = 2,
}
