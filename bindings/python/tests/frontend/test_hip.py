"""Parts of HIP's interface: with a stand-in for HIP, and the error where there is no HIP."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import hipdnn_frontend as hipdnn
import pytest
from hipdnn_frontend import hip

EVENTS = """
import time, hipdnn_frontend as hipdnn
assert hipdnn.hip_get_device_count() == 1 and hipdnn.hip_can_use_stream_wait_value()
start, stop = hipdnn.HipEvent(), hipdnn.HipEvent()
try:
    start.elapsed_time(stop)
except RuntimeError as error:
    assert str(error) == "hipEventElapsedTime failed: invalid argument (1)", error
start.record(0)
time.sleep(0.01)
stop.record()
stop.synchronize()
assert 9 < start.elapsed_time(stop) < 1000 and int(start) == start.ptr() != 0
try:
    stop.elapsed_time(start)
except RuntimeError as error:
    assert "expected a time of at least 0" in str(error), error
else:
    raise AssertionError("a negative time")
start.destroy()
for call in (start.record, start.ptr, lambda: stop.elapsed_time(start)):
    try:
        call()
    except RuntimeError as error:
        assert "has been destroyed" in str(error)
    else:
        raise AssertionError("a destroyed event")
hipdnn.hip_stream_synchronize(0)
hipdnn.hip_device_synchronize()
"""

GATES = """
import threading, time, hipdnn_frontend as hipdnn
with hipdnn.HipStallGate() as gate:
    gate.arm(0)
    began = time.monotonic()
    threading.Timer(0.05, gate.release).start()
    hipdnn.hip_stream_synchronize(0)
    assert time.monotonic() - began > 0.04 and not gate.timed_out()
    gate.arm(0)
    # Only the watchdog is left to release it.
    hipdnn.hip_stream_synchronize(0)
    assert 1.5 < time.monotonic() - began < 30 and gate.timed_out()
    try:
        gate.arm(0)
    except RuntimeError as error:
        assert "watchdog" in str(error)
    else:
        raise AssertionError("a gate was armed after the watchdog released one")
    assert not gate.timed_out()
gate.close()
for call in (gate.arm, gate.release, gate.timed_out, gate.__enter__):
    try:
        call()
    except RuntimeError as error:
        assert "closed" in str(error) and "destroyed" in str(error)
    else:
        raise AssertionError("a closed gate")
"""

CANNOT = """
import hipdnn_frontend as hipdnn
try:
    hipdnn.HipStallGate()
except RuntimeError as error:
    assert "hipStreamWaitValue32 is not supported" in str(error), error
"""

NO_DEVICE = """
import hipdnn_frontend as hipdnn
assert hipdnn.hip_get_device_count() == 0
"""


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("hip")
    source = Path(__file__).parent / "standin_hip.c"
    words = [
        compiler,
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-o",
        folder / "libamdhip64.so.7",
        source,
    ]
    subprocess.run([*map(str, words)], check=True)
    return str(folder)


@pytest.mark.parametrize(
    "program, also",
    [(EVENTS, {}), (GATES, {}), (CANNOT, {"STANDIN_CANNOT_WAIT": "1"}), (NO_DEVICE, {"STANDIN_NO_DEVICE": "1"})],
    ids=["events", "gates", "cannot wait", "no device"],
)
def test_with_a_standin(standin: str, program: str, also: dict[str, str]) -> None:
    settings = {**os.environ, "LD_LIBRARY_PATH": standin, **also}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=settings)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(hip._hip() is not None, reason="HIP is here")
def test_without_hip_the_error_names_it() -> None:
    assert hipdnn.hip_get_device_count() == 0
    for call in (hipdnn.HipEvent, hipdnn.HipStallGate, hipdnn.hip_device_synchronize, hipdnn.hip_stream_synchronize,
                 hipdnn.hip_can_use_stream_wait_value):  # fmt: skip
        with pytest.raises(RuntimeError, match="HIP is not here, expected one of libamdhip64.so.7"):
            call()
