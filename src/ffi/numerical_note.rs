//! Numerical notes of engines: how they compute.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// One note of `HIPDNN_ATTR_ENGINE_NUMERICAL_NOTE`: what an engine may do to numbers. The numbers below 1000 are
/// cuDNN's; the others are an extension of this library. In C the type is a plain `int32_t`, because a library may be
/// newer than its caller.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnBackendNumericalNote_t {
    /// Matrix instructions multiply.
    HIPDNN_NUMERICAL_NOTE_TENSOR_CORE = 0,
    /// Operands are rounded to a type with fewer bits before they are multiplied, such as TF32.
    HIPDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
    /// Sums are added up in a type with fewer bits than the compute type.
    HIPDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION = 2,
    /// A convolution by Fourier transforms.
    HIPDNN_NUMERICAL_NOTE_FFT = 3,
    /// Another execution or another plan of the graph may give other bits, for example with other threads.
    HIPDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
    /// A convolution by Winograd's transforms.
    HIPDNN_NUMERICAL_NOTE_WINOGRAD = 5,
    /// Winograd, with tiles of 4 x 4 inputs.
    HIPDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 = 6,
    /// Winograd, with tiles of 6 x 6 inputs.
    HIPDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 = 7,
    /// Winograd, with tiles of 13 x 13 inputs.
    HIPDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 = 8,
    /// A promise: maxima, minima and activations of NaN are NaN.
    HIPDNN_NUMERICAL_NOTE_STRICT_NAN_PROP = 9,
    /// Sums are divided into parts whose results are added.
    HIPDNN_NUMERICAL_NOTE_SPLIT_SUMS_EXT = 1000,
    /// The bits of one item of a batch may depend on the batch's size.
    HIPDNN_NUMERICAL_NOTE_BATCH_DEPENDENT_EXT = 1001,
    /// Functions such as e^x are off by more than one unit in the last place.
    HIPDNN_NUMERICAL_NOTE_APPROXIMATE_FUNCTIONS_EXT = 1002,
    /// Subnormal numbers may count as zero.
    HIPDNN_NUMERICAL_NOTE_FLUSH_SUBNORMALS_EXT = 1003,
    /// Values between fused nodes are not rounded to the type of their virtual tensor.
    HIPDNN_NUMERICAL_NOTE_SKIP_ROUNDING_EXT = 1004,
}

impl hipdnnBackendNumericalNote_t {
    /// All notes, by number.
    pub fn all() -> &'static [Self] {
        Self::VARIANTS
    }
}
