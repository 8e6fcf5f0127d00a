"""Calls of PyTorch's pooling functions."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from . import ops
from .graphs import Unsupported
from .ops.layout import like
from .route import HANDLERS, check, numbers


#: More parts than this take longer here than in PyTorch.
_MOST_PARTS = 36


class Part(NamedTuple):
    """Outputs along one dimension whose windows are alike and at equal steps: where they are read and written."""

    read: slice
    window: int
    stride: int
    pre: int
    post: int
    written: slice


class Dimension(NamedTuple):
    """How many outputs there are along a dimension, and what they are made of."""

    outputs: int
    parts: list[Part]


def _count(size: int, reach: int, stride: int, pad: int, ceil: bool) -> int:
    """How many windows there are along a dimension."""
    left = size + 2 * pad - reach
    if left < 0:
        raise Unsupported("a window that does not fit")
    count = left // stride + 1
    # With `ceil` the last one may reach out, but does not begin behind the image and what is padded before it.
    return count + 1 if ceil and left % stride and count * stride < size + pad else count


def _phases(ceil: bool, size: int, window: int, stride: int, pad: int, gap: int) -> Dimension:
    """Windows whose elements are `gap` apart, as windows without gaps of every gap-th element."""
    count = _count(size, gap * (window - 1) + 1, stride, pad, ceil)
    if gap == 1:
        post = max(pad, (count - 1) * stride + window - pad - size)
        return Dimension(count, [Part(slice(0, size, 1), window, stride, pad, post, slice(None))])
    common = math.gcd(stride, gap)
    # As many windows further on, the same elements are read.
    turns, step = gap // common, stride // common
    parts = []
    for turn in range(min(turns, count)):
        begin, phase = divmod(turn * stride - pad, gap)
        number = -(-(count - turn) // turns)
        pre, skipped = max(0, -begin), max(0, begin)
        have, needed = -(-(size - phase) // gap) - skipped, (number - 1) * step + window - pre
        if min(have, needed) < 1:
            raise Unsupported("a window outside of the image")
        read = slice(phase + gap * skipped, phase + gap * (skipped + min(have, needed) - 1) + 1, gap)
        parts.append(Part(read, window, step, pre, max(0, needed - have), slice(turn, None, turns)))
    return Dimension(count, parts)


def _shares(size: int, count: int) -> Dimension:
    """The windows that divide a dimension among so many outputs, overlapping where they cannot be equal."""
    of = [(at * size // count, -(-(at + 1) * size // count)) for at in range(count)]
    parts, first = [], 0
    while first < count:
        width, last = of[first][1] - of[first][0], first
        step = max(1, of[first + 1][0] - of[first][0]) if first + 1 < count else 1
        while last + 1 < count and of[last + 1] == (of[last][0] + step, of[last][1] + step):
            last += 1
        parts.append(Part(slice(of[first][0], of[last][1], 1), width, step, 0, 0, slice(first, last + 1)))
        first = last + 1
    return Dimension(count, parts)


def _plane(found: Tensor, sizes: Sequence[int], reads: Sequence[slice], whole: Sequence[int]) -> Tensor:
    """Places in a part of an image, as places in the whole."""
    place, step = torch.zeros_like(found), 1
    for size, read, width in reversed(list(zip(sizes, reads, whole))):
        place, found = place + (found % size * read.step + read.start) * step, found // size
        step *= width
    return place


def _pool(mode: str, input: Tensor, dimensions: Sequence[Dimension], indices: bool) -> Any:
    """The result, with where each maximum was if that is asked for."""
    rank = len(dimensions)
    if input.dim() == rank + 1:
        found = _pool(mode, input.unsqueeze(0), dimensions, indices)
        return tuple(t.squeeze(0) for t in found) if indices else found.squeeze(0)
    # Gradients need the indices, too.
    index = mode == "maxpool" and (indices or (torch.is_grad_enabled() and input.requires_grad))
    if math.prod(len(of.parts) for of in dimensions) > _MOST_PARTS:
        raise Unsupported("windows of many sizes")
    whole, results = input.shape[2:], []
    places: Any
    for parts in itertools.product(*(of.parts for of in dimensions)):
        reads: list[Any] = [part.read for part in parts]
        is_whole = all(read == slice(0, size, 1) for read, size in zip(reads, whole))
        # A copy lies as the image does.
        image = input if is_whole else input[tuple([..., *reads])].clone()
        of = zip(*((part.window, part.stride, part.pre, part.post) for part in parts))
        result, found = ops.pool(image, mode, index, *map(list, of))
        if indices and not is_whole:
            found = _plane(found, image.shape[2:], reads, whole)
        results.append(([part.written for part in parts], result, found))
    _, y, places = results[0]
    if len(results) > 1:
        shape = (*input.shape[:2], *(of.outputs for of in dimensions))
        y = like(input, shape)
        places = places.new_empty_strided(shape, y.stride()) if indices else None
        for written, result, found in results:
            at: Any = (..., *written)
            y[at] = result
            if indices:
                places[at] = found
    return (y, places.long()) if indices else y


def _sizes(rank: int, input: Tensor) -> Sequence[int]:
    check(input)
    if input.dim() not in (rank + 1, rank + 2):
        raise Unsupported("shapes that do not fit")
    return input.shape[-rank:]


def _windows(rank: int, window: Any, stride: Any, padding: Any, gaps: Any = 1) -> list[list[int]]:
    """Windows, strides, padding and gaps, a number for each dimension."""
    window, padding, gaps = (numbers(value, rank) for value in (window, padding, gaps))
    stride = numbers(stride, rank) if stride not in (None, [], ()) else window
    of = [window, stride, padding, gaps]
    if any(len(value) != rank for value in of) or min(*window, *stride, *gaps) < 1 or min(padding) < 0:
        raise Unsupported("a window that does not fit")
    if any(2 * pad > width for pad, width in zip(padding, window)):
        raise Unsupported("a window that does not fit")
    return of


def _max_pool(
    rank: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    sizes = _sizes(rank, input)
    of = zip(sizes, *_windows(rank, kernel_size, stride, padding, dilation))
    return _pool("maxpool", input, [_phases(ceil_mode, *each) for each in of], return_indices)


def _avg_pool(
    rank: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Any = None,
) -> Tensor:
    sizes = _sizes(rank, input)
    of = list(zip(sizes, *_windows(rank, kernel_size, stride, padding)))
    dimensions = [_phases(ceil_mode, *each) for each in of]
    if divisor_override is not None:
        if divisor_override == 0:
            raise Unsupported("a divisor of 0")
        y: Tensor = _pool("avgpool_include_padding", input, dimensions, False)
        return y * (math.prod(width for _, width, *_ in of) / divisor_override)
    if not count_include_pad or not any(pad for *_, pad, _ in of):
        return _pool("avgpool_exclude_padding", input, dimensions, False)
    y = _pool("avgpool_include_padding", input, dimensions, False)
    for at, ((size, width, step, pad, _), dimension) in enumerate(zip(of, dimensions)):
        if dimension.parts[0].post > pad:
            # What a window has beyond the padding does not count.
            begins = torch.arange(y.shape[at - rank], device=y.device) * step - pad
            counted = (begins + width).clamp(max=size + pad) - begins
            y = y * (width / counted.to(torch.float64)).to(y.dtype).view(-1, *(1,) * (rank - 1 - at))
    return y


def _adaptive(rank: int, mode: str, input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    sizes = _sizes(rank, input)
    wanted: list[Any] = (
        [output_size] * rank if isinstance(output_size, int) or output_size is None else list(output_size)
    )
    wanted = [size if want is None else want for size, want in zip(sizes, wanted * (rank if len(wanted) == 1 else 1))]
    if len(wanted) != rank or any(want < 1 or size < 1 for size, want in zip(sizes, wanted)):
        raise Unsupported("shapes that do not fit")
    return _pool(mode, input, [_shares(*of) for of in zip(sizes, wanted)], return_indices)


for _rank in (1, 2, 3):
    _maximum, _average = functools.partial(_max_pool, _rank), functools.partial(_avg_pool, _rank)
    _adaptive_maximum = functools.partial(_adaptive, _rank, "maxpool")
    HANDLERS[getattr(torch, f"max_pool{_rank}d")] = HANDLERS[getattr(F, f"max_pool{_rank}d")] = _maximum
    HANDLERS[getattr(F, f"avg_pool{_rank}d")] = _average
    HANDLERS[getattr(F, f"adaptive_avg_pool{_rank}d")] = functools.partial(_adaptive, _rank, "avgpool_exclude_padding")
    HANDLERS[getattr(F, f"adaptive_max_pool{_rank}d")] = _adaptive_maximum
    for _function, _handler in ((f"max_pool{_rank}d", _maximum), (f"adaptive_max_pool{_rank}d", _adaptive_maximum)):
        # With indices these call others, which always answer them.
        with_indices = lambda *args, _of=_handler, **of: _of(*args, **{**of, "return_indices": True})  # noqa: E731
        HANDLERS[getattr(F, f"{_function}_with_indices")] = with_indices
