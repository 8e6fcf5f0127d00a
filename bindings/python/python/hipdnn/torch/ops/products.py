"""Convolutions and products of matrices, and their gradients."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ...infer import window
from ...types import reduction_mode
from ..graphs import cached, compute
from ..operation import first_order, operation
from .layout import channels, like

SUM = reduction_mode.ADD


def total(graph: Any, x: Any, axes: Sequence[int]) -> Any:
    """The sum over dimensions; the tensor where they have one element each, which is no reduction."""
    return graph.reduction(x, SUM, axis=axes) if any(x.dim[at] > 1 for at in axes) else graph.identity(x)


def window_of(of: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Stride, padding and dilation, by name."""
    stride, padding, dilation = of
    return {"padding": padding, "stride": stride, "dilation": dilation}


@operation
def conv(
    x: Tensor, w: Tensor, bias: Optional[Tensor], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """Convolution of [N, C, ...] with [K, C / groups, ...]; with a bias [K] in the same graph."""
    of = tuple(stride), tuple(padding), tuple(dilation)
    tensors = [x, w] if bias is None else [x, w, channels(bias, x.dim())]

    def build(graph: Any, x: Any, w: Any, bias: Any = None) -> Any:
        y = graph.conv_fprop(x, w, **window_of(of))
        return y if bias is None else graph.add(y, bias)

    return compute("conv", of, tensors, build)[0]


@conv.register_elsewhere
def _(x, w, bias, stride, padding, dilation):  # type: ignore[no-untyped-def]
    function = (torch.conv1d, torch.conv2d, torch.conv3d)[x.dim() - 3]
    return function(x, w, bias, stride, padding, dilation, x.shape[1] // w.shape[1])


@conv.register_fake
def _(x, w, bias, stride, padding, dilation):  # type: ignore[no-untyped-def]
    sizes = zip(x.shape[2:], padding, padding, stride, dilation, w.shape[2:])
    return like(x, (x.shape[0], w.shape[0], *(window(*size) for size in sizes)))


@operation
def conv_data(
    dy: Tensor, w: Tensor, shape: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """The gradient of a convolution's image, which has this shape."""
    of = tuple(stride), tuple(padding), tuple(dilation)
    build = lambda graph, dy, w: graph.conv_dgrad(dy, w, **window_of(of)).set_dim(shape)  # noqa: E731
    return compute("conv_data", (of, tuple(shape)), [dy, w], build)[0]


def _conv_backward_of(
    dy: Tensor, x: Tensor, w: Tensor, stride: Any, padding: Any, dilation: Any, mask: Sequence[bool]
) -> Any:
    """PyTorch's gradients of a convolution."""
    groups, none = x.shape[1] // w.shape[1], [0] * len(stride)
    of = stride, padding, dilation, False, none, groups, mask
    return torch.ops.aten.convolution_backward(dy, x, w, None, *of)


@conv_data.register_elsewhere
def _(dy, w, shape, stride, padding, dilation):  # type: ignore[no-untyped-def]
    x = dy.new_empty(1).expand(shape)
    return _conv_backward_of(dy, x, w, stride, padding, dilation, [True, False, False])[0]


@conv_data.register_fake
def _(dy, w, shape, stride, padding, dilation):  # type: ignore[no-untyped-def]
    return like(dy, shape)


@operation
def conv_weights(
    x: Tensor, dy: Tensor, shape: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """The gradient of a convolution's filter, which has this shape."""
    of = tuple(stride), tuple(padding), tuple(dilation)
    build = lambda graph, x, dy: graph.conv_wgrad(x, dy, **window_of(of)).set_dim(shape)  # noqa: E731
    return compute("conv_weights", (of, tuple(shape)), [x, dy], build)[0]


@conv_weights.register_elsewhere
def _(x, dy, shape, stride, padding, dilation):  # type: ignore[no-untyped-def]
    w = dy.new_empty(1).expand(shape)
    return _conv_backward_of(dy, x, w, stride, padding, dilation, [False, True, False])[1]


@conv_weights.register_fake
def _(x, dy, shape, stride, padding, dilation):  # type: ignore[no-untyped-def]
    return like(x, shape)


def _conv_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, w, _, *ctx.window = inputs
    ctx.save_for_backward(x, w)


def conv_gradients(graph: Any, dy: Any, x: Any, w: Any, of: Any, wanted: Sequence[bool]) -> list[Any]:
    """The gradients of image, filter and bias that are wanted, as parts of a graph."""
    results = []
    if wanted[0]:
        results.append(graph.conv_dgrad(dy, w, **window_of(of)).set_dim(x.dim))
    if wanted[1]:
        results.append(graph.conv_wgrad(x, dy, **window_of(of)).set_dim(w.dim))
    if wanted[2]:
        results.append(total(graph, dy, [0, *range(2, len(dy.dim))]))
    return results


def conv_gradients_apart(
    dy: Tensor, x: Tensor, w: Tensor, of: Sequence[Any], wanted: Sequence[bool]
) -> list[Optional[Tensor]]:
    """The same, each by itself."""
    dx = conv_data.gradient(dy, w, x.shape, *of) if wanted[0] else None
    dw = conv_weights.gradient(x, dy, w.shape, *of) if wanted[1] else None
    return [dx, dw, dy.sum([0, *range(2, dy.dim())]) if wanted[2] else None]


@cached
def _conv_together(
    dy: Tensor, x: Tensor, w: Tensor, window: Sequence[Any], wanted: Sequence[bool]
) -> tuple[Optional[Tensor], ...]:
    of = tuple(map(tuple, window))
    build = lambda graph, dy, x, w: conv_gradients(graph, dy, x, w, of, wanted)  # noqa: E731
    found = iter(compute("conv_gradients", (of, wanted), [dy, x, w], build))
    dx, dw, db = (next(found) if want else None for want in wanted)
    return dx, dw, None if db is None else db.view(-1)


def _conv_backward(ctx, dy):  # type: ignore[no-untyped-def]
    x, w = ctx.saved_tensors
    need_x, need_w, need_bias, *_ = ctx.needs_input_grad
    wanted = need_x, need_w, need_bias
    # Engines of GPUs take one gradient at a time.
    found = None if dy.is_cuda else first_order(_conv_together, dy, x, w, ctx.window, wanted)
    if found is None:
        found = conv_gradients_apart(dy, x, w, ctx.window, wanted)
    return *found, None, None, None


conv.register_autograd(_conv_backward, setup_context=_conv_context)


def _conv_data_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    dy, w, _, *ctx.window = inputs
    ctx.save_for_backward(dy, w)


def _conv_data_backward(ctx, grad):  # type: ignore[no-untyped-def]
    dy, w = ctx.saved_tensors
    ddy = conv.gradient(grad, w, None, *ctx.window) if ctx.needs_input_grad[0] else None
    dw = conv_weights.gradient(grad, dy, w.shape, *ctx.window) if ctx.needs_input_grad[1] else None
    return ddy, dw, None, None, None, None


# Transposed convolution is the gradient of another, so it has one as well.
conv_data.register_autograd(_conv_data_backward, setup_context=_conv_data_context)


@operation
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """[..., M, K] by [..., K, N], or by [K, N]; what is before is broadcast."""
    m, n = a.shape[-2], b.shape[-1]
    if b.dim() == 2:
        batch, pair = a.shape[:-2], [rows(a, a.shape[-1]), b.unsqueeze(0)]
    else:
        batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        pair = [t.expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (a, b)]
    shape = None if b.dim() == a.dim() == 3 else (*batch, m, n)
    return compute("matmul", None, pair, lambda graph, a, b: graph.matmul(a, b), shape=shape, gaps=True)[0]


matmul.register_elsewhere(torch.matmul)


@matmul.register_fake
def _(a, b):  # type: ignore[no-untyped-def]
    return a.new_empty(*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])


def _matmul_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*inputs)


def _matmul_backward(ctx, dc):  # type: ignore[no-untyped-def]
    a, b = ctx.saved_tensors
    da = matmul.gradient(dc, b.mT).sum_to_size(a.shape) if ctx.needs_input_grad[0] else None
    if not ctx.needs_input_grad[1]:
        return da, None
    if b.dim() == 2:
        return da, matmul.gradient(a.reshape(-1, a.shape[-1]).mT, dc.reshape(-1, dc.shape[-1]))
    return da, matmul.gradient(a.mT, dc).sum_to_size(b.shape)


matmul.register_autograd(_matmul_backward, setup_context=_matmul_context)


def rows(x: Tensor, size: int) -> Tensor:
    """[..., D] as [1, rows, D]."""
    return x.reshape(1, -1, size)


@operation
def linear(x: Tensor, w: Tensor, bias: Optional[Tensor]) -> Tensor:
    """[..., K] by the transpose of [N, K], with a bias [N] in the same graph."""
    n, k = w.shape
    tensors = [rows(x, k), w.t().unsqueeze(0)]
    if bias is not None:
        tensors.append(bias.view(1, 1, n))

    def build(graph: Any, x: Any, w: Any, bias: Any = None) -> Any:
        y = graph.matmul(x, w)
        return y if bias is None else graph.add(y, bias)

    return compute("linear", None, tensors, build, shape=(*x.shape[:-1], n), gaps=True)[0]


linear.register_elsewhere(F.linear)


@linear.register_fake
def _(x, w, bias):  # type: ignore[no-untyped-def]
    return x.new_empty(*x.shape[:-1], w.shape[0])


def _linear_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, w, _ = inputs
    ctx.save_for_backward(x, w)


def linear_gradients(graph: Any, dy: Any, turned: Any, w: Any, wanted: Sequence[bool]) -> list[Any]:
    """The gradients of rows, weights and bias that are wanted, as parts of a graph that has the rows as columns."""
    results = []
    if wanted[0]:
        results.append(graph.matmul(dy, w))
    if wanted[1]:
        (_, n, k) = w.dim
        # Written as columns, so that it lies as the weights do.
        results.append(graph.matmul(turned, dy).set_stride((n * k, 1, k)))
    if wanted[2]:
        results.append(total(graph, dy, [1]))
    return results


def linear_gradients_apart(dy: Tensor, x: Tensor, w: Tensor, wanted: Sequence[bool]) -> list[Optional[Tensor]]:
    """The same, each by itself; rows are not columns."""
    dx = matmul.gradient(dy, w.unsqueeze(0)) if wanted[0] else None
    dw = matmul.gradient(dy.mT, x).squeeze(0) if wanted[1] else None
    return [dx, dw, dy.sum((0, 1)) if wanted[2] else None]


@cached
def _linear_together(dy: Tensor, x: Tensor, w: Tensor, wanted: Sequence[bool]) -> tuple[Optional[Tensor], ...]:
    n, k = w.shape
    build = lambda graph, dy, turned, w: linear_gradients(graph, dy, turned, w, wanted)  # noqa: E731
    tensors = [rows(dy, n), rows(x, k).mT, w.unsqueeze(0)]
    found = iter(compute("linear_gradients", wanted, tensors, build, gaps=True))
    dx, dw, db = (next(found) if want else None for want in wanted)
    return dx if dx is None else dx.view(x.shape), dw if dw is None else dw[0].t(), db if db is None else db.view(n)


@cached
def _linear_data(dy: Tensor, w: Tensor) -> Tensor:
    return matmul.forward.function(rows(dy, w.shape[0]), w.unsqueeze(0)).view(*dy.shape[:-1], w.shape[1])


@cached
def _linear_weights(dy: Tensor, x: Tensor) -> Tensor:
    return matmul.forward.function(rows(dy, dy.shape[-1]).mT, rows(x, x.shape[-1])).squeeze(0)


def _linear_backward(ctx, dy):  # type: ignore[no-untyped-def]
    x, w = ctx.saved_tensors
    wanted = need_x, need_w, need_bias = ctx.needs_input_grad
    if not dy.is_cuda:
        found = first_order(_linear_together, dy, x, w, wanted)
        if found is not None:
            return found
    dx = first_order(_linear_data, dy, w) if need_x else None
    dw = first_order(_linear_weights, dy, x) if need_w else None
    left = need_x and dx is None, need_w and dw is None, need_bias
    if any(left):
        n, k = w.shape
        by_parts = linear_gradients_apart(rows(dy, n), rows(x, k), w, left)
        dx = dx if by_parts[0] is None else by_parts[0].view(x.shape)
        dw = dw if by_parts[1] is None else by_parts[1]
        return dx, dw, by_parts[2]
    return dx, dw, None


linear.register_autograd(_linear_backward, setup_context=_linear_context)
