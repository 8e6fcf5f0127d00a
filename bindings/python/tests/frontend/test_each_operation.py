"""Every operation by the frontend's names: validated, written and read, planned, executed, and compared with NumPy."""

from __future__ import annotations

import json

import builders
import hipdnn_frontend as hipdnn
import numpy as np
import pytest
from builders import ALL, good, plan, run, values
from hipdnn_frontend import DataType, Tensor

TYPES = {
    "pointwise": "PointwiseAttributes", "matmul": "MatmulAttributes", "conv_fprop": "ConvolutionFwdAttributes",
    "conv_dgrad": "ConvolutionBwdAttributes", "conv_wgrad": "ConvolutionWrwAttributes", "batchnorm": "BatchnormAttributes",
    "batchnorm_running": "BatchnormAttributes", "batchnorm_backward": "BatchnormBackwardAttributes",
    "batchnorm_inference": "BatchnormInferenceAttributes",
    "batchnorm_inference_variance_ext": "BatchnormInferenceAttributesVarianceExt", "layernorm": "LayernormAttributes",
    "layernorm_training": "LayernormAttributes", "layernorm_backward": "LayernormBackwardAttributes",
    "rmsnorm": "RMSNormAttributes", "rmsnorm_backward": "RMSNormBackwardAttributes",
    "block_scale_quantize": "BlockScaleQuantizeAttributes", "block_scale_dequantize": "BlockScaleDequantizeAttributes",
    "reduction": "ReductionAttributes", "reduction_given": "ReductionAttributes",
    "moe_grouped_matmul": "MoeGroupedMatmulAttributes", "resample_fwd": "ResampleFwdAttributes",
    "resample_index": "ResampleFwdAttributes", "resample_bwd": "ResampleBwdAttributes",
    "resample_bwd_index": "ResampleBwdAttributes", "custom_op": "CustomOpAttributes", "sdpa": "SdpaAttributes",
    "sdpa_backward": "SdpaBackwardAttributes",
}  # fmt: skip

each = pytest.mark.parametrize("name", ALL)


def statistics(x: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    return x.mean(axes, keepdims=True), 1 / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def convolve(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwrs,kcrs->nkhw", windows, w)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    k, v = (np.repeat(of, q.shape[1] // of.shape[1], 1) for of in (k, v))
    scores = q @ k.swapaxes(2, 3) * 0.5
    scores[..., ~np.tri(*scores.shape[2:], dtype=bool)] = -np.inf
    top = scores.max(-1, keepdims=True)
    total = np.exp(scores - top).sum(-1, keepdims=True)
    return np.exp(scores - top) / total @ v, top + np.log(total)


def expected(name: str, of: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The results that NumPy computes, of those operations that are a line of it."""
    of = {key: value.astype(np.float64) if value.dtype.kind == "f" else value for key, value in of.items()}
    if name == "pointwise":
        return {"y": of["a"] + of["b"]}
    if name == "matmul":
        return {"c": of["a"] @ of["b"]}
    if name == "conv_fprop":
        return {"y": convolve(of["x"], of["w"])}
    if name == "conv_dgrad":
        return {"dx": convolve(of["dy"], of["w"].swapaxes(0, 1)[..., ::-1, ::-1])}
    if name in ("batchnorm", "batchnorm_running"):
        mean, inverse = statistics(of["x"], (0, 2, 3))
        found = {"y": (of["x"] - mean) * inverse * of["scale"] + of["bias"], "mean": mean, "inv_variance": inverse}
        if name == "batchnorm_running":
            variance = of["x"].var((0, 2, 3), keepdims=True, ddof=1)
            found["next_mean"] = 0.75 * of["running_mean"] + 0.25 * mean
            found["next_variance"] = 0.75 * of["running_variance"] + 0.25 * variance
        return found
    if name == "batchnorm_inference":
        return {"y": (of["x"] - of["mean"]) * of["inv_variance"] * of["scale"] + of["bias"]}
    if name == "batchnorm_inference_variance_ext":
        return {"y": (of["x"] - of["mean"]) / np.sqrt(of["variance"] + 1e-5) * of["scale"] + of["bias"]}
    if name in ("layernorm", "layernorm_training"):
        mean, inverse = statistics(of["x"], (1, 2) if name == "layernorm" else (2,))
        found = {"y": (of["x"] - mean) * inverse * of["scale"] + of["bias"]}
        return found if name == "layernorm" else {**found, "mean": mean, "inv_variance": inverse}
    if name == "rmsnorm":
        inverse = 1 / np.sqrt((of["x"] ** 2).mean((1, 2, 3), keepdims=True) + 1e-5)
        return {"y": of["x"] * inverse * of["scale"], "inv_rms": inverse}
    if name.startswith("reduction"):
        return {"y": of["x"].sum(0, keepdims=True)}
    if name == "moe_grouped_matmul":
        return {"y": np.concatenate([of["token"][:, :3] @ of["weight"][0], of["token"][:, 3:] @ of["weight"][1]], 1)}
    if name in ("resample_fwd", "resample_index"):
        return {"y": of["x"].reshape(1, 3, 2, 2, 2, 2).max((3, 5))}
    if name == "resample_bwd":
        return {"dx": np.kron(of["dy"], np.full((2, 2), 0.25))}
    if name == "resample_bwd_index":
        return {"dx": np.kron(of["dy"], np.array([[1, 0], [0, 0]]))}
    if name == "sdpa":
        return dict(zip(("o", "stats"), attend(of["q"], of["k"], of["v"])))
    return {}


@each
def test_an_operation_is_written_and_read(name: str) -> None:
    graph = ALL[name]().graph
    good(graph.validate())
    text, data = graph.to_json(), graph.to_binary()
    assert [node["type"] for node in json.loads(text)["nodes"]] == [TYPES[name]]
    for method, form in (("from_json", text), ("from_binary", data)):
        again = hipdnn.Graph()
        good(getattr(again, method)(form))
        assert again.to_json() == text and again.to_binary() == data, method


@pytest.mark.parametrize("name", [name for name in ALL if name != "custom_op"])
def test_an_operation_is_computed(name: str) -> None:
    built = ALL[name]()
    given = values(built)
    found = run(built, given)
    for key, value in expected(name, given).items():
        np.testing.assert_allclose(found[key].astype(np.float64), value, rtol=2e-5, atol=2e-5, err_msg=key)
    assert all(np.isfinite(of.astype(np.float64)).all() for of in found.values())


def test_the_gradients_are_those_of_the_package() -> None:
    """Operations without a formula above, against the package's own graphs."""
    import hipdnn as package

    for name, call in {
        "conv_wgrad": lambda g, t: [g.conv_wgrad(t["x"], t["dy"], padding=[1, 1])],
        "batchnorm_backward": lambda g, t: g.batchnorm_backward(t["dy"], t["x"], t["scale"]),
        "layernorm_backward": lambda g, t: g.layernorm_backward(
            t["dy"], t["x"], t["scale"], t["mean"], t["inv_variance"]
        ),
        "rmsnorm_backward": lambda g, t: g.rmsnorm_backward(t["dy"], t["x"], t["scale"], t["inv_rms"])[:2],
        "sdpa_backward": lambda g, t: g.sdpa_backward(*t.values(), attn_scale=0.5),
    }.items():
        built = ALL[name]()
        given = values(built)
        found = run(built, given)
        graph = package.Graph()
        tensors = {key: graph.tensor(value.shape) for key, value in given.items()}
        outputs = [tensor.set_output(True) for tensor in call(graph, tensors)]
        results = [np.empty(tensor.dim, np.float32) for tensor in outputs]
        graph.execute({**{tensors[key]: value for key, value in given.items()}, **dict(zip(outputs, results))})
        for key, value in zip(built.outputs, results):
            np.testing.assert_array_equal(found[key], value, err_msg=f"{name} {key}")


def test_a_read_graph_is_executed() -> None:
    built = ALL["matmul"]()
    good(built.graph.validate())
    given = values(built)
    graph, handle = hipdnn.Graph(), hipdnn.create_handle()
    good(graph.from_json(handle, json_string=built.graph.to_json()))
    good(graph.create_execution_plans())
    good(graph.build_plans())
    result = np.empty((4, 5), np.float32)
    arrays = {**given, "c": result}
    pack = {tensor.get_uid(): arrays[name] for name, tensor in {**built.inputs, **built.outputs}.items()}
    good(graph.execute(handle, pack))
    np.testing.assert_allclose(result, given["a"] @ given["b"], rtol=1e-5)


@pytest.mark.parametrize("kind", ["HALF", "BFLOAT16"])
def test_a_convolution_in_16_bits(kind: str) -> None:
    built = builders.conv_fprop(hipdnn.DataType[kind])
    given = values(built)
    found = run(built, given)["y"].astype(np.float64)
    wanted = convolve(given["x"].astype(np.float64), given["w"].astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=2e-2)
    assert built.outputs["y"].get_data_type() is hipdnn.DataType[kind]


@pytest.mark.parametrize(
    "mode", [mode for mode in hipdnn.PointwiseMode if mode.name not in ("NOT_SET", "BINARY_SELECT")]
)
def test_every_pointwise_mode_is_planned(mode: hipdnn.PointwiseMode) -> None:
    unary = {
        "ABS", "CEIL", "ERF", "EXP", "FLOOR", "GEN_INDEX", "IDENTITY", "LOG", "LOGICAL_NOT", "NEG", "RECIPROCAL", "RSQRT", "SIN",
        "SQRT", "TAN",
    }  # fmt: skip
    graph = builders.float_graph()
    count = 1 if mode.name in unary or mode.name.endswith("_FWD") else 2
    tensors = [builders.Tensor.create([2, 3, 4], hipdnn.DataType.FLOAT) for _ in range(count)]
    attributes = hipdnn.PointwiseAttributes().set_mode(mode)
    if mode.name == "GEN_INDEX":
        attributes.set_axis(1)
    graph.pointwise(*tensors, attributes).set_output(True)
    plan(graph)


@pytest.mark.parametrize("name", ["conv_dgrad", "conv_wgrad"])
def test_gradients_of_integers_are_refused_with_the_reason(name: str) -> None:
    graph = hipdnn.Graph().set_io_data_type(DataType.INT8).set_intermediate_data_type(DataType.INT32)
    graph.set_compute_data_type(DataType.INT32)
    dy, x, w = (Tensor.create(dims, DataType.INT8) for dims in ([1, 4, 8, 8], [1, 2, 8, 8], [4, 2, 3, 3]))
    kind = hipdnn.ConvDgradAttributes if name == "conv_dgrad" else hipdnn.ConvWgradAttributes
    attributes = kind().set_pre_padding([1, 1]).set_post_padding([1, 1]).set_stride([1, 1]).set_dilation([1, 1])
    of, like = (w, x) if name == "conv_dgrad" else (x, w)
    made = getattr(graph, name)(dy, of, attributes).set_dim(like.get_dim()).set_output(True)
    made.set_data_type(DataType.INT32)
    good(graph.validate())
    good(graph.build_operation_graph(hipdnn.create_handle()))
    refused = graph.create_execution_plans()
    assert "compute type is int32, expected float, double, half or bfloat16" in refused.get_message()


def test_nodes_may_be_added_before_those_that_they_read() -> None:
    graph = builders.float_graph()
    x, between = (
        builders.Tensor.create([3, 4], hipdnn.DataType.FLOAT),
        builders.Tensor.create([3, 4], hipdnn.DataType.FLOAT),
    )
    between.set_is_virtual(True)
    mode = hipdnn.PointwiseMode
    y = graph.pointwise(between, hipdnn.PointwiseAttributes().set_mode(mode.NEG).set_name("second")).set_output(True)
    graph.reduction(x, between, hipdnn.ReductionAttributes().set_mode(hipdnn.ReductionMode.ADD).set_name("first"))
    good(graph.topologicallySortGraph())
    good(graph.validate())
    good(graph.checkNoDuplicateTensorIds())
    assert [node["name"] for node in json.loads(graph.to_json())["nodes"]] == ["first", "second"]
    assert y.get_dim() == [3, 4]


def test_a_cycle_is_an_error() -> None:
    graph = builders.float_graph()
    a, b = (builders.Tensor.create([3], hipdnn.DataType.FLOAT) for _ in range(2))
    for x, y in ((a, b), (b, a)):
        graph.reduction(x, y, hipdnn.ReductionAttributes().set_mode(hipdnn.ReductionMode.ADD))
    error = graph.validate()
    assert error.is_bad() and "cycle" in error.get_message()
