"""Normalizations and their gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from ...types import norm_forward_phase
from ..graphs import compute
from ..operation import operation
from .layout import channels

TRAINING = norm_forward_phase.TRAINING


@operation
def batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Batch normalization in training: the result, mean, 1 / sqrt(variance + eps), the running mean and variance after.

    ``first`` writes the last two to the running mean and variance that it is given.
    """
    tensors = [x, *(channels(t, x.dim()) for t in (scale, bias, mean, var))]
    results = compute("batch_norm", (momentum, eps), tensors, lambda graph, *t: graph.batchnorm(*t, eps, momentum))
    y, mean, inv, next_mean, next_var = results[0], *(t.flatten() for t in results[1:])
    return y, mean, inv, next_mean, next_var


@batch_norm.register_elsewhere
def _(x, scale, bias, mean, var, momentum, eps):  # type: ignore[no-untyped-def]
    others, count = [0, *range(2, x.dim())], x.numel() // x.shape[1]
    wide = lambda t: channels(t, x.dim())  # noqa: E731
    rows = x.to(scale.dtype)
    of_mean, of_var = rows.mean(others), rows.var(others, correction=0)
    inv = (of_var + eps).rsqrt()
    y = (rows - wide(of_mean)) * wide(inv * scale) + wide(bias)
    after = torch.lerp(mean, of_mean, momentum), torch.lerp(var, of_var * (count / (count - 1)), momentum)
    return y.to(x.dtype), of_mean, inv, *after


@batch_norm.register_fake
def _(x, scale, bias, mean, var, momentum, eps):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), *(scale.new_empty(scale.shape) for _ in range(4))


@operation
def batch_norm_backward(
    dy: Tensor, x: Tensor, scale: Tensor, mean: Tensor, inv: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of image, scale and bias."""
    tensors = [dy, x, *(channels(t, x.dim()) for t in (scale, mean, inv))]
    dx, dscale, dbias = compute("batch_norm_backward", None, tensors, lambda graph, *t: graph.batchnorm_backward(*t))
    return dx, dscale.flatten(), dbias.flatten()


@batch_norm_backward.register_elsewhere
def _(dy, x, scale, mean, inv):  # type: ignore[no-untyped-def]
    # The variance is in 1 / sqrt(variance + eps) already.
    of = dy, x, scale, None, None, mean, inv, True, 0.0, [True, True, True]
    return torch.ops.aten.native_batch_norm_backward(*of)


@batch_norm_backward.register_fake
def _(dy, x, scale, mean, inv):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), torch.empty_like(scale), torch.empty_like(scale)


def _batch_norm_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, scale, *_ = inputs
    ctx.save_for_backward(x, scale, output[1], output[2])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _keep_running(inputs, output):  # type: ignore[no-untyped-def]
    torch._foreach_copy_(list(inputs[3:5]), list(output[3:5]))


def _batch_norm_backward(ctx, dy, *_):  # type: ignore[no-untyped-def]
    if dy is None:
        return (None,) * 7
    return *batch_norm_backward.gradient(dy, *ctx.saved_tensors), None, None, None, None


batch_norm.register_autograd(_batch_norm_backward, setup_context=_batch_norm_context, others=_keep_running)


@operation
def batch_norm_inference(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, inv: Tensor) -> Tensor:
    """Batch normalization by given statistics."""
    tensors = [x, *(channels(t, x.dim()) for t in (mean, inv, scale, bias))]
    return compute("batch_norm_inference", None, tensors, lambda graph, *t: graph.batchnorm_inference(*t))[0]


@batch_norm_inference.register_elsewhere
def _(x, scale, bias, mean, inv):  # type: ignore[no-untyped-def]
    wide = lambda t: channels(t, x.dim())  # noqa: E731
    return ((x - wide(mean)) * wide(scale * inv) + wide(bias)).to(x.dtype)


@batch_norm_inference.register_fake
def _(x, scale, bias, mean, inv):  # type: ignore[no-untyped-def]
    return torch.empty_like(x)


def _batch_norm_inference_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, scale, _, mean, inv = inputs
    ctx.save_for_backward(x, scale, mean, inv)


def _batch_norm_inference_backward(ctx, dy):  # type: ignore[no-untyped-def]
    x, scale, mean, inv = ctx.saved_tensors
    wide = lambda t: channels(t, x.dim())  # noqa: E731
    others = [0, *range(2, x.dim())]
    normal = (x - wide(mean)) * wide(inv)
    dx = (dy * wide(scale * inv)).to(x.dtype)
    return dx, (dy * normal).sum(others).to(scale.dtype), dy.sum(others).to(scale.dtype), None, None


batch_norm_inference.register_autograd(_batch_norm_inference_backward, setup_context=_batch_norm_inference_context)


@operation
def layer_norm(x: Tensor, scale: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Normalization of rows, each as long as the scale: the result, mean and 1 / sqrt(variance + eps)."""
    tensors = [x.reshape(-1, scale.shape[0]), scale.view(1, -1), bias.view(1, -1)]
    build = lambda graph, *t: graph.layernorm(TRAINING, *t, eps)  # noqa: E731
    y, mean, inv = compute("layer_norm", eps, tensors, build, shape=x.shape)
    return y, mean, inv


@layer_norm.register_elsewhere
def _(x, scale, bias, eps):  # type: ignore[no-untyped-def]
    rows = x.reshape(-1, scale.shape[0]).to(scale.dtype)
    mean, inv = rows.mean(1, True), (rows.var(1, correction=0, keepdim=True) + eps).rsqrt()
    return ((rows - mean) * inv * scale + bias).to(x.dtype).reshape(x.shape), mean, inv


@layer_norm.register_fake
def _(x, scale, bias, eps):  # type: ignore[no-untyped-def]
    count = x.numel() // scale.shape[0]
    return x.new_empty(x.shape), *(scale.new_empty(count, 1) for _ in range(2))


@operation
def layer_norm_backward(
    dy: Tensor, x: Tensor, scale: Tensor, mean: Tensor, inv: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of rows, scale and bias."""
    size = scale.shape[0]
    tensors = [dy.reshape(-1, size), x.reshape(-1, size), scale.view(1, -1), mean, inv]
    build = lambda graph, *t: graph.layernorm_backward(*t)  # noqa: E731
    dx, dscale, dbias = compute("layer_norm_backward", None, tensors, build, shape=x.shape)
    return dx, dscale.flatten(), dbias.flatten()


def _normal(x: Tensor, scale: Tensor, inv: Tensor, centered: bool) -> tuple[Tensor, Tensor]:
    """The rows normalized, and what they were multiplied by, which is `inv` as seen to depend on the rows."""
    rows = x.reshape(-1, scale.shape[0]).to(scale.dtype)
    rows = rows - rows.mean(1, True) if centered else rows
    square = rows.square().mean(1, True)
    eps = (inv.pow(-2) - square).detach()
    inv = (square + eps).rsqrt()
    return rows * inv, inv


@layer_norm_backward.register_elsewhere
def _(dy, x, scale, mean, inv):  # type: ignore[no-untyped-def]
    normal, inv = _normal(x, scale, inv, True)
    dz = dy.reshape(normal.shape).to(scale.dtype)
    of = dz * scale
    dx = inv * (of - of.mean(1, True) - normal * (of * normal).mean(1, True))
    return dx.view(x.shape).to(x.dtype), (dz * normal).sum(0), dz.sum(0)


@layer_norm_backward.register_fake
def _(dy, x, scale, mean, inv):  # type: ignore[no-untyped-def]
    return x.new_empty(x.shape), torch.empty_like(scale), torch.empty_like(scale)


def _layer_norm_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, scale, *_ = inputs
    ctx.save_for_backward(x, scale, output[1], output[2])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _layer_norm_backward(ctx, dy, *_):  # type: ignore[no-untyped-def]
    if dy is None:
        return (None,) * 4
    return *layer_norm_backward.gradient(dy, *ctx.saved_tensors), None


layer_norm.register_autograd(_layer_norm_backward, setup_context=_layer_norm_context)


@operation
def rms_norm(x: Tensor, scale: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Division of rows, each as long as the scale, by the root of their mean square: the result, and 1 / root."""
    tensors = [x.reshape(-1, scale.shape[0]), scale.view(1, -1)]
    build = lambda graph, *t: graph.rmsnorm(TRAINING, *t, epsilon=eps)  # noqa: E731
    y, inv = compute("rms_norm", eps, tensors, build, shape=x.shape)
    return y, inv


@rms_norm.register_elsewhere
def _(x, scale, eps):  # type: ignore[no-untyped-def]
    rows = x.reshape(-1, scale.shape[0]).to(scale.dtype)
    inv = (rows.square().mean(1, True) + eps).rsqrt()
    return (rows * inv * scale).to(x.dtype).reshape(x.shape), inv


@rms_norm.register_fake
def _(x, scale, eps):  # type: ignore[no-untyped-def]
    return x.new_empty(x.shape), scale.new_empty(x.numel() // scale.shape[0], 1)


@operation
def rms_norm_backward(dy: Tensor, x: Tensor, scale: Tensor, inv: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of rows and scale."""
    size = scale.shape[0]
    tensors = [dy.reshape(-1, size), x.reshape(-1, size), scale.view(1, -1), inv]
    build = lambda graph, *t: graph.rmsnorm_backward(*t)[:2]  # noqa: E731
    dx, dscale = compute("rms_norm_backward", None, tensors, build, shape=x.shape)
    return dx, dscale.flatten()


@rms_norm_backward.register_elsewhere
def _(dy, x, scale, inv):  # type: ignore[no-untyped-def]
    normal, inv = _normal(x, scale, inv, False)
    dz = dy.reshape(normal.shape).to(scale.dtype)
    of = dz * scale
    dx = inv * (of - normal * (of * normal).mean(1, True))
    return dx.view(x.shape).to(x.dtype), (dz * normal).sum(0)


@rms_norm_backward.register_fake
def _(dy, x, scale, inv):  # type: ignore[no-untyped-def]
    return x.new_empty(x.shape), torch.empty_like(scale)


def _rms_norm_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, scale, _ = inputs
    ctx.save_for_backward(x, scale, output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _rms_norm_backward(ctx, dy, *_):  # type: ignore[no-untyped-def]
    if dy is None:
        return (None,) * 3
    return *rms_norm_backward.gradient(dy, *ctx.saved_tensors), None


rms_norm.register_autograd(_rms_norm_backward, setup_context=_rms_norm_context)
