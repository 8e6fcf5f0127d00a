//! The pointwise functions.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The value of `HIPDNN_ATTR_POINTWISE_MODE`. x and y are the first and second operand; a backward mode takes
/// the gradient of the result as first operand and the forward input as second. Each is also spelled
/// `HIPDNN_POINTWISE_MODE_...`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnPointwiseMode_t {
    /// |x|.
    HIPDNN_POINTWISE_ABS = 1,
    /// x + y.
    HIPDNN_POINTWISE_ADD = 2,
    /// x + y * y.
    HIPDNN_POINTWISE_ADD_SQUARE = 3,
    /// x where the third operand is true, else y.
    HIPDNN_POINTWISE_BINARY_SELECT = 4,
    /// x rounded up to an integer.
    HIPDNN_POINTWISE_CEIL = 5,
    /// 1 where x = y, else 0.
    HIPDNN_POINTWISE_CMP_EQ = 6,
    /// 1 where x >= y, else 0.
    HIPDNN_POINTWISE_CMP_GE = 7,
    /// 1 where x > y, else 0.
    HIPDNN_POINTWISE_CMP_GT = 8,
    /// 1 where x <= y, else 0.
    HIPDNN_POINTWISE_CMP_LE = 9,
    /// 1 where x < y, else 0.
    HIPDNN_POINTWISE_CMP_LT = 10,
    /// 1 where x differs from y, else 0.
    HIPDNN_POINTWISE_CMP_NEQ = 11,
    /// x / y.
    HIPDNN_POINTWISE_DIV = 12,
    /// Gradient of ELU.
    HIPDNN_POINTWISE_ELU_BWD = 13,
    /// x where x > 0, else alpha * (exp(x) - 1).
    HIPDNN_POINTWISE_ELU_FWD = 14,
    /// Error function.
    HIPDNN_POINTWISE_ERF = 15,
    /// e to the power of x.
    HIPDNN_POINTWISE_EXP = 16,
    /// x rounded down to an integer.
    HIPDNN_POINTWISE_FLOOR = 17,
    /// Gradient of GELU_APPROX_TANH.
    HIPDNN_POINTWISE_GELU_APPROX_TANH_BWD = 18,
    /// GELU, tanh approximation.
    HIPDNN_POINTWISE_GELU_APPROX_TANH_FWD = 19,
    /// Gradient of GELU.
    HIPDNN_POINTWISE_GELU_BWD = 20,
    /// GELU: x times the normal distribution function of x.
    HIPDNN_POINTWISE_GELU_FWD = 21,
    /// The index of the element along an axis.
    HIPDNN_POINTWISE_GEN_INDEX = 22,
    /// x.
    HIPDNN_POINTWISE_IDENTITY = 23,
    /// Natural logarithm.
    HIPDNN_POINTWISE_LOG = 24,
    /// Logical and: 1 or 0.
    HIPDNN_POINTWISE_LOGICAL_AND = 25,
    /// Logical not: 1 where x is 0, else 0.
    HIPDNN_POINTWISE_LOGICAL_NOT = 26,
    /// Logical or: 1 or 0.
    HIPDNN_POINTWISE_LOGICAL_OR = 27,
    /// The greater of x and y.
    HIPDNN_POINTWISE_MAX = 28,
    /// The lesser of x and y.
    HIPDNN_POINTWISE_MIN = 29,
    /// x * y.
    HIPDNN_POINTWISE_MUL = 30,
    /// -x.
    HIPDNN_POINTWISE_NEG = 31,
    /// 1 / x.
    HIPDNN_POINTWISE_RECIPROCAL = 32,
    /// Gradient of RELU.
    HIPDNN_POINTWISE_RELU_BWD = 33,
    /// x clamped between the two clips; below the lower clip, x continues with the given slope.
    HIPDNN_POINTWISE_RELU_FWD = 34,
    /// 1 / sqrt(x).
    HIPDNN_POINTWISE_RSQRT = 35,
    /// Gradient of SIGMOID.
    HIPDNN_POINTWISE_SIGMOID_BWD = 36,
    /// 1 / (1 + exp(-x)).
    HIPDNN_POINTWISE_SIGMOID_FWD = 37,
    /// Sine.
    HIPDNN_POINTWISE_SIN = 38,
    /// Gradient of SOFTPLUS.
    HIPDNN_POINTWISE_SOFTPLUS_BWD = 39,
    /// log(1 + exp(beta * x)) / beta.
    HIPDNN_POINTWISE_SOFTPLUS_FWD = 40,
    /// Square root.
    HIPDNN_POINTWISE_SQRT = 41,
    /// x - y.
    HIPDNN_POINTWISE_SUB = 42,
    /// Gradient of SWISH.
    HIPDNN_POINTWISE_SWISH_BWD = 43,
    /// x / (1 + exp(-beta * x)).
    HIPDNN_POINTWISE_SWISH_FWD = 44,
    /// Tangent.
    HIPDNN_POINTWISE_TAN = 45,
    /// Gradient of TANH.
    HIPDNN_POINTWISE_TANH_BWD = 46,
    /// Hyperbolic tangent.
    HIPDNN_POINTWISE_TANH_FWD = 47,
}
