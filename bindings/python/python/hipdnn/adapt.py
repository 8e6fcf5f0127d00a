"""Arrays as programs written for cuDNN pass them: cuDNN looks only at their addresses."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from . import _native
from .address import Address
from .device import Device, to_device
from .device_array import empty_like
from .errors import Error
from .memory import memory_of, uid_of
from .tensor import Tensor
from .types import data_type

__all__ = ["adapted"]


def adapted(
    tensors: Mapping[Any, Any],
    known: Iterable[Tensor],
    type_of: Callable[[Tensor], str],
    device: Device,
    written: Iterable[Tensor],
    asked: Iterable[Tensor] | None = None,
) -> tuple[dict[Any, Any], list[Callable[[], None]]] | None:
    """Returns the mapping's arrays and functions to call after the execution; None if nothing has to change.

    Drops the key None, wraps addresses as arrays of their tensors, and unpacks bit masks to bytes. If ``asked`` is given, arrays
    of other shapes are taken as memory, and arrays of other tensors are dropped."""
    if not isinstance(tensors, Mapping):
        return None
    of_uid = {tensor.uid: tensor for tensor in known}
    outputs = {tensor.uid for tensor in written}
    wanted = None if asked is None else {tensor.uid for tensor in asked}
    found: dict[Any, Any] = {}
    after: list[Callable[[], None]] = []
    is_changed = False
    # Copied in one step: keys and arrays may run Python code that changes the mapping.
    entries = list(tensors.items())
    device = next((place for _, value in entries if (place := _device_of(value)) is not None), device)
    arrays = {uid_of(key): value for key, value in entries}
    for key, value in entries:
        uid = uid_of(key)
        if key is None or (wanted is not None and isinstance(uid, int) and uid not in wanted):
            is_changed = True
            continue
        tensor = of_uid.get(uid) if isinstance(uid, int) else None
        array = value
        if tensor is not None and isinstance(value, int) and not isinstance(value, bool):
            array = Address(value, tensor.dim or (), tensor.stride or (), type_of(tensor), device)
        elif tensor is not None and type_of(tensor) == data_type.BOOLEAN.value and _is_of_bits(tensor, value):
            array = _bytes_of(tensor, value)
            if tensor.uid in outputs:
                after.append(lambda array=array, bits=value: _pack(array, bits))  # type: ignore[misc]
            else:
                _unpack(array, value)
        elif tensor is not None and wanted is not None:
            first = None if tensor.ragged_offset is None else arrays.get(tensor.ragged_offset.uid)
            array = memory_of(tensor, type_of(tensor), value, first, tensor.uid in outputs)
        is_changed = is_changed or array is not value
        found[key] = array
    return (found, after) if is_changed else None


def _device_of(value: Any) -> Device | None:
    if value is None or isinstance(value, int):
        return None
    try:
        return to_device(_native.describe(value)[3])
    except (Error, TypeError, ValueError):
        return None


def _is_of_bits(tensor: Tensor, value: Any) -> bool:
    """Whether an array holds one bit for each element of a tensor, eight to a byte."""
    try:
        dim, _, kind, _, _ = _native.describe(value)
    except (Error, TypeError, ValueError):
        return False
    return kind == "uint8" and math.prod(dim) * 8 == math.prod(tensor.dim or ())


def _bytes_of(tensor: Tensor, bits: Any) -> Any:
    return empty_like(bits, tensor.dim or (), tensor.stride or (), data_type.BOOLEAN.value)


def _in_order(array: Any) -> Any:
    """The elements of an array without gaps, flattened in memory order."""
    if type(array).__module__.partition(".")[0] == "torch":
        return array.as_strided((array.numel(),), (1,))
    order = sorted(range(array.ndim), key=lambda at: (-array.strides[at], at))
    return array.transpose(order).reshape(-1)


def _steps(array: Any) -> Any:
    """The values 0 to 7, in the library and on the device of an array."""
    name = type(array).__module__.partition(".")[0]
    library = importlib.import_module(name)
    return library.arange(8, dtype=library.uint8, **({"device": array.device} if name == "torch" else {}))


def _pack(array: Any, bits: Any) -> None:
    steps = _steps(bits)
    lines = _in_order(array).reshape(-1, 8) * (steps * 0 + 1)
    _in_order(bits)[:] = (lines << steps).sum(-1)


def _unpack(array: Any, bits: Any) -> None:
    spread = (_in_order(bits).reshape(-1, 1) >> _steps(bits)) & 1
    _in_order(array)[:] = spread.reshape(-1) != 0
