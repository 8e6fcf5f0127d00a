"""Engines that accept a graph and fail later: the next one replaces them, with a warning that names engine and reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import hipdnn
import pytest

ROOT = Path(__file__).parent.parent.parent.parent
STUB = ["stub_plugin.c", "stub_details.c", "stub_identity.c", "stub_log.c", "stub_saving.c"]

#: Where an engine fails: the setting of the stub. The first call of executions says how the engine is asked to.
FAILING = {
    "details": "DETAILS_STATUS",
    "workspace": "WORKSPACE_STATUS",
    "plan": "CONTEXT_STATUS",
    "execution": "EXECUTE_STATUS",
}

PROGRAM = """
import sys, warnings
import numpy as np
import hipdnn

where = sys.argv[1]
x, y = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)

def made(name="g"):
    graph = hipdnn.Graph(name)
    a = graph.tensor([6])
    return graph, a, graph.neg(a).set_output(True)

graph, a, b = made()
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    offered = graph.engines()
    assert offered[0] == "CPU_BROKEN_ENGINE" and "CPU_ENGINE" in offered, offered
    for _ in range(3):
        y[:] = 0
        graph.execute({a: x, b: y})
        assert (y == -x).all()
        assert (graph(x) == -x).all()
    assert graph.engine == "CPU_ENGINE", graph.engine
    # Told once, at a line of this program.
    (warning,) = told
    assert warning.category is hipdnn.EngineWarning and warning.filename == "<string>", warning
    words = str(warning.message)
    assert "CPU_BROKEN_ENGINE failed, CPU_ENGINE takes its place" in words and "STUB" in words.upper(), words
    # Another graph's is told again.
    other, a, b = made("other")
    other.execute({a: x, b: y})
    assert len(told) == 2 and "graph 'other'" in str(told[1].message)
# Who names the engine gets its error.
graph, a, b = made("named")
with warnings.catch_warnings():
    warnings.simplefilter("error")
    try:
        graph.build(engine="CPU_BROKEN_ENGINE")
        graph.execute({a: x, b: y})
    except hipdnn.Error as error:
        assert where != "execution" or isinstance(error, hipdnn.EngineError)
    else:
        raise AssertionError("no error")
    assert (y == -x).all()
# An operand that the failed engine may have written is given to no other one.
if where == "execution":
    graph, a, b = made("in place")
    try:
        graph.execute({a: y, b: y})
    except hipdnn.EngineError:
        raise AssertionError("another engine could be asked")
    except hipdnn.Error as error:
        assert (y == -x).all()
    else:
        raise AssertionError("no error")
# Step by step.
graph, a, b = made("steps")
graph.create_execution_plans()
if where != "execution":
    graph.build_plans()
    assert graph.engine == "CPU_ENGINE"
times = graph.autotune({a: x, b: y}, seconds=0.001, progress=False)
assert "CPU_BROKEN_ENGINE" not in times and "CPU_ENGINE" in times
print("right")
"""


@pytest.mark.parametrize("where", FAILING)
def test_the_next_engine_takes_the_place_of_one_that_fails(where, tmp_path):
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    command = [compiler, "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", "-D_POSIX_C_SOURCE=200809L",
               '-DENGINES="CPU_BROKEN_ENGINE"', f"-D{FAILING[where]}=HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR",
               "-I", ROOT / "include" / "hipdnn" / "plugin", "-o", tmp_path / "libbroken_plugin.so",
               *(ROOT / "c_tests" / "plugins" / name for name in STUB)]  # fmt: skip
    subprocess.run([*map(str, command)], check=True)
    of_cpu = Path(hipdnn.library().path).parent / "hipdnn_plugins" / "engines" / "libhipdnn_cpu_plugin.so"
    # A copy: plugins stand in the order of their real paths.
    shutil.copy(of_cpu, tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, where], capture_output=True, text=True, timeout=120,
        env={**os.environ, "HIPDNN_PLUGIN_DIR": str(tmp_path)},
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "right\n"), ended.stdout + ended.stderr
