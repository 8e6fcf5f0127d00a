"""Arrays on GPUs, with a stand-in for the CUDA driver and an engine that computes nothing: addresses, streams, memory, errors."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import hipdnn
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
STUB = ["stub_plugin.c", "stub_details.c", "stub_identity.c", "stub_log.c", "stub_saving.c"]
CHECKS = {
    name: file
    for file in sorted((HERE / "standin").glob("*checks.py"))
    for name in re.findall(r"^def check_(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the driver and the plugins."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("standin")
    build = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1"]
    beside = ROOT / "c_tests" / "beside"
    of_driver = ["-Wl,-soname,libcuda.so.1", "-I", beside, "-o", folder / "libcuda.so.1",
                 HERE / "standin" / "driver.c", "-ldl", "-lpthread"]  # fmt: skip
    sources = [ROOT / "c_tests" / "plugins" / name for name in STUB]
    engines = folder / "engines"
    engines.mkdir()
    of_engine = ["-fvisibility=hidden", "-DWORKSPACE=4096", "-DENGINES=\"STUB_ENGINE\"", "-D_POSIX_C_SOURCE=200809L",
                 "-I", ROOT / "include" / "hipdnn" / "plugin", "-o", engines / "libstub_plugin.so", *sources]  # fmt: skip
    # HIP's is one of the library's own tests.
    (folder / "rocm").mkdir()
    of_hip = ["-D_POSIX_C_SOURCE=200809L", "-fexceptions", "-o", folder / "rocm" / "libamdhip64.so.7",
              beside / "standin_hip.c", "-lstdc++"]  # fmt: skip
    for arguments in (of_driver, of_engine, of_hip):
        subprocess.run([*build, *map(str, arguments)], check=True)
    of_cpu = Path(hipdnn.library().path).parent / "hipdnn_plugins" / "engines" / "libhipdnn_cpu_plugin.so"
    (engines / of_cpu.name).symlink_to(of_cpu)
    return folder


@pytest.mark.parametrize("check", CHECKS)
def test_standin(check, folder, tmp_path):
    log = tmp_path / "log"
    log.touch()
    path = os.pathsep.join(filter(None, [str(folder), str(folder / check), os.environ.get("LD_LIBRARY_PATH")]))
    environment = {
        **os.environ, "LD_LIBRARY_PATH": path, "HIPDNN_PLUGIN_DIR": str(folder / "engines"), "HIPDNN_STUB_LOG": str(log),
        "STANDIN_CUDA_DEVICES": "2",
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", CHECKS[check], check], env=environment,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "right\n"), ended.stdout + ended.stderr


LATE = """
import ctypes, sys
import hipdnn, numpy

graph = hipdnn.Graph(io_data_type="float")
x = graph.tensor([4, 4])
y = graph.relu(x).set_output(True)
graph.build(device="cpu")
driver = ctypes.CDLL(sys.argv[1])
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64)) == 0
try:
    graph.execute({x: memory.value, y: numpy.zeros((4, 4), numpy.float32)})
except hipdnn.EngineError as error:
    print("right" if "is device memory" in str(error) else error)
"""


def test_memory_of_a_driver_that_is_loaded_after_planning_is_refused(folder):
    environment = {**os.environ, "HIPDNN_PLUGIN_DIR": str(folder / "engines" / "libhipdnn_cpu_plugin.so")}
    ended = subprocess.run(
        [sys.executable, "-c", LATE, str(folder / "libcuda.so.1")], env=environment,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "right\n"), ended.stdout + ended.stderr
