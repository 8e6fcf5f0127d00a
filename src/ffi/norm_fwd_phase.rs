//! Inference or training.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The value of the attributes whose name ends in `FWD_PHASE_EXT`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnNormFwdPhase_t {
    /// Inference: statistics are not written.
    HIPDNN_NORM_FWD_INFERENCE = 1,
    /// Training: statistics are written for the backward pass.
    HIPDNN_NORM_FWD_TRAINING = 2,
}
