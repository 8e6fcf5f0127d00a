"""Arrays and graphs on a Vulkan device: Mesa's software one, or a GPU. Without a device the tests are skipped with the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import hipdnn
import numpy as np
import pytest
from hipdnn import _native

VULKAN = 7


def _why_not() -> str:
    try:
        devices = hipdnn.library().vulkan_devices()
    except hipdnn.Error as error:
        return str(error)
    return "" if any(device[-1] for device in devices) else f"no device of {devices} can be used"


WHY_NOT = _why_not()
on_vulkan = pytest.mark.skipif(bool(WHY_NOT), reason=f"no Vulkan device: {WHY_NOT}")


def _program(text: str, **settings: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **settings}
    return subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=120)


@on_vulkan
def test_arrays_come_back_from_the_device(random: np.random.Generator) -> None:
    for x in (
        random.standard_normal((3, 4, 5), dtype=np.float32),
        random.standard_normal((2, 3, 4, 5)).astype(np.float16).transpose(0, 3, 1, 2),
        random.integers(-9, 9, (7, 0), dtype=np.int32),
        random.standard_normal((1 << 20) + 3),
    ):
        array = hipdnn.DeviceArray.from_numpy(x, "vulkan:0")
        assert array.shape == x.shape and array.device == "vulkan:0"
        assert np.array_equal(array.numpy(), x) and np.asarray(array).dtype == x.dtype
    assert "float on vulkan:0" in repr(hipdnn.DeviceArray.from_numpy(np.zeros(3, np.float32), "vulkan"))


@on_vulkan
def test_dlpack_tells_the_device_and_others_refuse_it() -> None:
    array = hipdnn.DeviceArray.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), "vulkan:0")
    assert array.__dlpack_device__() == (VULKAN, 0)
    dim, stride, kind, device, _ = _native.describe(array)
    assert (dim, stride, kind, device) == ([2, 3], [3, 1], "float", (VULKAN, 0))
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(array)
    with pytest.raises(BufferError, match="an array on vulkan:0 is lent without a copy"):
        array.__dlpack__(dl_device=(1, 0), copy=True)
    assert not hasattr(array, "__cuda_array_interface__")


@on_vulkan
def test_a_graph_computes_on_the_device(random: np.random.Generator) -> None:
    x, w = (random.standard_normal(shape, dtype=np.float32) for shape in ((1, 5, 7), (1, 7, 3)))
    with hipdnn.Graph() as graph:
        graph.relu(graph.matmul(graph.tensor_like(x), graph.tensor_like(w)))
    a, b = (hipdnn.DeviceArray.from_numpy(array, "vulkan:0") for array in (x, w))
    y = graph(a, b)
    assert isinstance(y, hipdnn.DeviceArray) and y.device == "vulkan:0" and graph.engine == "VULKAN_ENGINE"
    assert np.allclose(y.numpy(), np.maximum(x @ w, 0), atol=1e-5)
    # The same graph where NumPy's arrays are, and back.
    assert np.allclose(graph(x, w), np.maximum(x @ w, 0), atol=1e-5) and graph.engine != "VULKAN_ENGINE"


@on_vulkan
def test_graphs_follow_each_other_without_a_copy(random: np.random.Generator) -> None:
    x = random.standard_normal((4, 33), dtype=np.float32)
    with hipdnn.Graph() as first:
        first.exp(first.tensor_like(x))
    with hipdnn.Graph() as second:
        second.tanh(second.tensor_like(x))
    on_device = hipdnn.DeviceArray.from_numpy(x, "vulkan:0")
    for _ in range(3):
        on_device = second(first(on_device))
        x = np.tanh(np.exp(x))
    assert np.allclose(on_device.numpy(), x, atol=1e-5)


@on_vulkan
def test_a_graph_can_be_built_before_there_are_arrays() -> None:
    with hipdnn.Graph() as graph:
        graph.relu(graph.tensor(dim=[2, 8], stride=[8, 1], data_type="float"))
    graph.build(device="vulkan:0")
    assert graph.engine == "VULKAN_ENGINE"
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
    assert np.array_equal(graph(hipdnn.DeviceArray.from_numpy(x, "vulkan:0")).numpy(), np.maximum(x, 0))


@on_vulkan
def test_errors_say_what_is_expected() -> None:
    x = np.ones((2, 4), np.float32)
    array = hipdnn.DeviceArray.from_numpy(x, "vulkan:0")
    with hipdnn.Graph() as graph:
        graph.add(graph.tensor_like(x, "x"), graph.tensor_like(x, "y"))
    with pytest.raises(
        hipdnn.ArrayError, match='tensor "y": the array is in host memory, but that of .* in vulkan:0, expected all'
    ):
        graph(array, x)
    with pytest.raises(hipdnn.Error, match="opening Vulkan device 99: .*expected less than"):
        hipdnn.DeviceArray.from_numpy(x, "vulkan:99")
    with pytest.raises(ValueError, match="expected cpu, cuda, cuda:1, rocm or vulkan"):
        hipdnn.DeviceArray.from_numpy(x, "metal")
    with pytest.raises(hipdnn.ArrayError, match="expected a GPU such as 'vulkan:0'"):
        hipdnn.DeviceArray.from_numpy(x, "cpu")
    with pytest.raises(hipdnn.Error, match="bytes"):
        hipdnn.DeviceArray([1 << 45], [1], "float", (VULKAN, 0))


class _Foreign:
    """An array of another library that says that its memory is Vulkan's."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        from hipdnn.address import Address

        self._address = Address(array.ctypes.data, array.shape, [array.shape[1], 1], "float", (VULKAN, 0), array)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (VULKAN, 0)

    def __dlpack__(self, **_: Any) -> Any:
        return self._address.__dlpack__()


@on_vulkan
def test_memory_that_is_not_the_device_s_is_refused() -> None:
    x = np.ones((2, 4), np.float32)
    array = hipdnn.DeviceArray.from_numpy(x, "vulkan:0")
    with hipdnn.Graph() as graph:
        graph.add(graph.tensor_like(x, "x"), graph.tensor_like(x, "y"))
    with pytest.raises(
        hipdnn.ArrayError, match='tensor "y": expected a hipdnn.DeviceArray.*expected memory of device vulkan:0'
    ):
        graph(array, _Foreign(x))
    # An address of an array's memory is right.
    from hipdnn.address import Address

    same = Address(array.address, (2, 4), (4, 1), "float", (VULKAN, 0), array)
    assert np.array_equal(graph(array, same).numpy(), x + x)


def test_without_a_driver_the_reason_is_an_error() -> None:
    made = _program(
        """
import hipdnn, numpy as np
try:
    hipdnn.DeviceArray.from_numpy(np.ones(3, np.float32), "vulkan:0")
except hipdnn.Error as error:
    print("said:", error)
with hipdnn.Graph() as graph:
    graph.relu(graph.tensor_like(np.ones(8, np.float32)))
print(graph(np.full(8, -1, np.float32)).sum(), graph.engine)
""",
        VK_DRIVER_FILES="/nowhere/icd.json",
        VK_ICD_FILENAMES="/nowhere/icd.json",
    )
    assert made.returncode == 0, made.stderr
    assert "said: opening Vulkan device 0:" in made.stdout, made.stdout
    assert any(
        words in made.stdout
        for words in ("vkCreateInstance failed", "expected less than the 0", "no library for Vulkan")
    )
    assert "0.0 CPU_ENGINE" in made.stdout, made.stdout


@on_vulkan
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_no_device_and_says_so() -> None:
    made = _program(
        """
import os, hipdnn, numpy as np
array = hipdnn.DeviceArray.from_numpy(np.ones(3, np.float32), "vulkan:0")
child = os.fork()
if child == 0:
    try:
        hipdnn.DeviceArray.from_numpy(np.ones(3, np.float32), "vulkan:0")
    except hipdnn.Error as error:
        print("said:", error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(array.numpy().sum())
"""
    )
    assert made.returncode == 0, made.stderr
    assert "said: " in made.stdout and "a child has no Vulkan device" in made.stdout and "3.0" in made.stdout, (
        made.stdout
    )
