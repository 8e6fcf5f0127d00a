"""Pooling and its gradient."""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ...infer import window as outputs
from ...types import padding_mode, resample_mode
from ..graphs import compute
from ..operation import operation
from .layout import like

Of = tuple[tuple[int, ...], ...]


def _arguments(mode: str, of: Of) -> dict[str, Any]:
    window, stride, pre, post = of
    return {
        "pooling_mode": resample_mode(mode), "padding_mode": padding_mode.NEG_INF_PAD, "window": window,
        "stride": stride, "pre_padding": pre, "post_padding": post,
    }  # fmt: skip


@operation
def pool(
    x: Tensor, mode: str, index: bool, window: Sequence[int], stride: Sequence[int], pre: Sequence[int],
    post: Sequence[int],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Pooling of [N, C, ...]: the result, and where in its plane each maximum was (no elements where it is not asked for)."""
    of = tuple(window), tuple(stride), tuple(pre), tuple(post)

    def build(graph: Any, x: Any) -> Any:
        y, found = graph.resample(x, generate_index=index, **_arguments(mode, of))
        return [y, found] if index else [y]

    results = compute("pool", (mode, index, of), [x], build)
    return (results[0], results[1]) if index else (results[0], x.new_empty(0, dtype=torch.int32))


@pool.register_elsewhere
def _(x, mode, index, window, stride, pre, post):  # type: ignore[no-untyped-def]
    rank, sizes = len(window), x.shape[2:]
    around = [n for pad in reversed(list(zip(pre, post))) for n in pad]
    if mode != "maxpool":
        y = _average(rank)(F.pad(x, around), window, stride)
        if mode == "avgpool_exclude_padding":
            y = y / _average(rank)(F.pad(torch.ones_like(x), around), window, stride)
        return y, x.new_empty(0, dtype=torch.int32)
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
    y, at = function(F.pad(x, around, value=-math.inf), window, stride, return_indices=True)
    if not index:
        return y, x.new_empty(0, dtype=torch.int32)
    # The places in the plane that was padded, as places in the plane.
    place, step = torch.zeros_like(at), 1
    for size, before, after in reversed(list(zip(sizes, pre, post))):
        width = size + before + after
        place, at, step = place + (at % width - before) * step, at // width, step * size
    return y, place.to(torch.int32)


def _average(rank: int) -> Any:
    return (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]


@pool.register_fake
def _(x, mode, index, window, stride, pre, post):  # type: ignore[no-untyped-def]
    sizes = zip(x.shape[2:], pre, post, stride, window)
    shape = (*x.shape[:2], *(outputs(size, a, b, step, 1, width) for size, a, b, step, width in sizes))
    found = like(x, shape).to(torch.int32) if index else x.new_empty(0, dtype=torch.int32)
    return like(x, shape), found


@operation
def pool_backward(
    dy: Tensor, index: Optional[Tensor], shape: Sequence[int], mode: str, window: Sequence[int], stride: Sequence[int],
    pre: Sequence[int], post: Sequence[int],
) -> Tensor:  # fmt: skip
    """The gradient of an image, which has this shape."""
    of = tuple(window), tuple(stride), tuple(pre), tuple(post)

    def build(graph: Any, dy: Any, index: Any = None) -> Any:
        return graph.resample_backward(dy, index=index, **_arguments(mode, of)).set_dim(shape)

    tensors = [dy] if index is None else [dy, index]
    return compute("pool_backward", (mode, of, tuple(shape)), tensors, build)[0]


@pool_backward.register_elsewhere
def _(dy, index, shape, mode, window, stride, pre, post):  # type: ignore[no-untyped-def]
    if index is not None:
        inside = index.flatten(2).long()
        # Windows that reach out have no maximum there; those that overlap may have the same.
        dx = dy.new_zeros(*shape[:2], math.prod(shape[2:]))
        dx = dx.scatter_add(2, inside.clamp(min=0), dy.flatten(2).masked_fill(inside < 0, 0))
        return dx.view(shape)
    around = [n for pad in reversed(list(zip(pre, post))) for n in pad]
    image = F.pad(dy.new_ones(shape), around)
    if mode == "avgpool_exclude_padding":
        dy = dy / _average(len(window))(image, window, stride)
    if len(window) == 1:
        # There is none for one dimension.
        of = [1, *window], [1, *stride], [0, 0], False, True, None
        dx = torch.ops.aten.avg_pool2d_backward(dy.unsqueeze(2), image.unsqueeze(2), *of).squeeze(2)
    else:
        backward = (torch.ops.aten.avg_pool2d_backward, torch.ops.aten.avg_pool3d_backward)[len(window) - 2]
        dx = backward(dy, image, window, stride, [0] * len(window), False, True, None)
    return F.pad(dx, [-n for n in around])


@pool_backward.register_fake
def _(dy, index, shape, mode, window, stride, pre, post):  # type: ignore[no-untyped-def]
    return like(dy, shape)


def _pool_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    x, ctx.mode, ctx.index, *ctx.window = inputs
    ctx.shape = x.shape
    ctx.mark_non_differentiable(output[1])
    if ctx.index:
        ctx.save_for_backward(output[1])


def _pool_backward(ctx, dy, _):  # type: ignore[no-untyped-def]
    index = ctx.saved_tensors[0] if ctx.index else None
    return pool_backward.gradient(dy, index, ctx.shape, ctx.mode, *ctx.window), *(None,) * 6


pool.register_autograd(_pool_backward, setup_context=_pool_context)


def _twice_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    _, index, _, ctx.mode, *ctx.window = inputs
    ctx.save_for_backward(index)


def _twice_backward(ctx, grad):  # type: ignore[no-untyped-def]
    (index,) = ctx.saved_tensors
    if index is None:
        ddy = pool.gradient(grad, ctx.mode, False, *ctx.window)[0]
    else:
        inside = index.flatten(2).long()
        ddy = grad.flatten(2).gather(2, inside.clamp(min=0)).masked_fill(inside < 0, 0).view(index.shape)
    return ddy, *(None,) * 7


pool_backward.register_autograd(_twice_backward, setup_context=_twice_context)
