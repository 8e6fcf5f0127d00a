"""Operations of PyTorch's library, each computed by a graph: `torch.ops.hipdnn`.

Shapes of results are known without computing them, so the operations work under ``torch.compile``; gradients are operations, too.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch import Tensor
from torch.library import custom_op

from ..infer import strides_in_order, window
from ..types import norm_forward_phase, reduction_mode
from .graphs import compute

TRAINING = norm_forward_phase.TRAINING


def _like(x: Tensor, shape: Sequence[int]) -> Tensor:
    """An empty tensor of a shape, laid out as another."""
    return x.new_empty_strided(list(shape), strides_in_order(shape, x.stride()))


def _window(stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> dict[str, Any]:
    return {"padding": list(padding), "stride": list(stride), "dilation": list(dilation)}


def _channels(tensor: Tensor, rank: int) -> Tensor:
    """[C] as [1, C, 1, ...]."""
    return tensor.view(1, -1, *(1 for _ in range(rank - 2)))


@custom_op("hipdnn::conv", mutates_args=())
def conv(
    x: Tensor, w: Tensor, bias: Optional[Tensor], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """Convolution of [N, C, ...] with [K, C / groups, ...]; with a bias [K] in the same graph."""
    of = _window(stride, padding, dilation)
    tensors = [x, w] if bias is None else [x, w, _channels(bias, x.dim())]

    def build(graph: Any, x: Any, w: Any, bias: Any = None) -> Any:
        y = graph.conv_fprop(x, w, **of)
        return y if bias is None else graph.add(y, bias)

    return compute("conv", str(of), tensors, build)


@conv.register_fake
def _(x, w, bias, stride, padding, dilation):  # type: ignore[no-untyped-def]
    sizes = zip(x.shape[2:], padding, padding, stride, dilation, w.shape[2:])
    return _like(x, (x.shape[0], w.shape[0], *(window(*size) for size in sizes)))


@custom_op("hipdnn::conv_data", mutates_args=())
def conv_data(
    dy: Tensor, w: Tensor, shape: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """The gradient of a convolution's image, which has this shape."""
    of = _window(stride, padding, dilation)
    key = str((of, list(shape)))
    return compute("conv_data", key, [dy, w], lambda graph, dy, w: graph.conv_dgrad(dy, w, **of).set_dim(shape))


@conv_data.register_fake
def _(dy, w, shape, stride, padding, dilation):  # type: ignore[no-untyped-def]
    return _like(dy, shape)


@custom_op("hipdnn::conv_weights", mutates_args=())
def conv_weights(
    x: Tensor, dy: Tensor, shape: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """The gradient of a convolution's filter, which has this shape."""
    of = _window(stride, padding, dilation)
    key = str((of, list(shape)))
    return compute("conv_weights", key, [x, dy], lambda graph, x, dy: graph.conv_wgrad(x, dy, **of).set_dim(shape))


@conv_weights.register_fake
def _(x, dy, shape, stride, padding, dilation):  # type: ignore[no-untyped-def]
    return _like(x, shape)


def _conv_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, w, bias, *ctx.window = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, w)


def _conv_backward(ctx, dy):  # type: ignore[no-untyped-def]
    x, w = ctx.saved_tensors
    dx = conv_data(dy, w, x.shape, *ctx.window) if ctx.needs_input_grad[0] else None
    dw = conv_weights(x, dy, w.shape, *ctx.window) if ctx.needs_input_grad[1] else None
    db = dy.sum([0, *range(2, dy.dim())]) if ctx.has_bias and ctx.needs_input_grad[2] else None
    return dx, dw, db, None, None, None


conv.register_autograd(_conv_backward, setup_context=_conv_context)


def _conv_data_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    dy, w, _, *ctx.window = inputs
    ctx.save_for_backward(dy, w)


def _conv_data_backward(ctx, grad):  # type: ignore[no-untyped-def]
    dy, w = ctx.saved_tensors
    ddy = conv(grad, w, None, *ctx.window) if ctx.needs_input_grad[0] else None
    dw = conv_weights(grad, dy, w.shape, *ctx.window) if ctx.needs_input_grad[1] else None
    return ddy, dw, None, None, None, None


# Transposed convolution is the gradient of another, so it has one as well.
conv_data.register_autograd(_conv_data_backward, setup_context=_conv_data_context)


@custom_op("hipdnn::matmul", mutates_args=())
def matmul(a: Tensor, b: Tensor, bias: Optional[Tensor]) -> Tensor:
    """[B, M, K] by [B or 1, K, N], with a bias [N] in the same graph."""
    tensors = [a, b] if bias is None else [a, b, bias.view(1, 1, -1)]

    def build(graph: Any, a: Any, b: Any, bias: Any = None) -> Any:
        c = graph.matmul(a, b)
        return c if bias is None else graph.add(c, bias)

    return compute("matmul", None, tensors, build)


@matmul.register_fake
def _(a, b, bias):  # type: ignore[no-untyped-def]
    return a.new_empty(max(a.shape[0], b.shape[0]), a.shape[1], b.shape[2])


def _matmul_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    a, b, bias = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(a, b)


def _matmul_backward(ctx, dc):  # type: ignore[no-untyped-def]
    a, b = ctx.saved_tensors
    da = matmul(dc, b.mT, None).sum_to_size(a.shape) if ctx.needs_input_grad[0] else None
    db = matmul(a.mT, dc, None).sum_to_size(b.shape) if ctx.needs_input_grad[1] else None
    dbias = dc.sum((0, 1)) if ctx.has_bias and ctx.needs_input_grad[2] else None
    return da, db, dbias


matmul.register_autograd(_matmul_backward, setup_context=_matmul_context)


@custom_op("hipdnn::batch_norm", mutates_args=())
def batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Batch normalization in training: the result, mean, 1 / sqrt(variance + eps), the running mean and variance after."""
    tensors = [x, *(_channels(t, x.dim()) for t in (scale, bias, mean, var))]
    results = compute("batch_norm", (momentum, eps), tensors, lambda graph, *t: graph.batchnorm(*t, eps, momentum))
    return results[0], *(t.flatten() for t in results[1:])


@batch_norm.register_fake
def _(x, scale, bias, mean, var, momentum, eps):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), *(scale.new_empty(scale.shape) for _ in range(4))


@custom_op("hipdnn::batch_norm_backward", mutates_args=())
def batch_norm_backward(
    dy: Tensor, x: Tensor, scale: Tensor, mean: Tensor, inv: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of image, scale and bias."""
    tensors = [dy, x, *(_channels(t, x.dim()) for t in (scale, mean, inv))]
    dx, dscale, dbias = compute("batch_norm_backward", None, tensors, lambda graph, *t: graph.batchnorm_backward(*t))
    return dx, dscale.flatten(), dbias.flatten()


@batch_norm_backward.register_fake
def _(dy, x, scale, mean, inv):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), torch.empty_like(scale), torch.empty_like(scale)


def _batch_norm_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, scale, *_ = inputs
    ctx.save_for_backward(x, scale, output[1], output[2])
    ctx.set_materialize_grads(False)


def _batch_norm_backward(ctx, dy, *_):  # type: ignore[no-untyped-def]
    if dy is None:
        return (None,) * 7
    return *batch_norm_backward(dy, *ctx.saved_tensors), None, None, None, None


batch_norm.register_autograd(_batch_norm_backward, setup_context=_batch_norm_context)


@custom_op("hipdnn::batch_norm_inference", mutates_args=())
def batch_norm_inference(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, inv: Tensor) -> Tensor:
    """Batch normalization by given statistics."""
    tensors = [x, *(_channels(t, x.dim()) for t in (mean, inv, scale, bias))]
    return compute("batch_norm_inference", None, tensors, lambda graph, *t: graph.batchnorm_inference(*t))


@batch_norm_inference.register_fake
def _(x, scale, bias, mean, inv):  # type: ignore[no-untyped-def]
    return torch.empty_like(x)


def _batch_norm_inference_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, scale, _, mean, inv = inputs
    ctx.save_for_backward(x, scale, mean, inv)


def _batch_norm_inference_backward(ctx, dy):  # type: ignore[no-untyped-def]
    x, scale, mean, inv = ctx.saved_tensors
    wide = lambda t: _channels(t, x.dim())  # noqa: E731
    others = [0, *range(2, x.dim())]
    normal = (x - wide(mean)) * wide(inv)
    dx = (dy * wide(scale * inv)).to(x.dtype)
    return dx, (dy * normal).sum(others).to(scale.dtype), dy.sum(others).to(scale.dtype), None, None


batch_norm_inference.register_autograd(_batch_norm_inference_backward, setup_context=_batch_norm_inference_context)


@custom_op("hipdnn::layer_norm", mutates_args=())
def layer_norm(x: Tensor, scale: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Normalization of the rows of [N, D]: the result, mean and 1 / sqrt(variance + eps)."""
    tensors = [x, scale.view(1, -1), bias.view(1, -1)]
    return tuple(compute("layer_norm", eps, tensors, lambda graph, *t: graph.layernorm(TRAINING, *t, eps)))


@layer_norm.register_fake
def _(x, scale, bias, eps):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), *(scale.new_empty(x.shape[0], 1) for _ in range(2))


@custom_op("hipdnn::layer_norm_backward", mutates_args=())
def layer_norm_backward(
    dy: Tensor, x: Tensor, scale: Tensor, mean: Tensor, inv: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of rows, scale and bias."""
    tensors = [dy, x, scale.view(1, -1), mean, inv]
    dx, dscale, dbias = compute("layer_norm_backward", None, tensors, lambda graph, *t: graph.layernorm_backward(*t))
    return dx, dscale.flatten(), dbias.flatten()


@layer_norm_backward.register_fake
def _(dy, x, scale, mean, inv):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), torch.empty_like(scale), torch.empty_like(scale)


def _layer_norm_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, scale, *_ = inputs
    ctx.save_for_backward(x, scale, output[1], output[2])
    ctx.set_materialize_grads(False)


def _layer_norm_backward(ctx, dy, *_):  # type: ignore[no-untyped-def]
    if dy is None:
        return (None,) * 4
    return *layer_norm_backward(dy, *ctx.saved_tensors), None


layer_norm.register_autograd(_layer_norm_backward, setup_context=_layer_norm_context)


@custom_op("hipdnn::rms_norm", mutates_args=())
def rms_norm(x: Tensor, scale: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Division of the rows of [N, D] by the root of their mean square: the result, and 1 / root."""
    tensors = [x, scale.view(1, -1)]
    return tuple(compute("rms_norm", eps, tensors, lambda graph, *t: graph.rmsnorm(TRAINING, *t, epsilon=eps)))


@rms_norm.register_fake
def _(x, scale, eps):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), scale.new_empty(x.shape[0], 1)


@custom_op("hipdnn::rms_norm_backward", mutates_args=())
def rms_norm_backward(dy: Tensor, x: Tensor, scale: Tensor, inv: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of rows and scale."""
    tensors = [dy, x, scale.view(1, -1), inv]
    dx, dscale = compute("rms_norm_backward", None, tensors, lambda graph, *t: graph.rmsnorm_backward(*t)[:2])
    return dx, dscale.flatten()


@rms_norm_backward.register_fake
def _(dy, x, scale, inv):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), torch.empty_like(scale)


def _rms_norm_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, scale, _ = inputs
    ctx.save_for_backward(x, scale, output[1])
    ctx.set_materialize_grads(False)


def _rms_norm_backward(ctx, dy, *_):  # type: ignore[no-untyped-def]
    if dy is None:
        return (None,) * 3
    return *rms_norm_backward(dy, *ctx.saved_tensors), None


rms_norm.register_autograd(_rms_norm_backward, setup_context=_rms_norm_context)


def _beside(bias: Optional[Tensor], kept: Optional[Tensor], dropout: float, gradient: bool) -> list[Tensor]:
    """The bias, and the mask of dropout with the factor of what is kept (and its inverse for the gradient)."""
    tensors = [] if bias is None else [bias]
    if kept is not None:
        share = 1 - dropout
        factors = (1 / share if share else 0.0, share) if gradient else (1 / share if share else 0.0,)
        tensors += [kept, *(torch.full((1, 1, 1, 1), factor) for factor in factors)]
    return tensors


@custom_op("hipdnn::sdpa", mutates_args=())
def sdpa(
    q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], kept: Optional[Tensor], causal: bool, scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention of [B, H, S, D]: the result, and the statistics that gradients need. `kept` is the mask of dropout."""
    tensors = [q, k, v, *_beside(bias, kept, dropout, False)]

    def build(graph: Any, q: Any, k: Any, v: Any, *rest: Any) -> Any:
        of = _rest(bias, kept, rest)
        return graph.sdpa(q, k, v, attn_scale=scale, use_causal_mask=causal, generate_stats=True, **of)

    key = (causal, scale, bias is None, kept is None)
    return tuple(compute("sdpa", key, tensors, build))


def _rest(bias: Any, kept: Any, rest: Sequence[Any]) -> dict[str, Any]:
    of: dict[str, Any] = {"bias": None if bias is None else rest[0]}
    if kept is not None:
        of["dropout"] = tuple(rest[0 if bias is None else 1 :])
    return of


@sdpa.register_fake
def _(q, k, v, bias, kept, causal, scale, dropout):  # type: ignore[no-untyped-def]
    shape = (*q.shape[:3], v.shape[3])
    kind = torch.float64 if q.dtype == torch.float64 else torch.float32
    return _like(q, shape), q.new_empty(*q.shape[:3], 1, dtype=kind)


@custom_op("hipdnn::sdpa_backward", mutates_args=())
def sdpa_backward(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, do: Tensor, stats: Tensor, bias: Optional[Tensor],
    kept: Optional[Tensor], causal: bool, scale: float, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of q, k and v."""
    tensors = [q, k, v, o, do, stats, *_beside(bias, kept, dropout, True)]

    def build(graph: Any, q: Any, k: Any, v: Any, o: Any, do: Any, stats: Any, *rest: Any) -> Any:
        of = _rest(bias, kept, rest)
        return graph.sdpa_backward(q, k, v, o, do, stats, attn_scale=scale, use_causal_mask=causal, **of)

    key = (causal, scale, bias is None, kept is None)
    return tuple(compute("sdpa_backward", key, tensors, build))


@sdpa_backward.register_fake
def _(q, k, v, o, do, stats, bias, kept, causal, scale, dropout):  # type: ignore[no-untyped-def]
    return tuple(_like(t, t.shape) for t in (q, k, v))


def _sdpa_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    q, k, v, bias, kept, *ctx.settings = inputs
    ctx.save_for_backward(q, k, v, *output, bias, kept)
    ctx.set_materialize_grads(False)


def _sdpa_backward(ctx, do, _):  # type: ignore[no-untyped-def]
    if do is None:
        return (None,) * 8
    q, k, v, o, stats, bias, kept = ctx.saved_tensors
    return *sdpa_backward(q, k, v, o, do, stats, bias, kept, *ctx.settings), *(None,) * 5


sdpa.register_autograd(_sdpa_backward, setup_context=_sdpa_context)


@custom_op("hipdnn::pointwise", mutates_args=())
def pointwise(x: Tensor, method: str, numbers: Sequence[float]) -> Tensor:
    """An activation: a method of a graph with its numbers."""
    return compute(method, tuple(numbers), [x], lambda graph, x: getattr(graph, method)(x, *numbers))


@pointwise.register_fake
def _(x, method, numbers):  # type: ignore[no-untyped-def]
    return torch.empty_like(x)


@custom_op("hipdnn::pointwise_backward", mutates_args=())
def pointwise_backward(dy: Tensor, x: Tensor, method: str, numbers: Sequence[float]) -> Tensor:
    """Its gradient."""
    name = f"{method}_backward"
    return compute(name, tuple(numbers), [dy, x], lambda graph, dy, x: getattr(graph, name)(dy, x, *numbers))


@pointwise_backward.register_fake
def _(dy, x, method, numbers):  # type: ignore[no-untyped-def]
    return torch.empty_like(x)


def _pointwise_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, ctx.method, ctx.numbers = inputs
    ctx.save_for_backward(x)


def _pointwise_backward(ctx, dy):  # type: ignore[no-untyped-def]
    return pointwise_backward(dy, ctx.saved_tensors[0], ctx.method, ctx.numbers), None, None


pointwise.register_autograd(_pointwise_backward, setup_context=_pointwise_context)


@custom_op("hipdnn::softmax", mutates_args=())
def softmax(x: Tensor, dim: int) -> Tensor:
    """Softmax along a dimension, in one graph."""

    def build(graph: Any, x: Any) -> Any:
        e = graph.exp(graph.sub(x, graph.reduction(x, reduction_mode.MAX, axis=dim)))
        return graph.div(e, graph.reduction(e, reduction_mode.ADD, axis=dim))

    return compute("softmax", dim, [x], build)


@softmax.register_fake
def _(x, dim):  # type: ignore[no-untyped-def]
    return torch.empty_like(x)


@custom_op("hipdnn::softmax_backward", mutates_args=())
def softmax_backward(dy: Tensor, y: Tensor, dim: int) -> Tensor:
    """Its gradient, from its result."""

    def build(graph: Any, dy: Any, y: Any) -> Any:
        p = graph.mul(dy, y)
        return graph.sub(p, graph.mul(y, graph.reduction(p, reduction_mode.ADD, axis=dim)))

    return compute("softmax_backward", dim, [dy, y], build)


@softmax_backward.register_fake
def _(dy, y, dim):  # type: ignore[no-untyped-def]
    return torch.empty_like(y)


def _softmax_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    _, ctx.dim = inputs
    ctx.save_for_backward(output)


def _softmax_backward(ctx, dy):  # type: ignore[no-untyped-def]
    return softmax_backward(dy, ctx.saved_tensors[0], ctx.dim), None


softmax.register_autograd(_softmax_backward, setup_context=_softmax_context)
