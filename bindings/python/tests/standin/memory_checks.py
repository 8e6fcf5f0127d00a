"""Checks of memory: workspaces, what is kept for how long, captures, leaks: `memory_checks.py NAME`."""

from __future__ import annotations

import gc
import os
import sys

import hipdnn
from hipdnn import _native
from kit import WORKSPACE, Array, Fast, Library, buffers, calls, driver, executions, graph, told


def check_workspaces() -> None:
    made, *tensors = graph()
    of = {tensor: Array(by="interface", stream=1) for tensor in tensors}
    made.execute(of)
    before = driver.standin_allocated()
    for _ in range(5):
        made.execute(of)
    same = {execution["workspace"] for execution in executions(calls())}
    assert len(same) == 1 and same != {"0"} and driver.standin_allocated() == before
    # Each stream has its own, up to a limit.
    seen = set()
    for _ in range(48):
        stream = driver.standin_stream(0)
        for array in of.values():
            array.stream = stream
        made.execute(of)
        seen.add(executions(calls())[-1]["workspace"])
    assert len(seen) > 8 and driver.standin_allocated() - before <= 40 * WORKSPACE
    # A captured graph keeps its workspace and its plan.
    stream = driver.standin_stream(0)
    for array in of.values():
        array.stream = stream
    driver.standin_capture(stream, 1)
    made.execute(of)
    made.execute(of)
    assert driver.standin_capture(stream, 0) == 0, "the capture was ended"
    captured = [execution["workspace"] for execution in executions(calls())]
    for _ in range(3):
        made.execute(of)
    assert len(set(captured)) == 2 and not {e["workspace"] for e in executions(calls())} & set(captured)
    del made
    hipdnn.plans.plans.made.clear()
    gc.collect()
    assert driver.standin_allocated() >= before
    assert not any(line.startswith("DestroyExecutionContext") for line in calls())
    # A plan that was never captured is freed with everything it had.
    other, *tensors = graph()
    other.tensors[0].set_name("other")
    of = {tensor: Array() for tensor in tensors}
    other.execute(of)
    held = driver.standin_allocated()
    del other
    hipdnn.plans.plans.made.clear()
    gc.collect()
    for tensor in tensors:
        tensor.graph = None
    gc.collect()
    assert driver.standin_allocated() == held - WORKSPACE


def check_lent_workspaces() -> None:
    made, *tensors = graph()
    of = {tensor: Fast() for tensor in tensors}
    Library.stream = driver.standin_stream(0)
    made.execute(of)
    calls()
    before = driver.standin_allocated()
    for count in range(2, 5):
        made.execute(of)
        (execution,) = executions(calls())
        assert execution["stream"] == str(Library.stream) and execution["workspace"] != "0"
        assert execution["buffers"] == buffers(of)
        assert not Library.lent and Library.given_back == count
    assert driver.standin_allocated() == before, "the plan has memory beside the library's"
    Library.fails = True
    with told("workspace of 4096 bytes on cuda:0: out of the library's memory"):
        made.execute(of)
    Library.fails = False
    # With an array of another stream, the order is kept, and the workspace is still the library's.
    other = driver.standin_stream(0)
    of[tensors[1]] = Array(by="interface", stream=other)
    made.execute(of)
    found = calls()
    assert sum(line.startswith("cuStreamWaitEvent") for line in found) == 2
    assert executions(found)[0]["stream"] == str(Library.stream) and Library.given_back == 5


def check_memory_that_is_used() -> None:
    """Arrays whose owners know no stream are kept until the work is done, and freed without the interpreter's lock."""
    made, *tensors = graph()
    made.execute({tensor: Array() for tensor in tensors})

    class Unknown(Array):
        """An array of an unknown library."""

    for by in ("dlpack", "interface"):
        gc.collect()
        _native.synchronize((2, 0))
        held = driver.standin_allocated()
        driver.standin_busy(1)
        made.execute({tensor: Unknown(by=by) for tensor in tensors})
        gc.collect()
        assert driver.standin_allocated() == held + 3 * 128, "memory was freed while it is used"
        made.execute({tensor: hipdnn.DeviceArray([4, 8], [8, 1], "float", (2, 0)) for tensor in tensors})
        driver.standin_busy(0)
        calls()
        _native.synchronize((2, 0))
        assert driver.standin_allocated() == held
        assert calls().count("cuMemFree_v2 lock=0") == 3


def check_locks() -> None:
    made, *tensors = graph()
    made.execute({tensor: Array() for tensor in tensors})
    del made
    hipdnn.plans.plans.made.clear()
    for tensor in tensors:
        tensor.graph = None
    _native.synchronize((2, 0))
    gc.collect()
    freed = [line for line in calls() if line.startswith("cuMemFree")]
    assert freed and set(freed) == {"cuMemFree_v2 lock=0"}, freed


def check_captures() -> None:
    """What would end a capture is refused, and a new stream needs no new handle."""
    made, *tensors = graph()
    of = {tensor: Array(by="interface", stream=1) for tensor in tensors}
    made.execute(of)
    handles = {execution["handle"] for execution in executions(calls())}
    stream = driver.standin_stream(0)
    for array in of.values():
        array.stream = stream
    array = hipdnn.DeviceArray([4, 8], [8, 1], "float", (2, 0))
    driver.standin_capture(stream, 1)
    made.execute(of)
    (execution,) = executions(calls())
    assert execution["handle"] in handles and execution["stream"] == str(stream)
    try:
        array.__dlpack__(stream=stream)
    except BufferError as error:
        assert "captured" in str(error), error
    else:
        raise AssertionError("the array waited for a stream that is captured")
    array.__dlpack__(stream=-1)
    assert driver.standin_capture(stream, 0) == 0, "the capture was ended"
    array.__dlpack__(stream=stream)


def check_leaks() -> None:
    import resource

    made, *tensors = graph()
    sets = [
        {tensor: Array(by=by, stream=stream) for tensor in tensors}
        for by, stream in (("dlpack", None), ("interface", 1))
    ]
    sets.append({tensor: Fast() for tensor in tensors})
    Library.stream = 0

    def work(count: int) -> None:
        for at in range(count):
            made.execute(sets[at % 3])

    os.environ.pop("HIPDNN_STUB_LOG")
    work(2000)
    for of in sets[0].values():
        of.told.clear()
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, driver.standin_allocated()
    for _ in range(20):
        work(1000)
        for of in sets[0].values():
            of.told.clear()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before[0] < 2048
    assert driver.standin_allocated() == before[1] and not Library.lent


if __name__ == "__main__":
    globals()[f"check_{sys.argv[1]}"]()
    print("right")
