//! Where the diagonal of an attention mask starts.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The value of the attributes whose name ends in `DIAGONAL_ALIGNMENT_EXT`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnDiagonalAlignment_t {
    /// At the first query and the first key.
    HIPDNN_DIAGONAL_ALIGNMENT_TOP_LEFT_EXT = 0,
    /// At the last query and the last key.
    HIPDNN_DIAGONAL_ALIGNMENT_BOTTOM_RIGHT_EXT = 1,
}
