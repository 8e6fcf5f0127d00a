"""Memory of executions: addresses, and what has one."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

from hipdnn.address import TYPES, Address
from hipdnn.device import HOST, ROCM, Device, to_device

from .buffer import DeviceBuffer, is_of_buffer
from .lower import here
from .tensor import Tensor
from .types import DataType

__all__ = ["Memory", "array_at", "memory_of", "pack_of", "tensor_from"]

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


#: DLPack's flags of a capsule: its memory may not be written, or is a copy of the array's.
_READ_ONLY, _IS_COPIED = 1, 2


class _Exported(NamedTuple):
    """An array's DLPack capsule, which keeps the array, the tensor in it, its flags, and what the array's library was asked."""

    capsule: Any
    tensor: _DLTensor
    flags: int
    asked: dict[str, Any]

    def address(self) -> int:
        return int(self.tensor.data or 0) + int(self.tensor.byte_offset)

    def place(self, what: str) -> Device:
        kind = self.tensor.device_type
        return _place_of((kind, self.tensor.device_id), self.address(), what, f"DLPack device_type={kind}")


class Memory(NamedTuple):
    """An address, its device if known, what keeps the memory, and whether it may not be written."""

    address: int
    device: Device | None
    owner: Any
    is_read_only: bool = False


def _exported(array: Any, what: str, asked: list[dict[str, Any]]) -> _Exported:
    """What an array exports. Errors of the array's library are not changed."""
    capsule, named = None, {}
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
            if form is _Versioned:
                return _Exported(capsule, found.tensor, found.flags, named)
            return _Exported(capsule, found, 0, named)
    raise ValueError(f"{what}: __dlpack__ did not return a valid DLPack capsule, expected one")


def _place_of(device: Any, address: int, what: str, said: str) -> Device:
    """The device of memory that its array says is on ``device``."""
    place = to_device(device)
    if place[0] == ROCM and here() == HOST and is_of_buffer(address):
        # Without a GPU, a `DeviceBuffer` is of the host.
        return HOST
    if place != HOST and place[0] != here()[0]:
        expected = "memory of the host" + (f" or of a device of type {here()[0]}" if here() != HOST else "")
        raise ValueError(f"{what}: unsupported {said}, expected {expected}")
    return place


def _memory_of_array(array: Any, what: str) -> Memory:
    """The memory that an array exports, kept by its capsule."""
    of = _exported(array, what, _ASKED_FOR_MEMORY)
    is_copy = bool(of.flags & _IS_COPIED)
    if not is_copy and "copy" not in of.asked:
        # Libraries without `copy` may copy and not say so: then no two exports that live have one address.
        is_copy = _exported(array, what, [of.asked]).address() != of.address()
    if is_copy:
        raise ValueError(f"{what}: __dlpack__ exports a copy, expected the array's own memory")
    return Memory(of.address(), of.place(what), (array, of.capsule), bool(of.flags & _READ_ONLY))


def memory_of(value: Any, what: str = "data pointer") -> Memory:
    """The memory in an integer, a `DeviceBuffer`, an array with ``data_ptr()`` or one with DLPack."""
    if isinstance(value, bool):
        raise TypeError(f"{what}: is {value!r}, expected an address: a bool is none")
    if isinstance(value, int):
        return Memory(value, None, value)
    if isinstance(value, DeviceBuffer):
        return Memory(value.ptr(), value._device, value)
    if callable(getattr(value, "data_ptr", None)):
        device, address = getattr(value, "device", None), int(value.data_ptr())
        try:
            known = None if device is None else to_device(device)
        except ValueError:
            known = None
        return Memory(address, known and _place_of(known, address, what, f"device {device}"), value)
    if hasattr(value, "__dlpack__"):
        return _memory_of_array(value, what)
    try:
        # Last: an array of one integer is a number, too, which is not where it is.
        return Memory(operator.index(value), None, value)
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


def pack_of(variant_pack: Mapping[Any, Any]) -> dict[int, Memory]:
    """Memory by uid."""
    found = {}
    for key, value in dict(variant_pack).items():
        uid = _uid_of(key)
        found[uid] = memory_of(value, f"variant_pack[{uid}]")
    return found


def array_at(spec: Mapping[str, Any], memory: Memory, device: Device) -> Address:
    """The memory of a tensor as an array. Addresses alone are of the device."""
    if memory.is_read_only and spec["is_output"]:
        raise ValueError(
            f"variant_pack[{spec['uid']}]: is read-only, expected memory that the result can be written to"
        )
    kind, dims, strides = spec["data_type"], spec["dims"], spec["strides"]
    if kind not in TYPES:
        # Types of less than a byte are packed.
        bits = 6 if kind.startswith("fp6") else 4
        kind, dims, strides = "uint8", [-(-math.prod(dims) * bits // 8)], [1]
    place = device if memory.device is None else memory.device
    return Address(memory.address, dims, strides, kind, HOST if spec["is_pass_by_value"] else place, memory.owner)


def tensor_from(array: Any, name: str) -> Tensor:
    """A tensor of an array's shape, strides and type; of the host: a number that each execution reads."""
    if not hasattr(array, "__dlpack__"):
        raise TypeError(
            f"tensor_like(): is of type {type(array).__name__}, expected a Tensor or an array with __dlpack__"
        )
    exported = _exported(array, "tensor_like()", _ASKED)
    of = exported.tensor
    exported.place("tensor_like()")
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
