"""Arrays on GPUs, and new arrays for results."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from . import _native
from .device import HOST, VULKAN, Device, DeviceLike, device_of, numpy_type, to_device, torch_type
from .library import library


class DeviceArray(_native.DeviceArray):
    """An array in GPU memory, for programs with neither PyTorch's nor CuPy's arrays; other libraries import it through DLPack."""

    def __new__(cls, dims: Sequence[int], strides: Sequence[int], data_type: str, device: Device) -> Any:
        if device[0] == VULKAN:
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
        made: DeviceArray = cls(list(dim), packed, kind, on)
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
