"""Devices, and new arrays on them."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Union

from . import _native

#: Kind and number of a device, as in DLPack.
Device = tuple[int, int]
#: Names of a device: "cpu", "cuda", "cuda:1", "rocm:0", "vulkan:0", a PyTorch device, or kind and number as in DLPack.
DeviceLike = Union[str, Device, Any]

HOST: Device = (1, 0)
CUDA, VULKAN, ROCM = 2, 7, 10

_KINDS = {"cpu": 1, "cuda": CUDA, "rocm": ROCM, "hip": ROCM, "vulkan": VULKAN}
#: Kinds of memory treated as another kind: pinned host memory, and managed memory.
_SAME = {3: 1, 11: 1, 13: CUDA}


def to_device(device: DeviceLike) -> Device:
    """Kind and number of a device."""
    if isinstance(device, tuple):
        kind, number = int(device[0]), int(device[1])
        kind = _SAME.get(kind, kind)
        return kind, 0 if kind == HOST[0] else number
    name, _, digits = str(device).partition(":")
    if name not in _KINDS or not (digits or "0").isdigit():
        raise ValueError(f"{device!r} is not a device, expected cpu, cuda, cuda:1, rocm or vulkan")
    known = _KINDS[name]
    torch = sys.modules.get("torch")
    if known == CUDA and torch is not None and isinstance(device, torch.device) and torch.version.hip:
        # PyTorch calls AMD's devices "cuda", too.
        known = ROCM
    return known, int(digits or 0) if known != HOST[0] else 0


#: GPU drivers: their libraries, the function that initializes them (if any), and the one that counts devices.
_DRIVERS = (
    (CUDA, ("libcuda.so.1", "nvcuda.dll"), "cuInit", "cuDeviceGetCount"),
    (ROCM, ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"), None, "hipGetDeviceCount"),
)


def driver_files(kind: int) -> tuple[str, ...]:
    """The names of the library of a kind of device, newest first."""
    return next(files for of, files, *_ in _DRIVERS if of == kind)


@functools.lru_cache(None)
def _first_gpu(pid: int) -> Device | None:
    for kind, files, begin, count in _DRIVERS:
        for file in files:
            try:
                driver = ctypes.CDLL(file)
            except OSError:
                continue
            devices = ctypes.c_int(0)
            has_begun = begin is None or getattr(driver, begin)(0) == 0
            if has_begun and getattr(driver, count)(ctypes.byref(devices)) == 0 and devices.value > 0:
                return kind, 0
    return None


def first_gpu() -> Device | None:
    """The first GPU that the process sees."""
    return _first_gpu(os.getpid())


def device_of(array: Any) -> Device:
    """The device that an array is on."""
    return to_device(_native.describe(array)[3])


def device_name(device: Device) -> str:
    """The name of a device for messages."""
    name = {1: "cpu", CUDA: "cuda", ROCM: "rocm", VULKAN: "vulkan"}.get(device[0], str(device[0]))
    return name if device[0] == 1 else f"{name}:{device[1]}"


class DeviceArray(_native.DeviceArray):
    """An array in GPU memory, for programs with neither PyTorch's nor CuPy's arrays; other libraries import it through DLPack."""

    def __new__(cls, dims: Sequence[int], strides: Sequence[int], data_type: str, device: Device) -> Any:
        if device[0] == VULKAN:
            # This module is imported first.
            from .library import library

            library().open_device(device)
        return super().__new__(cls, dims, strides, data_type, device)

    @classmethod
    def from_numpy(cls, array: Any, device: DeviceLike) -> DeviceArray:
        """A copy of a NumPy array on a device, laid out in the order of its strides."""
        import numpy

        on = to_device(device)
        if on[0] == HOST[0]:
            raise _native.ArrayError(f"device is {device!r}, expected a GPU such as 'vulkan:0'")
        array = numpy.asarray(array)
        dim, stride, kind, *_ = _native.describe(array)
        order = sorted(range(len(dim)), key=lambda at: (-abs(stride[at]), at))
        laid_out = numpy.ascontiguousarray(array.transpose(order))
        packed = [0] * len(dim)
        step = 1
        for at in reversed(order):
            packed[at], step = step, step * dim[at]
        made = cls(list(dim), packed, kind, on)
        made.write(laid_out.tobytes())
        return made

    def numpy(self) -> Any:
        """A copy in host memory, as a NumPy array."""
        import numpy

        flat = numpy.frombuffer(self.tobytes(), numpy_type(self.data_type))
        strides = [step * flat.dtype.itemsize for step in self.stride]
        return numpy.lib.stride_tricks.as_strided(flat, self.shape, strides).copy()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        made = self.numpy()
        return made if dtype is None else made.astype(dtype)


def torch_type(kind: str) -> Any:
    """PyTorch's type for one of the library's type names."""
    import torch

    name = {"float": "float32", "double": "float64", "half": "float16", "boolean": "bool"}.get(kind, kind)
    name = {"fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2", "fp8_e8m0": "float8_e8m0fnu"}.get(name, name)
    return getattr(torch, name)


def numpy_type(kind: str) -> Any:
    """NumPy's type for one of the library's type names, with ml_dtypes for small types."""
    import numpy

    names = {"float": "float32", "double": "float64", "half": "float16", "boolean": "bool"}
    small = {
        "bfloat16": "bfloat16",
        "fp8_e4m3": "float8_e4m3fn",
        "fp8_e5m2": "float8_e5m2",
        "fp8_e8m0": "float8_e8m0fnu",
    }
    if kind in small:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, small[kind]))
    return numpy.dtype(names.get(kind, kind))


def _numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ModuleNotFoundError as error:
        words = "NumPy, which makes new arrays for results, is not installed: pip install numpy, or give arrays to graph.execute"
        raise ModuleNotFoundError(words, name=error.name) from error


def empty_like(array: Any, dim: Sequence[int], stride: Sequence[int], kind: str) -> Any:
    """A new array of the same library and device as another; NumPy's or this package's if the library is unknown."""
    library = type(array).__module__.partition(".")[0]
    if library == "torch":
        import torch

        return torch.empty_strided(dim, stride, dtype=torch_type(kind), device=array.device)
    device = HOST if array is None else device_of(array)
    if device != HOST and library != "cupy":
        return DeviceArray(list(dim), list(stride), kind, device)
    xp: Any = importlib.import_module("cupy") if device != HOST else _numpy()
    # Laid out in the order of the strides, without gaps.
    order = sorted(range(len(dim)), key=lambda at: (-stride[at], at))
    # CuPy allocates on the current device.
    with contextlib.nullcontext() if device == HOST else xp.cuda.Device(device[1]):
        laid_out = xp.empty([dim[at] for at in order], numpy_type(kind))
    return laid_out.transpose([order.index(at) for at in range(len(dim))])


def empty_result(array: Any, dim: Sequence[int], stride: Sequence[int], kind: str) -> Any:
    """A new array for a result: like ``empty_like``, but PyTorch's for CuPy's if PyTorch is loaded, as cuDNN's wrapper does."""
    if type(array).__module__.partition(".")[0] != "cupy" or "torch" not in sys.modules:
        return empty_like(array, dim, stride, kind)
    import torch

    device = device_of(array)
    name = "cpu" if device == HOST else f"cuda:{device[1]}"
    return torch.empty_strided(tuple(dim), tuple(stride), dtype=torch_type(kind), device=name)
