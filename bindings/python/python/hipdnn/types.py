"""Types and modes, with cuDNN's names for porting."""

from __future__ import annotations

import enum
from typing import Any, Union

__all__ = [
    "DataTypeLike",
    "attention_implementation",
    "behavior_note",
    "build_plan_policy",
    "convolution_mode",
    "data_type",
    "diagonal_alignment",
    "heur_mode",
    "knob_type",
    "moe_grouped_matmul_mode",
    "norm_forward_phase",
    "numerical_note",
    "padding_mode",
    "reduction_mode",
    "resample_mode",
    "reshape_mode",
    "scalar_type",
    "tensor_reordering",
    "to_data_type",
]


class data_type(enum.Enum):
    """The type of an element or of a computation."""

    NOT_SET = "unset"
    FLOAT = "float"
    DOUBLE = "double"
    HALF = "half"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    BOOLEAN = "boolean"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    FP8_E8M0 = "fp8_e8m0"
    FP4_E2M1 = "fp4_e2m1"
    INT4 = "int4"
    FP6_E2M3 = "fp6_e2m3"
    FP6_E3M2 = "fp6_e3m2"
    FP8_E4M3_FNUZ = "fp8_e4m3_fnuz"
    FP8_E5M2_FNUZ = "fp8_e5m2_fnuz"
    #: What cuDNN accumulates 8-bit products in; here it is single precision.
    FAST_FLOAT_FOR_FP8 = "float"


class convolution_mode(enum.Enum):
    """Whether the filter is mirrored."""

    CONVOLUTION = "CONVOLUTION"
    CROSS_CORRELATION = "CROSS_CORRELATION"


class norm_forward_phase(enum.Enum):
    """Whether a normalization returns its statistics."""

    NOT_SET = 0
    INFERENCE = 1
    TRAINING = 2


class reduction_mode(enum.Enum):
    """How a reduction combines elements."""

    ADD = "add"
    MUL = "mul"
    MIN = "min"
    MAX = "max"
    AMAX = "amax"
    AVG = "avg"
    NORM1 = "norm1"
    NORM2 = "norm2"
    MUL_NO_ZEROS = "mul_no_zeros"


class resample_mode(enum.Enum):
    """How pooling combines the elements of a window."""

    MAXPOOL = "maxpool"
    AVGPOOL_EXCLUDE_PADDING = "avgpool_exclude_padding"
    AVGPOOL_INCLUDE_PADDING = "avgpool_include_padding"


class padding_mode(enum.Enum):
    """The values around an image when it is resampled."""

    NEG_INF_PAD = "neg_inf_pad"
    ZERO_PAD = "zero_pad"


class tensor_reordering(enum.Enum):
    """How elements are blocked besides the strides; tensors here are ``NONE``."""

    NONE = "NONE"
    INT8x32 = "INT8x32"
    F16x16 = "F16x16"
    F8_128x4 = "F8_128x4"


class diagonal_alignment(enum.Enum):
    """Where the diagonal of a mask begins."""

    TOP_LEFT = "TOP_LEFT"
    BOTTOM_RIGHT = "BOTTOM_RIGHT"


class moe_grouped_matmul_mode(enum.Enum):
    """How tokens are assigned to their experts."""

    NONE = "none"
    GATHER = "gather"
    SCATTER = "scatter"


class heur_mode(enum.Enum):
    """Which engines are candidates: with every mode, those that the library offers, best first."""

    A = "A"
    B = "B"
    FALLBACK = "FALLBACK"
    OPENSOURCE = "OPENSOURCE"


class build_plan_policy(enum.Enum):
    """Whether to plan the first candidate that can be planned, or all of them."""

    HEURISTICS_CHOICE = "HEURISTICS_CHOICE"
    ALL = "ALL"


class attention_implementation(enum.Enum):
    """How cuDNN computes attention; here the engine decides."""

    AUTO = "AUTO"
    COMPOSITE = "COMPOSITE"
    UNIFIED = "UNIFIED"


class scalar_type(enum.Enum):
    """Whether a number is given with each execution or with the graph."""

    RUNTIME_PARAM = "RUNTIME_PARAM"
    COMPILE_TIME_CONST = "COMPILE_TIME_CONST"


class reshape_mode(enum.Enum):
    """Whether a reshape keeps the memory, or only the order of the elements."""

    VIEW_ONLY = "VIEW_ONLY"
    LOGICAL = "LOGICAL"


class behavior_note(enum.Enum):
    """A property of an engine."""

    RUNTIME_COMPILATION = "RUNTIME_COMPILATION"
    REQUIRES_FILTER_INT8x32_REORDER = "REQUIRES_FILTER_INT8x32_REORDER"
    REQUIRES_BIAS_INT8x32_REORDER = "REQUIRES_BIAS_INT8x32_REORDER"
    SUPPORTS_CUDA_GRAPH_NATIVE_API = "SUPPORTS_CUDA_GRAPH_NATIVE_API"
    CUBLASLT_DEPENDENCY = "CUBLASLT_DEPENDENCY"


numerical_note = enum.Enum(
    "numerical_note",
    "TENSOR_CORE DOWN_CONVERT_INPUTS REDUCED_PRECISION_REDUCTION FFT NONDETERMINISTIC WINOGRAD WINOGRAD_TILE_4x4 "
    "WINOGRAD_TILE_6x6 WINOGRAD_TILE_13x13 STRICT_NAN_PROP",
    module=__name__,
)
numerical_note.__doc__ = "How an engine computes."

knob_type = enum.Enum(
    "knob_type",
    "NOT_SET SWIZZLE TILE_SIZE EDGE MULTIPLY SPLIT_K_BUF TILEK STAGES REDUCTION_MODE SPLIT_K_SLC IDX_MODE SPECFILT KERNEL_CFG "
    "WORKSPACE TILE_CGA_M TILE_CGA_N BLOCK_SIZE OCCUPANCY ARRAY_SIZE_PER_THREAD SPLIT_COLS TILE_ROWS TILE_COLS LOAD_SIZE CTA_COUNT "
    "STREAM_K SPLIT_P_SLC TILE_M TILE_N WARP_SPEC_CFG",
    module=__name__,
)
knob_type.__doc__ = "cuDNN's names of knobs; engines here name theirs themselves (`Graph.knobs`)."


#: A member of ``data_type``, its name, or a type of NumPy, PyTorch, JAX or ml_dtypes.
DataTypeLike = Union[data_type, str, Any]

_OTHER_NAMES = {
    "float32": "float",
    "float64": "double",
    "float16": "half",
    "bool": "boolean",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "float8_e8m0fnu": "fp8_e8m0",
    "float8_e4m3fnuz": "fp8_e4m3_fnuz",
    "float8_e5m2fnuz": "fp8_e5m2_fnuz",
    "float4_e2m1fn": "fp4_e2m1",
}


def to_data_type(of: DataTypeLike | None) -> data_type:
    """The data type of a member, a name, or a type of NumPy, PyTorch or JAX."""
    if of is None:
        return data_type.NOT_SET
    if isinstance(of, data_type):
        return of
    name = getattr(of, "name", None) or getattr(of, "__name__", None) or str(of)
    name = str(name).rsplit(".", 1)[-1].lower()
    try:
        return data_type(_OTHER_NAMES.get(name, name))
    except ValueError:
        known = ", ".join(member.name for member in data_type)
        raise ValueError(f"{of!r} is not a data type, expected one of {known}, or a type of NumPy or PyTorch") from None
