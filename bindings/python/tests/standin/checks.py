"""What `test_standin.py` runs in a separate process, whose CUDA driver is `driver.c` and whose engine is a stub: `checks.py NAME`."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import types
from typing import Any

import hipdnn
import numpy as np
from hipdnn import _native
from kit import CURRENT, EXCHANGE, Array, Fast, buffers, calls, driver, executions, graph, told


def check_arrays() -> None:
    for by, stream in (("dlpack", None), ("older", None), ("interface", None), ("interface", 1)):
        made, *tensors = graph()
        of = {tensor: Array(by=by, stream=stream) for tensor in tensors}
        calls()
        made.execute(of)
        (execution,) = executions(calls())
        assert execution["buffers"] == buffers(of) and execution["stream"] == "0"
        assert made.engine == "STUB_ENGINE"
        # DLPack's default stream is 1.
        assert {stream for array in of.values() for stream in array.told} == ({1} if by != "interface" else set())


def check_streams() -> None:
    made, *tensors = graph()
    first, second = driver.standin_stream(0), driver.standin_stream(0)
    x, y, z = Array(by="interface", stream=first), Array(by="dlpack"), Array(by="interface", stream=second)
    of = dict(zip(tensors, (x, y, z)))
    made.execute(of)
    calls()
    made.execute(of)
    found = calls()
    (execution,) = executions(found)
    assert execution["stream"] == str(first) and y.told[-1] == first
    order = [line for line in found if line.startswith(("cuEventRecord", "cuStreamWait", "ExecuteOpGraph"))]
    words = [line.split()[0] + " " + line.split()[-1] if line.startswith("cu") else "execute" for line in order]
    # The second stream's earlier work comes first, and its later work after. The workspace waits for its last
    # execution and records this one; so does the array whose owner knows no stream.
    assert words == [
        f"cuEventRecord stream={second}", f"cuStreamWaitEvent stream={first}", f"cuStreamWaitEvent stream={first}", "execute",
        f"cuEventRecord stream={first}", f"cuEventRecord stream={first}", f"cuStreamWaitEvent stream={second}",
        f"cuEventRecord stream={first}",
    ], words  # fmt: skip
    # A handle keeps its stream; another stream gets another handle, up to a limit.
    handles = {execution["handle"]}
    for _ in range(40):
        stream = driver.standin_stream(0)
        for array in (x, z):
            array.stream = stream
        made.execute(of)
        made.execute(of)
        a, b = executions(calls())
        assert a["stream"] == b["stream"] == str(stream) and a["handle"] == b["handle"]
        handles.add(a["handle"])
    assert 2 < len(handles) <= 10, handles


def check_handles() -> None:
    """Work goes to the handle's stream, ordered with the streams of the arrays."""
    made, *tensors = graph()
    first, second = driver.standin_stream(0), driver.standin_stream(0)
    of = {tensor: Array(by=by, stream=None) for tensor, by in zip(tensors, ("dlpack", "older", "interface"))}
    handle = hipdnn.create_handle()

    def ran_on(*args: Any, **named: Any) -> str:
        made.execute(of, *args, **named)
        (execution,) = executions(calls())
        assert execution["buffers"] == buffers(of)
        return execution["stream"]

    made.execute(of)
    calls()
    assert ran_on(handle=handle) == "0", "no stream was set"
    hipdnn.set_stream(handle, first)
    assert hipdnn.get_stream(handle) == first
    assert ran_on(handle=handle) == ran_on(None, handle) == str(first)
    # Arrays that take a stream get this one, the others are used as they are.
    assert [array.told[-1:] for array in of.values()] == [[first], [first], []]
    assert ran_on() == "0"
    # An array's own stream is ordered before and after.
    of[tensors[2]].stream = second
    made.execute(of, handle=handle)
    found = calls()
    order = [line for line in found if line.startswith(("cuEventRecord", "cuStreamWait", "ExecuteOpGraph"))]
    words = [line.split()[0] + " " + line.split()[-1] if line.startswith("cu") else "execute" for line in order]
    before, after = words[: words.index("execute")], words[words.index("execute") :]
    assert before[:2] == [f"cuEventRecord stream={second}", f"cuStreamWaitEvent stream={first}"], words
    assert f"cuStreamWaitEvent stream={second}" in after, words
    assert executions(found)[0]["stream"] == str(first)
    # 0 is the default stream, set explicitly; stream objects work as well.
    hipdnn.set_stream(handle=handle, stream=0)
    assert ran_on(handle=handle) == "0"
    for attribute in ("cuda_stream", "ptr"):
        hipdnn.set_stream(handle, types.SimpleNamespace(**{attribute: second}))
        assert hipdnn.get_stream(handle) == second and ran_on(handle=handle) == str(second)
    # The graph's stream, unless an execution has its own; also for plans by number.
    other = hipdnn.create_handle()
    hipdnn.set_stream(other, first)
    made = hipdnn.Graph(handle=other)
    x, y = made.tensor([4, 8], name="x"), made.tensor([4, 8], name="y")
    of = {x: Array(), y: Array(), made.add(x, y).set_output(True): Array()}
    assert ran_on() == str(first) and ran_on(handle=handle) == str(second)
    made.create_execution_plans([hipdnn.heur_mode.A])
    made.execute_plan_at_index(of, None, 0, handle)
    assert executions(calls())[-1]["stream"] == str(second)
    # Threads do not see each other's.
    seen = []
    waiting, going = threading.Event(), threading.Event()

    def slow(*_: Any) -> None:
        waiting.set()
        going.wait()

    thread = threading.Thread(target=lambda: handle._run(slow))
    thread.start()
    waiting.wait()
    seen.append(ran_on(handle=other))
    going.set()
    thread.join()
    assert seen == [str(first)]
    # A stream of another device would compute there.
    hipdnn.set_stream(handle, driver.standin_stream(1))
    with told("stream 0x[0-9a-f]+ is of cuda:1, but the arrays are in cuda:0"):
        made.execute(of, handle=handle)
    assert not executions(calls())
    assert ran_on() == str(first), "a failure leaves nothing behind"
    host = np.ones((4, 8), np.float32)
    assert (made(host, host) == 2).all(), "the host has no streams"
    hipdnn.destroy_handle(other)
    with told("destroyed"):
        made.execute(of)


def check_current_streams() -> None:
    """Finds the current streams of CuPy, and of a PyTorch without exchange functions."""
    made, *tensors = graph()
    streams = {0: driver.standin_stream(0), 1: driver.standin_stream(1)}
    current = lambda **of: types.SimpleNamespace(**of)  # noqa: E731

    class OfCupy(Array):
        __module__ = "cupy._core"

    class OfTorch(Array):
        __module__ = "torch"

    class Device:
        """The device that CuPy allocates on."""

        now = -1

        def __init__(self, number: int) -> None:
            self.number = number

        def __enter__(self) -> None:
            Device.now = self.number

        def __exit__(self, *_: Any) -> None:
            Device.now = -1

    class New(OfCupy):
        def transpose(self, axes: Any) -> New:
            assert list(axes) == [0, 1]
            return self

    newer = lambda device=-1: current(ptr=streams[device])  # noqa: E731
    older = lambda: current(ptr=streams[0])  # noqa: E731
    for get, device in ((newer, 0), (newer, 1), (older, 0)):
        empty = lambda shape, dtype: New(Device.now, tuple(shape))  # noqa: E731
        sys.modules["cupy"] = current(cuda=current(get_current_stream=get, Device=Device), empty=empty)  # type: ignore[assignment]
        # An array of another library uses the imported library's stream.
        for kind in (OfCupy, Array):
            of = {tensor: kind(device) for tensor in tensors}
            made.execute(of)
            assert executions(calls())[-1]["stream"] == str(streams[device])
            assert all(array.told[-1] == streams[device] for array in of.values())
        result = made(*(OfCupy(device) for _ in range(2)))
        assert isinstance(result, New) and result.__dlpack_device__() == (2, device)
        calls()
    torch = current(
        cuda=current(is_initialized=lambda: ready, current_stream=lambda id: current(cuda_stream=of_torch)),
        version=current(hip=None), device=(),
    )  # fmt: skip
    sys.modules["torch"] = torch  # type: ignore[assignment]
    ready, of_torch = True, driver.standin_stream(0)
    of = {tensor: OfTorch() for tensor in tensors}
    made.execute(of)
    assert executions(calls())[-1]["stream"] == str(of_torch)
    # With an array of CuPy's, whose stream is ordered with it.
    of[tensors[1]] = OfCupy()
    made.execute(of)
    found = calls()
    assert executions(found)[-1]["stream"] == str(of_torch) and of[tensors[1]].told[-1] == of_torch
    assert f"cuStreamWaitEvent stream={streams[0]}" in found
    # A PyTorch that is not initialized, or is for AMD, has no stream to offer.
    for ready, torch.version.hip in ((False, None), (True, "7.0")):  # noqa: B007
        made.execute({tensor: Array() for tensor in tensors})
        assert executions(calls())[-1]["stream"] == str(streams[0])
    del sys.modules["torch"], sys.modules["cupy"]


def check_devices() -> None:
    made, *tensors = graph()
    for device in (0, 1, 0):
        of = {tensor: Array(device) for tensor in tensors}
        made.execute(of)
        assert made.plan.device == (2, device)
        assert executions(calls())[-1]["buffers"] == buffers(of)
    host = np.ones((4, 8), np.float32)
    result = made(host, host)
    assert made.engine == "CPU_ENGINE" and (result == 2).all()
    x, y, z = tensors
    for other, words in ((Array(1), "cuda:1.*cuda:0"), (host, "host memory.*cuda:0")):
        with told('tensor "y".*' + words):
            made.execute({x: Array(), y: other, z: Array()})
    with told("finds no device|cuDeviceGet|is not a device|not known"):
        hipdnn.DeviceArray([4, 8], [8, 1], "float", (2, 7))
    with told("CPU_ENGINE, which does not compute on cuda:0"):
        made.build(engine="CPU_ENGINE", device="cuda")
    made.build(device="cuda:1")
    assert made.engine == "STUB_ENGINE" and "CPU_ENGINE" not in made.engines()
    made.build(engine="STUB_ENGINE", device=None)


def check_contexts() -> None:
    """Work on a default stream runs on the arrays' device, whatever the thread's context is."""
    made, *tensors = graph()
    of = {tensor: Array(1) for tensor in tensors}
    made.execute(of)
    for context in (-1, 0, 1):
        driver.standin_context(context)
        made.execute(of)
        now = ctypes.c_void_p()
        driver.cuCtxGetCurrent(ctypes.byref(now))
        assert bool(now) == (context >= 0), "the thread has another context than before"
        driver.standin_context(-1)
    results = []
    thread = threading.Thread(target=lambda: results.append(made.execute(of)))
    thread.start()
    thread.join()
    assert results == [None]


def check_threads() -> None:
    """Threads share a graph, each with arrays on its own device."""
    made, *tensors = graph()
    failures: list[Any] = []

    def work(number: int) -> None:
        try:
            if number % 3 == 2:
                host = np.full((4, 8), number, np.float32)
                for _ in range(100):
                    assert (made(host, host) == 2 * number).all()
                return
            of = {tensor: Array(number % 3, by=("dlpack", "interface")[number % 2]) for tensor in tensors}
            for _ in range(100):
                made.execute(of)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert len(executions(calls())) == 600


def check_a_library_that_fails() -> None:
    """An error that a library raises instead of returning its stream does not surface elsewhere."""
    made, *tensors = graph()
    EXCHANGE.current = CURRENT(ctypes.cast(driver.standin_no_stream, ctypes.c_void_p).value)
    made.execute({tensor: Fast() for tensor in tensors})
    assert executions(calls())[-1]["stream"] == "0"


def check_arrays_of_our_own() -> None:
    made, *_ = graph()
    result = made(Array(by="interface"), Array(by="interface"))
    assert isinstance(result, hipdnn.DeviceArray) and result.shape == (4, 8) and result.device == "cuda:0"
    address = result.__cuda_array_interface__["data"][0]
    numbers = np.arange(32, dtype=np.float32)
    driver.standin_write(address, numbers.ctypes.data, 128)
    np.testing.assert_array_equal(np.asarray(result), np.arange(32).reshape(4, 8))
    turned = hipdnn.DeviceArray([4, 8], [1, 4], "float", (2, 0))
    driver.standin_write(turned.__cuda_array_interface__["data"][0], numbers.ctypes.data, 128)
    np.testing.assert_array_equal(turned.numpy(), np.arange(32).reshape(8, 4).T)
    held = driver.standin_allocated()
    for version, name in (((1, 0), "dltensor_versioned"), (None, "dltensor")):
        capsule = result.__dlpack__(max_version=version)
        assert repr(name) in repr(capsule).replace('"', "'"), repr(capsule)
        # It stays in its capsule.
        del capsule
    kept = result.__dlpack__()
    del result
    gc.collect()
    assert driver.standin_allocated() == held
    del kept
    gc.collect()
    assert driver.standin_allocated() == held - 128
    for wrong in ({"copy": True}, {"dl_device": (1, 0)}):
        try:
            turned.__dlpack__(**wrong)
        except BufferError:
            continue
        raise AssertionError(wrong)


def check_hostile() -> None:
    made, x, y, z = graph()
    of = {x: Array(by="interface"), y: Array(by="interface"), z: Array(by="interface")}
    made.execute(of)
    right = of[y].of.__cuda_array_interface__

    class Liar:
        def __init__(self, **other: Any) -> None:
            self.__cuda_array_interface__ = {**right, **other}

    host = np.ones((4, 8), np.float32)
    for other, words in (
        ({"data": (host.ctypes.data, False)}, "does not know"), ({"data": (0, False)}, "does not know"),
        ({"data": ((1 << 64) - 8, False)}, "does not know"), ({"stream": 0}, "stream 0"), ({"shape": (4, 7)}, "shape"),
        ({"shape": (-4, 8)}, "shape"), ({"mask": host}, "mask"), ({"strides": (8, 4)}, "strides"),
        ({"typestr": "<f8", "strides": None}, "type double"), ({"strides": (30, 4)}, "expected a multiple"),
    ):  # fmt: skip
        with told(words):
            made.execute({**of, y: Liar(**other)})
    with told("read-only"):
        made.execute({**of, z: Liar(data=(of[z].address, True))})
    address = of[y].address
    gone = {**of, y: Liar(data=(address, False))}
    made.execute(gone)
    del of[y]
    gc.collect()
    # Arrays are kept until the work that uses them is done.
    _native.synchronize((2, 0))
    with told("does not know"):
        made.execute({**of, y: gone[y]})
    calls()


def check_rocm() -> None:
    """The same with a stand-in for HIP."""
    made, x, y, z = graph()
    of = {tensor: Array(kind=10) for tensor in (x, y, z)}
    assert of[x].__dlpack_device__() == (10, 0) and not hasattr(of[x].of, "__cuda_array_interface__")
    for _ in range(3):
        made.execute(of)
    found = executions(calls())
    assert (
        len(found) == 3 and len({execution["workspace"] for execution in found}) == 1 and found[0]["workspace"] != "0"
    )
    assert made.engine == "STUB_ENGINE" and made.plan.device == (10, 0)
    # ROCm's default stream in DLPack is 0.
    assert set(of[x].told) == {0}
    result = made(of[x], of[y])
    assert isinstance(result, hipdnn.DeviceArray) and result.device == "rocm:0" and np.asarray(result).shape == (4, 8)
    with told('tensor "y".*cuda:0.*tensor "x" in rocm:0'):
        made.execute({**of, y: Array()})
    with told("hipSetDevice|finds no device|invalid device|error of the stand-in"):
        Array(5, kind=10)
    made.execute({tensor: Array() for tensor in (x, y, z)})
    assert made.plan.device == (2, 0)


if __name__ == "__main__":
    globals()[f"check_{sys.argv[1]}"]()
    print("right")
