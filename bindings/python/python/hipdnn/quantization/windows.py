"""PyTorch's convolutions and pooling as nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import UnsupportedError
from ..tensor import Tensor
from ..types import padding_mode, reduction_mode, resample_mode
from .calls import Made, Reduced, reduced


def biased(reader: Any, node: Any, y: Tensor, bias: Any, shape: Sequence[int]) -> Tensor:
    """A result with a parameter added."""
    if bias is None:
        return y
    array = reader.array(reader.value(bias)).reshape(shape)
    return reader.graph.add(y, reader.constant(array, bias.name), name=f"{node.name} bias")


def _numbers(value: Any, count: int) -> list[int]:
    """A number for each dimension of an image."""
    return [value] * count if isinstance(value, int) else list(value) * (count // len(value))


def _image(reader: Any, node: Any, x: Any, rank: int) -> tuple[Tensor, Callable[[Tensor], Made]]:
    """An image with a batch, and how its result loses a batch that the module's has not."""
    tensor = reader.plain(x, rank)
    lost = rank - len(x.meta["val"].shape)
    return tensor, (lambda y: Reduced(y, range(lost))) if lost else (lambda y: y)


def _conv(rank: int) -> Callable[..., Made]:
    def call(
        reader: Any,
        node: Any,
        x: Any,
        w: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Made:
        del groups  # The shapes tell.
        image, result = _image(reader, node, x, rank + 2)
        weight = reader.tensor(w)
        stride, dilation = _numbers(stride, rank), _numbers(dilation, rank)
        if padding in ("valid", "same"):
            widths = [0] * rank if padding == "valid" else (weight.dim or ())[2:]
            all_of = [step * max(width - 1, 0) for step, width in zip(dilation, widths)]
            before = [both // 2 for both in all_of]
            after = [both - first for both, first in zip(all_of, before)]
        else:
            before = after = _numbers(padding, rank)
        y = reader.graph.conv_fprop(
            image, weight, pre_padding=before, post_padding=after, stride=stride, dilation=dilation, name=node.name
        )
        return result(biased(reader, node, y, bias, [1, -1, *[1] * rank]))

    return call


def _transposed_conv(rank: int) -> Callable[..., Made]:
    def call(
        reader: Any,
        node: Any,
        x: Any,
        w: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Made:
        del output_padding, groups  # The shapes tell.
        image, result = _image(reader, node, x, rank + 2)
        of = [_numbers(value, rank) for value in (padding, stride, dilation)]
        y = reader.graph.conv_dgrad(image, reader.tensor(w), *of, name=node.name)
        y.set_dim([(image.dim or (1,))[0], *node.meta["val"].shape[-rank - 1 :]])
        return result(biased(reader, node, y, bias, [1, -1, *[1] * rank]))

    return call


def _pool(rank: int, mode: resample_mode | None) -> Callable[..., Made]:
    """Windows of an image; without a mode they are means, whose padding counts or does not."""

    def call(
        reader: Any, node: Any, x: Any, kernel: Any, stride: Any = None, padding: Any = 0, *rest: Any, **named: Any
    ) -> Made:
        names = (
            ("dilation", "ceil_mode") if mode is not None else ("ceil_mode", "count_include_pad", "divisor_override")
        )
        found = {**dict(zip(names, rest)), **named}
        if _numbers(found.get("dilation", 1), rank) != [1] * rank or found.get("ceil_mode"):
            raise UnsupportedError(node.name, "dilation", "expected 1, and sizes that are rounded down")
        if found.get("divisor_override"):
            raise UnsupportedError(node.name, "divisor_override", "is given, expected none")
        whole = found.get("count_include_pad", True)
        of = resample_mode.AVGPOOL_INCLUDE_PADDING if whole else resample_mode.AVGPOOL_EXCLUDE_PADDING
        size = _numbers(kernel, rank)
        image, result = _image(reader, node, x, rank + 2)
        return result(_resampled(reader, node, image, mode or of, size, stride or size, padding))

    return call


def _resampled(
    reader: Any, node: Any, image: Tensor, mode: resample_mode, size: list[int], stride: Any, padding: Any
) -> Tensor:
    stride, padding = _numbers(stride, len(size)), _numbers(padding, len(size))
    outside = padding_mode.NEG_INF_PAD if mode is resample_mode.MAXPOOL else padding_mode.ZERO_PAD
    pooled, _ = reader.graph.resample(image, mode, outside, size, stride, padding, padding, name=node.name)
    assert pooled is not None
    return pooled


def _adaptive(rank: int) -> Callable[..., Made]:
    def call(reader: Any, node: Any, x: Any, size: Any) -> Made:
        size = _numbers(size, rank)
        if size == [1] * rank:
            return reduced(reduction_mode.AVG)(reader, node, x, range(-rank, 0), True)
        image, result = _image(reader, node, x, rank + 2)
        whole = list(image.dim or ())[2:]
        if any(part % one for part, one in zip(whole, size)):
            raise UnsupportedError(node.name, "output_size", f"is {size}, expected divisors of {whole}")
        windows = [part // one for part, one in zip(whole, size)]
        return result(_resampled(reader, node, image, resample_mode.AVGPOOL_EXCLUDE_PADDING, windows, windows, 0))

    return call


def _interpolated(reader: Any, node: Any, x: Any, size: Any, align_corners: bool, *scales: Any) -> Tensor:
    """Linear interpolation: a product with a matrix for each dimension, whose rows PyTorch computes."""
    torch, y = reader.torch, reader.plain(x)
    rank = len(y.dim or ())
    old, new = list(y.dim or ())[2:], list(node.meta["val"].shape)[2:]
    factors = scales[0] if scales and scales[0] is not None else [None] * len(new)
    for place, (before, after, factor) in enumerate(zip(old, new, factors)):
        rows = torch.eye(before)[None]
        rows = torch.ops.aten.upsample_linear1d(rows, [after], align_corners, factor)[0]
        is_last = place == len(new) - 1
        if rank == 3 or is_last:
            matrix = reader.constant(
                rows.reshape([1] * (rank - 2) + [before, after]).contiguous().numpy(), f"{node.name} columns"
            )
            y = reader.graph.matmul(y, matrix, name=node.name)
        else:
            matrix = reader.constant(
                rows.t().reshape([1] * (rank - 2) + [after, before]).contiguous().numpy(), f"{node.name} rows"
            )
            y = reader.graph.matmul(matrix, y, name=f"{node.name} rows")
    return y


#: How they are translated.
WINDOWS: dict[str, Callable[..., Made]] = {
    **{f"conv{rank}d.{of}": _conv(rank) for rank in (1, 2, 3) for of in ("default", "padding")},
    **{
        f"conv_transpose{rank}d.{of}": _transposed_conv(rank)
        for rank, of in ((1, "default"), (2, "input"), (3, "input"))
    },
    **{f"max_pool{rank}d.default": _pool(rank, resample_mode.MAXPOOL) for rank in (1, 2, 3)},
    **{f"avg_pool{rank}d.default": _pool(rank, None) for rank in (1, 2, 3)},
    **{f"upsample_{of}.vec": _interpolated for of in ("linear1d", "bilinear2d")},
    **{f"adaptive_avg_pool{rank}d.default": _adaptive(rank) for rank in (1, 2, 3)},
}
