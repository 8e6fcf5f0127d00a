"""Operations with windows, matrices and statistics, against NumPy."""

from __future__ import annotations

import itertools

import hipdnn
import numpy as np
import pytest
from hipdnn import norm_forward_phase, reduction_mode, resample_mode

F32 = np.float32


def close(got, wanted, tolerance=1e-4):
    np.testing.assert_allclose(np.asarray(got, float), wanted, rtol=tolerance, atol=tolerance)


def convolution(x, w, pre, post, stride, dilation, groups=1):
    """[N, C, H, W] by [K, C / groups, R, S] in double precision."""
    x = np.pad(x.astype(float), [(0, 0), (0, 0), *zip(pre, post)])
    k, c, *filter = w.shape
    sizes = [(size - d * (f - 1) - 1) // s + 1 for size, f, s, d in zip(x.shape[2:], filter, stride, dilation)]
    y = np.zeros((x.shape[0], k, *sizes))
    for at in itertools.product(*map(range, filter)):
        window = tuple(slice(d * a, d * a + s * (n - 1) + 1, s) for a, d, s, n in zip(at, dilation, stride, sizes))
        part = x[(slice(None), slice(None), *window)]
        for g in range(groups):
            inside, outside = slice(g * c, (g + 1) * c), slice(g * k // groups, (g + 1) * k // groups)
            y[:, outside] += np.einsum("nc...,kc->nk...", part[:, inside], w[(outside, slice(None), *at)].astype(float))
    return y


CONVOLUTIONS = [
    dict(x=(2, 4, 9, 8), w=(6, 4, 3, 3), pre=[1, 1], post=[1, 1], stride=[1, 1], dilation=[1, 1]),
    dict(x=(1, 4, 11, 10), w=(6, 2, 3, 2), pre=[0, 1], post=[2, 1], stride=[2, 1], dilation=[1, 2], groups=2),
    dict(x=(2, 3, 12), w=(5, 3, 4), pre=[2], post=[1], stride=[3], dilation=[1]),
    dict(x=(1, 2, 5, 6, 4), w=(3, 2, 2, 3, 1), pre=[1, 0, 0], post=[0, 1, 0], stride=[1, 2, 1], dilation=[1, 1, 1]),
]


@pytest.mark.parametrize("of", CONVOLUTIONS, ids=str)
def test_convolution_and_its_gradients(of, random):
    x, w = (random.uniform(-1, 1, of[key]).astype(F32) for key in ("x", "w"))
    shape = (of["pre"], of["post"], of["stride"], of["dilation"])
    options = dict(zip(("pre_padding", "post_padding", "stride", "dilation"), shape))
    wanted = convolution(x, w, *shape, of.get("groups", 1))
    with hipdnn.Graph() as forward:
        forward.conv_fprop(forward.tensor_like(x), forward.tensor_like(w), **options)
    close(forward(x, w), wanted)

    dy = random.uniform(-1, 1, wanted.shape).astype(F32)
    # The gradients satisfy <conv(x', w), dy> = <x', dx> for any image x', and likewise for filters.
    u, v = random.uniform(-1, 1, x.shape), random.uniform(-1, 1, w.shape)
    with hipdnn.Graph() as data:
        data.conv_dgrad(data.tensor_like(dy), data.tensor_like(w), **options).set_dim(x.shape)
    along = (convolution(u, w, *shape, of.get("groups", 1)) * dy).sum()
    assert np.isclose((data(dy, w) * u).sum(), along, rtol=1e-4, atol=1e-3)
    with hipdnn.Graph() as weights:
        weights.conv_wgrad(weights.tensor_like(x), weights.tensor_like(dy), **options).set_dim(w.shape)
    along = (convolution(x, v, *shape, of.get("groups", 1)) * dy).sum()
    assert np.isclose((weights(x, dy) * v).sum(), along, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("a, b", [((1, 3, 4), (1, 4, 5)), ((2, 3, 3, 4), (2, 1, 4, 2)), ((4, 2, 7), (1, 7, 3))])
@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-12), (F32, 1e-5), (np.float16, 2e-2)])
def test_matmul(a, b, dtype, tolerance, random):
    a, b = (random.uniform(-1, 1, shape).astype(dtype) for shape in (a, b))
    with hipdnn.Graph() as graph:
        graph.matmul(graph.tensor_like(a), graph.tensor_like(b))
    close(graph(a, b), a.astype(float) @ b.astype(float), tolerance)


def test_matmul_of_a_transposed_array(random):
    a, b = random.uniform(-1, 1, (1, 4, 3)).astype(F32), random.uniform(-1, 1, (1, 4, 5)).astype(F32)
    with hipdnn.Graph() as graph:
        graph.matmul(graph.tensor_like(a.transpose(0, 2, 1)), graph.tensor_like(b))
    close(graph(a.transpose(0, 2, 1), b), a.transpose(0, 2, 1) @ b, 1e-5)


REDUCTIONS = {
    "ADD": np.sum, "MUL": np.prod, "MIN": np.min, "MAX": np.max, "AVG": np.mean,
    "AMAX": lambda x, **o: np.max(np.abs(x), **o), "NORM1": lambda x, **o: np.sum(np.abs(x), **o),
    "NORM2": lambda x, **o: np.sqrt(np.sum(x * x, **o)),
    "MUL_NO_ZEROS": lambda x, **o: np.prod(np.where(x == 0, 1, x), **o),
}  # fmt: skip


@pytest.mark.parametrize("mode", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, (1,), (0, 2)])
def test_reductions(mode, axis, random):
    x = random.uniform(-1.5, 1.5, (2, 3, 4)).astype(F32)
    x[0, 0, 0] = 0
    with hipdnn.Graph() as graph:
        graph.reduction(graph.tensor_like(x), reduction_mode[mode], axis=axis)
    close(graph(x), REDUCTIONS[mode](x.astype(float), axis=axis, keepdims=True))


@pytest.mark.parametrize("mode", resample_mode)
def test_pooling(mode, random):
    x = random.uniform(-1, 1, (2, 3, 6, 7)).astype(F32)
    with hipdnn.Graph() as graph:
        pad = hipdnn.padding_mode.NEG_INF_PAD if mode is resample_mode.MAXPOOL else hipdnn.padding_mode.ZERO_PAD
        graph.resample(graph.tensor_like(x), mode, pad, [2, 3], [2, 2], [0, 1], [0, 1])
    empty = -np.inf if mode is resample_mode.MAXPOOL else np.nan
    padded = np.pad(x.astype(float), [(0, 0), (0, 0), (0, 0), (1, 1)], constant_values=empty)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), (2, 3))[:, :, ::2, ::2]
    wanted = {
        resample_mode.MAXPOOL: lambda: windows.max((-1, -2)),
        resample_mode.AVGPOOL_EXCLUDE_PADDING: lambda: np.nanmean(windows, (-1, -2)),
        resample_mode.AVGPOOL_INCLUDE_PADDING: lambda: np.nansum(windows, (-1, -2)) / 6,
    }[mode]()
    close(graph(x), wanted)


def statistics(x, axes, epsilon=1e-5):
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return mean, 1 / np.sqrt(variance + epsilon), variance


def test_batchnorm_in_training_and_after(random):
    x = random.uniform(-1, 1, (4, 3, 5, 6)).astype(F32)
    scale, bias, running_mean = (random.uniform(0.5, 1, (1, 3, 1, 1)).astype(F32) for _ in range(3))
    running_var = random.uniform(0.5, 1, (1, 3, 1, 1)).astype(F32)
    graph = hipdnn.Graph()
    tensors = [graph.tensor_like(array) for array in (x, scale, bias, running_mean, running_var)]
    outputs = graph.batchnorm(*tensors, epsilon=1e-5, momentum=0.25)
    for output in outputs:
        output.set_output(True)
    y, mean, inv, next_mean, next_var = graph(x, scale, bias, running_mean, running_var)
    m, i, v = statistics(x.astype(float), (0, 2, 3))
    close(y, (x - m) * i * scale + bias)
    close(mean, m)
    close(inv, i)
    close(next_mean, 0.75 * running_mean + 0.25 * m)
    count = x.size / 3
    close(next_var, 0.75 * running_var + 0.25 * v * count / (count - 1))

    with hipdnn.Graph() as after:
        after.batchnorm_inference(*(after.tensor_like(array) for array in (x, mean, inv, scale, bias)))
    close(after(x, mean, inv, scale, bias), y)
    with hipdnn.Graph() as after:
        after.batchnorm_inference_variance(*(after.tensor_like(a) for a in (x, mean, inv, scale, bias)), epsilon=1e-5)
    close(after(x, mean, v.astype(F32), scale, bias), y)


def gradient_of(f, arrays, dy, at):
    """The gradient of sum(f(arrays) · dy) with respect to one of them, by central differences."""
    x = arrays[at]
    gradient = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = x.copy()
            moved[place] += step
            ends.append((f(*arrays[:at], moved, *arrays[at + 1 :]) * dy).sum())
        gradient[place] = (ends[0] - ends[1]) / 2e-5
    return gradient


NORMS = {
    "batchnorm": ((0, 2, 3), (1, 3, 1, 1)),
    "layernorm": ((2, 3), (1, 1, 2, 3)),
    "rmsnorm": ((3,), (1, 1, 1, 3)),
}


@pytest.mark.parametrize("method", NORMS)
def test_gradients_of_norms(method, random):
    axes, factors = NORMS[method]

    def norm(x, scale, bias):
        mean, inv, _ = statistics(x, axes)
        if method == "rmsnorm":
            mean, inv = 0, 1 / np.sqrt((x * x).mean(axes, keepdims=True) + 1e-5)
        return (x - mean) * inv * scale + bias

    x, dy = random.uniform(-1, 1, (2, 3, 2, 3)), random.uniform(-1, 1, (2, 3, 2, 3))
    scale, bias = random.uniform(0.5, 1, factors), random.uniform(0.5, 1, factors)
    arrays = [array.astype(F32) for array in (x, scale, bias)]
    graph = hipdnn.Graph()
    tensors = [graph.tensor_like(array) for array in arrays]
    phase = [] if method == "batchnorm" else [norm_forward_phase.TRAINING]
    kept = {"rmsnorm": dict(bias=tensors[2])}.get(method, {})
    forward = getattr(graph, method)(*phase, *tensors[: 2 if kept else 3], **kept, epsilon=1e-5)
    stats = [tensor for tensor in forward[1:3] if tensor is not None]
    for tensor in (forward[0], *stats):
        tensor.set_output(True)
    y, *saved = graph(*arrays)
    close(y, norm(x, scale, bias), 1e-4)

    back = hipdnn.Graph()
    inputs = [dy.astype(F32), arrays[0], arrays[1], *saved]
    more = [True] if method == "rmsnorm" else []
    results = getattr(back, f"{method}_backward")(*(back.tensor_like(array) for array in inputs), *more)
    for tensor in results:
        tensor.set_output(True)
    for at, got in enumerate(back(*inputs)):
        close(got, gradient_of(norm, [x, scale, bias], dy, at), 5e-3)


def attention(q, k, v, scale, causal=False, bias=0.0):
    k, v = (np.repeat(t, q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.swapaxes(-1, -2) * scale + bias
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - top)
    total = e.sum(-1, keepdims=True)
    return e / total @ v, top + np.log(total)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [4, 2, 1])
def test_attention_and_its_gradients(causal, heads, random):
    q = random.uniform(-1, 1, (2, 4, 5, 8))
    k, v = (random.uniform(-1, 1, (2, heads, 5, 8)) for _ in range(2))
    arrays = [t.astype(F32) for t in (q, k, v)]
    graph = hipdnn.Graph()
    o, stats = graph.sdpa(
        *(graph.tensor_like(a) for a in arrays), generate_stats=True, attn_scale=0.3, use_causal_mask=causal
    )
    o.set_output(True)
    stats.set_output(True)
    got, saved = graph(*arrays)
    wanted, log_sum = attention(q, k, v, 0.3, causal)
    close(got, wanted)
    close(saved, log_sum)
    do = random.uniform(-1, 1, o.dim)
    back = hipdnn.Graph()
    inputs = [*arrays, got, do.astype(F32), saved]
    tensors = [back.tensor_like(a) for a in inputs]
    for tensor in back.sdpa_backward(*tensors, attn_scale=0.3, use_causal_mask=causal):
        tensor.set_output(True)
    for at, gradient in enumerate(back(*inputs)):
        close(gradient, gradient_of(lambda *t: attention(*t, 0.3, causal)[0], [q, k, v], do, at), 2e-3)


def test_attention_with_a_bias(random):
    q, k, v = (random.uniform(-1, 1, (1, 2, 4, 8)).astype(F32) for _ in range(3))
    bias = random.uniform(-1, 1, (1, 1, 4, 4)).astype(F32)
    with hipdnn.Graph() as graph:
        of = [graph.tensor_like(array) for array in (q, k, v, bias)]
        graph.sdpa(*of[:3], is_inference=True, attn_scale=0.5, bias=of[3])
    close(graph(q, k, v, bias), attention(q, k, v, 0.5, bias=bias)[0])


def test_block_scales_come_back(random):
    x = random.uniform(-4, 4, (1, 4, 64)).astype(F32)
    graph = hipdnn.Graph()
    y, scale = graph.block_scale_quantize(graph.tensor_like(x), 32, axis=2)
    back = graph.block_scale_dequantize(y, scale, [1, 1, 32])
    back.set_output(True).set_data_type("float")
    assert np.abs(graph(x) - x).max() < 0.3


def test_experts_have_tokens_of_their_own(random):
    token, weight = random.uniform(-1, 1, (1, 6, 4)).astype(F32), random.uniform(-1, 1, (3, 4, 5)).astype(F32)
    first = np.array([0, 2, 2], np.int32).reshape(3, 1, 1)
    with hipdnn.Graph() as graph:
        graph.moe_grouped_matmul(*(graph.tensor_like(array) for array in (token, weight, first)))
    wanted = np.concatenate([token[0, :2] @ weight[0], token[0, 2:] @ weight[2]])[None]
    close(graph(token, weight, first), wanted)
