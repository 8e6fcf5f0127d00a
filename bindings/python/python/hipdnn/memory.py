"""Arrays as plain memory, as in cuDNN: shapes, strides and types are those of the graph's tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _native
from .address import TYPES, Address, address_of
from .device import HOST, to_device
from .errors import ArrayError, Error
from .operands import plain
from .tensor import Tensor

__all__ = ["layouts", "memory_of", "uid_of"]

Shape = tuple[tuple[int, ...], tuple[int, ...]]
_UNREADABLE = (Error, TypeError, ValueError)


def uid_of(key: Any) -> Any:
    """The uid for a key of a mapping of arrays; the key itself if it is not a tensor."""
    return key.uid if isinstance(key, Tensor) else key


def _reach(dim: Sequence[int], stride: Sequence[int]) -> int:
    """The number of elements from the first to the last one of a shape, or -1 for negative strides."""
    if any(step < 0 for step in stride):
        return -1
    return sum((size - 1) * step for size, step in zip(dim, stride)) + 1 if all(dim) else 0


def layouts(tensors: Mapping[Any, Any], written: Iterable[Tensor]) -> dict[int, Shape]:
    """Shapes and strides of result arrays whose layout differs from their tensors', where the program gave no strides."""
    found: dict[int, Shape] = {}
    arrays = {uid_of(key): array for key, array in tensors.items() if key is not None}
    for tensor in written:
        if tensor.has_strides or tensor.uid not in arrays:
            continue
        try:
            dim, stride, *_ = _native.describe(plain(arrays[tensor.uid]))
        except _UNREADABLE:
            continue
        steps = [(mine, other) for size, mine, other in zip(dim, stride, tensor.stride or ()) if size > 1]
        if tuple(dim) == tensor.dim and any(mine != other for mine, other in steps):
            found[tensor.uid] = tuple(dim), tuple(stride)
    return found


def memory_of(tensor: Tensor, kind: str, array: Any, first: Any, is_written: bool) -> Any:
    """The memory of an array as the tensor, whose elements must have the same size; the array itself if it already fits.

    Raises ArrayError if the tensor reaches beyond the array. ``first`` is the array with its ragged offsets, if any.
    """
    array = plain(array)
    try:
        dim, stride, of, device, is_read_only = _native.describe(array)
    except _UNREADABLE:
        # The execution reports what is wrong with it.
        return array
    steps = [(size, step) for size, step in zip(dim, stride) if size > 1]
    wanted = [(size, step) for size, step in zip(tensor.dim or (), tensor.stride or ()) if size > 1]
    if of == kind and steps == wanted:
        return array
    if of not in TYPES or kind not in TYPES or TYPES[of][1] != TYPES[kind][1]:
        raise ArrayError(f"{tensor._label()}: the array is of type {of}, expected {kind} or one as large")
    if is_written and is_read_only:
        raise ArrayError(f"{tensor._label()}: the array is read-only, expected one that can be written")
    there, needed = _reach(dim, stride), _needed(tensor, first)
    if there < needed:
        words = f"the array {dim} with strides {stride} has {max(there, 0)} elements from its first on"
        raise ArrayError(f"{tensor._label()}: {words}, expected {needed} for {tensor!r} with strides {tensor.stride}")
    return Address(
        address_of(array, tensor._label()), tensor.dim or (), tensor.stride or (), kind, to_device(device), array
    )


def _needed(tensor: Tensor, first: Any) -> int:
    """The number of elements that an execution may touch; for ragged sequences, up to the end of the last one."""
    most = _reach(tensor.dim or (), tensor.stride or ())
    if first is None or tensor.ragged_offset is None:
        return most
    try:
        on_host = to_device(_native.describe(plain(first))[3]) == HOST
    except _UNREADABLE:
        return most
    # Only engines can read offsets in GPU memory.
    return int(plain(first).reshape(-1)[-1]) * tensor.ragged_offset_multiplier if on_host else 0
