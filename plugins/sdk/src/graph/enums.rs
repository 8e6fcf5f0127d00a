//! The enumerations of the format: each value has a wire number, a C API number and a JSON spelling.

use super::operation::EnumKind;

/// Declares an enumeration as `Variant = wire number, name in the C API, JSON spelling`; `none` if the C API
/// has no such value.
macro_rules! enumeration {
    ($(#[$meta:meta])* $name:ident: $enumeration:ident { $($(#[$vmeta:meta])* $variant:ident = $wire:literal, $c:ident, $json:literal;)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$vmeta])* $variant = $wire,)+ }

        impl $name {
            /// Every value, in the order of the wire numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The value with this number on the wire.
            pub fn from_wire(number: u8) -> Option<Self> {
                match number { $($wire => Some(Self::$variant),)+ _ => None }
            }

            /// The number on the wire.
            pub fn wire(self) -> u8 {
                self as u8
            }

            /// The value with this number in the C API.
            pub fn from_c(number: i32) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.c() == Some(number))
            }

            /// The number in the C API, if it has this value.
            pub fn c(self) -> Option<i32> {
                match self { $(Self::$variant => enumeration!(@c $enumeration $c),)+ }
            }

            /// The spelling in JSON.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $json,)+ }
            }
        }
    };
    (@c $enumeration:ident none) => { None };
    (@c $enumeration:ident $c:ident) => { Some(hipdnn_abi::$enumeration::$c as i32) };
}

enumeration! {
    /// The type of an element or of a computation.
    DataType: hipdnnDataType_t {
        /// Unspecified.
        #[default]
        Unset = 0, none, "unset";
        /// 32-bit IEEE float.
        Float = 1, HIPDNN_DATA_FLOAT, "float";
        /// 16-bit IEEE float.
        Half = 2, HIPDNN_DATA_HALF, "half";
        /// The upper half of a 32-bit float.
        Bfloat16 = 3, HIPDNN_DATA_BFLOAT16, "bfloat16";
        /// 64-bit IEEE float.
        Double = 4, HIPDNN_DATA_DOUBLE, "double";
        /// 8-bit unsigned integer.
        Uint8 = 5, HIPDNN_DATA_UINT8, "uint8";
        /// 32-bit integer.
        Int32 = 6, HIPDNN_DATA_INT32, "int32";
        /// 8-bit integer.
        Int8 = 7, HIPDNN_DATA_INT8, "int8";
        /// 8-bit float, 4 exponent bits.
        Fp8E4m3 = 8, HIPDNN_DATA_FP8_E4M3, "fp8_e4m3";
        /// 8-bit float, 5 exponent bits.
        Fp8E5m2 = 9, HIPDNN_DATA_FP8_E5M2, "fp8_e5m2";
        /// 8-bit power of two.
        Fp8E8m0 = 10, HIPDNN_DATA_FP8_E8M0, "fp8_e8m0";
        /// 4-bit float, 2 exponent bits.
        Fp4E2m1 = 11, HIPDNN_DATA_FP4_E2M1, "fp4_e2m1";
        /// 6-bit float, 2 exponent bits.
        Fp6E2m3 = 12, HIPDNN_DATA_FP6_E2M3_EXT, "fp6_e2m3";
        /// 6-bit float, 3 exponent bits.
        Fp6E3m2 = 13, HIPDNN_DATA_FP6_E3M2_EXT, "fp6_e3m2";
        /// 4-bit integer.
        Int4 = 14, HIPDNN_DATA_INT4, "int4";
        /// 64-bit integer.
        Int64 = 15, HIPDNN_DATA_INT64, "int64";
        /// One byte, 0 or 1.
        Boolean = 16, HIPDNN_DATA_BOOLEAN, "boolean";
        /// 8-bit float, 4 exponent bits, no negative zero.
        Fp8E4m3Fnuz = 17, HIPDNN_DATA_FP8_E4M3_FNUZ, "fp8_e4m3_fnuz";
        /// 8-bit float, 5 exponent bits, no negative zero.
        Fp8E5m2Fnuz = 18, HIPDNN_DATA_FP8_E5M2_FNUZ, "fp8_e5m2_fnuz";
    }
}

impl DataType {
    /// Bytes of one element; none for types smaller than a byte and for [`DataType::Unset`].
    pub fn size(self) -> Option<usize> {
        match self {
            Self::Unset | Self::Fp4E2m1 | Self::Fp6E2m3 | Self::Fp6E3m2 | Self::Int4 => None,
            Self::Uint8
            | Self::Int8
            | Self::Fp8E4m3
            | Self::Fp8E5m2
            | Self::Fp8E8m0
            | Self::Boolean
            | Self::Fp8E4m3Fnuz
            | Self::Fp8E5m2Fnuz => Some(1),
            Self::Half | Self::Bfloat16 => Some(2),
            Self::Float | Self::Int32 => Some(4),
            Self::Double | Self::Int64 => Some(8),
        }
    }
}

enumeration! {
    /// Whether the filter is flipped.
    ConvMode: hipdnnConvolutionMode_t {
        /// Unspecified.
        #[default]
        Unset = 0, none, "UNSET";
        /// The filter is flipped along every spatial dimension.
        Convolution = 1, HIPDNN_CONVOLUTION, "CONVOLUTION";
        /// The filter is applied without flipping.
        CrossCorrelation = 2, HIPDNN_CROSS_CORRELATION, "CROSS_CORRELATION";
    }
}

enumeration! {
    /// The function of a pointwise operation on x = in_0, y = in_1 and in_2.
    PointwiseMode: hipdnnPointwiseMode_t {
        /// Unspecified.
        #[default]
        Unset = 0, none, "unset";
        /// abs(x).
        Abs = 1, HIPDNN_POINTWISE_ABS, "abs";
        /// x + y.
        Add = 2, HIPDNN_POINTWISE_ADD, "add";
        /// x + y².
        AddSquare = 3, HIPDNN_POINTWISE_ADD_SQUARE, "add_square";
        /// in_0 where in_2 is not zero, else in_1.
        BinarySelect = 4, HIPDNN_POINTWISE_BINARY_SELECT, "binary_select";
        /// The smallest integer not below x.
        Ceil = 5, HIPDNN_POINTWISE_CEIL, "ceil";
        /// 1 where x = y, else 0.
        CmpEq = 6, HIPDNN_POINTWISE_CMP_EQ, "cmp_eq";
        /// 1 where x ≥ y, else 0.
        CmpGe = 7, HIPDNN_POINTWISE_CMP_GE, "cmp_ge";
        /// 1 where x > y, else 0.
        CmpGt = 8, HIPDNN_POINTWISE_CMP_GT, "cmp_gt";
        /// 1 where x ≤ y, else 0.
        CmpLe = 9, HIPDNN_POINTWISE_CMP_LE, "cmp_le";
        /// 1 where x < y, else 0.
        CmpLt = 10, HIPDNN_POINTWISE_CMP_LT, "cmp_lt";
        /// 1 where x ≠ y, else 0.
        CmpNeq = 11, HIPDNN_POINTWISE_CMP_NEQ, "cmp_neq";
        /// x / y.
        Div = 12, HIPDNN_POINTWISE_DIV, "div";
        /// dy times the derivative of EluFwd, dy = in_0, x = in_1.
        EluBwd = 13, HIPDNN_POINTWISE_ELU_BWD, "elu_bwd";
        /// x where positive, else α(eˣ - 1).
        EluFwd = 14, HIPDNN_POINTWISE_ELU_FWD, "elu_fwd";
        /// The error function of x.
        Erf = 15, HIPDNN_POINTWISE_ERF, "erf";
        /// e to the x.
        Exp = 16, HIPDNN_POINTWISE_EXP, "exp";
        /// The largest integer not above x.
        Floor = 17, HIPDNN_POINTWISE_FLOOR, "floor";
        /// dy times the derivative of GeluApproxTanhFwd, dy = in_0, x = in_1.
        GeluApproxTanhBwd = 18, HIPDNN_POINTWISE_GELU_APPROX_TANH_BWD, "gelu_approx_tanh_bwd";
        /// x/2 · (1 + tanh(√(2/π)(x + 0.044715x³))).
        GeluApproxTanhFwd = 19, HIPDNN_POINTWISE_GELU_APPROX_TANH_FWD, "gelu_approx_tanh_fwd";
        /// dy times the derivative of GeluFwd, dy = in_0, x = in_1.
        GeluBwd = 20, HIPDNN_POINTWISE_GELU_BWD, "gelu_bwd";
        /// x/2 · (1 + erf(x/√2)).
        GeluFwd = 21, HIPDNN_POINTWISE_GELU_FWD, "gelu_fwd";
        /// Each element's index along the axis.
        GenIndex = 22, HIPDNN_POINTWISE_GEN_INDEX, "gen_index";
        /// x.
        Identity = 23, HIPDNN_POINTWISE_IDENTITY, "identity";
        /// The natural logarithm of x.
        Log = 24, HIPDNN_POINTWISE_LOG, "log";
        /// 1 where both are not zero, else 0.
        LogicalAnd = 25, HIPDNN_POINTWISE_LOGICAL_AND, "logical_and";
        /// 1 where x is zero, else 0.
        LogicalNot = 26, HIPDNN_POINTWISE_LOGICAL_NOT, "logical_not";
        /// 1 where one is not zero, else 0.
        LogicalOr = 27, HIPDNN_POINTWISE_LOGICAL_OR, "logical_or";
        /// The larger of x and y.
        Max = 28, HIPDNN_POINTWISE_MAX, "max_op";
        /// The smaller of x and y.
        Min = 29, HIPDNN_POINTWISE_MIN, "min_op";
        /// x · y.
        Mul = 30, HIPDNN_POINTWISE_MUL, "mul";
        /// -x.
        Neg = 31, HIPDNN_POINTWISE_NEG, "neg";
        /// 1 / x.
        Reciprocal = 32, HIPDNN_POINTWISE_RECIPROCAL, "reciprocal";
        /// dy times the derivative of ReluFwd, dy = in_0, x = in_1.
        ReluBwd = 33, HIPDNN_POINTWISE_RELU_BWD, "relu_bwd";
        /// x clamped to [lower, upper], with a slope below.
        ReluFwd = 34, HIPDNN_POINTWISE_RELU_FWD, "relu_fwd";
        /// 1 / √x.
        Rsqrt = 35, HIPDNN_POINTWISE_RSQRT, "rsqrt";
        /// dy times the derivative of SigmoidFwd, dy = in_0, x = in_1.
        SigmoidBwd = 36, HIPDNN_POINTWISE_SIGMOID_BWD, "sigmoid_bwd";
        /// 1 / (1 + e⁻ˣ).
        SigmoidFwd = 37, HIPDNN_POINTWISE_SIGMOID_FWD, "sigmoid_fwd";
        /// The sine of x.
        Sin = 38, HIPDNN_POINTWISE_SIN, "sin";
        /// dy times the derivative of SoftplusFwd, dy = in_0, x = in_1.
        SoftplusBwd = 39, HIPDNN_POINTWISE_SOFTPLUS_BWD, "softplus_bwd";
        /// ln(1 + e^(βx)) / β.
        SoftplusFwd = 40, HIPDNN_POINTWISE_SOFTPLUS_FWD, "softplus_fwd";
        /// √x.
        Sqrt = 41, HIPDNN_POINTWISE_SQRT, "sqrt";
        /// x - y.
        Sub = 42, HIPDNN_POINTWISE_SUB, "sub";
        /// dy times the derivative of SwishFwd, dy = in_0, x = in_1.
        SwishBwd = 43, HIPDNN_POINTWISE_SWISH_BWD, "swish_bwd";
        /// x / (1 + e^(-βx)).
        SwishFwd = 44, HIPDNN_POINTWISE_SWISH_FWD, "swish_fwd";
        /// The tangent of x.
        Tan = 45, HIPDNN_POINTWISE_TAN, "tan";
        /// dy times the derivative of TanhFwd, dy = in_0, x = in_1.
        TanhBwd = 46, HIPDNN_POINTWISE_TANH_BWD, "tanh_bwd";
        /// The hyperbolic tangent of x.
        TanhFwd = 47, HIPDNN_POINTWISE_TANH_FWD, "tanh_fwd";
    }
}

impl PointwiseMode {
    /// Every mode except [`PointwiseMode::Unset`], in the order of the wire numbers.
    pub fn every() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|mode| *mode != Self::Unset)
    }

    /// Number of operands: 1, 2 or 3; 0 for [`PointwiseMode::Unset`].
    pub fn operands(self) -> usize {
        // No wildcard, so that a new mode does not compile until it is listed.
        match self {
            Self::Unset => 0,
            Self::Abs
            | Self::Ceil
            | Self::EluFwd
            | Self::Erf
            | Self::Exp
            | Self::Floor
            | Self::GeluApproxTanhFwd
            | Self::GeluFwd
            | Self::GenIndex
            | Self::Identity
            | Self::Log
            | Self::LogicalNot
            | Self::Neg
            | Self::Reciprocal
            | Self::ReluFwd
            | Self::Rsqrt
            | Self::SigmoidFwd
            | Self::Sin
            | Self::SoftplusFwd
            | Self::Sqrt
            | Self::SwishFwd
            | Self::Tan
            | Self::TanhFwd => 1,
            Self::Add
            | Self::AddSquare
            | Self::Sub
            | Self::Mul
            | Self::Div
            | Self::Max
            | Self::Min
            | Self::CmpEq
            | Self::CmpGe
            | Self::CmpGt
            | Self::CmpLe
            | Self::CmpLt
            | Self::CmpNeq
            | Self::LogicalAnd
            | Self::LogicalOr
            | Self::EluBwd
            | Self::GeluApproxTanhBwd
            | Self::GeluBwd
            | Self::ReluBwd
            | Self::SigmoidBwd
            | Self::SoftplusBwd
            | Self::SwishBwd
            | Self::TanhBwd => 2,
            Self::BinarySelect => 3,
        }
    }

    /// Whether the result is true or false.
    pub fn is_logical(self) -> bool {
        matches!(
            self,
            Self::CmpEq
                | Self::CmpGe
                | Self::CmpGt
                | Self::CmpLe
                | Self::CmpLt
                | Self::CmpNeq
                | Self::LogicalAnd
                | Self::LogicalNot
                | Self::LogicalOr
        )
    }

    /// Whether the mode is the derivative of an activation: in_0 is dy, in_1 the forward input.
    pub fn is_backward(self) -> bool {
        matches!(
            self,
            Self::EluBwd
                | Self::GeluApproxTanhBwd
                | Self::GeluBwd
                | Self::ReluBwd
                | Self::SigmoidBwd
                | Self::SoftplusBwd
                | Self::SwishBwd
                | Self::TanhBwd
        )
    }
}

enumeration! {
    /// Whether a normalization stores what its backward pass needs.
    NormFwdPhase: hipdnnNormFwdPhase_t {
        /// Unspecified.
        #[default]
        NotSet = 0, none, "NOT_SET";
        /// Only the result.
        Inference = 1, HIPDNN_NORM_FWD_INFERENCE, "INFERENCE";
        /// The result and the statistics.
        Training = 2, HIPDNN_NORM_FWD_TRAINING, "TRAINING";
    }
}

enumeration! {
    /// How a reduction combines elements.
    ReductionMode: hipdnnReduceTensorOp_t {
        /// Unspecified.
        #[default]
        NotSet = 0, none, "not_set";
        /// The sum.
        Add = 1, HIPDNN_REDUCE_TENSOR_ADD, "add";
        /// The product.
        Mul = 2, HIPDNN_REDUCE_TENSOR_MUL, "mul";
        /// The minimum.
        Min = 3, HIPDNN_REDUCE_TENSOR_MIN, "min";
        /// The maximum.
        Max = 4, HIPDNN_REDUCE_TENSOR_MAX, "max";
        /// The maximum magnitude.
        Amax = 5, HIPDNN_REDUCE_TENSOR_AMAX, "amax";
        /// The mean.
        Avg = 6, HIPDNN_REDUCE_TENSOR_AVG, "avg";
        /// The sum of magnitudes.
        Norm1 = 7, HIPDNN_REDUCE_TENSOR_NORM1, "norm1";
        /// The square root of the sum of squares.
        Norm2 = 8, HIPDNN_REDUCE_TENSOR_NORM2, "norm2";
        /// The product of the nonzero elements.
        MulNoZeros = 9, HIPDNN_REDUCE_TENSOR_MUL_NO_ZEROS, "mul_no_zeros";
    }
}

enumeration! {
    /// How a pooling window is reduced.
    ResampleMode: hipdnnResampleMode_t {
        /// Unspecified.
        #[default]
        NotSet = 0, none, "not_set";
        /// The maximum.
        Maxpool = 1, HIPDNN_RESAMPLE_MAXPOOL, "maxpool";
        /// The mean of the window's elements inside the tensor.
        AvgpoolExcludePadding = 2, HIPDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING, "avgpool_exclude_padding";
        /// The sum divided by the window's size, padding included.
        AvgpoolIncludePadding = 3, HIPDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING, "avgpool_include_padding";
    }
}

enumeration! {
    /// The value of padding.
    PaddingMode: hipdnnPaddingMode_t {
        /// Unspecified.
        #[default]
        NotSet = 0, HIPDNN_PADDING_NOT_SET, "padding_not_set";
        /// Minus infinity.
        NegInfPad = 1, HIPDNN_PADDING_NEG_INF_PAD, "neg_inf_pad";
        /// Zero.
        ZeroPad = 2, HIPDNN_PADDING_ZERO_PAD, "zero_pad";
    }
}

enumeration! {
    /// Where the diagonal of an attention mask begins.
    DiagonalAlignment: hipdnnDiagonalAlignment_t {
        /// At the first query and the first key.
        #[default]
        TopLeft = 0, HIPDNN_DIAGONAL_ALIGNMENT_TOP_LEFT_EXT, "TOP_LEFT";
        /// At the last query and the last key.
        BottomRight = 1, HIPDNN_DIAGONAL_ALIGNMENT_BOTTOM_RIGHT_EXT, "BOTTOM_RIGHT";
    }
}

enumeration! {
    /// How attention is implemented.
    AttentionImplementation: hipdnnAttentionImplementation_t {
        /// The engine chooses.
        #[default]
        Auto = 0, HIPDNN_ATTENTION_IMPLEMENTATION_AUTO_EXT, "AUTO";
        /// As a sequence of operations.
        Composite = 1, HIPDNN_ATTENTION_IMPLEMENTATION_COMPOSITE_EXT, "COMPOSITE";
        /// As one operation.
        Unified = 2, HIPDNN_ATTENTION_IMPLEMENTATION_UNIFIED_EXT, "UNIFIED";
    }
}

enumeration! {
    /// How a grouped GEMM addresses rows.
    MoeGroupedMatmulMode: hipdnnMoeGroupedMatmulMode_t {
        /// Rows are used in order.
        #[default]
        None = 0, HIPDNN_MOE_GROUPED_MATMUL_MODE_NONE, "none";
        /// The source row is looked up in an index.
        Gather = 1, HIPDNN_MOE_GROUPED_MATMUL_MODE_GATHER, "gather";
        /// The destination row is looked up in an index.
        Scatter = 2, HIPDNN_MOE_GROUPED_MATMUL_MODE_SCATTER, "scatter";
    }
}

/// Ties an enumeration to its attribute type in the C API, and states whether it has a default.
macro_rules! attribute_types {
    ($($name:ident = $attribute_type:ident, $has_default:literal;)+) => {
        $(impl $name {
            /// The enumeration as generic code sees it.
            pub const KIND: EnumKind = EnumKind {
                name: stringify!($name),
                attribute_type: hipdnn_abi::hipdnnBackendAttributeType_t::$attribute_type as i32,
                wire_from_c: |number| Self::from_c(number).map(Self::wire),
                c_from_wire: |number| Self::from_wire(number).and_then(Self::c),
                spelling: |number| Self::from_wire(number).map(Self::name),
                has_default: $has_default,
            };
        })+

        /// Every enumeration.
        pub const ENUMERATIONS: &[EnumKind] = &[$($name::KIND,)+];
    };
}

attribute_types! {
    DataType = HIPDNN_TYPE_DATA_TYPE, true;
    ConvMode = HIPDNN_TYPE_CONVOLUTION_MODE, false;
    PointwiseMode = HIPDNN_TYPE_POINTWISE_MODE, false;
    NormFwdPhase = HIPDNN_TYPE_NORM_FWD_PHASE, true;
    ReductionMode = HIPDNN_TYPE_REDUCTION_OPERATOR_TYPE, false;
    ResampleMode = HIPDNN_TYPE_RESAMPLE_MODE, false;
    PaddingMode = HIPDNN_TYPE_PADDING_MODE, true;
    DiagonalAlignment = HIPDNN_TYPE_DIAGONAL_ALIGNMENT_EXT, true;
    AttentionImplementation = HIPDNN_TYPE_ATTENTION_IMPLEMENTATION_EXT, true;
    MoeGroupedMatmulMode = HIPDNN_TYPE_MOE_GROUPED_MATMUL_MODE, true;
}
