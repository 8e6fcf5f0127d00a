/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Types and modes, with the numbers that graphs have on the wire.
 */
#pragma once

#include <hipdnn/backend/HipdnnAttentionImplementation.h>
#include <hipdnn/backend/HipdnnDiagonalAlignment.h>
#include <hipdnn/backend/HipdnnNormFwdPhase.h>
#include <hipdnn/backend/HipdnnOperationType.h>
#include <hipdnn/backend/HipdnnPointwiseMode.h>
#include <hipdnn/backend/hipdnn_backend.h>

#include <cstdint>
#include <cstring>
#include <iosfwd>
#include <optional>
#include <type_traits>
#include <vector>

#include "pointwise_mode.hpp"
#include "small_floats.hpp"

namespace hipdnn
{

/** Sizes, strides and paddings: one number for each dimension. */
using Dims = std::vector<int64_t>;

/** The type of a tensor's elements, or of the numbers that an operation computes with. */
enum class DataType {
    NOT_SET = 0,
    FLOAT = 1,
    HALF = 2,
    BFLOAT16 = 3,
    DOUBLE = 4,
    UINT8 = 5,
    INT32 = 6,
    INT8 = 7,
    FP8_E4M3 = 8,
    FP8_E5M2 = 9,
    FP8_E8M0 = 10,
    FP4_E2M1 = 11,
    INT4 = 12,
    FP6_E2M3 = 13,
    FP6_E3M2 = 14,
    INT64 = 15,
    BOOLEAN = 16,
    FP8_E4M3_FNUZ = 17,
    FP8_E5M2_FNUZ = 18,
    /* Types that programs for cuDNN name and that hipDNN does not have: a graph with one is refused. */
    INT8x4 = 19,
    UINT8x4 = 20,
    INT8x32 = 21,
    FAST_FLOAT_FOR_FP8 = 22,
    COMPLEX_FP32 = 23,
    COMPLEX_FP64 = 24,
    BYTE_BOOLEAN = 107,
    FP8_E5M3 = 108
};

/** Whether the filter of a convolution is flipped. Networks use CROSS_CORRELATION, which does not flip it. */
enum class ConvolutionMode { NOT_SET = 0, CROSS_CORRELATION = 1, CONVOLUTION = 2 };

/** How elements are joined by a reduction. */
enum class ReductionMode { NOT_SET = 0, ADD, MUL, MIN, MAX, AMAX, AVG, NORM1, NORM2, MUL_NO_ZEROS };

/** What a pooling computes of a window. */
enum class ResampleMode {
    NOT_SET = 0,
    MAXPOOL = 1,
    AVGPOOL_EXCLUDE_PADDING = 2,
    AVGPOOL_INCLUDE_PADDING = 3,
    /* Modes that programs for cuDNN name and that hipDNN does not have: a graph with one is refused. */
    BILINEAR = 4,
    NEAREST = 5
};

/** What a pooling finds outside of a tensor. */
enum class PaddingMode { NOT_SET = 0, NEG_INF_PAD = 1, ZERO_PAD = 2, EDGE_VAL_PAD = 3 };

/** Whether a normalization keeps what its gradient needs. */
enum class NormFwdPhase { NOT_SET = 0, INFERENCE = 1, TRAINING = 2 };

/** Which corner of the attention matrix the diagonal of a mask begins in. */
enum class DiagonalAlignment { TOP_LEFT = 0, BOTTOM_RIGHT = 1 };

/** How an engine is to compute attention. */
enum class AttentionImplementation { AUTO = 0, COMPOSITE = 1, UNIFIED = 2 };

/** How a grouped matmul reads its tokens and writes its results. */
enum class MoeGroupedMatmulMode {
    NONE = 0,
    GATHER = 1,
    SCATTER = 2,
    /* Of programs for cuDNN: the first is NONE, with the second a graph is refused. */
    NOT_SET = NONE,
    COMBINE = 101
};

/** How engines are ranked: in one way, whose name is FALLBACK; programs for cuDNN have other names for it. */
enum class HeuristicMode { FALLBACK = 0, A = 1, B = 2, OPENSOURCE = 3 };

/** Which of the ranked plans are built. */
enum class BuildPlanPolicy { HEURISTICS_CHOICE = 0, ALL = 1 };

/** Facts about an engine that a caller may choose by. */
enum class BehaviorNote {
    RUNTIME_COMPILATION = 0,
    REQUIRES_LAYOUT_TRANSFORM = 1,
    SUPPORTS_GRAPH_CAPTURE = 2,
    EXTERNAL_LIBRARY_DEPENDENCY = 3,
    SUPPORTS_EXECUTION_PLAN_SERIALIZATION = 4,
    NOT_SET = -1
};

/** The type of a knob's value. */
enum class KnobValueType { NOT_SET = 0, INT64 = 1, FLOAT64 = 2, STRING = 3 };

/** Whether a scalar is part of the graph or comes with each execution. */
enum class ScalarType { RUNTIME_PARAM = 0, COMPILE_TIME_CONST = 1 };

/** The type of a C++ type's values, NOT_SET where there is no such. */
template <typename T>
constexpr DataType getDataTypeEnumFromType()
{
    return std::is_same_v<T, float>      ? DataType::FLOAT
           : std::is_same_v<T, half>     ? DataType::HALF
           : std::is_same_v<T, bfloat16> ? DataType::BFLOAT16
           : std::is_same_v<T, double>   ? DataType::DOUBLE
           : std::is_same_v<T, uint8_t>  ? DataType::UINT8
           : std::is_same_v<T, int32_t>  ? DataType::INT32
           : std::is_same_v<T, int8_t>   ? DataType::INT8
           : std::is_same_v<T, int64_t>  ? DataType::INT64
           : std::is_same_v<T, bool>     ? DataType::BOOLEAN
           /* Types of tensors, of which no scalar is part of a graph. */
           : std::is_same_v<T, fp8_e4m3>      ? DataType::FP8_E4M3
           : std::is_same_v<T, fp8_e5m2>      ? DataType::FP8_E5M2
           : std::is_same_v<T, fp8_e8m0>      ? DataType::FP8_E8M0
           : std::is_same_v<T, fp8_e4m3_fnuz> ? DataType::FP8_E4M3_FNUZ
           : std::is_same_v<T, fp8_e5m2_fnuz> ? DataType::FP8_E5M2_FNUZ
           : std::is_same_v<T, fp6_e2m3>      ? DataType::FP6_E2M3
           : std::is_same_v<T, fp6_e3m2>      ? DataType::FP6_E3M2
           : std::is_same_v<T, fp4_e2m1>      ? DataType::FP4_E2M1
                                              : DataType::NOT_SET;
}

/** Whether a scalar of this type can be part of a graph. */
template <typename T>
constexpr bool is_scalar_of_graph()
{
    return std::is_same_v<T, half> || std::is_same_v<T, bfloat16> ||
           (std::is_arithmetic_v<T> && getDataTypeEnumFromType<T>() != DataType::NOT_SET);
}

/** The name of a type, as `fp32`. */
inline const char* to_string(DataType type)
{
    static constexpr const char* names[] = {"unknown",  "fp32",     "fp16",          "bf16",         "fp64",
                                            "uint8",    "int32",    "int8",          "fp8_e4m3",     "fp8_e5m2",
                                            "fp8_e8m0", "fp4_e2m1", "int4",          "fp6_e2m3",     "fp6_e3m2",
                                            "int64",    "boolean",  "fp8_e4m3_fnuz", "fp8_e5m2_fnuz"};
    const auto number = static_cast<size_t>(type);
    return number < sizeof names / sizeof names[0] ? names[number] : "unknown";
}

inline const char* to_string(ConvolutionMode mode)
{
    return mode == ConvolutionMode::CROSS_CORRELATION ? "cross_correlation"
           : mode == ConvolutionMode::CONVOLUTION     ? "convolution"
                                                      : "not_set";
}

inline const char* to_string(BuildPlanPolicy policy)
{
    return policy == BuildPlanPolicy::ALL ? "ALL" : "HEURISTICS_CHOICE";
}

inline const char* to_string(HeuristicMode mode)
{
    return mode == HeuristicMode::A            ? "A"
           : mode == HeuristicMode::B          ? "B"
           : mode == HeuristicMode::OPENSOURCE ? "OPENSOURCE"
                                               : "FALLBACK";
}

inline const char* to_string(NormFwdPhase phase)
{
    return phase == NormFwdPhase::INFERENCE ? "INFERENCE" : phase == NormFwdPhase::TRAINING ? "TRAINING" : "NOT_SET";
}

inline const char* to_string(KnobValueType type)
{
    return type == KnobValueType::INT64     ? "int64"
           : type == KnobValueType::FLOAT64 ? "float64"
           : type == KnobValueType::STRING  ? "string"
                                            : "unknown";
}

/** Whether this header has a name for a note; libraries of later versions may report others. */
inline bool isKnownBehaviorNote(BehaviorNote note)
{
    return note >= BehaviorNote::RUNTIME_COMPILATION && note <= BehaviorNote::SUPPORTS_EXECUTION_PLAN_SERIALIZATION;
}

/** Prints any of the enumerations above that has a name. */
template <typename Traits, typename Enum, typename = std::enable_if_t<std::is_enum_v<Enum>>,
          typename = decltype(*to_string(std::declval<Enum>()))>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& stream, Enum value)
{
    return stream << to_string(value);
}

inline bool isUnaryPointwiseMode(PointwiseMode mode) { return pointwise_inputs(mode) == 1; }
inline bool isBinaryPointwiseMode(PointwiseMode mode) { return pointwise_inputs(mode) == 2; }
inline bool isTernaryPointwiseMode(PointwiseMode mode) { return pointwise_inputs(mode) == 3; }

namespace detail
{

constexpr hipdnnDataType_t DATA_TYPES[] = {
    HIPDNN_DATA_FLOAT,    HIPDNN_DATA_FLOAT,         HIPDNN_DATA_HALF,         HIPDNN_DATA_BFLOAT16,
    HIPDNN_DATA_DOUBLE,   HIPDNN_DATA_UINT8,         HIPDNN_DATA_INT32,        HIPDNN_DATA_INT8,
    HIPDNN_DATA_FP8_E4M3, HIPDNN_DATA_FP8_E5M2,      HIPDNN_DATA_FP8_E8M0,     HIPDNN_DATA_FP4_E2M1,
    HIPDNN_DATA_INT4,     HIPDNN_DATA_FP6_E2M3_EXT,  HIPDNN_DATA_FP6_E3M2_EXT, HIPDNN_DATA_INT64,
    HIPDNN_DATA_BOOLEAN,  HIPDNN_DATA_FP8_E4M3_FNUZ, HIPDNN_DATA_FP8_E5M2_FNUZ};
constexpr int DATA_TYPE_COUNT = sizeof DATA_TYPES / sizeof DATA_TYPES[0];

/** The C type, nothing where it is not set or hipDNN does not have it. */
inline std::optional<hipdnnDataType_t> to_c(DataType type)
{
    const int number = static_cast<int>(type);
    return number > 0 && number < DATA_TYPE_COUNT ? std::optional(DATA_TYPES[number]) : std::nullopt;
}

inline DataType from_c(hipdnnDataType_t type)
{
    for (int number = 1; number < DATA_TYPE_COUNT; number++)
    {
        if (DATA_TYPES[number] == type)
        {
            return static_cast<DataType>(number);
        }
    }
    return DataType::NOT_SET;
}

/** Bytes of one element, 0 for types that are narrower or not set. */
inline size_t bytes_of(DataType type)
{
    switch (type)
    {
    case DataType::DOUBLE:
    case DataType::INT64: return 8;
    case DataType::FLOAT:
    case DataType::INT32: return 4;
    case DataType::HALF:
    case DataType::BFLOAT16: return 2;
    case DataType::UINT8:
    case DataType::INT8:
    case DataType::BOOLEAN:
    case DataType::FP8_E4M3:
    case DataType::FP8_E5M2:
    case DataType::FP8_E8M0:
    case DataType::FP8_E4M3_FNUZ:
    case DataType::FP8_E5M2_FNUZ: return 1;
    default: return 0;
    }
}

} // namespace detail
} // namespace hipdnn
