/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The modes of pointwise operations, with the numbers that graphs have on the wire.
 *
 * Generated from plugins/sdk/src/graph/enums.rs by `cargo xtask generate`.
 */
#pragma once

namespace hipdnn
{

/** What a pointwise operation computes for each element. */
enum class PointwiseMode {
    NOT_SET = 0,
    ABS = 1,
    ADD = 2,
    ADD_SQUARE = 3,
    BINARY_SELECT = 4,
    CEIL = 5,
    CMP_EQ = 6,
    CMP_GE = 7,
    CMP_GT = 8,
    CMP_LE = 9,
    CMP_LT = 10,
    CMP_NEQ = 11,
    DIV = 12,
    ELU_BWD = 13,
    ELU_FWD = 14,
    ERF = 15,
    EXP = 16,
    FLOOR = 17,
    GELU_APPROX_TANH_BWD = 18,
    GELU_APPROX_TANH_FWD = 19,
    GELU_BWD = 20,
    GELU_FWD = 21,
    GEN_INDEX = 22,
    IDENTITY = 23,
    LOG = 24,
    LOGICAL_AND = 25,
    LOGICAL_NOT = 26,
    LOGICAL_OR = 27,
    MAX = 28,
    MIN = 29,
    MUL = 30,
    NEG = 31,
    RECIPROCAL = 32,
    RELU_BWD = 33,
    RELU_FWD = 34,
    RSQRT = 35,
    SIGMOID_BWD = 36,
    SIGMOID_FWD = 37,
    SIN = 38,
    SOFTPLUS_BWD = 39,
    SOFTPLUS_FWD = 40,
    SQRT = 41,
    SUB = 42,
    SWISH_BWD = 43,
    SWISH_FWD = 44,
    TAN = 45,
    TANH_BWD = 46,
    TANH_FWD = 47,
    /* Modes that programs for cuDNN name and that hipDNN does not have: a graph with one is refused. */
    POW = 101,
    MOD = 102,
    COS = 103,
    ATAN2 = 104
};

/** How many tensors a pointwise mode reads, 0 where it is NOT_SET or unknown. */
inline int pointwise_inputs(PointwiseMode mode)
{
    switch (mode)
    {
    case PointwiseMode::ABS:
    case PointwiseMode::CEIL:
    case PointwiseMode::ELU_FWD:
    case PointwiseMode::ERF:
    case PointwiseMode::EXP:
    case PointwiseMode::FLOOR:
    case PointwiseMode::GELU_APPROX_TANH_FWD:
    case PointwiseMode::GELU_FWD:
    case PointwiseMode::GEN_INDEX:
    case PointwiseMode::IDENTITY:
    case PointwiseMode::LOG:
    case PointwiseMode::LOGICAL_NOT:
    case PointwiseMode::NEG:
    case PointwiseMode::RECIPROCAL:
    case PointwiseMode::RELU_FWD:
    case PointwiseMode::RSQRT:
    case PointwiseMode::SIGMOID_FWD:
    case PointwiseMode::SIN:
    case PointwiseMode::SOFTPLUS_FWD:
    case PointwiseMode::SQRT:
    case PointwiseMode::SWISH_FWD:
    case PointwiseMode::TAN:
    case PointwiseMode::TANH_FWD: return 1;
    case PointwiseMode::ADD:
    case PointwiseMode::ADD_SQUARE:
    case PointwiseMode::CMP_EQ:
    case PointwiseMode::CMP_GE:
    case PointwiseMode::CMP_GT:
    case PointwiseMode::CMP_LE:
    case PointwiseMode::CMP_LT:
    case PointwiseMode::CMP_NEQ:
    case PointwiseMode::DIV:
    case PointwiseMode::ELU_BWD:
    case PointwiseMode::GELU_APPROX_TANH_BWD:
    case PointwiseMode::GELU_BWD:
    case PointwiseMode::LOGICAL_AND:
    case PointwiseMode::LOGICAL_OR:
    case PointwiseMode::MAX:
    case PointwiseMode::MIN:
    case PointwiseMode::MUL:
    case PointwiseMode::RELU_BWD:
    case PointwiseMode::SIGMOID_BWD:
    case PointwiseMode::SOFTPLUS_BWD:
    case PointwiseMode::SUB:
    case PointwiseMode::SWISH_BWD:
    case PointwiseMode::TANH_BWD: return 2;
    case PointwiseMode::BINARY_SELECT: return 3;
    default: return 0;
    }
}

} // namespace hipdnn
