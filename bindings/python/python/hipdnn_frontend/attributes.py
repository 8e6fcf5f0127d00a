"""Attributes of operations: each has setters that return the attributes themselves, and a getter for every setter.

A class lists its fields; tensors are None and lists empty until they are set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .tensor import Tensor
from .types import (
    AttentionImplementation,
    ConvolutionMode,
    DataType,
    DiagonalAlignment,
    MoeGroupedMatmulMode,
    NormFwdPhase,
    PaddingMode,
    PointwiseMode,
    ReductionMode,
    ResampleMode,
)

__all__ = [
    "BatchnormAttributes",
    "BatchnormBackwardAttributes",
    "BatchnormInferenceAttributes",
    "BatchnormInferenceAttributesVarianceExt",
    "BlockScaleDequantizeAttributes",
    "BlockScaleQuantizeAttributes",
    "ConvDgradAttributes",
    "ConvFpropAttributes",
    "ConvWgradAttributes",
    "ConvolutionDgradAttributes",
    "ConvolutionFpropAttributes",
    "ConvolutionWgradAttributes",
    "CustomOpAttributes",
    "LayernormAttributes",
    "LayernormBackwardAttributes",
    "MatmulAttributes",
    "MoeGroupedMatmulAttributes",
    "PointwiseAttributes",
    "RMSNormAttributes",
    "RMSNormBackwardAttributes",
    "ReductionAttributes",
    "ResampleBwdAttributes",
    "ResampleFwdAttributes",
    "SdpaAttributes",
    "SdpaBackwardAttributes",
]


def _setter(name: str, field: str) -> Any:
    def set(self: Any, value: Any) -> Any:
        setattr(self, field, list(value) if isinstance(value, tuple) else value)
        return self

    set.__name__, set.__doc__ = f"set_{name}", f"Sets ``{field}``."
    return set


def _getter(name: str, field: str) -> Any:
    def get(self: Any) -> Any:
        value = getattr(self, field)
        return list(value) if isinstance(value, list) else value

    get.__name__, get.__doc__ = f"get_{name}", f"Returns ``{field}``."
    return get


class Attributes:
    """What all operations share: a name, and the type that they compute in."""

    #: The names of tensors, and of other fields with their initial values.
    _tensors: str = ""
    _values: dict[str, Any] = {}
    #: Where the name in the setter or getter differs from the field.
    _setters: dict[str, str] = {}
    _getters: dict[str, str] = {}

    #: All fields, with their initial values.
    _all: dict[str, Any] = {}

    name: str
    compute_data_type: DataType

    def __init_subclass__(cls) -> None:
        shared = {"name": "", "compute_data_type": DataType.NOT_SET}
        cls._all = {**shared, **dict.fromkeys(cls._tensors.split()), **cls._values}
        for field in cls._all:
            for names, make, prefix in ((cls._setters, _setter, "set"), (cls._getters, _getter, "get")):
                name = f"{prefix}_{names.get(field, field)}"
                if not hasattr(cls, name):
                    setattr(cls, name, make(name[4:], field))

    def set_name(self, name: str) -> Any:
        """Sets ``name``."""
        self.name = name
        return self

    def set_compute_data_type(self, compute_type: DataType) -> Any:
        """Sets ``compute_data_type``."""
        self.compute_data_type = compute_type
        return self

    def __init__(self) -> None:
        for field, value in self._all.items():
            setattr(self, field, list(value) if isinstance(value, list) else value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _copy(self) -> Any:
        """The attributes as they are now: a graph keeps a copy, since programs change theirs for the next node."""
        copy = object.__new__(type(self))
        vars(copy).update({key: list(of) if isinstance(of, list) else of for key, of in vars(self).items()})
        return copy

    def __repr__(self) -> str:
        return f"<hipdnn_frontend.{type(self).__name__} {self.name!r}>"


_PADDINGS: dict[str, Any] = {"pre_padding": [], "post_padding": [], "stride": []}


class _Convolution(Attributes):
    _values = {**_PADDINGS, "dilation": [], "convolution_mode": ConvolutionMode.CROSS_CORRELATION}

    def set_padding(self, padding: Sequence[int]) -> Any:
        """Sets ``pre_padding`` and ``post_padding``."""
        self.pre_padding, self.post_padding = list(padding), list(padding)
        return self


class ConvolutionFpropAttributes(_Convolution):
    """A convolution."""

    _tensors = "x w y"


class ConvolutionDgradAttributes(_Convolution):
    """The gradient of a convolution's image."""

    _tensors = "dy w dx"


class ConvolutionWgradAttributes(_Convolution):
    """The gradient of a convolution's filter."""

    _tensors = "x dy dw"


ConvFpropAttributes = ConvolutionFpropAttributes
ConvDgradAttributes = ConvolutionDgradAttributes
ConvWgradAttributes = ConvolutionWgradAttributes


class MatmulAttributes(Attributes):
    """A product of matrices."""

    _tensors = "a b c"


class PointwiseAttributes(Attributes):
    """A pointwise operation."""

    _tensors = "input_0 input_1 input_2 output_0"
    _values = {
        "mode": PointwiseMode.NOT_SET, "relu_lower_clip": None, "relu_upper_clip": None, "relu_lower_clip_slope": None,
        "swish_beta": None, "elu_alpha": None, "softplus_beta": None, "axis": None,
    }  # fmt: skip


class ReductionAttributes(Attributes):
    """A reduction."""

    _tensors = "x y"
    _values = {"mode": ReductionMode.NOT_SET, "is_deterministic": False}


class ResampleFwdAttributes(Attributes):
    """Pooling."""

    _tensors = "x y index"
    _values = {
        **_PADDINGS, "window": [], "resample_mode": ResampleMode.NOT_SET, "padding_mode": PaddingMode.NOT_SET,
        "generate_index": False,
    }  # fmt: skip


class ResampleBwdAttributes(Attributes):
    """The gradient of pooling."""

    _tensors = "dy index dx"
    _values = {
        **_PADDINGS, "window": [], "resample_mode": ResampleMode.NOT_SET, "padding_mode": PaddingMode.NOT_SET
    }  # fmt: skip


class BatchnormAttributes(Attributes):
    """Batch normalization in training."""

    _tensors = (
        "x scale bias epsilon prev_running_mean prev_running_variance momentum y mean inv_variance next_running_mean "
        "next_running_variance"
    )
    _values = {"peer_stats": []}

    def set_previous_running_stats(self, mean: Tensor, variance: Tensor, momentum: Tensor) -> BatchnormAttributes:
        """Sets the running statistics so far, and the weight of the new ones."""
        self.prev_running_mean, self.prev_running_variance, self.momentum = mean, variance, momentum
        return self


class _Saved(Attributes):
    def set_saved_mean_and_inv_variance(self, mean: Tensor, inv_variance: Tensor) -> Any:
        """Sets the statistics of the forward operation."""
        self.mean, self.inv_variance = mean, inv_variance
        return self


class BatchnormBackwardAttributes(_Saved):
    """The gradients of batch normalization."""

    _tensors = "dy x scale mean inv_variance dx dscale dbias"
    _values = {"peer_stats": []}


class BatchnormInferenceAttributes(Attributes):
    """Batch normalization in inference."""

    _tensors = "x mean inv_variance scale bias y"


class BatchnormInferenceAttributesVarianceExt(Attributes):
    """Batch normalization in inference, of a variance."""

    _tensors = "x mean variance scale bias epsilon y"


class LayernormAttributes(Attributes):
    """Layer normalization."""

    _tensors = "x scale bias epsilon y mean inv_variance"
    _values = {"forward_phase": NormFwdPhase.NOT_SET, "normalized_dim_count": None}


class LayernormBackwardAttributes(_Saved):
    """The gradients of layer normalization."""

    _tensors = "dy x scale mean inv_variance epsilon dx dscale dbias"
    _values = {"normalized_dim_count": None}


class RMSNormAttributes(Attributes):
    """RMS normalization."""

    _tensors = "x scale epsilon bias y inv_rms"
    _values = {"forward_phase": NormFwdPhase.NOT_SET}


class RMSNormBackwardAttributes(Attributes):
    """The gradients of RMS normalization."""

    _tensors = "dy x scale inv_rms dx dscale dbias"
    _values = {"compute_dbias": False}

    def has_dbias(self, compute_dbias: bool) -> RMSNormBackwardAttributes:
        """Sets whether the bias has a gradient."""
        self.compute_dbias = bool(compute_dbias)
        return self


class BlockScaleQuantizeAttributes(Attributes):
    """Rounding to a small type, with a scale for each block."""

    _tensors = "x y scale"
    _values = {"block_size": None, "axis": None, "transpose": False}


class BlockScaleDequantizeAttributes(Attributes):
    """Multiplying each block by its scale."""

    _tensors = "x scale y"
    _values = {"block_size": [], "is_negative_scale": False}


class MoeGroupedMatmulAttributes(Attributes):
    """Products of groups of tokens with their experts' matrices."""

    _tensors = "token weight first_token_offset token_index token_ks output"
    _values = {"mode": MoeGroupedMatmulMode.NOT_SET, "top_k": 0}


class CustomOpAttributes(Attributes):
    """An operation that only some plugin knows."""

    _values = {"custom_op_id": "", "inputs": [], "outputs": [], "data": []}


class _Attention(Attributes):
    def set_attn_scale(self, scale: Tensor | float) -> Any:
        """Sets what scores are multiplied by: a tensor, or a number."""
        if isinstance(scale, Tensor):
            self.attn_scale = scale
        else:
            self.attn_scale_value = float(scale)
        return self

    def set_dropout(self, probability: Any, mask_or_seed: Any, scale_or_offset: Any) -> Any:
        """Sets dropout: the probability with a mask and its scale."""
        self.dropout_probability, self.dropout_mask, self.dropout_scale = probability, mask_or_seed, scale_or_offset
        return self


_MASKS: dict[str, Any] = {
    "alibi_mask": False, "padding_mask": False, "causal_mask": False, "causal_mask_bottom_right": False,
    "dropout_probability": None, "attn_scale_value": None, "left_bound": None, "right_bound": None,
    "diagonal_alignment": DiagonalAlignment.TOP_LEFT,
}  # fmt: skip
_BOUNDS = {"left_bound": "diagonal_band_left_bound", "right_bound": "diagonal_band_right_bound"}


class SdpaAttributes(_Attention):
    """Scaled dot product attention."""

    _tensors = (
        "q k v bias attn_scale seq_len_q seq_len_kv seed offset dropout_mask dropout_scale page_table_k page_table_v block_mask "
        "sink_token descale_q descale_k descale_v descale_s scale_s scale_o o stats max sum_exp rng_dump amax_s amax_o"
    )
    _values = {
        "generate_stats": None, **_MASKS, "max_seq_len_kv": None, "mma_core_mode": DataType.NOT_SET,
        "implementation": AttentionImplementation.AUTO, "unfuse_fma_hint": False,
    }  # fmt: skip
    _setters = {
        **_BOUNDS, "page_table_k": "paged_attention_k_table", "page_table_v": "paged_attention_v_table",
        "max": "logit_max", "sum_exp": "score_sum_exp", "max_seq_len_kv": "paged_attention_max_seq_len_kv",
        "unfuse_fma_hint": "unfuse_fma",
    }  # fmt: skip


class SdpaBackwardAttributes(_Attention):
    """The gradients of attention."""

    _tensors = "q k v o do stats attn_scale bias seq_len_q seq_len_kv seed offset dropout_mask dropout_scale dropout_scale_inv dq dk dv dbias"
    _values = _MASKS
    _setters = _BOUNDS
