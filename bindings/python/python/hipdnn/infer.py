"""Shapes and strides: given ones, and those inferred from others."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .errors import GraphError


def integers(node: str, argument: str, values: Any) -> tuple[int, ...]:
    """A sequence as a tuple of integers."""
    try:
        if isinstance(values, (str, bytes, bytearray)):
            raise TypeError
        return tuple(operator.index(value) for value in values)
    except TypeError:
        raise GraphError(node, argument, f"is {values!r}, expected a sequence of integers") from None


def packed(dim: Sequence[int]) -> tuple[int, ...]:
    """Packed strides, the last dimension innermost."""
    stride, strides = 1, []
    for d in reversed(dim):
        strides.append(stride)
        stride *= max(int(d), 1)
    return tuple(reversed(strides))


def strides_in_order(dim: Sequence[int], like: Sequence[int] | None) -> tuple[int, ...]:
    """Packed strides in the same dimension order as other strides, for example channels last."""
    if like is None or len(like) != len(dim):
        return packed(dim)
    order = sorted(range(len(dim)), key=lambda at: (like[at], -at))
    stride, strides = 1, [0] * len(dim)
    for at in order:
        strides[at] = stride
        stride *= max(int(dim[at]), 1)
    return tuple(strides)


def apart(dim: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    """Strides whose outermost one is at least the extent of the others."""
    rest = max((size * step for size, step in zip(dim[1:], stride[1:])), default=1)
    return (max(stride[0], rest), *stride[1:]) if len(dim) == len(stride) and dim else tuple(stride)


def broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """The shape that shapes of one rank broadcast to; None if they do not fit."""
    result = []
    for sizes in zip(*shapes):
        longer = {size for size in sizes if size != 1}
        if len(longer) > 1:
            return None
        result.append(longer.pop() if longer else 1)
    return tuple(result)


def window(size: int, pre: int, post: int, stride: int, dilation: int, filter: int) -> int:
    """The number of window positions along a dimension."""
    return (size + pre + post - (dilation * (filter - 1) + 1)) // stride + 1
