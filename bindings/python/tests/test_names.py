"""Names of methods and arguments, and their order, which are cuDNN's where cuDNN's Python graphs have the method."""

from __future__ import annotations

import enum
import inspect

import elements
import hipdnn
import numpy as np
import pytest
from hipdnn import GraphError

F32 = np.float32
END = "compute_data_type=None, name=''"
UNARY, BINARY = f"input, {END}", f"a, b, {END}"
COMPARED, TWO, GRADIENT = f"input, comparison, {END}", f"input0, input1, {END}", f"loss, input, {END}"
WINDOW = f"padding=None, stride=None, dilation=None, convolution_mode=CROSS_CORRELATION, {END}, *, pre_padding=None, post_padding=None"
CLIPS = "negative_slope=None, lower_clip=None, upper_clip=None"
MASKS = (
    "use_causal_mask=False, use_causal_mask_bottom_right=False, sliding_window_length=None, diagonal_alignment=TOP_LEFT, "
    "diagonal_band_left_bound=None, diagonal_band_right_bound=None, dropout=None, rng_dump=None"
)
LENGTHS = "use_alibi_mask=False, use_padding_mask=False, seq_len_q=None, seq_len_kv=None"
TOTALS = "max_total_seq_len_q=None, max_total_seq_len_kv=None"
POOL = "pooling_mode, padding_mode=ZERO_PAD, window=(), stride=(), pre_padding=None, post_padding=None"
RUN = "tensors, workspace=None"
OVERRIDES = "override_uids=None, override_shapes=None, override_strides=None"

GRAPH = {
    **dict.fromkeys(elements.UNARY, UNARY),
    **dict.fromkeys(elements.BINARY, BINARY),
    **dict.fromkeys(elements.BACKWARD, GRADIENT),
    **dict.fromkeys("cmp_eq cmp_ge cmp_gt cmp_le cmp_lt cmp_neq".split(), COMPARED),
    **dict.fromkeys("max min".split(), TWO),
    "bias": f"input, bias, {END}",
    "scale": f"input, scale, {END}",
    "relu": f"input, {CLIPS}, {END}",
    "relu_backward": f"loss, input, {CLIPS}, {END}",
    "leaky_relu": f"input, negative_slope, {END}",
    "leaky_relu_backward": f"loss, input, negative_slope, {END}",
    "elu": f"{UNARY}, *, alpha=None",
    "elu_backward": f"{GRADIENT}, *, alpha=None",
    "softplus": f"{UNARY}, *, beta=None",
    "softplus_backward": f"{GRADIENT}, *, beta=None",
    "swish": f"input, swish_beta=None, {END}",
    "swish_backward": "loss, input, compute_data_type=None, swish_beta=None, name=''",
    "gen_index": f"input, axis, {END}",
    "binary_select": f"input0, input1, mask, {END}",
    "conv_fprop": f"image, weight, {WINDOW}",
    "conv_dgrad": f"loss, filter, {WINDOW}",
    "conv_wgrad": f"image, loss, {WINDOW}",
    "matmul": "A, B, compute_data_type=None, padding=0.0, name=''",
    "reduction": f"input, mode, {END}, *, axis=None",
    "resample": f"input, {POOL}, generate_index=False, {END}",
    "resample_backward": f"loss, {POOL}, index=None, {END}",
    "batchnorm": f"input, scale, bias, in_running_mean=None, in_running_var=None, epsilon=1e-05, momentum=0.1, peer_stats=(), {END}",
    "batchnorm_inference": f"input, mean, inv_variance, scale, bias, {END}",
    "batchnorm_inference_variance": f"input, mean, variance, scale, bias, epsilon=1e-05, {END}",
    "batchnorm_backward": f"grad, input, scale, mean=None, inv_variance=None, peer_stats=(), {END}",
    "layernorm": f"norm_forward_phase, input, scale, bias, epsilon=1e-05, {END}",
    "layernorm_backward": f"grad, input, scale, mean=None, inv_variance=None, {END}, *, epsilon=None",
    "rmsnorm": f"norm_forward_phase, input, scale, bias=None, epsilon=1e-05, {END}",
    "rmsnorm_backward": f"grad, input, scale, inv_variance=None, has_dbias=False, {END}",
    "sdpa": f"q, k, v, is_inference=None, attn_scale=None, bias=None, block_mask=None, {LENGTHS}, {MASKS}, "
    f"paged_attention_k_table=None, paged_attention_v_table=None, paged_attention_max_seq_len_kv=None, {TOTALS}, {END}, score_mod=None, generate_stats=None, implementation=AUTO, score_max=None, "
    "score_sum_exp=None, sink_token=None, unfuse_fma=False",
    "sdpa_fp8": "q, k, v, descale_q, descale_k, descale_v, descale_s, scale_s, scale_o, is_inference=None, attn_scale=None, bias=None, "
    f"{LENGTHS}, use_causal_mask=False, use_causal_mask_bottom_right=False, sliding_window=None, diagonal_alignment=TOP_LEFT, "
    "left_bound=None, right_bound=None, dropout=None, rng_dump=None, paged_attention_k_table=None, paged_attention_v_table=None, "
    f"paged_attention_max_seq_len_kv=None, {END}, fn=None, generate_stats=None, score_max=None, score_sum_exp=None, sink_token=None",
    "sdpa_mxfp8": "q, k, v, descale_q, descale_k, descale_v, attn_scale=None, use_causal_mask=False, "
    "use_causal_mask_bottom_right=False, diagonal_alignment=TOP_LEFT, diagonal_band_left_bound=None, diagonal_band_right_bound=None, "
    f"{END}, generate_stats=None, sink_token=None, unfuse_fma=False",
    "sdpa_fp8_backward": "q, k, v, o, dO, stats, descale_q, descale_k, descale_v, descale_o, descale_dO, descale_s, descale_dP, scale_s, "
    f"scale_dQ, scale_dK, scale_dV, scale_dP, attn_scale=None, use_padding_mask=False, seq_len_q=None, seq_len_kv=None, use_causal_mask=False, use_causal_mask_bottom_right=False, "
    "diagonal_alignment=TOP_LEFT, left_bound=None, right_bound=None, use_deterministic_algorithm=False, dropout=None, "
    f"{END}, sink_token=None, dSink_token=None",
    "sdpa_mxfp8_backward": "args, *, name='', named",
    "sdpa_backward": f"q, k, v, o, dO, stats, attn_scale=None, bias=None, dBias=None, {LENGTHS}, {TOTALS}, {MASKS}, "
    f"use_deterministic_algorithm=False, {END}, score_mod=None, score_mod_bprop=None, sink_token=None, dSink_token=None",
    "instancenorm": f"norm_forward_phase, input, scale, bias, epsilon=1e-05, {END}",
    "instancenorm_backward": f"grad, input, scale, mean=None, inv_variance=None, {END}",
    "adalayernorm": f"norm_forward_phase, input, scale, bias=None, epsilon=1e-05, {END}",
    "adalayernorm_backward": f"grad, input, scale, mean, inv_variance, {END}",
    **dict.fromkeys("cos genstats".split(), UNARY),
    **dict.fromkeys("mod pow".split(), f"input0, input1, {END}"),
    "reshape": "input, name='', reshape_mode=VIEW_ONLY",
    "transpose": f"input, permutation, {END}",
    "slice": f"input, slices=(), {END}",
    "concatenate": "inputs, axis, in_place_index=None, name=''",
    "tensor_scalar": "value, scalar_type",
    "query_tensor_attributes_of_uid": "uid",
    "set_io_tuples": "inputs, outputs",
    "serialize": "",
    "deserialize": "handle_=None, pyobj=None",
    "key": "",
    "create_execution_plan": "engine_id, knobs=None",
    "get_knobs_for_engine": "engine",
    **dict.fromkeys("get_behavior_notes get_engine_count".split(), ""),
    "get_behavior_notes_for_plan_at_index": "index",
    **dict.fromkeys(
        "select_behavior_notes deselect_behavior_notes select_numeric_notes deselect_numeric_notes".split(), "notes"
    ),
    **dict.fromkeys("populate_cuda_graph update_cuda_graph".split(), "handle, tensors, workspace, cuda_graph"),
    "block_scale_quantize": f"input, block_size, axis=None, transpose=False, {END}, *, data_type='fp8_e4m3', scale_data_type='fp8_e8m0'",
    "block_scale_dequantize": f"input, descale, block_size, is_negative_scale=False, {END}",
    "moe_grouped_matmul": "token, weight, first_token_offset, token_index=None, token_ks=None, mode=NONE, compute_data_type=None, "
    "top_k=0, name=''",
    "moe_grouped_matmul_bwd": f"doutput, token, first_token_offset, {END}",
    "tensor": "dim, stride=None, data_type=None, is_virtual=False, is_pass_by_value=False, ragged_offset=None, reordering_type=NONE, "
    "name='', uid=-1, ragged_offset_multiplier=1",
    "tensor_like": "input, name=''",
    **dict.fromkeys(
        "validate build_operation_graph check_support engines explain get_execution_plan_count get_workspace_size".split(),
        "",
    ),
    "create_execution_plans": "heur_modes=(A,)",
    "build": "heur_modes=None, *, engine=None, knobs=None, device=None",
    "build_plans": "policy=HEURISTICS_CHOICE",
    **dict.fromkeys("build_plan_at_index get_plan_name_at_index get_workspace_size_plan_at_index".split(), "index"),
    "deselect_engines": "names",
    "deselect_workspace_greater_than": "size",
    "execute": f"{RUN}, handle=None, {OVERRIDES}",
    "execute_plan_at_index": f"{RUN}, index=0, handle=None, {OVERRIDES}",
    "autotune": "tensors, *, seconds=0.2, progress=True, budget=None, strategy='halving', knobs=False",
    "numerics": "tensors=None, *, engine=None, knobs=None, seed=0",
    "compile": "devices, path=None",
    "knobs": "engine",
    "save": "path=None",
    "to_json": "*, indent=None, aligned=True",
}

TENSOR = {
    **dict.fromkeys(
        "get_data_type get_dim get_is_pass_by_value get_is_virtual get_name get_ragged_offset get_stride get_uid".split(),
        "",
    ),
    "set_data_type": "data_type",
    "set_dim": "dim",
    "set_is_pass_by_value": "is_pass_by_value",
    "set_is_virtual": "is_virtual",
    "set_name": "name",
    "set_output": "is_output=True",
    "set_ragged_offset": "offset",
    "set_ragged_offset_multiplier": "multiplier",
    "set_reordering_type": "reordering_type",
    "set_stride": "stride",
    "set_uid": "uid",
}


def words(value):
    if isinstance(value, tuple) and value:
        return f"({', '.join(map(words, value))},)"
    return value.name if isinstance(value, enum.Enum) else repr(value)


def signature(method):
    """Names, order and defaults of a method's arguments; those behind `*` are given by name alone."""
    found, is_named = [], False
    for argument in list(inspect.signature(method).parameters.values())[1:]:
        if argument.kind is argument.KEYWORD_ONLY and not is_named:
            found.append("*")
            is_named = True
        has_default = argument.default is not argument.empty
        found.append(f"{argument.name}={words(argument.default)}" if has_default else argument.name)
    return ", ".join(found)


@pytest.mark.parametrize("of, table", [(hipdnn.Graph, GRAPH), (hipdnn.Tensor, TENSOR)], ids=["Graph", "Tensor"])
def test_arguments_are_as_the_table_says(of, table):
    methods = {name: getattr(of, name) for name in dir(of) if not name.startswith("_")}
    assert {name: signature(method) for name, method in methods.items() if callable(method)} == table


def test_a_graph_is_made_as_in_cudnn():
    wanted = (
        "name='', io_data_type=None, intermediate_data_type=None, compute_data_type=None, handle=None, sm_count=None, sm_version=None, "
        "kernel_cache=None, device_property=None, is_dynamic_shape_enabled=False, is_override_shape_enabled=False, "
        "*, inputs=None, outputs=None, heuristics=None, workspace_alloc=True"
    )
    assert signature(hipdnn.pygraph.__init__) == wanted


PACKAGE = {
    **dict.fromkeys("backend_version backend_version_string create_kernel_cache get_last_error_string".split(), ""),
    "create_device_properties": "device",
    "graph": "handle, name='cudnn_graph', io_data_type=HALF, intermediate_data_type=FLOAT, compute_data_type=FLOAT",
    "graph_cache": "key_fn, maxsize=256",
    "jit": "heur_modes=A, kwargs",
    "set_stream": "handle, stream",
}


@pytest.mark.parametrize("name", PACKAGE)
def test_functions_of_the_package_are_as_in_cudnn(name):
    arguments = inspect.signature(getattr(hipdnn, name)).parameters.values()
    found = [
        of.name if of.default is of.empty else f"{of.name}={words(of.default)}" for of in arguments
    ]  # fmt: skip
    assert ", ".join(found) == PACKAGE[name]


ENUMS = {
    "behavior_note": "RUNTIME_COMPILATION REQUIRES_FILTER_INT8x32_REORDER REQUIRES_BIAS_INT8x32_REORDER "
    "SUPPORTS_CUDA_GRAPH_NATIVE_API CUBLASLT_DEPENDENCY",
    "numerical_note": "TENSOR_CORE DOWN_CONVERT_INPUTS REDUCED_PRECISION_REDUCTION FFT NONDETERMINISTIC WINOGRAD WINOGRAD_TILE_4x4 "
    "WINOGRAD_TILE_6x6 WINOGRAD_TILE_13x13 STRICT_NAN_PROP",
    "heur_mode": "A B FALLBACK OPENSOURCE",
    "scalar_type": "RUNTIME_PARAM COMPILE_TIME_CONST",
    "reshape_mode": "VIEW_ONLY LOGICAL",
    "attention_implementation": "AUTO COMPOSITE UNIFIED",
}


@pytest.mark.parametrize("name", ENUMS)
def test_enumerations_have_the_members_of_cudnn(name):
    assert [member.name for member in getattr(hipdnn, name)] == ENUMS[name].split()


def test_compat_lists_what_is_there():
    names = hipdnn.compat.names()
    assert set(GRAPH) <= set(names["Graph"]) and set(TENSOR) <= set(names["Tensor"])
    assert set(PACKAGE) | set(ENUMS) | {"pygraph", "cudnnGraphNotSupportedError"} <= set(names["hipdnn"])


# What the order stands for.


def convolved(x, w, *more, **named):
    with hipdnn.Graph() as graph:
        graph.conv_fprop(graph.tensor_like(x), graph.tensor_like(w), *more, **named)
    return graph(x, w)


def test_convolutions_take_two_paddings_in_order(random):
    x = random.uniform(-1, 1, (1, 2, 7, 6)).astype(F32)
    w = random.uniform(-1, 1, (3, 2, 2, 2)).astype(F32)
    of = {"pre_padding": [1, 0], "post_padding": [0, 2], "stride": [2, 1], "dilation": [1, 2]}
    wanted = convolved(x, w, **of)
    mode = hipdnn.convolution_mode.CROSS_CORRELATION
    np.testing.assert_array_equal(convolved(x, w, *of.values()), wanted)
    np.testing.assert_array_equal(convolved(x, w, *of.values(), mode, "float", "named"), wanted)
    one = {"padding": [1, 0], "stride": [2, 1], "dilation": [1, 2]}
    np.testing.assert_array_equal(convolved(x, w, *one.values(), mode), convolved(x, w, **one))
    with pytest.raises(TypeError):
        convolved(x, w, *of.values(), mode, "float", "named", 5)
    with pytest.raises(TypeError):
        convolved(x, w, *of.values(), stride=[1, 1])
    # The gradients take them likewise.
    dy = np.ones_like(wanted)
    graphs = hipdnn.Graph(), hipdnn.Graph()
    graphs[0].conv_dgrad(graphs[0].tensor_like(dy), graphs[0].tensor_like(w), *of.values()).set_dim(x.shape)
    graphs[1].conv_dgrad(graphs[1].tensor_like(dy), graphs[1].tensor_like(w), **of).set_dim(x.shape)
    np.testing.assert_array_equal(graphs[0](dy, w), graphs[1](dy, w))
    graphs = hipdnn.Graph(), hipdnn.Graph()
    graphs[0].conv_wgrad(graphs[0].tensor_like(x), graphs[0].tensor_like(dy), *of.values()).set_dim(w.shape)
    graphs[1].conv_wgrad(graphs[1].tensor_like(x), graphs[1].tensor_like(dy), **of).set_dim(w.shape)
    np.testing.assert_array_equal(graphs[0](x, dy), graphs[1](x, dy))


def test_products_are_not_padded():
    graph = hipdnn.Graph()
    a, b = graph.tensor([1, 2, 3]), graph.tensor([1, 3, 2])
    assert graph.matmul(a, b, "float", 0.0, "mm").name == "mm::C"
    with pytest.raises(GraphError, match="expected 0"):
        graph.matmul(a, b, padding=1.0)


def test_tensors_have_the_numbers_that_a_program_gives():
    graph = hipdnn.Graph()
    x = graph.tensor([4], [1], "float", False, False, None, hipdnn.tensor_reordering.NONE, "x", 2)
    y = graph.neg(x).set_output(True)
    z = graph.abs(y).set_output(True)
    assert (x.uid, x.name) == (2, "x") and len({x.uid, y.uid, z.uid}) == 3
    # One that was numbered here makes room for one that the program numbers.
    y.set_uid(z.uid)
    assert len({x.uid, y.uid, z.uid}) == 3
    y.set_uid(5)
    z.set_uid(7)
    arrays = {2: np.array([1, -2, 3, -4], F32), 5: np.zeros(4, F32), 7: np.zeros(4, F32)}
    graph.execute(arrays)
    np.testing.assert_array_equal(arrays[5], -arrays[2])
    np.testing.assert_array_equal(arrays[7], np.abs(arrays[2]))
    for wrong, text in (
        (5, "the number of"),
        (-2, "an integer from 0"),
        ("a", "an integer from 0"),
        (1 << 63, "an integer"),
    ):
        with pytest.raises(GraphError, match=text):
            x.set_uid(wrong)
    with pytest.raises(GraphError, match="the number of"):
        graph.tensor([4], uid=7)
    with pytest.raises(GraphError, match="expected tensor_reordering.NONE"):
        graph.tensor([4], reordering_type=hipdnn.tensor_reordering.F8_128x4)
