"""Memory of executions: addresses, and what has one."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Mapping
from typing import Any

from hipdnn.address import TYPES, Address
from hipdnn.device import HOST, ROCM, Device, to_device

from .buffer import DeviceBuffer
from .lower import here
from .tensor import Tensor
from .types import DataType

__all__ = ["address_of", "pack_of", "tensor_from"]

#: DLPack's types, by code and bits.
_TYPES = {of: DataType[name.upper()] for name, of in TYPES.items()}
_TYPES.update({(15, 6): DataType.FP6_E2M3, (16, 6): DataType.FP6_E3M2, (17, 4): DataType.FP4_E2M1})


class _DLTensor(ctypes.Structure):
    """DLPack's DLTensor, which a DLManagedTensor begins with."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Versioned(ctypes.Structure):
    """DLPack's DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", _DLTensor),
    ]  # fmt: skip


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


#: How arrays are asked: read-only ones are exported in the newer form alone, and older libraries know no arguments.
_ASKED: list[dict[str, Any]] = [{"max_version": (1, 0)}, {}]
#: For their memory: a copy would end with the capsule.
_ASKED_FOR_MEMORY: list[dict[str, Any]] = [{"max_version": (1, 0), "copy": False}, {"copy": False}, *_ASKED]


def _exported(array: Any, what: str, asked: list[dict[str, Any]]) -> tuple[Any, _DLTensor]:
    """An array's DLPack capsule, which keeps the array, and the tensor in it. Errors of the array's library are not changed."""
    capsule = None
    for named in asked:
        try:
            capsule = array.__dlpack__(**named)
            break
        except TypeError:
            if not named:
                raise
    for name in (b"dltensor_versioned", b"dltensor"):
        if _is_valid(capsule, name):
            at = _pointer_in(capsule, name)
            form: Any = _Versioned if name.endswith(b"versioned") else _DLTensor
            found = form.from_address(at)
            return capsule, found.tensor if form is _Versioned else found
    raise ValueError(f"{what}: __dlpack__ did not return a valid DLPack capsule, expected one")


def _place_of(tensor: _DLTensor, what: str) -> Device:
    place = to_device((tensor.device_type, tensor.device_id))
    if place[0] == ROCM and here() == HOST:
        # Without a GPU, memory of the device is the host's, as a `DeviceBuffer` is.
        return HOST
    if place != HOST and place[0] != here()[0]:
        expected = "memory of the host" + (f" or of a device of type {here()[0]}" if here() != HOST else "")
        raise ValueError(f"{what}: unsupported DLPack device_type={tensor.device_type}, expected {expected}")
    return place


def address_of(value: Any, what: str = "data pointer") -> tuple[int, Device | None]:
    """The address in an integer, a `DeviceBuffer`, an array with ``data_ptr()`` or one with DLPack; and its device, if known."""
    if isinstance(value, bool):
        raise TypeError(f"{what}: is {value!r}, expected an address: a bool is none")
    if isinstance(value, int):
        return value, None
    if isinstance(value, DeviceBuffer):
        return value.ptr(), value._device
    if callable(getattr(value, "data_ptr", None)):
        device = getattr(value, "device", None)
        try:
            return int(value.data_ptr()), None if device is None else to_device(device)
        except ValueError:
            return int(value.data_ptr()), None
    if hasattr(value, "__dlpack__"):
        _, tensor = _exported(value, what, _ASKED_FOR_MEMORY)
        return (tensor.data or 0) + tensor.byte_offset, _place_of(tensor, what)
    try:
        # Last: an array of one integer is a number, too, which is not where it is.
        return operator.index(value), None
    except TypeError:
        words = "expected an integer, a DeviceBuffer, or an array with data_ptr() or __dlpack__"
        raise TypeError(f"{what}: is of type {type(value).__name__}, {words}") from None


def _uid_of(key: Any) -> int:
    if isinstance(key, Tensor):
        if not key.has_uid():
            raise ValueError(f"variant_pack: its key, the tensor {key.get_name()!r}, has no uid")
        return key.get_uid()
    try:
        if isinstance(key, bool):
            raise TypeError
        return operator.index(key)
    except TypeError:
        raise TypeError(f"variant_pack: has the key {key!r}, expected a tensor or its uid") from None


def pack_of(variant_pack: Mapping[Any, Any], device: Device) -> dict[int, tuple[int, Device, Any]]:
    """Address, device and owner by uid. Addresses alone are of the device."""
    found = {}
    for key, value in dict(variant_pack).items():
        uid = _uid_of(key)
        address, place = address_of(value, f"variant_pack[{uid}]")
        found[uid] = address, device if place is None else place, value
    return found


def array_at(spec: Mapping[str, Any], address: int, device: Device, owner: Any) -> Address:
    """The memory of a tensor as an array."""
    kind, dims, strides = spec["data_type"], spec["dims"], spec["strides"]
    if kind not in TYPES:
        # Types of less than a byte are packed.
        bits = 6 if kind.startswith("fp6") else 4
        kind, dims, strides = "uint8", [-(-math.prod(dims) * bits // 8)], [1]
    return Address(address, dims, strides, kind, HOST if spec["is_pass_by_value"] else device, owner)


def tensor_from(array: Any, name: str) -> Tensor:
    """A tensor of an array's shape, strides and type; of the host: a number that each execution reads."""
    if not hasattr(array, "__dlpack__"):
        raise TypeError(
            f"tensor_like(): is of type {type(array).__name__}, expected a Tensor or an array with __dlpack__"
        )
    _capsule, of = _exported(array, "tensor_like()", _ASKED)
    _place_of(of, "tensor_like()")
    is_of_host = to_device((of.device_type, of.device_id)) == HOST
    kind = _TYPES.get((of.code, of.bits))
    if kind is None or of.lanes != 1:
        raise ValueError(f"tensor_like(): unsupported DLPack dtype (code={of.code}, bits={of.bits}, lanes={of.lanes})")
    dim = [of.shape[at] for at in range(of.ndim)]
    stride = [of.strides[at] for at in range(of.ndim)] if of.strides else []
    if not stride:
        step = 1
        for size in reversed(dim):
            stride.insert(0, step)
            step *= size
    made = Tensor().set_name(name).set_dim(dim).set_stride(stride).set_data_type(kind)
    return made.set_is_pass_by_value(is_of_host)
