//! The small enumerations of the format: each value has a number on the wire, a number in the C API and a spelling in JSON.

use super::operation::EnumKind;

/// Declares an enumeration as `Variant = wire number, C number, JSON spelling`; `none` where the C API has no such value.
macro_rules! enumeration {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $wire:literal, $c:tt, $json:literal;)+ }) => {
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

            /// The number in the C API, where it has the value at all.
            pub fn c(self) -> Option<i32> {
                match self { $(Self::$variant => enumeration!(@c $c),)+ }
            }

            /// The spelling in JSON.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $json,)+ }
            }
        }
    };
    (@c none) => { None };
    (@c $c:literal) => { Some($c) };
}

enumeration! {
    /// The type of an element or of a computation.
    DataType {
        /// Not said.
        #[default]
        Unset = 0, none, "unset";
        /// 32-bit IEEE float.
        Float = 1, 0, "float";
        /// 16-bit IEEE float.
        Half = 2, 2, "half";
        /// The upper half of a 32-bit float.
        Bfloat16 = 3, 6, "bfloat16";
        /// 64-bit IEEE float.
        Double = 4, 1, "double";
        /// 8-bit unsigned integer.
        Uint8 = 5, 5, "uint8";
        /// 32-bit integer.
        Int32 = 6, 4, "int32";
        /// 8-bit integer.
        Int8 = 7, 3, "int8";
        /// 8-bit float, 4 exponent bits.
        Fp8E4m3 = 8, 7, "fp8_e4m3";
        /// 8-bit float, 5 exponent bits.
        Fp8E5m2 = 9, 8, "fp8_e5m2";
        /// 8-bit power of two.
        Fp8E8m0 = 10, 9, "fp8_e8m0";
        /// 4-bit float, 2 exponent bits.
        Fp4E2m1 = 11, 10, "fp4_e2m1";
        /// 6-bit float, 2 exponent bits.
        Fp6E2m3 = 12, 12, "fp6_e2m3";
        /// 6-bit float, 3 exponent bits.
        Fp6E3m2 = 13, 13, "fp6_e3m2";
        /// 4-bit integer.
        Int4 = 14, 11, "int4";
        /// 64-bit integer.
        Int64 = 15, 14, "int64";
        /// One byte, 0 or 1.
        Boolean = 16, 15, "boolean";
        /// 8-bit float, 4 exponent bits, no negative zero.
        Fp8E4m3Fnuz = 17, 16, "fp8_e4m3_fnuz";
        /// 8-bit float, 5 exponent bits, no negative zero.
        Fp8E5m2Fnuz = 18, 17, "fp8_e5m2_fnuz";
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
    /// Whether the filter is mirrored.
    ConvMode {
        /// Not said.
        #[default]
        Unset = 0, none, "UNSET";
        /// The filter is mirrored along every spatial dimension.
        Convolution = 1, 0, "CONVOLUTION";
        /// The filter is taken as it lies.
        CrossCorrelation = 2, 1, "CROSS_CORRELATION";
    }
}

enumeration! {
    /// What a pointwise operation does with x = in_0, y = in_1 and in_2.
    PointwiseMode {
        /// Not said.
        #[default]
        Unset = 0, none, "unset";
        /// abs(x).
        Abs = 1, 1, "abs";
        /// x + y.
        Add = 2, 2, "add";
        /// x + y².
        AddSquare = 3, 3, "add_square";
        /// in_0 where in_2 is not zero, else in_1.
        BinarySelect = 4, 4, "binary_select";
        /// The smallest integer not below x.
        Ceil = 5, 5, "ceil";
        /// 1 where x = y, else 0.
        CmpEq = 6, 6, "cmp_eq";
        /// 1 where x ≥ y, else 0.
        CmpGe = 7, 7, "cmp_ge";
        /// 1 where x > y, else 0.
        CmpGt = 8, 8, "cmp_gt";
        /// 1 where x ≤ y, else 0.
        CmpLe = 9, 9, "cmp_le";
        /// 1 where x < y, else 0.
        CmpLt = 10, 10, "cmp_lt";
        /// 1 where x ≠ y, else 0.
        CmpNeq = 11, 11, "cmp_neq";
        /// x / y.
        Div = 12, 12, "div";
        /// dy times the derivative of EluFwd, dy = in_0, x = in_1.
        EluBwd = 13, 13, "elu_bwd";
        /// x where positive, else α(eˣ - 1).
        EluFwd = 14, 14, "elu_fwd";
        /// The error function of x.
        Erf = 15, 15, "erf";
        /// e to the x.
        Exp = 16, 16, "exp";
        /// The largest integer not above x.
        Floor = 17, 17, "floor";
        /// dy times the derivative of GeluApproxTanhFwd, dy = in_0, x = in_1.
        GeluApproxTanhBwd = 18, 18, "gelu_approx_tanh_bwd";
        /// x/2 · (1 + tanh(√(2/π)(x + 0.044715x³))).
        GeluApproxTanhFwd = 19, 19, "gelu_approx_tanh_fwd";
        /// dy times the derivative of GeluFwd, dy = in_0, x = in_1.
        GeluBwd = 20, 20, "gelu_bwd";
        /// x/2 · (1 + erf(x/√2)).
        GeluFwd = 21, 21, "gelu_fwd";
        /// Each element's index along the axis.
        GenIndex = 22, 22, "gen_index";
        /// x.
        Identity = 23, 23, "identity";
        /// The natural logarithm of x.
        Log = 24, 24, "log";
        /// 1 where both are not zero, else 0.
        LogicalAnd = 25, 25, "logical_and";
        /// 1 where x is zero, else 0.
        LogicalNot = 26, 26, "logical_not";
        /// 1 where one is not zero, else 0.
        LogicalOr = 27, 27, "logical_or";
        /// The larger of x and y.
        Max = 28, 28, "max_op";
        /// The smaller of x and y.
        Min = 29, 29, "min_op";
        /// x · y.
        Mul = 30, 30, "mul";
        /// -x.
        Neg = 31, 31, "neg";
        /// 1 / x.
        Reciprocal = 32, 32, "reciprocal";
        /// dy times the derivative of ReluFwd, dy = in_0, x = in_1.
        ReluBwd = 33, 33, "relu_bwd";
        /// x clipped to [lower, upper], with a slope below.
        ReluFwd = 34, 34, "relu_fwd";
        /// 1 / √x.
        Rsqrt = 35, 35, "rsqrt";
        /// dy times the derivative of SigmoidFwd, dy = in_0, x = in_1.
        SigmoidBwd = 36, 36, "sigmoid_bwd";
        /// 1 / (1 + e⁻ˣ).
        SigmoidFwd = 37, 37, "sigmoid_fwd";
        /// The sine of x.
        Sin = 38, 38, "sin";
        /// dy times the derivative of SoftplusFwd, dy = in_0, x = in_1.
        SoftplusBwd = 39, 39, "softplus_bwd";
        /// ln(1 + e^(βx)) / β.
        SoftplusFwd = 40, 40, "softplus_fwd";
        /// √x.
        Sqrt = 41, 41, "sqrt";
        /// x - y.
        Sub = 42, 42, "sub";
        /// dy times the derivative of SwishFwd, dy = in_0, x = in_1.
        SwishBwd = 43, 43, "swish_bwd";
        /// x / (1 + e^(-βx)).
        SwishFwd = 44, 44, "swish_fwd";
        /// The tangent of x.
        Tan = 45, 45, "tan";
        /// dy times the derivative of TanhFwd, dy = in_0, x = in_1.
        TanhBwd = 46, 46, "tanh_bwd";
        /// The hyperbolic tangent of x.
        TanhFwd = 47, 47, "tanh_fwd";
    }
}

impl PointwiseMode {
    /// How many operands the mode reads: 1, 2 or 3, and 0 for [`PointwiseMode::Unset`].
    pub fn operands(self) -> usize {
        match self {
            Self::Unset => 0,
            Self::BinarySelect => 3,
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
            | Self::LogicalOr => 2,
            mode if mode.is_backward() => 2,
            _ => 1,
        }
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
    /// Whether a normalization keeps what its backward pass needs.
    NormFwdPhase {
        /// Not said.
        #[default]
        NotSet = 0, none, "NOT_SET";
        /// Only the result.
        Inference = 1, 1, "INFERENCE";
        /// The result and the statistics.
        Training = 2, 2, "TRAINING";
    }
}

enumeration! {
    /// How elements become one.
    ReductionMode {
        /// Not said.
        #[default]
        NotSet = 0, none, "not_set";
        /// The sum.
        Add = 1, 1, "add";
        /// The product.
        Mul = 2, 2, "mul";
        /// The smallest.
        Min = 3, 3, "min";
        /// The largest.
        Max = 4, 4, "max";
        /// The largest magnitude.
        Amax = 5, 5, "amax";
        /// The mean.
        Avg = 6, 6, "avg";
        /// The sum of magnitudes.
        Norm1 = 7, 7, "norm1";
        /// The root of the sum of squares.
        Norm2 = 8, 8, "norm2";
        /// The product of what is not zero.
        MulNoZeros = 9, 9, "mul_no_zeros";
    }
}

enumeration! {
    /// How a window becomes one element.
    ResampleMode {
        /// Not said.
        #[default]
        NotSet = 0, none, "not_set";
        /// The largest.
        Maxpool = 1, 1, "maxpool";
        /// The mean of the elements inside the tensor.
        AvgpoolExcludePadding = 2, 2, "avgpool_exclude_padding";
        /// The sum over the volume of the window.
        AvgpoolIncludePadding = 3, 3, "avgpool_include_padding";
    }
}

enumeration! {
    /// What lies outside the tensor.
    PaddingMode {
        /// Not said.
        #[default]
        NotSet = 0, 0, "padding_not_set";
        /// Minus infinity.
        NegInfPad = 1, 1, "neg_inf_pad";
        /// Zero.
        ZeroPad = 2, 2, "zero_pad";
    }
}

enumeration! {
    /// Where the diagonal of an attention mask begins.
    DiagonalAlignment {
        /// At the first query and the first key.
        #[default]
        TopLeft = 0, 0, "TOP_LEFT";
        /// At the last query and the last key.
        BottomRight = 1, 1, "BOTTOM_RIGHT";
    }
}

enumeration! {
    /// How attention is to be computed.
    AttentionImplementation {
        /// As the engine likes.
        #[default]
        Auto = 0, 0, "AUTO";
        /// As a sequence of operations.
        Composite = 1, 1, "COMPOSITE";
        /// As one operation.
        Unified = 2, 2, "UNIFIED";
    }
}

enumeration! {
    /// Where the rows of a grouped product come from and go.
    MoeGroupedMatmulMode {
        /// Row to row.
        #[default]
        None = 0, 0, "none";
        /// The source row is looked up.
        Gather = 1, 1, "gather";
        /// The destination row is looked up.
        Scatter = 2, 2, "scatter";
    }
}

/// Ties an enumeration to its attribute type in the C API, and says whether an operation may leave it out.
macro_rules! attribute_types {
    ($($name:ident = $attribute_type:literal, $has_default:literal;)+) => {
        $(impl $name {
            /// The enumeration as code sees it that treats all alike.
            pub const KIND: EnumKind = EnumKind {
                name: stringify!($name),
                attribute_type: $attribute_type,
                wire_from_c: |number| Self::from_c(number).map(Self::wire),
                c_from_wire: |number| Self::from_wire(number).and_then(Self::c),
                spelling: |number| Self::from_wire(number).map(Self::name),
                has_default: $has_default,
            };
        })+
    };
}

attribute_types! {
    DataType = 1, true;
    ConvMode = 24, false;
    PointwiseMode = 25, false;
    NormFwdPhase = 22, true;
    ReductionMode = 28, false;
    ResampleMode = 29, false;
    PaddingMode = 30, true;
    DiagonalAlignment = 26, true;
    AttentionImplementation = 27, true;
    MoeGroupedMatmulMode = 31, true;
}
