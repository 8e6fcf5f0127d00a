"""Shared by the checks with a stand-in: arrays of several kinds, and the logged calls of the driver and the stub."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from typing import Any

import hipdnn

driver = ctypes.CDLL("libcuda.so.1")
driver.standin_stream.restype = ctypes.c_void_p
driver.standin_capture.argtypes = [ctypes.c_void_p, ctypes.c_int]
driver.standin_allocated.restype = ctypes.c_size_t
driver.standin_write.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
LOG = os.environ["HIPDNN_STUB_LOG"]
#: The stub's workspace size.
WORKSPACE = 4096


class Array:
    """An array on a device, by one of the protocols."""

    def __init__(
        self, device: int = 0, shape: tuple[int, ...] = (4, 8), by: str = "dlpack", stream: Any = None, kind: int = 2
    ) -> None:
        self.of = hipdnn.DeviceArray(list(shape), [shape[1], 1], "float", (kind, device))
        # Cached: it waits for the device, which ends captures.
        self.interface = self.of.__cuda_array_interface__ if kind == 2 else None
        self.address = self.interface["data"][0] if self.interface else None
        self.by, self.stream, self.told = by, stream, []

    def __getattribute__(self, name: str) -> Any:
        by = object.__getattribute__(self, "by") if name.startswith("__") else None
        if by is not None and (
            name.startswith("__dlpack") if by == "interface" else name == "__cuda_array_interface__"
        ):
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        if self.by == "older" and options:
            raise TypeError("no such argument")
        self.told.append(stream)
        return self.of.__dlpack__(stream=-1, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.of.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**(self.interface or {}), "stream": self.stream}


#: The last stream set for each of the stub's handles.
STREAMS: dict[str, str] = {}


def calls() -> list[str]:
    """The calls since the last time."""
    with open(LOG) as file:
        found = file.read().splitlines()
    open(LOG, "w").close()
    told = [of for line in found if (of := re.match(r"SetStream (handle=\d+) stream=(\d+)", line))]
    STREAMS.update({of[1]: of[2] for of in told})
    return found


def executions(found: list[str]) -> list[dict[str, str]]:
    """Executions, with their handle's stream."""
    result = []
    for line in found:
        if of := re.match(r"ExecuteOpGraph (handle=\d+) .*workspace=(\d+) .*buffers=\[(.*)\]", line):
            result.append({"stream": STREAMS.get(of[1], "0"), "workspace": of[2], "buffers": of[3], "handle": of[1]})
    return result


def graph() -> tuple[Any, Any, Any, Any]:
    made = hipdnn.Graph()
    x, y = made.tensor([4, 8], name="x"), made.tensor([4, 8], name="y")
    return made, x, y, made.add(x, y).set_name("z").set_output(True)


def buffers(of: dict[Any, Array]) -> str:
    return ",".join(f"{tensor.uid}:{array.address}" for tensor, array in of.items())


@contextlib.contextmanager
def told(words: str) -> Any:
    try:
        yield
    except hipdnn.Error as error:
        assert re.search(words, str(error), re.DOTALL), error
    else:
        raise AssertionError(f"no error of {words!r}")


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
    ]  # fmt: skip


class Managed(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor),
    ]  # fmt: skip


SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
ALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, SET_ERROR
)
DELETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
DESCRIBE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
CURRENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p), ("allocate", ALLOCATE),
        ("from_object", ctypes.c_void_p), ("to_object", ctypes.c_void_p), ("describe", DESCRIBE), ("current", CURRENT),
    ]  # fmt: skip


class Library:
    """An array library with exchange functions, like PyTorch: a current stream, and an allocator."""

    stream = 0
    lent: dict[int, Any] = {}
    given_back = 0
    fails = False


@ALLOCATE
def allocate(prototype: Any, out: Any, context: Any, set_error: Any) -> int:
    of = prototype.contents
    size = ctypes.cast(of.shape, ctypes.POINTER(ctypes.c_int64))[0]
    assert (of.kind, of.ndim, of.code, of.bits, size) == (2, 1, 1, 8, WORKSPACE)
    if Library.fails:
        set_error(context, b"MemoryError", b"out of the library's memory")
        return -1
    memory = ctypes.create_string_buffer(size)
    managed = Managed(1, 0, None, ctypes.cast(delete, ctypes.c_void_p), 0, Tensor(data=ctypes.addressof(memory)))
    Library.lent[ctypes.addressof(managed)] = managed, memory
    out[0] = ctypes.addressof(managed)
    return 0


@DELETE
def delete(managed: int) -> None:
    del Library.lent[managed]
    Library.given_back += 1


@DESCRIBE
def describe(array: Any, out: Any) -> int:
    shape, strides = array.layout
    out[0] = Tensor(array.address, 2, 0, 2, 2, 32, 1, ctypes.addressof(shape), ctypes.addressof(strides), 0)
    return 0


@CURRENT
def current(kind: int, id: int, out: Any) -> int:
    out[0] = Library.stream
    return 0


EXCHANGE = Exchange(1, 3, None, allocate, None, None, describe, current)
ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]


#: A capsule does not copy its name.
NAME = ctypes.create_string_buffer(b"dlpack_exchange_api")


class Fast:
    __dlpack_c_exchange_api__ = ctypes.pythonapi.PyCapsule_New(ctypes.addressof(EXCHANGE), ctypes.addressof(NAME), None)

    def __init__(self) -> None:
        self.of = Array()
        self.address = self.of.address
        self.layout = (ctypes.c_int64 * 2)(4, 8), (ctypes.c_int64 * 2)(8, 1)
