"""A transformer block of PyTorch's CPU tensors, each of its functions a graph that gets their addresses, beside PyTorch's own."""

from __future__ import annotations

from typing import Any

import hipdnn_frontend as hipdnn
import pytest
from builders import good
from hipdnn_frontend import DataType, Tensor

torch = pytest.importorskip("torch")
F = torch.nn.functional

TYPES = {torch.float32: DataType.FLOAT, torch.bfloat16: DataType.BFLOAT16, torch.float16: DataType.HALF}


class Calls:
    """A graph of tensors of PyTorch."""

    def __init__(self, kind: Any) -> None:
        self.kind = TYPES[kind]
        self.graph = hipdnn.Graph().set_io_data_type(self.kind).set_compute_data_type(DataType.FLOAT)
        self.memory: dict[Tensor, Any] = {}

    def tensor(self, data: Any, shape: Any = None, strides: Any = None) -> Tensor:
        described = Tensor().set_dim(list(shape or data.shape)).set_stride(list(strides or data.stride()))
        made = self.graph.tensor(described.set_data_type(self.kind))
        self.memory[made] = data
        return made

    def run(self, result: Tensor, like: Any) -> Any:
        made = torch.empty_like(like)
        result.set_dim(list(made.shape)).set_stride(list(made.stride())).set_data_type(self.kind).set_output(True)
        self.memory[result] = made
        graph, handle = self.graph, hipdnn.create_handle()
        good(graph.validate())
        good(graph.build_operation_graph(handle))
        good(graph.create_execution_plans())
        good(graph.check_support())
        good(graph.build_plans())
        good(graph.execute(handle, self.memory))
        return made


def linear(x: Any, weight: Any, bias: Any) -> Any:
    calls, rows = Calls(x.dtype), x.reshape(-1, x.shape[-1])
    n, k = weight.shape
    product = calls.graph.matmul(calls.tensor(rows), calls.tensor(weight, (k, n), (1, k)), hipdnn.MatmulAttributes())
    add = hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.ADD)
    made = calls.graph.pointwise(product, calls.tensor(bias, (1, n), (n, 1)), add)
    return calls.run(made, x.new_empty(rows.shape[0], n)).reshape(*x.shape[:-1], n)


def rms_norm(x: Any, weight: Any, epsilon: float) -> Any:
    calls, rows = Calls(x.dtype), x.reshape(-1, x.shape[-1])
    attributes = hipdnn.RMSNormAttributes().set_forward_phase(hipdnn.NormFwdPhase.INFERENCE)
    attributes.set_epsilon(Tensor.create([1], DataType.FLOAT).set_value(epsilon))
    scale = calls.tensor(weight, (1, x.shape[-1]), (x.shape[-1], 1))
    return calls.run(calls.graph.rmsnorm(calls.tensor(rows), scale, attributes)[0], rows).reshape(x.shape)


def gelu(x: Any) -> Any:
    calls = Calls(x.dtype)
    attributes = hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.GELU_FWD)
    return calls.run(calls.graph.pointwise(calls.tensor(x), attributes), x)


def attention(q: Any, k: Any, v: Any) -> Any:
    calls = Calls(q.dtype)
    attributes = hipdnn.SdpaAttributes().set_attn_scale(q.shape[-1] ** -0.5).set_causal_mask(True)
    return calls.run(calls.graph.sdpa(*map(calls.tensor, (q, k, v)), attributes)[0], torch.empty(q.shape).to(q))


@pytest.mark.parametrize("kind", TYPES)
def test_a_transformer_block(kind: Any) -> None:
    torch.manual_seed(3)
    heads, size = 4, 64
    weights = {
        name: torch.randn(n, k) / k**0.5 for name, n, k in (("qkv", 192, 64), ("up", 256, 64), ("down", 64, 256))
    }
    weights |= {f"{name} bias": torch.randn(len(of)) * 0.1 for name, of in list(weights.items())}
    weights |= {"one": torch.rand(size) + 0.5, "two": torch.rand(size) + 0.5}
    weights = {name: of.to(kind) for name, of in weights.items()}

    def block(x: Any, linear: Any, rms_norm: Any, gelu: Any, attention: Any) -> Any:
        layer = lambda x, name: linear(x, weights[name], weights[name + " bias"])  # noqa: E731
        qkv = layer(rms_norm(x, weights["one"], 1e-6), "qkv").view(*x.shape[:2], 3, heads, size // heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        x = x + attention(q, k, v).transpose(1, 2).reshape(x.shape)
        return x + layer(gelu(layer(rms_norm(x, weights["two"], 1e-6), "up")), "down")

    x = torch.randn(2, 24, size).to(kind)
    theirs = block(
        x,
        F.linear,
        lambda x, weight, epsilon: F.rms_norm(x, weight.shape, weight, epsilon),
        F.gelu,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    )
    close = 1e-5 if kind is torch.float32 else 4e-2
    torch.testing.assert_close(block(x, linear, rms_norm, gelu, attention), theirs, rtol=close, atol=close)
