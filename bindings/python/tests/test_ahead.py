"""Plans for devices that are not present."""

import os
import platform
import subprocess
import sys

import hipdnn
import numpy as np
import pytest

ABSENT = "cpu:neon" if platform.machine() == "x86_64" else "cpu:avx512"


def product(name="product"):
    graph = hipdnn.Graph(name)
    a, b = graph.tensor([1, 4, 8]), graph.tensor([1, 8, 4])
    graph.relu(graph.matmul(a, b)).set_output(True)
    return graph


A = np.arange(32, dtype=np.float32).reshape(1, 4, 8) - 16
B = np.ones((1, 8, 4), np.float32)


def test_the_plan_that_fits_is_loaded(tmp_path):
    path = tmp_path / "plans.hdpk"
    made = product().compile([ABSENT, "cpu"], path)
    assert path.read_bytes() == made
    for source in (made, path):
        loaded = hipdnn.load(source)
        assert loaded.engine == "CPU_ENGINE" and (loaded(A, B) == np.maximum(A @ B, 0)).all()
    assert hipdnn.load(made, "product").name == "product"
    with pytest.raises(hipdnn.Error, match="no graph \"other\"; it has product"):
        hipdnn.load(made, "other")


def test_where_none_fits_the_graph_is_planned_anew():
    made = product().compile(ABSENT)
    with pytest.warns(hipdnn.EngineWarning, match=f"planned anew: {ABSENT}: .*made by another device"):
        loaded = hipdnn.load(made)
    assert (loaded(A, B) == np.maximum(A @ B, 0)).all()
    damaged = bytearray(made)
    damaged[len(damaged) // 2] ^= 1
    with pytest.raises(hipdnn.Error, match="checksum"):
        hipdnn.load(bytes(damaged))


def test_a_device_without_a_plan_has_reasons():
    with pytest.raises(hipdnn.NoEngineError, match="no plan for sm_1") as raised:
        product().compile(["cpu", "sm_1"])
    assert raised.value.reasons["CPU_ENGINE"] == "does not compute on GPUs"
    for devices in ([], [1], ""):
        with pytest.raises(hipdnn.ArgumentError, match="expected names such as"):
            product().compile(devices)


def test_a_program_that_knows_nothing_of_it_takes_the_plan(tmp_path):
    path, log = tmp_path / "plans.hdpk", tmp_path / "log"
    product().compile(["cpu"], path)
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]; import numpy as np, hipdnn; g = hipdnn.Graph(); "
        "y = g.relu(g.matmul(g.tensor([1, 4, 8]), g.tensor([1, 8, 4]))); "
        "print(g(np.ones((1, 4, 8), np.float32), np.ones((1, 8, 4), np.float32)).sum())"
    )
    settings = {**os.environ, "HIPDNN_PLAN_PACKAGE": str(path), "HIPDNN_LOG_LEVEL": "info", "HIPDNN_LOG_FILE": str(log)}
    done = subprocess.run(
        [sys.executable, "-c", program, *filter(None, sys.path)],
        env=settings,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "128.0"
    assert f"the plan was loaded from {path}" in log.read_text()
