"""Memory given by address, exported through DLPack."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from .device import Device
from .errors import ArrayError

__all__ = ["TYPES", "Address", "address_of"]

#: DLPack's type code and bits for each data type.
TYPES = {
    "float": (2, 32), "double": (2, 64), "half": (2, 16), "bfloat16": (4, 16), "boolean": (6, 8), "int8": (0, 8),
    "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8), "fp8_e4m3": (10, 8), "fp8_e4m3_fnuz": (11, 8), "fp8_e5m2": (12, 8),
    "fp8_e5m2_fnuz": (13, 8), "fp8_e8m0": (14, 8),
}  # fmt: skip


class _Managed(ctypes.Structure):
    """DLPack's DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class Address:
    """An array that begins at an address. The memory must outlive every use; ``owner`` is kept alive."""

    def __init__(
        self, address: int, dim: Sequence[int], stride: Sequence[int], kind: str, device: Device, owner: Any = None
    ) -> None:
        if kind not in TYPES:
            raise ArrayError(f"an address is given of elements of type {kind}, expected one of {', '.join(TYPES)}")
        code, bits = TYPES[kind]
        if not 0 < address < 1 << 64 or address % (bits // 8):
            raise ArrayError(
                f"an address is {address:#x}, expected a multiple of an element's {bits // 8} bytes that is not 0"
            )
        self._device, self._owner = device, owner
        # The capsule points into these.
        self._shape = (ctypes.c_int64 * len(dim))(*dim)
        self._strides = (ctypes.c_int64 * len(dim))(*stride)
        self._managed = _Managed(
            address,
            *device,
            len(dim),
            code,
            bits,
            1,
            ctypes.addressof(self._shape),
            ctypes.addressof(self._strides),
            0,
            None,
            None,
        )

    def __dlpack_device__(self) -> Device:
        return self._device

    def __dlpack__(self, **_: Any) -> Any:
        return _new_capsule(ctypes.addressof(self._managed), b"dltensor", None)


def address_of(array: Any, label: str) -> int:
    """The address of the first element of an array of NumPy, PyTorch or CuPy."""
    if hasattr(array, "data_ptr"):
        return int(array.data_ptr())
    for name in ("__array_interface__", "__cuda_array_interface__"):
        if hasattr(array, name):
            return int(getattr(array, name)["data"][0])
    raise ArrayError(
        f"{label}: is of type {type(array).__name__}, expected an array of NumPy, PyTorch or CuPy, whose address is known"
    )
