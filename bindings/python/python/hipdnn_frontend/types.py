"""Types and modes, with the numbers of hipDNN's frontend."""

from __future__ import annotations

import enum

__all__ = [
    "AttentionImplementation",
    "AutotuneCacheWriteOutcome",
    "AutotuneStrategy",
    "BehaviorNote",
    "BuildPlanPolicy",
    "ConvolutionMode",
    "DataType",
    "DiagonalAlignment",
    "HeuristicMode",
    "KnobValueType",
    "MoeGroupedMatmulMode",
    "NormFwdPhase",
    "PaddingMode",
    "PluginLoadingMode",
    "PointwiseMode",
    "PrimingFailurePolicy",
    "ReductionMode",
    "ResampleMode",
    "TimingQuality",
    "TuneMode",
]


class Numbered(enum.Enum):
    """An enumeration whose members are also numbers."""

    def __int__(self) -> int:
        return int(self.value)


class DataType(Numbered):
    """The type of an element or of a computation."""

    NOT_SET = 0
    FLOAT = 1
    HALF = 2
    BFLOAT16 = 3
    DOUBLE = 4
    UINT8 = 5
    INT32 = 6
    INT8 = 7
    FP8_E4M3 = 8
    FP8_E5M2 = 9
    FP8_E8M0 = 10
    FP4_E2M1 = 11
    INT4 = 12
    FP6_E2M3 = 13
    FP6_E3M2 = 14
    INT64 = 15
    BOOLEAN = 16
    FP8_E4M3_FNUZ = 17
    FP8_E5M2_FNUZ = 18


class ConvolutionMode(Numbered):
    """Whether the filter is mirrored; networks use ``CROSS_CORRELATION``."""

    NOT_SET = 0
    CROSS_CORRELATION = 1
    CONVOLUTION = 2


class PointwiseMode(Numbered):
    """What a pointwise operation computes."""

    NOT_SET = 0
    ABS = 1
    ADD = 2
    ADD_SQUARE = 3
    BINARY_SELECT = 4
    CEIL = 5
    CMP_EQ = 6
    CMP_GE = 7
    CMP_GT = 8
    CMP_LE = 9
    CMP_LT = 10
    CMP_NEQ = 11
    DIV = 12
    ELU_BWD = 13
    ELU_FWD = 14
    ERF = 15
    EXP = 16
    FLOOR = 17
    GELU_APPROX_TANH_BWD = 18
    GELU_APPROX_TANH_FWD = 19
    GELU_BWD = 20
    GELU_FWD = 21
    GEN_INDEX = 22
    IDENTITY = 23
    LOG = 24
    LOGICAL_AND = 25
    LOGICAL_NOT = 26
    LOGICAL_OR = 27
    MAX = 28
    MIN = 29
    MUL = 30
    NEG = 31
    RECIPROCAL = 32
    RELU_BWD = 33
    RELU_FWD = 34
    RSQRT = 35
    SIGMOID_BWD = 36
    SIGMOID_FWD = 37
    SIN = 38
    SOFTPLUS_BWD = 39
    SOFTPLUS_FWD = 40
    SQRT = 41
    SUB = 42
    SWISH_BWD = 43
    SWISH_FWD = 44
    TAN = 45
    TANH_BWD = 46
    TANH_FWD = 47


class ReductionMode(Numbered):
    """How a reduction combines elements."""

    NOT_SET = 0
    ADD = 1
    MUL = 2
    MIN = 3
    MAX = 4
    AMAX = 5
    AVG = 6
    NORM1 = 7
    NORM2 = 8
    MUL_NO_ZEROS = 9


class ResampleMode(Numbered):
    """How a resampling combines the elements of a window."""

    NOT_SET = 0
    MAXPOOL = 1
    AVGPOOL_EXCLUDE_PADDING = 2
    AVGPOOL_INCLUDE_PADDING = 3
    BILINEAR = 4
    NEAREST = 5


class PaddingMode(Numbered):
    """The values around an image when it is resampled."""

    NOT_SET = 0
    NEG_INF_PAD = 1
    ZERO_PAD = 2
    EDGE_VAL_PAD = 3


class NormFwdPhase(Numbered):
    """Whether a normalization returns its statistics."""

    NOT_SET = 0
    INFERENCE = 1
    TRAINING = 2


class DiagonalAlignment(Numbered):
    """Where the diagonal of a mask begins."""

    TOP_LEFT = 0
    BOTTOM_RIGHT = 1


class AttentionImplementation(Numbered):
    """How attention is computed; the engine decides."""

    AUTO = 0
    COMPOSITE = 1
    UNIFIED = 2


class MoeGroupedMatmulMode(Numbered):
    """How tokens are assigned to their experts."""

    NOT_SET = -1
    NONE = 0
    GATHER = 1
    SCATTER = 2


class HeuristicMode(Numbered):
    """How engines are ranked: here all modes are the library's order."""

    FALLBACK = 0
    A = 1
    B = 2
    OPENSOURCE = 3


class BehaviorNote(Numbered):
    """A property of an engine."""

    RUNTIME_COMPILATION = 0
    REQUIRES_LAYOUT_TRANSFORM = 1
    SUPPORTS_GRAPH_CAPTURE = 2
    EXTERNAL_LIBRARY_DEPENDENCY = 3
    SUPPORTS_EXECUTION_PLAN_SERIALIZATION = 4


class BuildPlanPolicy(Numbered):
    """Whether ``build_plans`` compiles the first plan that can be compiled, or all of them."""

    HEURISTICS_CHOICE = 0
    ALL = 1


class KnobValueType(Numbered):
    """The type of a knob's value."""

    NOT_SET = 0
    INT64 = 1
    FLOAT64 = 2
    STRING = 3


class TuneMode(Numbered):
    """Whether engines that can also tune themselves do so before they are timed."""

    STANDARD = 0
    EXHAUSTIVE = 1


class AutotuneStrategy(Numbered):
    """How often a candidate is timed."""

    FIXED_AVERAGE = 1
    RUN_UNTIL_STABLE = 2


class PrimingFailurePolicy(Numbered):
    """What ``autotune`` does if an engine fails to tune itself."""

    ABORT_ON_PRIMING_FAILURE = 0
    BENCHMARK_UNPRIMED = 1


class AutotuneCacheWriteOutcome(Numbered):
    """What became of the ranking of a sweep of all engines."""

    NOT_ATTEMPTED_NO_SUCCESSFUL_ENGINE = 0
    WRITTEN = 1
    DECLINED_DISABLED = 2
    DECLINED_UNKEYABLE = 3
    UNCHANGED = 4
    #: Not every engine was timed with its default knobs.
    NOT_ATTEMPTED_PARTIAL_SWEEP = 5


class TimingQuality(Numbered):
    """What a measured time covers: the device's work alone, or also what the host did meanwhile."""

    DEVICE_ONLY = 0
    UNSTALLED = 1
    INVALID = 2
    #: The older name.
    HOST_INCLUDED = UNSTALLED


class PluginLoadingMode(Numbered):
    """Whether given paths of plugins are added to the library's own or replace them."""

    ADDITIVE = 0
    ABSOLUTE = 1
