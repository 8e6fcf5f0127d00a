//! The types of tensor elements.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The type of a tensor's elements, or of a computation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnDataType_t {
    /// 32-bit IEEE 754.
    HIPDNN_DATA_FLOAT = 0,
    /// 64-bit IEEE 754.
    HIPDNN_DATA_DOUBLE = 1,
    /// 16-bit IEEE 754.
    HIPDNN_DATA_HALF = 2,
    /// 8-bit signed.
    HIPDNN_DATA_INT8 = 3,
    /// 32-bit signed.
    HIPDNN_DATA_INT32 = 4,
    /// 8-bit unsigned.
    HIPDNN_DATA_UINT8 = 5,
    /// bfloat16: the upper half of a 32-bit IEEE 754 number.
    HIPDNN_DATA_BFLOAT16 = 6,
    /// 8-bit float, 4 exponent and 3 mantissa bits.
    HIPDNN_DATA_FP8_E4M3 = 7,
    /// 8-bit float, 5 exponent and 2 mantissa bits.
    HIPDNN_DATA_FP8_E5M2 = 8,
    /// 8-bit exponent: a power of two.
    HIPDNN_DATA_FP8_E8M0 = 9,
    /// 4-bit float, 2 exponent bits and 1 mantissa bit.
    HIPDNN_DATA_FP4_E2M1 = 10,
    /// 4-bit signed.
    HIPDNN_DATA_INT4 = 11,
    /// 6-bit float, 2 exponent and 3 mantissa bits.
    HIPDNN_DATA_FP6_E2M3_EXT = 12,
    /// 6-bit float, 3 exponent and 2 mantissa bits.
    HIPDNN_DATA_FP6_E3M2_EXT = 13,
    /// 64-bit signed.
    HIPDNN_DATA_INT64 = 14,
    /// One byte, 0 or 1.
    HIPDNN_DATA_BOOLEAN = 15,
    /// 8-bit float, 4 exponent and 3 mantissa bits, without infinity and negative zero.
    HIPDNN_DATA_FP8_E4M3_FNUZ = 16,
    /// 8-bit float, 5 exponent and 2 mantissa bits, without infinity and negative zero.
    HIPDNN_DATA_FP8_E5M2_FNUZ = 17,
}
