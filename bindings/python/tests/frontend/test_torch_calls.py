"""The calls that AMD's hipdnn_torch makes for PyTorch's functions: numbers of its own, memory by address, results without a mark."""

from __future__ import annotations

import math
from typing import Any

import hipdnn_frontend as hipdnn
import ml_dtypes
import numpy as np
import pytest
from builders import good
from hipdnn_frontend import DataType, Tensor

FLOAT = DataType.FLOAT
BF16 = ml_dtypes.bfloat16


class Calls:
    """A graph of bfloat16 whose tensors are described and numbered before it is built."""

    def __init__(self) -> None:
        self.graph = hipdnn.Graph()
        self.graph.set_io_data_type(DataType.BFLOAT16)
        self.graph.set_compute_data_type(FLOAT)
        self.memory: dict[int, np.ndarray] = {}

    def tensor(self, name: str, array: np.ndarray, uid: int, shape: Any = None, strides: Any = None) -> Tensor:
        step = array.dtype.itemsize
        dims = list(shape or array.shape)
        self.memory[uid] = array
        described = (
            Tensor().set_name(name).set_dim(dims).set_stride(list(strides or (of // step for of in array.strides)))
        )
        return self.graph.tensor(described.set_data_type(DataType.BFLOAT16).set_uid(uid))

    def number(self, name: str, value: float, uid: int) -> Tensor:
        described = Tensor().set_name(name).set_dim([1]).set_stride([1]).set_data_type(FLOAT).set_uid(uid)
        return self.graph.tensor(described.set_value(value))

    def result(self, tensor: Tensor, array: np.ndarray, uid: int, mark: bool) -> None:
        self.memory[uid] = array
        tensor.set_dim(list(array.shape))
        tensor.set_stride([of // array.dtype.itemsize for of in array.strides])
        tensor.set_data_type(DataType.BFLOAT16)
        tensor.set_uid(uid)
        if mark:
            tensor.set_output(True)

    def run(self) -> None:
        graph, handle = self.graph, hipdnn.Handle()
        good(graph.build_operation_graph(handle))
        assert graph.get_ranked_engine_ids([hipdnn.HeuristicMode.FALLBACK])
        good(graph.create_execution_plans([hipdnn.HeuristicMode.FALLBACK]))
        good(graph.check_support())
        good(graph.build_plans())
        assert hipdnn.engine_id_to_name(graph.get_execution_plan_engine_id())
        workspace = np.empty(graph.get_workspace_size(), np.uint8)
        good(
            graph.execute(handle, {uid: array.ctypes.data for uid, array in self.memory.items()}, workspace.ctypes.data)
        )


def some(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(BF16)


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=2e-2, atol=2e-2)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32)


def test_a_linear_layer_with_its_bias() -> None:
    calls, (m, n, k) = Calls(), (6, 8, 16)
    x, w, bias, y = some(m, k), some(n, k), some(n), np.empty((m, n), BF16)
    a, b = calls.tensor("A", x, 1), calls.tensor("B", w, 2, (k, n), (1, k))
    product = calls.graph.matmul(a, b, hipdnn.MatmulAttributes().set_compute_data_type(FLOAT))
    product.set_dim([m, n]).set_stride([n, 1]).set_data_type(DataType.BFLOAT16).set_uid(4).set_output(False)
    row = calls.tensor("bias", bias, 5, (1, n), (0, 1))
    add = hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.ADD)
    calls.result(calls.graph.pointwise(product, row, add), y, 3, True)
    calls.run()
    close(y, wide(x) @ wide(w).T + wide(bias))


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_norm_of_rows(kind: str) -> None:
    calls, (m, n) = Calls(), (5, 16)
    x, w, bias, y = some(m, n), some(1, n), some(1, n), np.empty((m, n), BF16)
    given, scale = calls.tensor("x", x, 1), calls.tensor("weight", w, 2)
    attributes: Any = hipdnn.LayernormAttributes() if kind == "layer" else hipdnn.RMSNormAttributes()
    attributes.set_forward_phase(hipdnn.NormFwdPhase.INFERENCE)
    if kind == "layer":
        shift = calls.tensor("bias", bias, 3)
        attributes.set_epsilon(calls.number("eps", 1e-5, 4))
        made = calls.graph.layernorm(given, scale, shift, attributes)[0]
        of = wide(x) - wide(x).mean(1, keepdims=True)
        wanted = of / np.sqrt((of**2).mean(1, keepdims=True) + 1e-5) * wide(w) + wide(bias)
    else:
        attributes.set_epsilon(calls.number("eps", 1e-5, 4))
        made = calls.graph.rmsnorm(given, scale, attributes)[0]
        wanted = wide(x) / np.sqrt((wide(x) ** 2).mean(1, keepdims=True) + 1e-5) * wide(w)
    calls.result(made, y, 5, False)
    calls.run()
    close(y, wanted)


def test_an_activation_of_flat_memory() -> None:
    calls, x, y = Calls(), some(100), np.empty(100, BF16)
    mode = hipdnn.PointwiseMode.SWISH_FWD
    assert int(mode) == 44
    calls.result(
        calls.graph.pointwise(calls.tensor("A", x, 1), hipdnn.PointwiseAttributes().set_mode(mode)), y, 2, False
    )
    calls.run()
    close(y, wide(x) / (1 + np.exp(-wide(x))))


@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_a_packed_product(masked: bool) -> None:
    """Queries, keys and values are views of one product, [B, S, 3, H, D], and the mask is added."""
    calls, (b, s, h, d) = Calls(), (2, 6, 4, 8)
    packed = some(b, s, 3, h, d)
    q, k, v = (packed[:, :, at].transpose(0, 2, 1, 3) for at in range(3))
    bias, o = some(b, 1, s, s), np.empty((b, h, s, d), BF16)
    attributes = hipdnn.SdpaAttributes()
    attributes.set_attn_scale(0.25)
    attributes.set_causal_mask(False)
    tensors = [calls.tensor(name, of, uid) for name, of, uid in (("Q", q, 1), ("K", k, 2), ("V", v, 3))]
    if masked:
        attributes.set_bias(calls.tensor("bias", bias, 5))
    calls.result(calls.graph.sdpa(*tensors, attributes)[0], o, 4, True)
    calls.run()
    scores = wide(q) @ wide(k).swapaxes(2, 3) * 0.25 + (wide(bias) if masked else 0)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    close(o, weights / weights.sum(-1, keepdims=True) @ wide(v))


@pytest.mark.parametrize(("groups", "after"), [(1, 1), (2, 1), (1, 2)])
def test_a_convolution_with_channels_last(groups: int, after: int) -> None:
    """The channels of the filters tell the groups. An even window's padding to the same size is larger behind."""
    calls, (c, k, window) = Calls(), (4, 6, after + 2)
    x = some(2, 5, 5, c).transpose(0, 3, 1, 2)
    w = some(k, window, window, c // groups).transpose(0, 3, 1, 2)
    y = np.empty((2, 5, 5, k), BF16).transpose(0, 3, 1, 2)
    attributes = hipdnn.ConvFpropAttributes().set_stride([1, 1]).set_dilation([1, 1])
    if after == 1:
        attributes.set_padding([1, 1])
    else:
        attributes.set_pre_padding([1, 1]).set_post_padding([after, after])
    calls.result(calls.graph.conv_fprop(calls.tensor("x", x, 1), calls.tensor("w", w, 2), attributes), y, 3, True)
    calls.run()
    padded = np.pad(wide(x), [(0, 0), (0, 0), (1, after), (1, after)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (2, 3))
    windows = windows.reshape(2, groups, c // groups, 5, 5, window, window)
    filters = wide(w).reshape(groups, k // groups, c // groups, window, window)
    close(y, np.einsum("ngchwrs,gkcrs->ngkhw", windows, filters).reshape(2, k, 5, 5))


def test_a_linear_layer_of_rank_3() -> None:
    """The bias has one extent of its own; the batch of the weight is 1."""
    calls, (b, m, n, k) = Calls(), (2, 3, 8, 16)
    x, w, bias, y = some(b, m, k), some(n, k), some(n), np.empty((b, m, n), BF16)
    right = calls.tensor("B", w, 2, (1, k, n), (n * k, 1, k))
    product = calls.graph.matmul(calls.tensor("A", x, 1), right, hipdnn.MatmulAttributes())
    product.set_dim([b, m, n]).set_stride([m * n, n, 1]).set_data_type(DataType.BFLOAT16).set_uid(4).set_output(False)
    row = calls.tensor("bias", bias, 5, (1, 1, n), (n, n, 1))
    add = hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.ADD)
    calls.result(calls.graph.pointwise(product, row, add), y, 3, True)
    calls.run()
    close(y, wide(x) @ wide(w).T + wide(bias))


def test_a_layer_norm_of_two_axes() -> None:
    calls, shape = Calls(), (2, 3, 4, 8)
    x, w, bias, y = some(*shape), some(1, 1, 4, 8), some(1, 1, 4, 8), np.empty(shape, BF16)
    attributes = hipdnn.LayernormAttributes().set_forward_phase(hipdnn.NormFwdPhase.INFERENCE)
    attributes.set_epsilon(calls.number("eps", 1e-5, 4))
    tensors = [calls.tensor(name, of, uid) for name, of, uid in (("x", x, 1), ("weight", w, 2), ("bias", bias, 3))]
    calls.result(calls.graph.layernorm(*tensors, attributes)[0], y, 5, True)
    calls.run()
    of = wide(x) - wide(x).mean((2, 3), keepdims=True)
    close(y, of / np.sqrt((of**2).mean((2, 3), keepdims=True) + 1e-5) * wide(w) + wide(bias))


def test_an_exact_gelu() -> None:
    calls, x, y = Calls(), some(100), np.empty(100, BF16)
    attributes = hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.GELU_FWD)
    calls.result(calls.graph.pointwise(calls.tensor("A", x, 1), attributes), y, 2, True)
    calls.run()
    close(y, wide(x) * 0.5 * (1 + np.vectorize(math.erf)(wide(x) / math.sqrt(2))))
