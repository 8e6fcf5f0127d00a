"""Calls of PyTorch's pooling functions."""

from __future__ import annotations

import functools
from typing import Any, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from . import ops
from .graphs import Unsupported
from .route import HANDLERS, check, numbers


def _end(size: int, window: int, stride: int, pad: int, ceil: bool) -> int:
    """The padding after a dimension: more than before it where the last window reaches out."""
    reach = size + 2 * pad - window
    if not ceil or reach % stride == 0:
        return pad
    count = -(-reach // stride) + 1
    # A window does not begin behind the image and what is padded before it.
    if (count - 1) * stride >= size + pad:
        return pad
    return (count - 1) * stride + window - size - pad


def _pool(
    rank: int, mode: str, input: Tensor, window: Any, stride: Any, padding: Any, ceil: bool, indices: bool
) -> Any:  # fmt: skip
    """The result, with where each maximum was if that is asked for."""
    check(input)
    if input.dim() == rank + 1:
        found = _pool(rank, mode, input.unsqueeze(0), window, stride, padding, ceil, indices)
        return tuple(t.squeeze(0) for t in found) if indices else found.squeeze(0)
    if input.dim() != rank + 2:
        raise Unsupported("shapes that do not fit")
    window, padding = numbers(window, rank), numbers(padding, rank)
    stride = numbers(stride, rank) if stride not in (None, [], ()) else window
    sizes = input.shape[2:]
    if any(2 * pad > width or size + 2 * pad < width for size, pad, width in zip(sizes, padding, window)):
        raise Unsupported("a window that does not fit")
    post = [_end(*of, ceil) for of in zip(sizes, window, stride, padding)]
    if "include" in mode and post != padding:
        raise Unsupported("an average of a window that reaches out of the padding")
    # Gradients need the indices, too.
    index = mode == "maxpool" and (indices or (torch.is_grad_enabled() and input.requires_grad))
    y, found = ops.pool(input, mode, index, window, stride, padding, post)
    return (y, found.long()) if indices else y


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
    if set(numbers(dilation, rank)) != {1}:
        raise Unsupported("windows with gaps")
    return _pool(rank, "maxpool", input, kernel_size, stride, padding, ceil_mode, return_indices)


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
    if divisor_override is not None:
        raise Unsupported("a divisor of its own")
    include = count_include_pad and any(numbers(padding, rank))
    mode = "avgpool_include_padding" if include else "avgpool_exclude_padding"
    return _pool(rank, mode, input, kernel_size, stride, padding, ceil_mode, False)


def _adaptive(rank: int, mode: str, input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    if input.dim() not in (rank + 1, rank + 2):
        raise Unsupported("shapes that do not fit")
    sizes: Sequence[int] = input.shape[-rank:]
    wanted: list[Any] = (
        [output_size] * rank if isinstance(output_size, int) or output_size is None else list(output_size)
    )
    wanted = [size if want is None else want for size, want in zip(sizes, wanted * (rank if len(wanted) == 1 else 1))]
    if len(wanted) != rank or any(want < 1 or size % want for size, want in zip(sizes, wanted)):
        raise Unsupported("windows of several sizes")
    return _pool(rank, mode, input, [size // want for size, want in zip(sizes, wanted)], None, 0, False, return_indices)


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
