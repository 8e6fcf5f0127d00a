"""Every kind of operation against PyTorch, if it is installed, in each of its types."""

from __future__ import annotations

import hipdnn
import numpy as np
import pytest
from hipdnn import norm_forward_phase

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
F = torch.nn.functional

TYPES = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(7)


def run(build, *arrays):
    """The result of a graph on arrays, for whose tensors `build` adds the operations."""
    graph = hipdnn.Graph(io_data_type=arrays[0].dtype)
    results = build(graph, *(graph.tensor_like(array) for array in arrays))
    for result in results if isinstance(results, (list, tuple)) else [results]:
        result.set_output(True)
    return graph(*arrays)


def check(got, wanted, dtype, factor=1.0):
    assert got.dtype == wanted.dtype, (got.dtype, wanted.dtype)
    tolerance = factor * TYPES[dtype]
    torch.testing.assert_close(got.float(), wanted.float(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_convolution(dtype, layout):
    x = torch.randn(2, 8, 9, 10, dtype=dtype).to(memory_format=layout).requires_grad_()
    w = (torch.randn(6, 8, 3, 3, dtype=dtype) / 8).to(memory_format=layout).requires_grad_()
    y = F.conv2d(x, w, padding=1, stride=2)
    dy = torch.randn_like(y)
    y.backward(dy)
    of = dict(padding=[1, 1], stride=[2, 2])
    check(run(lambda g, x, w: g.conv_fprop(x, w, **of), x.detach(), w.detach()), y.detach(), dtype)
    data = run(lambda g, dy, w: g.conv_dgrad(dy, w, **of).set_dim(x.shape), dy, w.detach())
    check(data, x.grad, dtype, 4)
    weights = run(lambda g, x, dy: g.conv_wgrad(x, dy, **of).set_dim(w.shape), x.detach(), dy)
    check(weights, w.grad, dtype, 8)


@pytest.mark.parametrize("dtype", TYPES)
def test_matmul(dtype):
    a, b = torch.randn(3, 5, 16, dtype=dtype) / 4, torch.randn(3, 16, 7, dtype=dtype)
    check(run(lambda g, a, b: g.matmul(a, b), a, b), a @ b, dtype)
    check(run(lambda g, a, b: g.matmul(a, b), a, b.mT.contiguous().mT), a @ b, dtype)


ACTIVATIONS = {
    "relu": F.relu, "gelu": F.gelu, "gelu_approx_tanh": lambda x: F.gelu(x, approximate="tanh"), "swish": F.silu,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "elu": F.elu, "softplus": F.softplus,
}  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("method", ACTIVATIONS)
def test_activations_and_their_gradients(method, dtype):
    x = torch.randn(3, 4, 5, dtype=dtype, requires_grad=True)
    y = ACTIVATIONS[method](x)
    dy = torch.randn_like(y)
    y.backward(dy)
    check(run(lambda g, x: getattr(g, method)(x), x.detach()), y.detach(), dtype)
    check(run(lambda g, dy, x: getattr(g, f"{method}_backward")(dy, x), dy, x.detach()), x.grad, dtype)


def factors(shape, *dims):
    return torch.rand(shape, dtype=torch.float32) + 0.5


@pytest.mark.parametrize("dtype", TYPES)
def test_batchnorm(dtype):
    x = torch.randn(4, 3, 5, 6, dtype=dtype)
    scale, bias, mean, var = (factors((1, 3, 1, 1)) for _ in range(4))
    y, next_mean, next_var = run(
        lambda g, *t: g.batchnorm(*t, 1e-5, 0.1)[0::3] + g.batchnorm(*t, 1e-5, 0.1)[4:], x, scale, bias, mean, var
    )
    of = [t.flatten().clone() for t in (mean, var)]
    wanted = F.batch_norm(x.float(), *of, scale.flatten(), bias.flatten(), training=True).to(dtype)
    check(y, wanted, dtype)
    check(next_mean.flatten(), of[0], torch.float32, 10)
    check(next_var.flatten(), of[1], torch.float32, 10)


@pytest.mark.parametrize("dtype", TYPES)
def test_layernorm_and_rmsnorm(dtype):
    x, scale, bias = torch.randn(4, 3, 16, dtype=dtype), factors((1, 1, 16)), factors((1, 1, 16))
    phase = norm_forward_phase.INFERENCE
    got = run(lambda g, x, s, b: g.layernorm(phase, x, s, b, 1e-5)[0], x, scale, bias)
    check(got, F.layer_norm(x.float(), (16,), scale.flatten(), bias.flatten()).to(dtype), dtype)
    got = run(lambda g, x, s: g.rmsnorm(phase, x, s, epsilon=1e-5)[0], x, scale)
    check(got, F.rms_norm(x.float(), (16,), scale.flatten(), 1e-5).to(dtype), dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(dtype, causal):
    q, k, v = (torch.randn(2, 4, 6, 16, dtype=dtype, requires_grad=True) for _ in range(3))
    o = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    do = torch.randn_like(o)
    o.backward(do)
    inputs = [t.detach() for t in (q, k, v)]
    got, stats = run(lambda g, *t: g.sdpa(*t, attn_scale=0.25, generate_stats=True, use_causal_mask=causal), *inputs)
    check(got, o.detach(), dtype)
    gradients = run(lambda g, *t: g.sdpa_backward(*t, attn_scale=0.25, use_causal_mask=causal), *inputs, got, do, stats)
    for got, wanted in zip(gradients, (q.grad, k.grad, v.grad)):
        check(got, wanted, dtype, 4)


@pytest.mark.parametrize("dtype", TYPES)
def test_reductions_and_pooling(dtype):
    x = torch.randn(2, 3, 8, 8, dtype=dtype)
    got = run(lambda g, x: g.reduction(x, hipdnn.reduction_mode.AVG, axis=(2, 3)), x)
    check(got, x.float().mean((2, 3), keepdim=True).to(dtype), dtype)
    pool = lambda g, x: g.resample(x, hipdnn.resample_mode.MAXPOOL, hipdnn.padding_mode.NEG_INF_PAD, [2, 2], [2, 2])[0]
    check(run(pool, x), F.max_pool2d(x, 2), dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", hipdnn.resample_mode)
def test_gradients_of_pooling(dtype, mode):
    of = {"window": [3, 2], "stride": [2, 1], "pre_padding": [1, 0], "post_padding": [1, 0]}
    x = torch.randn(2, 3, 7, 6, dtype=dtype, requires_grad=True)
    include = mode is hipdnn.resample_mode.AVGPOOL_INCLUDE_PADDING
    is_max = mode is hipdnn.resample_mode.MAXPOOL
    y = F.max_pool2d(x, (3, 2), (2, 1), (1, 0)) if is_max else F.avg_pool2d(x, (3, 2), (2, 1), (1, 0), False, include)
    dy = torch.randn_like(y)
    graph = hipdnn.Graph(io_data_type=dtype)
    a = graph.tensor_like(x.detach())
    padding = hipdnn.padding_mode.NEG_INF_PAD
    got, index = graph.resample(a, mode, padding, generate_index=is_max, **of)
    loss = graph.tensor_like(dy)
    dx = graph.resample_backward(loss, mode, padding, index=index, **of).set_dim(x.shape).set_output(True)
    got.set_output(True)
    results = {got: torch.empty_like(y), dx: torch.empty_like(x)}
    graph.execute({a: x.detach(), loss: dy, **results})
    check(results[got], y.detach(), dtype)
    check(results[dx], torch.autograd.grad(y, x, dy)[0], dtype)


def test_an_index_of_another_shape_is_refused():
    graph = hipdnn.Graph()
    with pytest.raises(hipdnn.GraphError, match="index"):
        graph.resample_backward(
            graph.tensor([1, 2, 3, 3]), hipdnn.resample_mode.MAXPOOL, window=[2, 2], index=graph.tensor([1, 2, 3, 4])
        )


def test_tensors_that_need_a_gradient_are_read():
    x = torch.ones(2, 3, requires_grad=True)
    assert run(lambda g, x: g.neg(x), x.detach()).sum() == -6
    with hipdnn.Graph() as graph:
        graph.neg(graph.tensor([2, 3]))
    try:
        assert graph(x).sum() == -6
    except hipdnn.ArrayError as error:
        assert "grad" in str(error)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: torch.ones(2, 3).to_sparse(),
        lambda: torch.ones(2, 3, device="meta"),
        lambda: torch.ones(2, 3, dtype=torch.complex64),
        lambda: torch.ones(2, 3).expand(2, 3).t().contiguous().t(),
        lambda: torch.ones(3).expand(2, 3),
        lambda: torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda: torch.func.vmap(lambda x: x)(torch.ones(2, 3)).to(torch.int16),
    ],
)
def test_odd_tensors_are_refused(wrong):
    graph = hipdnn.Graph()
    x = graph.tensor([2, 3])
    y = graph.neg(x).set_output(True)
    with pytest.raises(hipdnn.Error):
        graph.execute({x: wrong(), y: torch.zeros(2, 3)})


def test_views_that_negate_are_refused_or_right():
    array = torch.view_as_complex(torch.ones(2, 3, 2)).conj().imag
    assert array.is_neg() and array.sum() == -6
    graph = hipdnn.Graph()
    x = graph.tensor([2, 3], [6, 2])
    y = graph.neg(x).set_stride([3, 1]).set_output(True)
    result = torch.zeros(2, 3)
    try:
        graph.execute({x: array, y: result})
    except hipdnn.Error:
        return
    assert result.sum() == 6


def test_numpy_and_pytorch_share_a_graph():
    with hipdnn.Graph() as graph:
        graph.add(graph.tensor([2]), graph.tensor([2]))
    x, y = np.array([1, 2], np.float32), torch.tensor([3.0, 4.0])
    assert isinstance(graph(x, y), np.ndarray) and isinstance(graph(y, x), torch.Tensor)
    assert graph(x, y).tolist() == graph(y, x).tolist() == [4, 6]


class OfCupy(np.ndarray):
    __module__ = "cupy"


def test_results_of_arrays_of_cupys_are_pytorchs_where_inputs_are_named():
    x, y = (np.array([row], np.float32).view(OfCupy) for row in ([1, 2], [3, 4]))
    with hipdnn.Graph(inputs=["sum::a", "sum::b"], outputs=["y"]) as graph:
        graph.add(a=x, b=y, name="sum").set_output(True).set_name("y")
    result = graph(x, y)
    assert isinstance(result, torch.Tensor) and result.tolist() == [[4, 6]]
