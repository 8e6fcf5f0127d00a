"""Memory for executions."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from hipdnn.device import HOST
from hipdnn.device_array import DeviceArray

from .lower import here

__all__ = ["DeviceBuffer", "get_dtype_size"]

#: What engines expect of the addresses of tensors.
_ALIGNMENT = 256
#: Sizes of those that are alive, by address.
_alive: dict[int, int] = {}


class DeviceBuffer:
    """Bytes in the memory of the GPU; of the host, if there is no GPU. Freed with the object.

    >>> buffer = DeviceBuffer(4)
    >>> buffer.copy_from_host(b"abcd")
    >>> buffer.copy_to_host()
    b'abcd'
    """

    def __init__(self, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ValueError(f"size: is {size!r}, expected a number of bytes")
        self._size, self._device = size, here()
        self._memory: Any
        if self._device == HOST:
            self._memory = ctypes.create_string_buffer(size + _ALIGNMENT)
            at = ctypes.addressof(self._memory)
            self._address = at + -at % _ALIGNMENT
        else:
            self._memory = DeviceArray([max(size, 1)], [1], "uint8", self._device)
            self._address = self._memory.address
        _alive[self._address] = max(size, 1)
        weakref.finalize(self, _alive.pop, self._address).atexit = False

    def __repr__(self) -> str:
        return f"<hipdnn_frontend.DeviceBuffer of {self._size} bytes at {self._address:#x}>"

    def ptr(self) -> int:
        """The address of the first byte."""
        return int(self._address)

    def size(self) -> int:
        """The number of bytes."""
        return self._size

    def copy_from_host(self, data: Any) -> None:
        """Fills it with as many bytes."""
        data = bytes(data)
        if len(data) != self._size:
            raise RuntimeError(f"copy_from_host(): data has {len(data)} bytes, expected {self._size}")
        if self._device == HOST:
            ctypes.memmove(self._address, data, self._size)
        elif self._size:
            self._memory.write(data)

    def copy_to_host(self) -> bytes:
        """Its bytes, after all work of the device is done."""
        if self._device == HOST:
            return ctypes.string_at(self._address, self._size)
        return bytes(self._memory.tobytes()[: self._size])


def is_of_buffer(address: int) -> bool:
    """Whether an address lies inside a `DeviceBuffer` that is alive."""
    return any(0 <= address - first < size for first, size in _alive.copy().items())


def get_dtype_size(dtype: Any) -> int:
    """The bytes of an element of a type of NumPy."""
    known = {
        "float32": 4,
        "float16": 2,
        "float64": 8,
        "int8": 1,
        "int32": 4,
        "int64": 8,
        "uint8": 1,
        "bool": 1,
        "bfloat16": 2,
    }
    name = getattr(dtype, "name", str(dtype))
    if name not in known:
        raise RuntimeError(f"dtype: is {name}, expected one of {', '.join(known)}")
    return known[name]
