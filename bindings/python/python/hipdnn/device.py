"""Devices, and the types of elements by library."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
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
