"""Attributes: setters return the attributes, and getters what was set."""

from __future__ import annotations

from typing import Any

import hipdnn_frontend as hipdnn
import pytest
from hipdnn_frontend import DataType, Tensor

#: The tensors of each class, and its other fields with a value to set.
FIELDS: dict[str, tuple[str, dict[str, Any]]] = {
    "ConvolutionFpropAttributes": ("x w y", {"convolution_mode": hipdnn.ConvolutionMode.CONVOLUTION}),
    "ConvolutionDgradAttributes": ("dy w dx", {"convolution_mode": hipdnn.ConvolutionMode.CONVOLUTION}),
    "ConvolutionWgradAttributes": ("x dy dw", {"convolution_mode": hipdnn.ConvolutionMode.CONVOLUTION}),
    "MatmulAttributes": ("a b c", {}),
    "PointwiseAttributes": (
        "input_0 input_1 input_2 output_0",
        {
            "mode": hipdnn.PointwiseMode.ADD, "relu_lower_clip": 0.0, "relu_upper_clip": 1.0, "relu_lower_clip_slope": 0.25,
            "swish_beta": 0.5, "elu_alpha": 2.0, "softplus_beta": 4.0, "axis": 0,
        },
    ),
    "ReductionAttributes": ("x y", {"mode": hipdnn.ReductionMode.ADD, "is_deterministic": True}),
    "ResampleFwdAttributes": (
        "x y index",
        {
            "pre_padding": [1], "post_padding": [2], "stride": [3], "window": [4], "generate_index": True,
            "resample_mode": hipdnn.ResampleMode.MAXPOOL, "padding_mode": hipdnn.PaddingMode.ZERO_PAD,
        },
    ),
    "ResampleBwdAttributes": (
        "dy index dx",
        {
            "pre_padding": [1], "post_padding": [2], "stride": [3], "window": [4],
            "resample_mode": hipdnn.ResampleMode.MAXPOOL, "padding_mode": hipdnn.PaddingMode.ZERO_PAD,
        },
    ),
    "BatchnormAttributes": (
        "x scale bias epsilon prev_running_mean prev_running_variance momentum y mean inv_variance next_running_mean "
        "next_running_variance",
        {"peer_stats": [Tensor()]},
    ),
    "BatchnormBackwardAttributes": ("dy x scale mean inv_variance dx dscale dbias", {"peer_stats": [Tensor()]}),
    "BatchnormInferenceAttributes": ("x mean inv_variance scale bias y", {}),
    "BatchnormInferenceAttributesVarianceExt": ("x mean variance scale bias epsilon y", {}),
    "LayernormAttributes": (
        "x scale bias epsilon y mean inv_variance", {"forward_phase": hipdnn.NormFwdPhase.INFERENCE}
    ),
    "LayernormBackwardAttributes": (
        "dy x scale mean inv_variance epsilon dx dscale dbias", {"normalized_dim_count": 1}
    ),
    "RMSNormAttributes": ("x scale epsilon bias y inv_rms", {"forward_phase": hipdnn.NormFwdPhase.TRAINING}),
    "RMSNormBackwardAttributes": ("dy x scale inv_rms dx dscale dbias", {"compute_dbias": True}),
    "BlockScaleQuantizeAttributes": ("x y scale", {"block_size": 5, "axis": 2, "transpose": True}),
    "BlockScaleDequantizeAttributes": ("x scale y", {"block_size": [4], "is_negative_scale": True}),
    "MoeGroupedMatmulAttributes": (
        "token weight first_token_offset token_index token_ks output",
        {"mode": hipdnn.MoeGroupedMatmulMode.SCATTER, "top_k": 1},
    ),
    "CustomOpAttributes": (
        "", {"custom_op_id": "a.b", "inputs": [Tensor()], "outputs": [Tensor()], "data": [0, 1, 2]}
    ),
    "SdpaAttributes": (
        "q k v bias attn_scale seq_len_q seq_len_kv seed offset dropout_mask dropout_scale block_mask sink_token descale_q descale_k "
        "descale_v descale_s scale_s scale_o o stats rng_dump amax_s amax_o",
        {},
    ),
    "SdpaBackwardAttributes": (
        "q k v o do stats attn_scale bias seq_len_q seq_len_kv seed offset dropout_mask dropout_scale dropout_scale_inv dq dk dv dbias",
        {},
    ),
}  # fmt: skip

#: Setters of attention whose getter, or field, is called differently.
OTHERWISE = {
    "paged_attention_k_table": "page_table_k", "paged_attention_v_table": "page_table_v", "logit_max": "max",
    "score_sum_exp": "sum_exp",
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "alibi_mask": ("alibi_mask", True), "padding_mask": ("padding_mask", True), "causal_mask": ("causal_mask", True),
    "causal_mask_bottom_right": ("causal_mask_bottom_right", True), "attn_scale": ("attn_scale_value", 0.5),
    "diagonal_band_left_bound": ("left_bound", 1), "diagonal_band_right_bound": ("right_bound", 2),
    "diagonal_alignment": ("diagonal_alignment", hipdnn.DiagonalAlignment.BOTTOM_RIGHT),
}  # fmt: skip
FORWARD: dict[str, Any] = {
    "generate_stats": ("generate_stats", True), "dropout_probability": ("dropout_probability", 0.25),
    "paged_attention_max_seq_len_kv": ("max_seq_len_kv", 3), "mma_core_mode": ("mma_core_mode", DataType.FLOAT),
    "implementation": ("implementation", hipdnn.AttentionImplementation.UNIFIED), "unfuse_fma": ("unfuse_fma_hint", True),
}  # fmt: skip


@pytest.mark.parametrize("kind", FIELDS)
def test_what_is_set_is_returned(kind: str) -> None:
    tensors, values = FIELDS[kind]
    attributes = getattr(hipdnn, kind)()
    given = {name: Tensor() for name in tensors.split()}
    given.update(values, name="node", compute_data_type=DataType.DOUBLE)
    for name, value in given.items():
        assert getattr(attributes, f"set_{name}")(value) is attributes, name
    # After all are set: each setter has a field of its own.
    for name, value in given.items():
        assert getattr(attributes, f"get_{name}")() == value, name


@pytest.mark.parametrize("kind", ["Fprop", "Dgrad", "Wgrad"])
def test_convolutions_have_short_names_and_one_padding_for_both_sides(kind: str) -> None:
    long = getattr(hipdnn, f"Convolution{kind}Attributes")
    assert getattr(hipdnn, f"Conv{kind}Attributes") is long
    attributes = long()
    assert attributes.set_padding([5, 6]) is attributes
    assert attributes.get_pre_padding() == attributes.get_post_padding() == [5, 6]
    attributes.set_pre_padding([1, 1]).set_stride([2, 2]).set_dilation([3, 3])
    assert attributes.get_post_padding() == [5, 6] and attributes.get_stride() == [2, 2]


def test_settings_of_attention() -> None:
    for attributes, more in ((hipdnn.SdpaAttributes(), FORWARD), (hipdnn.SdpaBackwardAttributes(), {})):
        for name, (field, value) in {**SETTINGS, **more}.items():
            assert getattr(attributes, f"set_{name}")(value) is attributes
            assert getattr(attributes, field) == value, name
        mask, scale = Tensor(), Tensor()
        assert attributes.set_dropout(0.5, mask, scale) is attributes
        assert (attributes.dropout_probability, attributes.get_dropout_mask()) == (0.5, mask)
        assert attributes.get_dropout_scale() is scale
        assert attributes.set_attn_scale(scale).get_attn_scale() is scale and attributes.attn_scale_value == 0.5
    for name, field in OTHERWISE.items():
        tensor = Tensor()
        attributes = hipdnn.SdpaAttributes()
        assert getattr(getattr(attributes, f"set_{name}")(tensor), f"get_{field}")() is tensor


def test_setters_of_several_fields() -> None:
    mean, variance, momentum = Tensor(), Tensor(), Tensor()
    batchnorm = hipdnn.BatchnormAttributes().set_previous_running_stats(mean, variance, momentum)
    assert batchnorm.get_prev_running_mean() is mean and batchnorm.get_momentum() is momentum
    for kind in (hipdnn.BatchnormBackwardAttributes, hipdnn.LayernormBackwardAttributes):
        saved = kind().set_saved_mean_and_inv_variance(mean, variance)
        assert saved.get_mean() is mean and saved.get_inv_variance() is variance
    rmsnorm = hipdnn.RMSNormBackwardAttributes()
    assert rmsnorm.has_dbias(True) is rmsnorm and rmsnorm.get_compute_dbias()


def test_a_graph_keeps_the_attributes_as_they_were() -> None:
    graph = hipdnn.Graph()
    x = Tensor.create([2, 3], DataType.FLOAT)
    attributes = hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.NEG).set_name("first")
    y = graph.pointwise(x, attributes)
    z = graph.pointwise(y, attributes.set_mode(hipdnn.PointwiseMode.ABS).set_name("second"))
    z.set_output(True)
    assert graph.validate().is_good()
    assert '"neg"' in graph.to_json() and '"abs"' in graph.to_json()


def test_arguments_have_names() -> None:
    made = hipdnn.ConvFpropAttributes().set_name(name="first").set_compute_data_type(compute_type=DataType.FLOAT)
    assert (made.get_name(), made.get_compute_data_type()) == ("first", DataType.FLOAT)


def test_an_unknown_attribute_is_an_error() -> None:
    with pytest.raises(AttributeError, match="MatmulAttributes has no attribute 'set_stride'"):
        hipdnn.MatmulAttributes().set_stride([1])
